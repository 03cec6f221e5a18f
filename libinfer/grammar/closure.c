/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes configurations (automaton.h). While a configuration is made, each rule that is called at
 * the current place of the text has a local frame. This frame collects the items with which the
 * text continues after each call of the rule. The frame is complete when all edges have been
 * followed. Then it is stored, and its stored number replaces its local number in the items. Local
 * frames that contain each other are stored as one group, together with the frames that contain
 * them. The key of a group consists of the items of its frames; in these items the number of a rule
 * stands for the rule's frame.
 */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/hash.h"
#include "grammar/closure.h"

#define LOCAL      0x80000000u /* set in a local frame; the other bits are its number */
#define MAX_ITEMS  (1u << 16)  /* the largest number of items of one configuration */
#define UNRESOLVED UINT32_MAX

struct items {
    item *data;
    uint32_t n, cap;
};

struct local {
    uint32_t rule, frame;
    uint32_t first, n; /* its items in the sorted list `behind` */
};

/* An item with which the text continues after a call. */
struct behind {
    uint32_t local;
    item item;
};

/* A group of frames that contain each other. */
struct group {
    uint32_t first, n; /* n words, from index `first` on */
    uint32_t frame;    /* the frame of the first rule of the group; the frames of its other rules
                          follow */
};

struct closure {
    const struct program *p;
    /* The items that were found, as a hash table with open addressing. A place is in use if used[i]
     * == round. */
    item *seen;
    uint32_t *used;
    uint32_t n_seen, cap_seen, round;
    struct items stack, found, scratch;
    struct local *locals;
    uint32_t n_locals, cap_locals;
    uint32_t *local_of; /* [n_rules] valid if local_round[rule] == round */
    uint32_t *local_round;
    struct behind *behind;
    uint32_t n_behind, cap_behind;
    bool is_complete;
    uint8_t known[N_FAMILIES];
    struct group *groups;
    uint64_t *group_words;
    struct index group_index;
    uint32_t n_groups, cap_groups, n_group_words, cap_group_words;
};

int closure_new(const struct program *p, struct closure **ret_closure)
{
    struct closure *c = NEW(struct closure, 1);

    if (!c)
        return -ENOMEM;
    c->p = p;
    c->local_of = NEW(uint32_t, p->n_rules);
    c->local_round = NEW(uint32_t, p->n_rules);
    if (!c->local_of || !c->local_round) {
        closure_free(c);
        return -ENOMEM;
    }
    *ret_closure = c;
    return 0;
}

struct closure *closure_free(struct closure *c)
{
    if (!c)
        return NULL;
    free(c->seen);
    free(c->used);
    free(c->stack.data);
    free(c->found.data);
    free(c->scratch.data);
    free(c->locals);
    free(c->local_of);
    free(c->local_round);
    free(c->behind);
    free(c->groups);
    free(c->group_words);
    index_done(&c->group_index);
    free(c);
    return NULL;
}

static int items_add(struct items *items, item it)
{
    int r;

    r = ARRAY_GROW(items->data, items->cap, (size_t)items->n + 1);
    if (r == 0)
        items->data[items->n++] = it;
    return r;
}

static uint32_t seen_slot(const struct closure *c, item it)
{
    uint32_t at = (uint32_t)(hash_fold(it ^ 0x2545f4914f6cdd1du, 0x9e3779b97f4a7c15u));

    for (;; at++) {
        at &= c->cap_seen - 1;
        if (c->used[at] != c->round || c->seen[at] == it)
            return at;
    }
}

