/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts a tokenizer's tokens into tries and slices. vocab.h explains tries, families and slices. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/str.h"
#include "grammar/vocab.h"
#include "tokenizer/tokenizer.h"

#define MAX_TOKEN UINT16_MAX /* bytes */
/* The memory of the automaton of one grammar in bytes, unless inf_grammar_vocab_set_memory() sets
 * another value. */
#define USUAL_MEMORY ((size_t)64 << 20)

/* Numbers of characters of the longest tokens in the slices of a family (vocab.h). */
static const uint32_t LEVELS[N_LEVELS] = {1,  2,  3,  4,  5,  6,  7,  8,  9,
                                          10, 11, 12, 14, 16, 18, 20, 24, UINT32_MAX};

enum {
    PHASE_E2 = UTF8_STATES, /* after the first byte of U+2028 */
    PHASE_E2_80,
};

/*
 * A family is a set of characters (vocab.h). The first family has the characters that stand for
 * themselves inside of a JSON string. The second family has the characters of free text, except
 * those with which the marker at the end of a free text usually begins. Both leave out U+2028 and
 * U+2029, which "." of ECMA-262 does not match. The third family has the letters and digits of
 * ASCII, of which names and addresses consist.
 */
static bool family_has(unsigned family, uint8_t byte)
{
    if (family == 2)
        return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
    if (byte < 0x20 || byte >= 0x80)
        return byte >= 0x80 || (family == 1 && byte == '\t');
    return family == 0 ? byte != '"' && byte != '\\'
                       : byte != '<' && byte != '[' && byte != '`' && byte != '*';
}

uint8_t family_step(unsigned family, uint8_t phase, uint8_t byte)
{
    if (!family_has(family, byte))
        return UTF8_INVALID;
    if (phase == UTF8_START && byte == 0xe2)
        return PHASE_E2;
    if (phase == PHASE_E2)
        return byte == 0x80 ? PHASE_E2_80 : utf8_step(2, byte);
    if (phase == PHASE_E2_80)
        return byte == 0xa8 || byte == 0xa9 ? UTF8_INVALID : utf8_step(1, byte);
    return utf8_step(phase, byte);
}

/* A token as it is sorted. */
struct token {
    uint64_t head; /* the first bytes, so that most comparisons need no more */
    const unsigned char *bytes;
    uint32_t len;
    int32_t id;
};

struct tokens {
    struct str bytes; /* the bytes of all tokens */
    struct token *tokens;
    uint32_t n;
};

