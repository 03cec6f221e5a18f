/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up rules in SentencePiece's double-array trie, and checks all bounds.
 */
#include "tokenizer/charsmap.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int charsmap_init(struct charsmap *m, const void *blob, size_t size, struct inf_err *reterr)
{
    uint32_t trie_size;

    *m = (struct charsmap){0};
    if (size == 0)
        return 0;
    if (size < 4)
        return err_set(reterr, EINVAL, "the charsmap is truncated");
    trie_size = get_u32(blob);
    if (trie_size >= size - 4 || trie_size % 4 != 0)
        return err_set(reterr, EINVAL, "the charsmap says that its trie has %u of its %zu bytes",
                       trie_size, size);
    m->data = malloc(size);
    if (!m->data)
        return -ENOMEM;
    memcpy(m->data, blob, size);
    m->units = m->data + 4;
    m->n_units = trie_size / 4;
    m->replacements = (const char *)m->data + 4 + trie_size;
    m->replacements_size = size - 4 - trie_size;
    return 0;
}

void charsmap_done(struct charsmap *m)
{
    free(m->data);
    *m = (struct charsmap){0};
}

static bool read_unit(const struct charsmap *m, size_t i, uint32_t *ret)
{
    if (i >= m->n_units)
        return false;
    *ret = get_u32(m->units + i * 4);
    return true;
}

static uint32_t unit_offset(uint32_t u)
{
    return (u >> 10) << ((u & 1u << 9) >> 6);
}

size_t charsmap_match(const struct charsmap *m, const char *s, size_t len, bool longest,
                      const char **ret_text, size_t *ret_len)
{
    size_t best = 0;
    uint32_t pos = 0, u;

    if (!read_unit(m, 0, &u))
        return 0;
    pos = unit_offset(u);
    for (size_t i = 0; i < len && s[i] != 0; i++) {
        const unsigned char c = (unsigned char)s[i];

        pos ^= c;
        if (!read_unit(m, pos, &u) || (u & (1u << 31 | 0xff)) != c)
            break;
        pos ^= unit_offset(u);
        if (u >> 8 & 1) {
            const char *text, *end;

            if (!read_unit(m, pos, &u))
                break;
            u &= (1u << 31) - 1;
            if (u >= m->replacements_size)
                break;
            text = m->replacements + u;
            end = memchr(text, 0, m->replacements_size - u);
            if (!end)
                break;
            /* Rules whose prefix or replacement ends within a code point are ignored. */
            if (!utf8_valid(text, (size_t)(end - text)) ||
                (i + 1 < len && ((unsigned char)s[i + 1] & 0xc0) == 0x80))
                continue;
            best = i + 1;
            *ret_text = text;
            *ret_len = (size_t)(end - text);
            if (!longest)
                break;
        }
    }
    return best;
}
