/* SPDX-License-Identifier: Apache-2.0 */
/* Computes which tokens may follow a configuration, and keeps the results. vocab.h explains
 * families and slices, which are sets of characters and of tokens that many grammars permit all
 * together. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "grammar/grammar.h"

static void mask_set(uint32_t *mask, int32_t token)
{
    mask[token / 32] |= 1u << (token % 32);
}

static void mask_clear_node(const struct inf_grammar_vocab *v, int32_t token, uint32_t *mask)
{
    const uint32_t *list, one[] = {1, (uint32_t)token};

    list = token >= 0 ? one : v->lists + v->list_at[-2 - token];
    for (uint32_t i = 1; i <= list[0]; i++)
        mask[list[i] / 32] &= ~(1u << (list[i] % 32));
}

static void mask_set_node(const struct inf_grammar_vocab *v, int32_t token, uint32_t *mask)
{
    const uint32_t *list;

    if (token >= 0) {
        mask_set(mask, token);
        return;
    }
    list = v->lists + v->list_at[-2 - token];
    for (uint32_t i = 1; i <= list[0]; i++)
        mask_set(mask, (int32_t)list[i]);
}

/* If a walk would look at fewer nodes than this, no shorter way is searched for. */
#define MANY_NODES 20000
/* Subtrees with at most this many nodes are always walked node by node. */
#define SMALL_SUBTREE 256

/* Finds a family whose tokens with the first byte @byte are all permitted. @config is the
 * configuration after this byte. */
static const struct family *find_subtree(const struct inf_grammar *g, uint32_t config, uint8_t byte)
{
    for (unsigned family = 0; family < N_FAMILIES; family++)
        if (g->automaton.configs[config].known[family] == COVER_ANY &&
            family_step(family, UTF8_START, byte) == UTF8_START)
            return &g->vocab->families[family];
    return NULL;
}

static int grammar_walk_nodes(struct inf_grammar *g, const struct token_trie *trie, uint32_t i,
                              uint32_t end, bool whole, uint32_t *mask);

/* Sets the bits of the tokens with the first byte @byte with the help of a family. Returns 1, 0 if
 * no family fits, or a negative errno value. */
static int grammar_take_subtree(struct inf_grammar *g, uint32_t config, uint8_t byte,
                                uint32_t *mask)
{
    const struct family *family = find_subtree(g, config, byte);
    uint32_t at;
    int r = 0;

    if (!family)
        return 0;
    for (uint32_t i = family->members_at[byte]; i < family->members_at[byte + 1]; i++)
        mask_set_node(g->vocab, family->members[i], mask);
    at = family->others_at[byte];
    if (at != UINT32_MAX)
        r = grammar_walk_nodes(g, &family->others, at, at + family->others.nodes[at].size, false,
                               mask);
    return r < 0 ? r : 1;
}

/* Walks over the nodes of a trie from @i to @end and over the automaton side by side. @whole tells
 * whether the trie has all tokens. */
static int grammar_walk_nodes(struct inf_grammar *g, const struct token_trie *trie, uint32_t i,
                              uint32_t end, bool whole, uint32_t *mask)
{
    const uint8_t *class_of = g->program->class_of;
    const struct trie_node *nodes = trie->nodes;
    uint32_t *path = g->path;

    while (i < end) {
        const struct trie_node node = nodes[i];
        const uint32_t symbol = class_of[node.byte];
        uint32_t to = g->automaton.rows[path[node.depth]][symbol];

        if (UNLIKELY(to == AUTOMATON_UNKNOWN)) {
            const int r = grammar_step(g, path[node.depth], symbol, &to);

            if (r < 0)
                return r;
        }
        if (to == AUTOMATON_DEAD) {
            i += node.size;
            continue;
        }
        path[node.depth + 1] = to;
        if (UNLIKELY(whole && node.depth == 0 && node.size > SMALL_SUBTREE)) {
            const int r = grammar_take_subtree(g, to, node.byte, mask);

            if (r < 0)
                return r;
            if (r == 1) {
                i += node.size;
                continue;
            }
        }
        if (node.token != -1)
            mask_set_node(g->vocab, node.token, mask);
        i++;
    }
    return 0;
}

static int grammar_walk(struct inf_grammar *g, uint32_t config, const struct token_trie *trie,
                        uint32_t *mask)
{
    g->path[0] = config;
    return grammar_walk_nodes(g, trie, 0, trie->n, trie == &g->vocab->all, mask);
}

/*
 * Divides the tokens by their first bytes. After most first bytes, any text of a family may
 * follow, and all tokens of the family are permitted; only tokens with other first bytes are looked
 * up. This is useful in a free text that ends with a marker, when the first character of the marker
 * was just written: only a few next bytes continue the marker.
 */
struct first_bytes {
    unsigned family;
    bool is_other[256]; /* tokens with this first byte are looked up */
    uint32_t n_nodes; /* nodes of the tries that remain to be looked up, and tokens to be removed */
};

