/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Encodes and decodes difficult texts with a tokenizer that was made from untrusted bytes. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/macros.h"
#include "core/utf8.h"
#include "tokenizer/tokenizer.h"

static inline void exercise(const struct inf_tokenizer *tok)
{
    static const char *const texts[] = {
        "",
        " Hello  world, it's 12345!\n\n x",
        "e\u0301\u0323 \u4f60\u597d \U0001f642\u200d\U0001f642 \xff\xfe \u2581a\u00a0<s></s><unk>",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        int32_t *ids = NULL;
        size_t n = 0, len;
        const char *part;
        struct inf_detok *d;
        char *text;

        if (inf_tokenizer_encode(tok, texts[i], strlen(texts[i]), (unsigned)i & 3, 0, &ids, &n) < 0)
            continue;
        if (inf_tokenizer_decode(tok, ids, n, true, &text, &len) == 0) {
            assert(utf8_valid(text, len));
            free(text);
        }
        if (inf_detok_new(tok, i & 1, &d) == 0) {
            for (size_t k = 0; k < n && inf_detok_push(d, ids[k], &part, &len) == 0; k++)
                assert(utf8_valid(part, len));
            inf_detok_flush(d, &part, &len);
            inf_detok_free(d);
        }
        for (size_t k = 0; k < n; k++) {
            unsigned char bytes[16];

            inf_tokenizer_token_bytes(tok, ids[k], bytes, sizeof(bytes));
            inf_tokenizer_token_flags(tok, ids[k]);
        }
        free(ids);
    }
}
