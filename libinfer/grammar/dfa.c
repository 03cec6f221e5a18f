/* SPDX-License-Identifier: Apache-2.0 */
/* Makes deterministic automata from an nfa or from pairs of states, and minimizes them. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/hash.h"
#include "core/index.h"
#include "grammar/dfa.h"

/* MAX_WORDS limits the elements of all sets of states together, MAX_STEPS the steps in which one
 * automaton is minimized. */
#define MAX_WORDS (1u << 23)
#define MAX_STEPS (1u << 25)

/* Smaller sets are sorted by insertion. */
#define SORT_SMALL 16

struct dfa *dfa_free(struct dfa *dfa)
{
    if (!dfa)
        return NULL;
    free(dfa->next);
    free(dfa->is_final);
    free(dfa);
    return NULL;
}

uint8_t utf8_step(uint8_t state, uint8_t byte)
{
    /* Each row has the range of the byte that may follow the state, and the next state. */
    static const uint8_t follow[UTF8_STATES][3] = {
        [1] = {0x80, 0xbf, 0}, [2] = {0x80, 0xbf, 1}, [3] = {0x80, 0xbf, 2}, [4] = {0xa0, 0xbf, 1},
        [5] = {0x80, 0x9f, 1}, [6] = {0x90, 0xbf, 2}, [7] = {0x80, 0x8f, 2},
    };

    if (state != UTF8_START)
        return byte >= follow[state][0] && byte <= follow[state][1] ? follow[state][2]
                                                                    : UTF8_INVALID;
    if (byte < 0x80)
        return UTF8_START;
    if (byte < 0xc2 || byte > 0xf4)
        return UTF8_INVALID;
    if (byte < 0xe0)
        return 1;
    if (byte < 0xf0)
        return byte == 0xe0 ? 4 : byte == 0xed ? 5 : 2;
    return byte == 0xf0 ? 6 : byte == 0xf4 ? 7 : 3;
}

static int dfa_new(uint32_t n, uint32_t n_classes, struct dfa **ret_dfa)
{
    struct dfa *dfa = NEW(struct dfa, 1);

    if (!dfa)
        return -ENOMEM;
    dfa->n = n;
    dfa->n_classes = n_classes;
    dfa->next = NEW(uint32_t, (size_t)n * n_classes);
    dfa->is_final = NEW(bool, n);
    if (!dfa->next || !dfa->is_final) {
        dfa_free(dfa);
        return -ENOMEM;
    }
    memset(dfa->next, 0xff, (size_t)n * n_classes * sizeof(*dfa->next));
    *ret_dfa = dfa;
    return 0;
}

/* Marks in @alive the states that can reach a final state. */
static int dfa_find_alive(const struct dfa *dfa, bool *alive)
{
    const size_t n_edges = (size_t)dfa->n * dfa->n_classes;
    _cleanup_free_ uint32_t *first = NEW(uint32_t, (size_t)dfa->n + 2);
    _cleanup_free_ uint32_t *from = NEW(uint32_t, n_edges);
    _cleanup_free_ uint32_t *stack = NEW(uint32_t, dfa->n);
    uint32_t n_stack = 0;

    if (!first || !from || !stack)
        return -ENOMEM;
    for (size_t i = 0; i < n_edges; i++)
        if (dfa->next[i] != DFA_DEAD)
            first[dfa->next[i] + 2]++;
    for (uint32_t i = 2; i < dfa->n + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < n_edges; i++)
        if (dfa->next[i] != DFA_DEAD)
            from[first[dfa->next[i] + 1]++] = (uint32_t)(i / dfa->n_classes);
    for (uint32_t i = 0; i < dfa->n; i++) {
        alive[i] = dfa->is_final[i];
        if (alive[i])
            stack[n_stack++] = i;
    }
    while (n_stack > 0) {
        const uint32_t to = stack[--n_stack];

        for (uint32_t i = first[to]; i < first[to + 1]; i++)
            if (!alive[from[i]]) {
                alive[from[i]] = true;
                stack[n_stack++] = from[i];
            }
    }
    return 0;
}