/* Decides about one first byte. @root: the first node of its tokens. */
static int first_bytes_add(struct first_bytes *f, struct inf_grammar *g, uint32_t config,
                           const struct trie_node *root)
{
    const struct family *family = &g->vocab->families[f->family];
    const uint8_t phase = family_step(f->family, UTF8_START, root->byte);
    const uint32_t others = family->others_at[root->byte];
    uint32_t to;
    int r;

    r = grammar_step(g, config, g->program->class_of[root->byte], &to);
    if (r < 0)
        return r;
    f->is_other[root->byte] = to == AUTOMATON_DEAD || phase == UTF8_INVALID ||
                              !grammar_covers_any(g, f->family, to, phase);
    if (f->is_other[root->byte])
        f->n_nodes += family->members_at[root->byte + 1] - family->members_at[root->byte];
    if (to == AUTOMATON_DEAD)
        return 0;
    if (f->is_other[root->byte])
        f->n_nodes += root->size;
    else if (others != UINT32_MAX)
        f->n_nodes += family->others.nodes[others].size;
    return 0;
}

/* Decides about all first bytes. Returns a negative errno value, or 1 if more than @limit nodes
 * would remain. */
static int first_bytes_find(struct first_bytes *f, struct inf_grammar *g, uint32_t config,
                            uint32_t limit)
{
    const struct token_trie *all = &g->vocab->all;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < all->n; i += all->nodes[i].size) {
        r = first_bytes_add(f, g, config, &all->nodes[i]);
        if (r == 0 && f->n_nodes > limit)
            return 1;
    }
    return r;
}

static int first_bytes_walk(const struct first_bytes *f, struct inf_grammar *g, uint32_t config,
                            uint32_t *mask)
{
    const struct inf_grammar_vocab *v = g->vocab;
    const struct family *family = &v->families[f->family];
    int r = 0;

    memcpy(mask, family->slices[N_LEVELS - 1].mask, v->n_words * sizeof(*mask));
    g->path[0] = config;
    for (uint32_t i = 0; r == 0 && i < v->all.n; i += v->all.nodes[i].size) {
        const uint8_t byte = v->all.nodes[i].byte;
        const uint32_t at = family->others_at[byte];

        for (uint32_t k = family->members_at[byte];
             f->is_other[byte] && k < family->members_at[byte + 1]; k++)
            mask_clear_node(v, family->members[k], mask);
        if (f->is_other[byte])
            r = grammar_walk_nodes(g, &v->all, i, i + v->all.nodes[i].size, true, mask);
        else if (at != UINT32_MAX)
            r = grammar_walk_nodes(g, &family->others, at, at + family->others.nodes[at].size,
                                   false, mask);
    }
    return r;
}

/* Computes the mask of a configuration if fewer than @limit nodes need to be looked up. Returns 1,
 * 0 if there are more, or a negative errno value. */
static int grammar_mask_by_first_bytes(struct inf_grammar *g, uint32_t config, uint32_t limit,
                                       uint32_t *ret_mask)
{
    int r = 1;

    for (unsigned family = 0; r == 1 && family < N_FAMILIES; family++) {
        struct first_bytes f = {.family = family};

        r = first_bytes_find(&f, g, config, limit);
        if (r == 0)
            r = first_bytes_walk(&f, g, config, ret_mask);
        else if (r == 1)
            continue;
        return r < 0 ? r : 1;
    }
    return 0;
}

static int grammar_mask_tokens(struct inf_grammar *g, uint32_t config, uint32_t *mask)
{
    const uint32_t n_tokens = g->program->n_symbols - g->program->n_classes;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n_tokens; i++) {
        uint32_t to;

        r = grammar_step(g, config, g->program->n_classes + i, &to);
        if (r == 0 && to != AUTOMATON_DEAD)
            mask_set(mask, g->program->tokens[i]);
    }
    if (r == 0 && g->automaton.configs[config].is_complete)
        for (uint32_t i = 0; i < g->vocab->n_ends; i++)
            mask_set(mask, g->vocab->ends[i]);
    return r;
}

void grammar_drop_masks(struct inf_grammar *g)
{
    for (uint32_t i = 0; i < g->n_masks; i++)
        free(g->masks[i].words);
    for (uint32_t i = 0; i < g->automaton.n_configs; i++)
        g->automaton.configs[i].mask = 0;
    g->n_masks = 0;
    g->masks_size = 0;
}

/* Returns the number of tokens of a mask. The count may end early when it has reached @enough. */
static uint32_t mask_count(const uint32_t *mask, uint32_t n_words, uint32_t enough)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_words && n < enough; i++)
        if (mask[i] != 0)
            n += (uint32_t)__builtin_popcount(mask[i]);
    return n;
}