static int seen_grow(struct closure *c)
{
    struct closure new = {.round = 1, .cap_seen = c->cap_seen ? 2 * c->cap_seen : 64};

    new.seen = NEW(item, new.cap_seen);
    new.used = NEW(uint32_t, new.cap_seen);
    if (!new.seen || !new.used) {
        free(new.seen);
        free(new.used);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < c->cap_seen; i++)
        if (c->used[i] == c->round) {
            const uint32_t at = seen_slot(&new, c->seen[i]);

            new.seen[at] = c->seen[i];
            new.used[at] = 1;
        }
    free(c->seen);
    free(c->used);
    c->seen = new.seen;
    c->used = new.used;
    c->cap_seen = new.cap_seen;
    for (uint32_t i = 0; i < c->cap_seen; i++)
        c->used[i] = c->used[i] == 1 ? c->round : 0;
    return 0;
}

/* Adds an item, unless it was found before. */
static int closure_add(struct closure *c, uint32_t state, uint32_t frame)
{
    const item it = item_make(state, frame);
    uint32_t at;

    if (c->n_seen >= MAX_ITEMS)
        return -E2BIG;
    if (c->n_seen * 2 >= c->cap_seen) {
        const int r = seen_grow(c);

        if (r < 0)
            return r;
    }
    at = seen_slot(c, it);
    if (c->used[at] == c->round)
        return 0;
    c->used[at] = c->round;
    c->seen[at] = it;
    c->n_seen++;
    return items_add(&c->stack, it);
}

/* Returns the local frame of a rule, or a negative errno value. Makes the frame if necessary. */
static int64_t closure_local(struct closure *c, uint32_t rule)
{
    if (c->local_round[rule] == c->round)
        return c->local_of[rule];
    if (ARRAY_GROW(c->locals, c->cap_locals, (size_t)c->n_locals + 1) < 0)
        return -ENOMEM;
    c->local_round[rule] = c->round;
    c->local_of[rule] = c->n_locals;
    c->locals[c->n_locals] = (struct local){.rule = rule, .frame = UNRESOLVED};
    return c->n_locals++;
}

static int closure_call(struct closure *c, const struct edge *edge, uint32_t frame)
{
    const uint32_t start = c->p->starts[edge->arg];
    int64_t local;
    int r;

    /* A call at the end of a rule needs no frame, so the frames do not grow with the length of a
     * list. */
    if (program_is_end(c->p, edge->to))
        return closure_add(c, start, frame);
    local = closure_local(c, edge->arg);
    if (local < 0)
        return (int)local;
    r = ARRAY_GROW(c->behind, c->cap_behind, (size_t)c->n_behind + 1);
    if (r < 0)
        return r;
    c->behind[c->n_behind++] = (struct behind){(uint32_t)local, item_make(edge->to, frame)};
    r = closure_add(c, start, LOCAL | (uint32_t)local);
    return r == 0 && c->p->nullable[start] ? closure_add(c, edge->to, frame) : r;
}

static int closure_return(struct closure *c, const struct automaton *a, uint32_t frame)
{
    int r = 0;

    if (frame == FRAME_BOTTOM)
        c->is_complete = true;
    /* A rule with a local frame may be empty here, and closure_call() has already added the item
     * after the call. */
    if (frame == FRAME_BOTTOM || frame & LOCAL)
        return 0;
    for (uint32_t i = 0; r == 0 && i < a->frames[frame].n; i++) {
        const item it = a->frame_items[a->frames[frame].first + i];

        r = closure_add(c, item_state(it), item_frame(it));
    }
    return r;
}

static int closure_follow(struct closure *c, const struct automaton *a, item it)
{
    const struct state *state = &c->p->nfa.states[item_state(it)];
    const struct edge *edges = c->p->nfa.edges + state->first;
    bool consumes = false;
    int r = 0;

    for (unsigned i = 0; i < N_FAMILIES; i++)
        c->known[i] = MAX(c->known[i], state->cover[i]);
    if (state->is_final)
        r = closure_return(c, a, item_frame(it));
    for (uint32_t i = 0; r == 0 && i < state->n; i++)
        if (edges[i].kind == EDGE_EMPTY)
            r = closure_add(c, edges[i].to, item_frame(it));
        else if (edges[i].kind == EDGE_CALL)
            r = closure_call(c, &edges[i], item_frame(it));
        else
            consumes = true;
    return r == 0 && consumes ? items_add(&c->found, it) : r;
}