static int token_compare(const void *x, const void *y)
{
    const struct token *a = x, *b = y;
    int r;

    if (a->head != b->head)
        return a->head < b->head ? -1 : 1;
    r = memcmp(a->bytes, b->bytes, MIN(a->len, b->len));
    if (r != 0)
        return r;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void token_set_head(struct token *token)
{
    for (unsigned i = 0; i < 8; i++)
        token->head = token->head << 8 | (i < token->len ? token->bytes[i] : 0);
}

static void tokens_done(struct tokens *t)
{
    str_done(&t->bytes);
    free(t->tokens);
}

bool vocab_has_bytes(const struct inf_grammar_vocab *vocab, int32_t token)
{
    const unsigned hidden = INF_TOKEN_SPECIAL | INF_TOKEN_UNKNOWN | INF_TOKEN_EOG;

    return !(inf_tokenizer_token_flags(vocab->tok, token) & hidden);
}

/* Lists the tokens that stand for bytes, in the order of their bytes. */
static int tokens_list(const struct inf_grammar_vocab *v, struct tokens *t)
{
    _cleanup_free_ size_t *ends = NEW(size_t, v->n_vocab);
    int r;

    t->tokens = NEW(struct token, v->n_vocab);
    if (!t->tokens || !ends)
        return -ENOMEM;
    r = tokenizer_all_bytes(v->tok, &t->bytes, ends);
    for (uint32_t id = 0; r == 0 && id < v->n_vocab; id++) {
        const size_t start = id == 0 ? 0 : ends[id - 1], len = ends[id] - start;
        struct token *token = &t->tokens[t->n];

        if (len == 0 || len > MAX_TOKEN || !vocab_has_bytes(v, (int32_t)id))
            continue;
        *token = (struct token){.bytes = (const unsigned char *)t->bytes.data + start,
                                .len = (uint32_t)len,
                                .id = (int32_t)id};
        token_set_head(token);
        t->n++;
    }
    if (r == 0)
        qsort(t->tokens, t->n, sizeof(*t->tokens), token_compare);
    return r;
}

static bool token_equal(const struct token *x, const struct token *y)
{
    return x->len == y->len && memcmp(x->bytes, y->bytes, x->len) == 0;
}

/* Moves tokens with equal bytes to lists. One token stays in the array for them, with the number of
 * the list. */
static int tokens_join(struct tokens *t, struct inf_grammar_vocab *v)
{
    uint32_t n_out = 0, n_words = 0, cap_lists = 0, cap_at = 0;

    for (uint32_t i = 0, n; i < t->n; i += n) {
        for (n = 1; i + n < t->n && token_equal(&t->tokens[i], &t->tokens[i + n]); n++)
            continue;
        t->tokens[n_out] = t->tokens[i];
        if (n > 1) {
            if (ARRAY_GROW(v->lists, cap_lists, (size_t)n_words + n + 1) < 0 ||
                ARRAY_GROW(v->list_at, cap_at, (size_t)v->n_lists + 1) < 0)
                return -ENOMEM;
            v->list_at[v->n_lists] = n_words;
            v->lists[n_words++] = n;
            for (uint32_t k = 0; k < n; k++)
                v->lists[n_words++] = (uint32_t)t->tokens[i + k].id;
            t->tokens[n_out].id = -2 - (int32_t)v->n_lists++;
        }
        n_out++;
    }
    t->n = n_out;
    return 0;
}

static uint32_t common_length(const struct token *x, const struct token *y)
{
    uint32_t n = 0;

    while (n < x->len && n < y->len && x->bytes[n] == y->bytes[n])
        n++;
    return n;
}

/* Makes the trie of the sorted tokens @list. */
static int trie_make(struct token_trie *trie, const struct token *const *list, uint32_t n,
                     uint32_t max_len)
{
    _cleanup_free_ uint32_t *path = NEW(uint32_t, (size_t)max_len + 1);
    uint32_t cap = 0, depth = 0;

    if (!path)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t common = i == 0 ? 0 : common_length(list[i - 1], list[i]);

        while (depth > common) {
            depth--;
            trie->nodes[path[depth]].size = trie->n - path[depth];
        }
        if (ARRAY_GROW(trie->nodes, cap, (size_t)trie->n + list[i]->len) < 0)
            return -ENOMEM;
        for (; depth < list[i]->len; depth++) {
            path[depth] = trie->n;
            trie->nodes[trie->n++] = (struct trie_node){
                .token = -1, .depth = (uint16_t)depth, .byte = list[i]->bytes[depth]};
        }
        trie->nodes[path[depth - 1]].token = list[i]->id;
    }
    while (depth > 0) {
        depth--;
        trie->nodes[path[depth]].size = trie->n - path[depth];
    }
    return 0;
}

/* Returns the number of characters of a token, incomplete ones included; UINT32_MAX: the
 * token is not in the family. */
static uint32_t token_chars(const struct token *token, unsigned family)
{
    uint8_t phase = UTF8_START;
    uint32_t n = 0;

    for (uint32_t i = 0; i < token->len; i++) {
        n += phase == UTF8_START;
        phase = family_step(family, phase, token->bytes[i]);
        if (phase == UTF8_INVALID)
            return UINT32_MAX;
    }
    return n;
}

/* Sets the bits of all ids that a token stands for. */
static void token_set_bits(const struct inf_grammar_vocab *v, const struct token *token,
                           uint32_t *mask)
{
    const uint32_t *list;

    if (token->id >= 0) {
        mask[token->id / 32] |= 1u << (token->id % 32);
        return;
    }
    list = v->lists + v->list_at[-2 - token->id];
    for (uint32_t i = 1; i <= list[0]; i++)
        mask[list[i] / 32] |= 1u << (list[i] % 32);
}

