/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compiles untrusted text as a grammar, and follows random texts of the grammar. A mask must have
 * exactly the tokens that the matcher accepts. Compiling and following must be quick.
 */

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/macros.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

#define MAX_SECONDS 8 /* with sanitizers; without them the slowest grammars take 0.25 s */

static inline struct inf_grammar_vocab *exercise_vocab(void)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":14,\"content\":\"<end>\",\"special\":true}],"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],"
        "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"1\":4,\"0\":5,\"{\\\"\":6,\"\\\"\":7,"
        "\"\\\\\":8,\"(\":9,\")\":10,\"\u0120\":11,\"\u00c3\":12,\"\u00a9\":13}}}";
    static const char config[] = "{\"eos_token\":\"<end>\"}";
    static struct inf_grammar_vocab *vocab;
    struct inf_tokenizer *tok;
    struct inf_err err;

    if (!vocab) {
        const int r = tokenizer_parse_json(json, strlen(json), config, strlen(config), &tok, &err);

        assert(r == 0);
        if (r < 0 || inf_grammar_vocab_new(tok, &vocab) < 0)
            abort();
    }
    return vocab;
}

/* Takes one step. Returns false at the end of the text. */
static inline bool exercise_step(struct grammar_matcher *m, uint32_t *seed)
{
    const int32_t n = 15;
    uint32_t mask = 0;
    int32_t token;

    if (grammar_matcher_mask(m, &mask) < 0)
        return false;
    assert(!(mask >> n));
    assert((mask >> 14 & 1) || !grammar_matcher_is_complete(m));
    for (int i = 0; i < 3; i++) {
        struct grammar_matcher *other;
        int r;

        *seed = *seed * 1664525u + 1013904223u;
        token = (int32_t)(*seed >> 16) % n;
        if (grammar_matcher_clone(m, &other) < 0)
            return false;
        r = grammar_matcher_accept(other, token);
        assert(r < 0 || (r == 0) == (mask >> token & 1));
        grammar_matcher_free(other);
    }
    /* A grammar may need bytes that no token has, so the mask may be empty. */
    for (int i = 0; i < n; i++, token = (token + 1) % n)
        if (mask >> token & 1)
            return grammar_matcher_accept(m, token) == 0 && token != 14;
    return false;
}

static inline void exercise(enum inf_grammar_kind kind, const uint8_t *data, size_t size)
{
    uint32_t seed = (uint32_t)size;
    struct grammar_matcher *m;
    struct inf_grammar *g;
    struct inf_err err = {0};
    clock_t start = clock();
    int r;

    r = inf_grammar_new(exercise_vocab(), kind, (const char *)data, size, &g, &err);
    assert(clock() - start < MAX_SECONDS * CLOCKS_PER_SEC);
    if (r < 0) {
        assert(err.text[0] != '\0');
        return;
    }
    for (int round = 0; round < 4; round++) {
        if (grammar_matcher_new(g, &m) < 0)
            break;
        for (int i = 0; i < 40 && exercise_step(m, &seed); i++)
            continue;
        grammar_matcher_free(m);
    }
    assert(clock() - start < 2 * MAX_SECONDS * CLOCKS_PER_SEC);
    inf_grammar_unref(g);
}