static int behind_compare(const void *x, const void *y)
{
    const struct behind *a = x, *b = y;

    if (a->local != b->local)
        return a->local < b->local ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

static void closure_sort_behind(struct closure *c)
{
    uint32_t i = 0;

    if (c->n_behind > 1)
        qsort(c->behind, c->n_behind, sizeof(*c->behind), behind_compare);
    for (uint32_t l = 0; l < c->n_locals; l++) {
        c->locals[l].first = i;
        while (i < c->n_behind && c->behind[i].local == l)
            i++;
        c->locals[l].n = i - c->locals[l].first;
    }
}

/* Replaces a local frame by its number. Returns false if it has no number yet. */
static bool closure_resolve(const struct closure *c, item it, item *ret_item)
{
    const uint32_t frame = item_frame(it);

    *ret_item = it;
    if (!(frame & LOCAL))
        return true;
    *ret_item = item_make(item_state(it), c->locals[frame & ~LOCAL].frame);
    return c->locals[frame & ~LOCAL].frame != UNRESOLVED;
}

/* Lists the items of a local frame with their final numbers. Returns 0, 1 if one of them has no
 * number yet, or -ENOMEM. */
static int local_items(struct closure *c, const struct local *local)
{
    item it;
    int r = 0;

    c->scratch.n = 0;
    for (uint32_t i = 0; r == 0 && i < local->n; i++)
        r = closure_resolve(c, c->behind[local->first + i].item, &it) ? items_add(&c->scratch, it)
                                                                      : 1;
    if (r == 0)
        c->scratch.n = items_sort(c->scratch.data, c->scratch.n);
    return r;
}

/* Stores the local frames that contain only stored frames, until no such frame is left. Returns the
 * number of local frames that remain, or a negative errno value. */
static int64_t closure_store_simple(struct closure *c, struct automaton *a)
{
    uint32_t n = c->n_locals, n_before;
    int r;

    do {
        n_before = n;
        for (uint32_t l = 0; l < c->n_locals; l++) {
            if (c->locals[l].frame != UNRESOLVED)
                continue;
            r = local_items(c, &c->locals[l]);
            if (r == 0)
                r = automaton_put_frame(a, c->scratch.data, c->scratch.n, &c->locals[l].frame);
            if (r < 0)
                return r;
            n -= r == 0;
        }
    } while (n > 0 && n < n_before);
    return n;
}

static int group_word(struct closure *c, uint64_t word)
{
    int r;

    r = ARRAY_GROW(c->group_words, c->cap_group_words, (size_t)c->n_group_words + 1);
    if (r == 0)
        c->group_words[c->n_group_words++] = word;
    return r;
}

static int local_compare(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

    return a < b ? -1 : a > b;
}

/* Appends the key of one frame of the group: its rule and its items. In these items the number of a
 * rule stands for a frame of the group. */
static int group_add(struct closure *c, const struct local *local)
{
    const uint32_t start = c->n_group_words;
    int r;

    r = group_word(c, local->rule);
    if (r == 0)
        r = group_word(c, 0);
    for (uint32_t i = 0; r == 0 && i < local->n; i++) {
        item it = c->behind[local->first + i].item;

        if (!closure_resolve(c, it, &it))
            it = item_make(
                item_state(it),
                LOCAL | c->locals[item_frame(c->behind[local->first + i].item) & ~LOCAL].rule);
        r = group_word(c, it);
    }
    if (r < 0)
        return r;
    c->n_group_words =
        start + 2 + items_sort(c->group_words + start + 2, c->n_group_words - start - 2);
    c->group_words[start + 1] = c->n_group_words - start - 2;
    return 0;
}

/* Finds or makes the group whose key is the words from @start on. Returns 1 if it is new. */
static int group_put(struct closure *c, struct automaton *a, uint32_t start, uint32_t n_frames,
                     uint32_t *ret_frame)
{
    const uint32_t n = c->n_group_words - start;
    const uint32_t hash = (uint32_t)hash_seeded(c->group_words + start, n * sizeof(uint64_t));
    uint32_t at, found;
    int r;

    r = index_reserve(&c->group_index, (size_t)c->n_groups + 1);
    if (r == 0)
        r = ARRAY_GROW(c->groups, c->cap_groups, (size_t)c->n_groups + 1);
    if (r < 0)
        return r;
    at = index_start(&c->group_index, hash);
    for (; index_match(&c->group_index, hash, &at, &found); at++)
        if (c->groups[found].n == n && memcmp(c->group_words + c->groups[found].first,
                                              c->group_words + start, n * sizeof(uint64_t)) == 0) {
            c->n_group_words = start;
            *ret_frame = c->groups[found].frame;
            return 0;
        }
    r = automaton_new_frames(a, n_frames, ret_frame);
    if (r < 0)
        return r;
    index_put(&c->group_index, at, hash, c->n_groups);
    c->groups[c->n_groups++] = (struct group){start, n, *ret_frame};
    return 1;
}

/* Stores the @n local frames that remain. */
static int closure_store_group(struct closure *c, struct automaton *a, uint32_t n)
{
    _cleanup_free_ uint64_t *order = NEW(uint64_t, n);
    const uint32_t start = c->n_group_words;
    uint32_t n_order = 0, frame;
    int r = 0, is_new;

    if (!order)
        return -ENOMEM;
    for (uint32_t l = 0; l < c->n_locals; l++)
        if (c->locals[l].frame == UNRESOLVED)
            order[n_order++] = (uint64_t)c->locals[l].rule << 32 | l;
    qsort(order, n, sizeof(*order), local_compare);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = group_add(c, &c->locals[(uint32_t)order[i]]);
    if (r < 0)
        return r;
    is_new = group_put(c, a, start, n, &frame);
    if (is_new < 0)
        return is_new;
    for (uint32_t i = 0; i < n; i++)
        c->locals[(uint32_t)order[i]].frame = frame + i;
    for (uint32_t i = 0; is_new == 1 && i < n; i++) {
        r = local_items(c, &c->locals[(uint32_t)order[i]]);
        if (r == 0)
            r = automaton_set_frame(a, frame + i, c->scratch.data, c->scratch.n);
        if (r < 0)
            return r;
    }
    return 0;
}

static int closure_store(struct closure *c, struct automaton *a)
{
    int64_t n;

    closure_sort_behind(c);
    n = closure_store_simple(c, a);
    return n > 0 ? closure_store_group(c, a, (uint32_t)n) : (int)n;
}

int closure_make(struct closure *c, struct automaton *a, const item *kernel, uint32_t n,
                 uint32_t *ret_config)
{
    int r = 0;

    if (++c->round == 0) { /* old values must not look like the new round */
        if (c->cap_seen > 0)
            memset(c->used, 0, c->cap_seen * sizeof(*c->used));
        memset(c->local_round, 0, c->p->n_rules * sizeof(*c->local_round));
        c->round = 1;
    }
    c->n_seen = c->stack.n = c->found.n = c->n_locals = c->n_behind = 0;
    c->is_complete = false;
    memset(c->known, 0, sizeof(c->known));
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = closure_add(c, item_state(kernel[i]), item_frame(kernel[i]));
    while (r == 0 && c->stack.n > 0)
        r = closure_follow(c, a, c->stack.data[--c->stack.n]);
    if (r == 0)
        r = closure_store(c, a);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < c->found.n; i++)
        closure_resolve(c, c->found.data[i], &c->found.data[i]);
    c->found.n = items_sort(c->found.data, c->found.n);
    r = automaton_put_config(a, c->found.data, c->found.n, c->is_complete, ret_config);
    if (r == 0)
        automaton_set_known(a, *ret_config, c->known);
    return r;
}