/*
 * Holds all tokens in groups while a family is made. Each slice of the family has two groups: its
 * own tokens that consist of ASCII characters, and its other own tokens. The last group has the
 * tokens outside of the family.
 */
enum { GROUP_OTHERS = 2 * N_LEVELS, N_GROUPS };

struct members {
    const struct inf_grammar_vocab *v;
    const struct tokens *t;
    uint8_t *group;            /* [t->n] */
    const struct token **list; /* [t->n]: sorted within each group */
    uint32_t at[N_GROUPS + 1]; /* the first token of each group */
};

static void members_done(struct members *m)
{
    free(m->group);
    free(m->list);
}

static bool token_is_ascii(const struct token *token)
{
    for (uint32_t i = 0; i < token->len; i++)
        if (token->bytes[i] >= 0x80)
            return false;
    return true;
}

static unsigned token_group(const struct token *token, unsigned family)
{
    const uint32_t n = token_chars(token, family);
    unsigned level = 0;

    if (n == UINT32_MAX)
        return GROUP_OTHERS;
    while (n > LEVELS[level])
        level++;
    return 2 * level + !token_is_ascii(token);
}

static int members_init(struct members *m, unsigned family)
{
    const struct tokens *t = m->t;
    uint32_t next[N_GROUPS];

    m->group = NEW(uint8_t, t->n);
    m->list = NEW(const struct token *, t->n);
    if (!m->group || !m->list)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n; i++) {
        m->group[i] = (uint8_t)token_group(&t->tokens[i], family);
        m->at[m->group[i] + 1]++;
    }
    for (unsigned i = 0; i < N_GROUPS; i++) {
        next[i] = m->at[i];
        m->at[i + 1] += m->at[i];
    }
    for (uint32_t i = 0; i < t->n; i++)
        m->list[next[m->group[i]]++] = &t->tokens[i];
    return 0;
}

static int members_make_trie(const struct members *m, unsigned group, struct token_trie *trie)
{
    return trie_make(trie, m->list + m->at[group], m->at[group + 1] - m->at[group], m->v->max_len);
}

/* Makes a slice of a family. @shorter: the next shorter slice, or NULL. */
static int slice_make(struct slice *slice, const struct members *m, const struct slice *shorter,
                      unsigned level)
{
    int r;

    slice->min_len = level > 0 ? LEVELS[level - 1] + 1 : 0;
    slice->max_len = LEVELS[level];
    slice->mask = NEW(uint32_t, m->v->n_words);
    if (!slice->mask)
        return -ENOMEM;
    if (shorter)
        memcpy(slice->mask, shorter->mask, m->v->n_words * sizeof(*slice->mask));
    for (uint32_t i = m->at[2 * level]; i < m->at[2 * level + 2]; i++)
        token_set_bits(m->v, m->list[i], slice->mask);
    r = members_make_trie(m, 2 * level, &slice->ascii);
    return r < 0 ? r : members_make_trie(m, 2 * level + 1, &slice->wide);
}

/* Lists the tokens of a family by their first bytes, so that all tokens with the same first byte
 * can be taken together. */
static int family_list(struct family *family, const struct members *m)
{
    uint32_t n = 0, byte = 0;

    family->members = NEW(int32_t, m->t->n);
    if (!family->members)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->t->n; i++) {
        const struct token *token = &m->t->tokens[i];

        if (m->group[i] == GROUP_OTHERS)
            continue;
        while (byte <= token->bytes[0])
            family->members_at[byte++] = n;
        family->members[n++] = token->id;
    }
    while (byte <= 256)
        family->members_at[byte++] = n;
    return 0;
}

/* Makes the trie of the tokens outside of a family. */
static int family_make_others(struct family *family, const struct members *m)
{
    int r;

    r = members_make_trie(m, GROUP_OTHERS, &family->others);
    memset(family->others_at, 0xff, sizeof(family->others_at));
    for (uint32_t i = 0; r == 0 && i < family->others.n; i += family->others.nodes[i].size)
        family->others_at[family->others.nodes[i].byte] = i;
    return r;
}