/* Splits the parts of a partition once. Two states stay in one part if their edges lead to the same
 * parts. Returns the number of parts or -ENOMEM. */
static int64_t dfa_split(const struct dfa *dfa, const uint32_t *part, uint32_t *ret_part,
                         uint32_t *key)
{
    _cleanup_(index_done) struct index index = {0};
    _cleanup_free_ uint32_t *leader = NEW(uint32_t, dfa->n);
    _cleanup_free_ uint32_t *keys = NULL;
    const uint32_t n_key = dfa->n_classes + 1;
    uint32_t n = 0;

    keys = NEW(uint32_t, (size_t)dfa->n * n_key);
    if (!leader || !keys || index_reserve(&index, dfa->n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < dfa->n; i++) {
        uint32_t hash, at, found;

        key[0] = part[i];
        for (uint32_t c = 0; c < dfa->n_classes; c++) {
            const uint32_t to = dfa->next[(size_t)i * dfa->n_classes + c];

            key[c + 1] = to == DFA_DEAD ? DFA_DEAD : part[to];
        }
        hash = (uint32_t)hash_seeded(key, n_key * sizeof(*key));
        at = index_start(&index, hash);
        for (; index_match(&index, hash, &at, &found); at++)
            if (memcmp(keys + (size_t)found * n_key, key, n_key * sizeof(*key)) == 0)
                break;
        if (!index_match(&index, hash, &at, &found)) {
            memcpy(keys + (size_t)n * n_key, key, n_key * sizeof(*key));
            index_put(&index, at, hash, n);
            found = n++;
        }
        ret_part[i] = found;
    }
    return n;
}

/* Finds which states accept the same texts: state i is in part part[i]. Gives up after MAX_STEPS
 * steps, and then each state is a part. Returns the number of parts, or a negative errno value. */
static int64_t dfa_partition(const struct dfa *dfa, struct work *work, uint32_t *part)
{
    _cleanup_free_ uint32_t *other = NEW(uint32_t, dfa->n);
    _cleanup_free_ uint32_t *key = NEW(uint32_t, (size_t)dfa->n_classes + 1);
    uint64_t steps = 0;
    int64_t n = 0;
    int r;

    if (!other || !key)
        return -ENOMEM;
    r = dfa_lengths(dfa, part);
    if (r < 0)
        return r;
    for (;;) {
        const int64_t n_new = dfa_split(dfa, part, other, key);

        steps += (uint64_t)dfa->n * dfa->n_classes;
        if (n_new < 0)
            return n_new;
        r = work_add(work, WORK_SPLIT * (uint64_t)dfa->n * dfa->n_classes);
        if (r < 0)
            return r;
        memcpy(part, other, dfa->n * sizeof(*part));
        if (n_new == n)
            return n;
        n = n_new;
        if (steps > MAX_STEPS) {
            for (uint32_t i = 0; i < dfa->n; i++)
                part[i] = i;
            return dfa->n;
        }
    }
}

/* Makes an automaton that accepts the same texts, the smallest one unless dfa_partition() gives up.
 * Frees @dfa. */
static int dfa_shrink(struct dfa *dfa, struct work *work, struct dfa **ret_dfa)
{
    _cleanup_(dfa_freep) struct dfa *old = dfa, *new = NULL;
    _cleanup_free_ bool *alive = NEW(bool, dfa->n);
    _cleanup_free_ uint32_t *part = NEW(uint32_t, dfa->n);
    int64_t n;
    int r;

    if (!alive || !part)
        return -ENOMEM;
    r = dfa_find_alive(old, alive);
    if (r < 0)
        return r;
    for (size_t i = 0; i < (size_t)old->n * old->n_classes; i++)
        if (old->next[i] != DFA_DEAD && !alive[old->next[i]])
            old->next[i] = DFA_DEAD;
    n = dfa_partition(old, work, part);
    if (n < 0)
        return (int)n;
    r = dfa_new((uint32_t)n, old->n_classes, &new);
    if (r < 0)
        return r;
    memcpy(new->class_of, old->class_of, sizeof(new->class_of));
    /* The start is in part 0, because parts are numbered in the order of the states. */
    for (uint32_t i = 0; i < old->n; i++) {
        new->is_final[part[i]] = old->is_final[i];
        for (uint32_t c = 0; c < old->n_classes; c++) {
            const uint32_t to = old->next[(size_t)i * old->n_classes + c];

            new->next[(size_t)part[i] * new->n_classes + c] = to == DFA_DEAD ? to : part[to];
        }
    }
    *ret_dfa = STEAL(new);
    return 0;
}

/* The states of an automaton that is made state by state. A state stands for a key: for a set of
 * states, or for a pair. */
struct subsets {
    struct index index;
    uint32_t *words, *first; /* the key of state i: words[first[i]] … words[first[i + 1] - 1] */
    uint32_t *next;
    bool *is_final;
    uint32_t n, n_words, cap_words, cap_first, cap_next, cap_final, n_classes;
    struct work *work;
};

static void subsets_done(struct subsets *s)
{
    index_done(&s->index);
    free(s->words);
    free(s->first);
    free(s->next);
    free(s->is_final);
}

/* Finds the state of a key, or makes it. */
static int subsets_put(struct subsets *s, const uint32_t *key, uint32_t n, bool is_final,
                       uint32_t *ret_state)
{
    const uint32_t hash = (uint32_t)hash_seeded(key, n * sizeof(*key));
    uint32_t at, found;

    if (s->n >= DFA_MAX_STATES || n > MAX_WORDS - s->n_words ||
        work_add(s->work, WORK_SUBSET + n) < 0)
        return -E2BIG;
    if (index_reserve(&s->index, (size_t)s->n + 1) < 0 ||
        ARRAY_GROW(s->words, s->cap_words, (size_t)s->n_words + n + 1) < 0 ||
        ARRAY_GROW_ZEROED(s->first, s->cap_first, (size_t)s->n + 2) < 0 ||
        ARRAY_GROW(s->next, s->cap_next, ((size_t)s->n + 1) * s->n_classes) < 0 ||
        ARRAY_GROW(s->is_final, s->cap_final, (size_t)s->n + 1) < 0)
        return -ENOMEM;
    at = index_start(&s->index, hash);
    for (; index_match(&s->index, hash, &at, &found); at++)
        if (s->first[found + 1] - s->first[found] == n &&
            memcmp(s->words + s->first[found], key, n * sizeof(*key)) == 0) {
            *ret_state = found;
            return 0;
        }
    memcpy(s->words + s->n_words, key, n * sizeof(*key));
    s->n_words += n;
    s->first[s->n + 1] = s->n_words;
    s->is_final[s->n] = is_final;
    index_put(&s->index, at, hash, s->n);
    *ret_state = s->n++;
    return 0;
}

static int subsets_to_dfa(const struct subsets *s, const uint8_t class_of[256],
                          struct dfa **ret_dfa)
{
    struct dfa *dfa;
    int r;

    r = work_add(s->work, WORK_SHRINK * (uint64_t)s->n * s->n_classes);
    if (r == 0)
        r = dfa_new(s->n, s->n_classes, &dfa);
    if (r < 0)
        return r;
    memcpy(dfa->class_of, class_of, sizeof(dfa->class_of));
    memcpy(dfa->next, s->next, (size_t)s->n * s->n_classes * sizeof(*s->next));
    memcpy(dfa->is_final, s->is_final, s->n * sizeof(*s->is_final));
    return dfa_shrink(dfa, s->work, ret_dfa);
}

/* A set of states of an nfa. It keeps only final states and states that consume something. */
struct closure {
    const struct nfa *nfa;
    uint32_t *stack, *set, *seen; /* [n_states] each; seen[i] == round: in the set */
    uint32_t n_stack, n_set, round;
    uint32_t visits; /* states and edges looked at since they were counted as work */
    bool is_final;
};

static void closure_add(struct closure *c, uint32_t state)
{
    if (c->seen[state] == c->round)
        return;
    c->seen[state] = c->round;
    c->stack[c->n_stack++] = state;
}

static int state_compare(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return a < b ? -1 : a > b;
}

static void closure_sort(struct closure *c)
{
    if (c->n_set > SORT_SMALL) {
        qsort(c->set, c->n_set, sizeof(*c->set), state_compare);
        return;
    }
    for (uint32_t i = 1; i < c->n_set; i++) {
        const uint32_t state = c->set[i];
        uint32_t at = i;

        for (; at > 0 && c->set[at - 1] > state; at--)
            c->set[at] = c->set[at - 1];
        c->set[at] = state;
    }
}

static void closure_finish(struct closure *c)
{
    while (c->n_stack > 0) {
        const uint32_t state = c->stack[--c->n_stack];
        const struct edge *edges = nfa_edges(c->nfa, state);
        bool matters = c->nfa->states[state].is_final;

        c->visits += 1 + c->nfa->states[state].n;

        c->is_final |= matters;
        for (uint32_t i = 0; i < c->nfa->states[state].n; i++) {
            if (edges[i].kind == EDGE_EMPTY)
                closure_add(c, edges[i].to);
            matters |= edges[i].kind == EDGE_BYTES;
        }
        if (matters)
            c->set[c->n_set++] = state;
    }
    closure_sort(c);
}

static void closure_start(struct closure *c)
{
    c->round++;
    c->n_set = 0;
    c->is_final = false;
}

/* Follows all edges of the states @from with @byte. */
static void closure_step(struct closure *c, const uint32_t *from, uint32_t n, uint8_t byte)
{
    closure_start(c);
    for (uint32_t i = 0; i < n; i++) {
        const struct edge *edges = nfa_edges(c->nfa, from[i]);

        c->visits += 1 + c->nfa->states[from[i]].n;

        for (uint32_t e = 0; e < c->nfa->states[from[i]].n; e++)
            if (edges[e].kind == EDGE_BYTES && byte >= edges[e].first && byte <= edges[e].last)
                closure_add(c, edges[e].to);
    }
    closure_finish(c);
}

/* Finds the classes of bytes at which the edges of the states @from change. */
static void closure_find_changes(struct closure *c, const uint32_t *from, uint32_t n,
                                 const uint8_t class_of[256], bool changes[257])
{
    memset(changes, 0, 257 * sizeof(*changes));
    changes[0] = true;
    for (uint32_t i = 0; i < n; i++) {
        const struct edge *edges = nfa_edges(c->nfa, from[i]);

        for (uint32_t e = 0; e < c->nfa->states[from[i]].n; e++)
            if (edges[e].kind == EDGE_BYTES)
                changes[class_of[edges[e].first]] = changes[class_of[edges[e].last] + 1] = true;
        c->visits += 1 + c->nfa->states[from[i]].n;
    }
}

/* Makes the edges of one set of states. */
static int subsets_expand_one(struct subsets *s, struct closure *c, uint32_t i,
                              const uint8_t class_of[256], const uint8_t *bytes)
{
    const uint32_t n = s->first[i + 1] - s->first[i];
    uint32_t to = DFA_DEAD;
    bool changes[257];
    int r = 0;

    closure_find_changes(c, s->words + s->first[i], n, class_of, changes);
    for (uint32_t k = 0; r == 0 && k < s->n_classes; k++) {
        if (changes[k]) {
            closure_step(c, s->words + s->first[i], n, bytes[k]);
            to = DFA_DEAD;
            if (c->n_set > 0)
                r = subsets_put(s, c->set, c->n_set, c->is_final, &to);
        }
        s->next[(size_t)i * s->n_classes + k] = to;
        if (r == 0)
            r = work_add(s->work, WORK_VISIT * (uint64_t)c->visits);
        c->visits = 0;
    }
    return r;
}

int dfa_from_nfa(const struct nfa *nfa, uint32_t start, struct dfa **ret_dfa)
{
    _cleanup_(subsets_done) struct subsets s = {.work = nfa->work};
    _cleanup_free_ uint32_t *memory = NEW(uint32_t, 3 * (size_t)nfa->n_states);
    uint8_t class_of[256], bytes[256];
    struct closure c = {.nfa = nfa};
    uint32_t first;
    int r;

    if (!memory)
        return -ENOMEM;
    c.stack = memory;
    c.set = memory + nfa->n_states;
    c.seen = memory + 2 * (size_t)nfa->n_states;
    s.n_classes = nfa_classes(nfa, class_of);
    for (unsigned byte = 0; byte < 256; byte++)
        bytes[class_of[byte]] = (uint8_t)byte;
    closure_start(&c);
    closure_add(&c, start);
    closure_finish(&c);
    r = subsets_put(&s, c.set, c.n_set, c.is_final, &first);
    for (uint32_t i = 0; r == 0 && i < s.n; i++)
        r = subsets_expand_one(&s, &c, i, class_of, bytes);
    return r < 0 ? r : subsets_to_dfa(&s, class_of, ret_dfa);
}

/* Numbers the pairs of classes of two automata. */
static uint32_t classes_join(const uint8_t x[256], const uint8_t y[256], uint8_t ret_class_of[256])
{
    uint32_t n = 0;

    for (unsigned byte = 0; byte < 256; byte++) {
        n += byte > 0 && (x[byte] != x[byte - 1] || y[byte] != y[byte - 1]);
        ret_class_of[byte] = (uint8_t)n;
    }
    return n + 1;
}

/* Makes the automaton of pairs of states. step() computes the pair that follows the pair @from and
 * the byte @byte, and returns false if there is none. */
typedef bool (*pair_step_fn)(const void *data, const uint32_t from[2], uint8_t byte,
                             uint32_t ret_to[2]);
typedef bool (*pair_final_fn)(const void *data, const uint32_t pair[2]);

static int dfa_from_pairs(const void *data, pair_step_fn step, pair_final_fn is_final,
                          const uint8_t class_of[256], struct work *work, struct dfa **ret_dfa)
{
    _cleanup_(subsets_done) struct subsets s = {.n_classes = (uint32_t)class_of[255] + 1,
                                                .work = work};
    const uint32_t start[2] = {0, 0};
    uint32_t first;
    int r;

    r = subsets_put(&s, start, 2, is_final(data, start), &first);
    for (uint32_t i = 0; r == 0 && i < s.n; i++) {
        memset(s.next + (size_t)i * s.n_classes, 0xff, s.n_classes * sizeof(*s.next));
        for (unsigned byte = 0; r == 0 && byte < 256; byte++) {
            const uint32_t from[2] = {s.words[s.first[i]], s.words[s.first[i] + 1]};
            uint32_t to[2], state;

            if (byte > 0 && class_of[byte] == class_of[byte - 1])
                continue;
            if (!step(data, from, (uint8_t)byte, to))
                continue;
            r = subsets_put(&s, to, 2, is_final(data, to), &state);
            if (r == 0)
                s.next[(size_t)i * s.n_classes + class_of[byte]] = state;
        }
    }
    return r < 0 ? r : subsets_to_dfa(&s, class_of, ret_dfa);
}

struct dfa_pair {
    const struct dfa *x, *y;
};

static bool and_step(const void *data, const uint32_t from[2], uint8_t byte, uint32_t ret_to[2])
{
    const struct dfa_pair *p = data;

    ret_to[0] = p->x->next[(size_t)from[0] * p->x->n_classes + p->x->class_of[byte]];
    ret_to[1] = p->y->next[(size_t)from[1] * p->y->n_classes + p->y->class_of[byte]];
    return ret_to[0] != DFA_DEAD && ret_to[1] != DFA_DEAD;
}

static bool and_final(const void *data, const uint32_t pair[2])
{
    const struct dfa_pair *p = data;

    return p->x->is_final[pair[0]] && p->y->is_final[pair[1]];
}

int dfa_and(const struct dfa *x, const struct dfa *y, struct work *work, struct dfa **ret_dfa)
{
    const struct dfa_pair pair = {x, y};
    uint8_t class_of[256];

    classes_join(x->class_of, y->class_of, class_of);
    return dfa_from_pairs(&pair, and_step, and_final, class_of, work, ret_dfa);
}

/* Classes of bytes that utf8_step() treats in the same way. */
static void utf8_classes(uint8_t ret_class_of[256])
{
    uint8_t n = 0;

    for (unsigned byte = 0; byte < 256; byte++) {
        for (uint8_t u = 0; byte > 0 && u < UTF8_STATES; u++)
            if (utf8_step(u, (uint8_t)byte) != utf8_step(u, (uint8_t)(byte - 1))) {
                n++;
                break;
            }
        ret_class_of[byte] = n;
    }
}

static bool not_step(const void *data, const uint32_t from[2], uint8_t byte, uint32_t ret_to[2])
{
    const struct dfa *x = data;

    ret_to[0] = from[0] == DFA_DEAD ? DFA_DEAD
                                    : x->next[(size_t)from[0] * x->n_classes + x->class_of[byte]];
    ret_to[1] = utf8_step((uint8_t)from[1], byte);
    return ret_to[1] != UTF8_INVALID;
}

static bool not_final(const void *data, const uint32_t pair[2])
{
    const struct dfa *x = data;

    return (pair[0] == DFA_DEAD || !x->is_final[pair[0]]) && pair[1] == UTF8_START;
}

int dfa_not(const struct dfa *x, struct work *work, struct dfa **ret_dfa)
{
    uint8_t utf8[256], class_of[256];

    utf8_classes(utf8);
    classes_join(x->class_of, utf8, class_of);
    return dfa_from_pairs(x, not_step, not_final, class_of, work, ret_dfa);
}

/* The search for a text: border[i] is the length of the longest prefix of the text that is also a
 * proper suffix of the text's first i bytes. */
struct search {
    const uint32_t *text;
    uint32_t *border;
    uint32_t n;
};

static bool until_step(const void *data, const uint32_t from[2], uint8_t byte, uint32_t ret_to[2])
{
    const struct search *s = data;
    uint32_t at = from[0];

    ret_to[1] = utf8_step((uint8_t)from[1], byte);
    if (at == s->n || ret_to[1] == UTF8_INVALID)
        return false;
    while (at > 0 && s->text[at] != byte)
        at = s->border[at];
    ret_to[0] = at + (s->text[at] == byte);
    return true;
}

static bool until_final(const void *data, const uint32_t pair[2])
{
    const struct search *s = data;

    return pair[0] == s->n;
}

int dfa_until(const uint32_t *end, uint32_t n, struct work *work, struct dfa **ret_dfa)
{
    _cleanup_free_ uint32_t *border = NEW(uint32_t, (size_t)n + 1);
    const struct search search = {end, border, n};
    uint8_t class_of[256];

    if (!border)
        return -ENOMEM;
    for (uint32_t i = 1, at = 0; i < n; i++) {
        while (at > 0 && end[at] != end[i])
            at = border[at];
        at += end[at] == end[i];
        border[i + 1] = at;
    }
    for (unsigned byte = 0; byte < 256; byte++)
        class_of[byte] = (uint8_t)byte;
    return dfa_from_pairs(&search, until_step, until_final, class_of, work, ret_dfa);
}