/* Keeps a mask. A mask that cannot be kept will be computed again. */
static void grammar_store_mask(struct inf_grammar *g, uint32_t config, const uint32_t *mask)
{
    const uint32_t n_words = g->vocab->n_words, n_tokens = mask_count(mask, n_words, n_words);
    struct stored_mask stored = {.n = MIN(n_tokens, n_words), .is_list = n_tokens < n_words};
    uint32_t n = 0;

    if (g->masks_size + stored.n * sizeof(uint32_t) > g->memory / 4)
        grammar_drop_masks(g);
    stored.words = NEW(uint32_t, stored.n);
    if (!stored.words || ARRAY_GROW(g->masks, g->cap_masks, (size_t)g->n_masks + 1) < 0) {
        free(stored.words);
        return;
    }
    if (!stored.is_list)
        memcpy(stored.words, mask, n_words * sizeof(*mask));
    for (uint32_t i = 0; stored.is_list && i < n_words; i++)
        for (uint32_t bits = mask[i]; bits != 0; bits &= bits - 1)
            stored.words[n++] = 32 * i + (uint32_t)__builtin_ctz(bits);
    g->masks[g->n_masks++] = stored;
    g->masks_size += stored.n * sizeof(uint32_t) + sizeof(stored);
    g->automaton.configs[config].mask = g->n_masks;
}

static void stored_mask_copy(const struct stored_mask *stored, uint32_t n_words, uint32_t *ret_mask)
{
    if (!stored->is_list) {
        memcpy(ret_mask, stored->words, n_words * sizeof(*ret_mask));
        return;
    }
    memset(ret_mask, 0, n_words * sizeof(*ret_mask));
    for (uint32_t i = 0; i < stored->n; i++)
        mask_set(ret_mask, (int32_t)stored->words[i]);
}

/* Walks over all tokens that a slice does not have. */
static int grammar_walk_others(struct inf_grammar *g, uint32_t config, const struct family *family,
                               const struct slice *slice, uint32_t *mask)
{
    uint32_t limit = UINT32_MAX;
    int r = 0;

    if (slice->max_len != UINT32_MAX)
        r = grammar_ascii_limit(g, (unsigned)(family - g->vocab->families), config, &limit);
    if (r == 0)
        r = grammar_walk(g, config, &family->others, mask);
    for (slice++; r == 0 && slice < family->slices + N_LEVELS; slice++) {
        r = grammar_walk(g, config, &slice->wide, mask);
        if (r == 0 && slice->min_len <= limit)
            r = grammar_walk(g, config, &slice->ascii, mask);
    }
    return r;
}

/* Computes an upper bound of the number of nodes of a trie that a walk looks at. */
static int grammar_count_nodes(struct inf_grammar *g, uint32_t config,
                               const struct token_trie *trie, uint32_t *ret_n)
{
    uint32_t n = 0, to;

    for (uint32_t i = 0; i < trie->n; i += trie->nodes[i].size) {
        const int r = grammar_step(g, config, g->program->class_of[trie->nodes[i].byte], &to);

        if (r < 0)
            return r;
        n += to == AUTOMATON_DEAD ? 1 : trie->nodes[i].size;
    }
    *ret_n = n;
    return 0;
}

/* Computes the bits of a mask for the tokens that stand for their bytes. */
static int grammar_mask_bytes(struct inf_grammar *g, uint32_t config, uint32_t *ret_mask)
{
    const struct family *family;
    const struct slice *slice;
    uint32_t n_nodes;
    int r;

    r = grammar_find_slice(g, config, &family, &slice);
    if (r == 0)
        r = grammar_count_nodes(g, config, slice ? &family->others : &g->vocab->all, &n_nodes);
    if (r == 0 && slice)
        n_nodes += slice->n_other - family->others.n;
    if (r == 0 && n_nodes > MANY_NODES)
        r = grammar_mask_by_first_bytes(g, config, n_nodes / 4, ret_mask);
    if (r != 0)
        return MIN(r, 0);
    if (slice) {
        memcpy(ret_mask, slice->mask, g->vocab->n_words * sizeof(*ret_mask));
        return grammar_walk_others(g, config, family, slice, ret_mask);
    }
    memset(ret_mask, 0, g->vocab->n_words * sizeof(*ret_mask));
    return grammar_walk(g, config, &g->vocab->all, ret_mask);
}

int grammar_mask(struct inf_grammar *g, uint32_t config, uint32_t *ret_mask)
{
    const uint32_t stored = g->automaton.configs[config].mask, n_words = g->vocab->n_words;
    int r;

    if (stored != 0) {
        stored_mask_copy(&g->masks[stored - 1], n_words, ret_mask);
        return 0;
    }
    r = grammar_mask_bytes(g, config, ret_mask);
    if (r == 0)
        r = grammar_mask_tokens(g, config, ret_mask);
    if (r == 0)
        grammar_store_mask(g, config, ret_mask);
    return r;
}