static int family_make(struct inf_grammar_vocab *v, const struct tokens *t, unsigned number)
{
    struct family *family = &v->families[number];
    struct slice *slices = family->slices;
    _cleanup_(members_done) struct members m = {.v = v, .t = t};
    int r;

    r = members_init(&m, number);
    for (unsigned level = 0; r == 0 && level < N_LEVELS; level++)
        r = slice_make(&slices[level], &m, level > 0 ? &slices[level - 1] : NULL, level);
    if (r == 0)
        r = family_make_others(family, &m);
    slices[N_LEVELS - 1].n_other = family->others.n;
    for (unsigned level = N_LEVELS - 1; level-- > 0;)
        slices[level].n_other =
            slices[level + 1].n_other + slices[level + 1].ascii.n + slices[level + 1].wide.n;
    return r < 0 ? r : family_list(family, &m);
}

static int vocab_make_tries(struct inf_grammar_vocab *v, const struct tokens *t)
{
    _cleanup_free_ const struct token **list = NEW(const struct token *, t->n);
    int r;

    if (!list)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n; i++) {
        list[i] = &t->tokens[i];
        v->max_len = MAX(v->max_len, t->tokens[i].len);
    }
    r = trie_make(&v->all, list, t->n, v->max_len);
    for (unsigned family = 0; r == 0 && family < N_FAMILIES; family++)
        r = family_make(v, t, family);
    return r;
}

static int vocab_list_ends(struct inf_grammar_vocab *v)
{
    uint32_t cap = 0;

    for (uint32_t id = 0; id < v->n_vocab; id++) {
        if (!(inf_tokenizer_token_flags(v->tok, (int32_t)id) & INF_TOKEN_EOG))
            continue;
        if (ARRAY_GROW(v->ends, cap, (size_t)v->n_ends + 1) < 0)
            return -ENOMEM;
        v->ends[v->n_ends++] = (int32_t)id;
    }
    return 0;
}

int inf_grammar_vocab_new(const struct inf_tokenizer *tok, struct inf_grammar_vocab **ret_vocab)
{
    _cleanup_(tokens_done) struct tokens tokens = {0};
    struct inf_grammar_vocab *v = NEW(struct inf_grammar_vocab, 1);
    int r;

    if (!v)
        return -ENOMEM;
    atomic_init(&v->refs, 1);
    atomic_init(&v->memory, USUAL_MEMORY);
    v->tok = tok;
    v->n_vocab = inf_tokenizer_n_vocab(tok);
    v->n_words = DIV_UP(v->n_vocab, 32);
    r = tokens_list(v, &tokens);
    if (r == 0)
        r = tokens_join(&tokens, v);
    if (r == 0)
        r = vocab_make_tries(v, &tokens);
    if (r == 0)
        r = vocab_list_ends(v);
    if (r < 0) {
        inf_grammar_vocab_unref(v);
        return r;
    }
    *ret_vocab = v;
    return 0;
}

void inf_grammar_vocab_set_memory(struct inf_grammar_vocab *vocab, size_t bytes)
{
    atomic_store(&vocab->memory, bytes);
}

struct inf_grammar_vocab *grammar_vocab_ref(struct inf_grammar_vocab *vocab)
{
    atomic_fetch_add(&vocab->refs, 1);
    return vocab;
}

static void family_done(struct family *family)
{
    for (unsigned level = 0; level < N_LEVELS; level++) {
        free(family->slices[level].mask);
        free(family->slices[level].ascii.nodes);
        free(family->slices[level].wide.nodes);
    }
    free(family->others.nodes);
    free(family->members);
}

struct inf_grammar_vocab *inf_grammar_vocab_unref(struct inf_grammar_vocab *v)
{
    if (!v || atomic_fetch_sub(&v->refs, 1) > 1)
        return NULL;
    free(v->all.nodes);
    free(v->lists);
    free(v->list_at);
    free(v->ends);
    for (unsigned i = 0; i < N_FAMILIES; i++)
        family_done(&v->families[i]);
    free(v);
    return NULL;
}
