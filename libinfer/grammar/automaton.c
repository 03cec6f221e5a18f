/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the automaton of a grammar while it is used. automaton.h explains items, frames and
 * configurations. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/hash.h"
#include "grammar/automaton.h"
#include "grammar/closure.h"

#define MAX_CONFIGS (1u << 20)
#define MAX_FRAMES  (1u << 22)
#define MAX_ITEMS   (1u << 26)

int automaton_init(struct automaton *a, const struct program *p)
{
    const item none = 0;
    uint32_t frame, config;
    int r;

    *a = (struct automaton){.p = p};
    a->empty_row = NEW(uint32_t, p->n_symbols);
    if (!a->empty_row)
        return -ENOMEM;
    r = closure_new(p, &a->closure);
    if (r == 0)
        r = ARRAY_GROW(a->items, a->cap_items, 1);
    if (r == 0)
        r = ARRAY_GROW(a->frame_items, a->cap_frame_items, 1);
    if (r == 0)
        r = ARRAY_GROW(a->kernel_items, a->cap_kernel_items, 1);
    if (r == 0)
        r = automaton_new_frames(a, 1, &frame); /* FRAME_BOTTOM */
    /* These two configurations take the numbers AUTOMATON_UNKNOWN and AUTOMATON_DEAD. */
    if (r == 0)
        r = automaton_put_config(a, &none, 0, true, &config);
    if (r == 0)
        r = automaton_put_config(a, &none, 0, false, &config);
    if (r < 0) {
        automaton_done(a);
        return r;
    }
    /* The index is cleared. Otherwise a later search for a configuration that has no items, and
     * after which the text may end, would find AUTOMATON_UNKNOWN, which has the same content. */
    index_done(&a->config_index);
    a->config_index = (struct index){0};
    return 0;
}

void automaton_done(struct automaton *a)
{
    closure_free(a->closure);
    free(a->configs);
    free(a->rows);
    free(a->empty_row);
    free(a->items);
    free(a->frame_items);
    free(a->kernel_items);
    free(a->frames);
    free(a->kernels);
    index_done(&a->config_index);
    index_done(&a->frame_index);
    index_done(&a->kernel_index);
    arena_done(&a->row_memory);
    *a = (struct automaton){0};
}

size_t automaton_size(const struct automaton *a)
{
    return a->row_memory.used + (a->cap_items + a->cap_frame_items + a->cap_kernel_items) * 8ul +
           a->n_configs * (sizeof(struct config) + 24) + a->n_frames * (sizeof(struct frame) + 16) +
           a->n_kernels * (sizeof(struct kernel) + 16);
}

static int item_compare(const void *x, const void *y)
{
    const item a = *(const item *)x, b = *(const item *)y;

    return a < b ? -1 : a > b;
}

uint32_t items_sort(item *items, uint32_t n)
{
    uint32_t n_out = 0, n_sorted = 1;

    while (n_sorted < n && items[n_sorted - 1] <= items[n_sorted])
        n_sorted++;
    if (n_sorted < n)
        qsort(items, n, sizeof(*items), item_compare);
    for (uint32_t i = 0; i < n; i++)
        if (n_out == 0 || items[i] != items[n_out - 1])
            items[n_out++] = items[i];
    return n_out;
}

/* Appends items to one of the lists of items. */
static int append_items(item **list, uint32_t *n_list, uint32_t *cap, const item *items, uint32_t n)
{
    int r;

    if (n > MAX_ITEMS - *n_list)
        return -E2BIG;
    r = ARRAY_GROW(*list, *cap, (size_t)*n_list + n);
    if (r < 0)
        return r;
    if (n > 0)
        memcpy(*list + *n_list, items, n * sizeof(*items));
    *n_list += n;
    return 0;
}

int automaton_new_frames(struct automaton *a, uint32_t n, uint32_t *ret_first)
{
    int r;

    if (n > MAX_FRAMES - a->n_frames)
        return -E2BIG;
    r = ARRAY_GROW(a->frames, a->cap_frames, (size_t)a->n_frames + n);
    if (r < 0)
        return r;
    memset(a->frames + a->n_frames, 0, n * sizeof(*a->frames));
    *ret_first = a->n_frames;
    a->n_frames += n;
    return 0;
}

int automaton_set_frame(struct automaton *a, uint32_t frame, const item *items, uint32_t n)
{
    const uint32_t first = a->n_frame_items;
    int r;

    r = append_items(&a->frame_items, &a->n_frame_items, &a->cap_frame_items, items, n);
    if (r == 0)
        a->frames[frame] = (struct frame){first, n};
    return r;
}

uint32_t items_hash(const item *items, uint32_t n, uint64_t seed)
{
    seed ^= hash_seed();
    for (uint32_t i = 0; i < n; i++)
        seed = hash_fold(seed ^ items[i], 0x9e3779b97f4a7c15u) + i;
    return (uint32_t)(seed ^ seed >> 32);
}

static bool items_equal(const item *x, const item *y, uint32_t n)
{
    return n == 0 || memcmp(x, y, n * sizeof(*x)) == 0;
}

int automaton_put_frame(struct automaton *a, const item *items, uint32_t n, uint32_t *ret_frame)
{
    const uint32_t hash = items_hash(items, n, FRAME_SEED);
    uint32_t at, found;
    int r;

    r = index_reserve(&a->frame_index, (size_t)a->n_frames + 1);
    if (r < 0)
        return r;
    at = index_start(&a->frame_index, hash);
    for (; index_match(&a->frame_index, hash, &at, &found); at++)
        if (a->frames[found].n == n &&
            items_equal(a->frame_items + a->frames[found].first, items, n)) {
            *ret_frame = found;
            return 0;
        }
    r = automaton_new_frames(a, 1, ret_frame);
    if (r == 0)
        r = automaton_set_frame(a, *ret_frame, items, n);
    if (r == 0)
        index_put(&a->frame_index, at, hash, *ret_frame);
    return r;
}

int automaton_put_config(struct automaton *a, const item *items, uint32_t n, bool is_complete,
                         uint32_t *ret_config)
{
    const uint32_t hash = items_hash(items, n, is_complete ? 2 : 3);
    struct config config = {.first = a->n_items, .n = n, .is_complete = is_complete};
    uint32_t at, found;
    int r;

    if (a->n_configs >= MAX_CONFIGS)
        return -E2BIG;
    if (index_reserve(&a->config_index, (size_t)a->n_configs + 1) < 0 ||
        ARRAY_GROW(a->configs, a->cap_configs, (size_t)a->n_configs + 1) < 0 ||
        ARRAY_GROW(a->rows, a->cap_rows, (size_t)a->n_configs + 1) < 0)
        return -ENOMEM;
    at = index_start(&a->config_index, hash);
    for (; index_match(&a->config_index, hash, &at, &found); at++)
        if (a->configs[found].n == n && a->configs[found].is_complete == is_complete &&
            items_equal(a->items + a->configs[found].first, items, n)) {
            *ret_config = found;
            return 0;
        }
    r = append_items(&a->items, &a->n_items, &a->cap_items, items, n);
    if (r < 0)
        return r;
    index_put(&a->config_index, at, hash, a->n_configs);
    a->rows[a->n_configs] = a->empty_row;
    a->configs[a->n_configs] = config;
    *ret_config = a->n_configs++;
    return 0;
}

void automaton_set_known(struct automaton *a, uint32_t config, const uint8_t known[N_FAMILIES])
{
    uint8_t *to = a->configs[config].known;

    for (unsigned i = 0; i < N_FAMILIES; i++)
        to[i] = MAX(to[i], known[i]);
}

/* Finds the configuration of a kernel, or makes it. The items of the kernel are those of
 * kernel_items from @first on. */
static int automaton_find(struct automaton *a, uint32_t first, uint32_t *ret_config)
{
    const uint32_t n = a->n_kernel_items - first;
    const uint32_t hash = items_hash(a->kernel_items + first, n, 4);
    uint32_t at, found;
    int r;

    if (index_reserve(&a->kernel_index, (size_t)a->n_kernels + 1) < 0 ||
        ARRAY_GROW(a->kernels, a->cap_kernels, (size_t)a->n_kernels + 1) < 0)
        return -ENOMEM;
    at = index_start(&a->kernel_index, hash);
    for (; index_match(&a->kernel_index, hash, &at, &found); at++)
        if (a->kernels[found].n == n &&
            items_equal(a->kernel_items + a->kernels[found].first, a->kernel_items + first, n)) {
            a->n_kernel_items = first;
            *ret_config = a->kernels[found].config;
            return 0;
        }
    r = closure_make(a->closure, a, a->kernel_items + first, n, ret_config);
    if (r < 0) {
        a->n_kernel_items = first;
        return r;
    }
    index_put(&a->kernel_index, at, hash, a->n_kernels);
    a->kernels[a->n_kernels++] = (struct kernel){first, n, *ret_config};
    return 0;
}

int automaton_start(struct automaton *a, uint32_t *ret_config)
{
    const item start = item_make(a->p->starts[0], FRAME_BOTTOM);
    const uint32_t first = a->n_kernel_items;
    int r;

    r = append_items(&a->kernel_items, &a->n_kernel_items, &a->cap_kernel_items, &start, 1);
    return r < 0 ? r : automaton_find(a, first, ret_config);
}

static bool edge_reads(const struct program *p, const struct edge *edge, uint32_t symbol)
{
    if (symbol >= p->n_classes)
        return edge->kind == EDGE_TOKEN && edge->arg == symbol;
    return edge->kind == EDGE_BYTES && p->byte_of[symbol] >= edge->first &&
           p->byte_of[symbol] <= edge->last;
}

/* Appends to kernel_items the items that @config leads to with @symbol, in sorted order. */
static int automaton_read(struct automaton *a, uint32_t config, uint32_t symbol)
{
    const struct config from = a->configs[config];
    const uint32_t first = a->n_kernel_items;
    int r = 0;

    for (uint32_t i = 0; i < from.n; i++) {
        const item it = a->items[from.first + i];
        const struct state *state = &a->p->nfa.states[item_state(it)];
        const struct edge *edges = a->p->nfa.edges + state->first;

        for (uint32_t e = 0; r == 0 && e < state->n; e++) {
            const item to = item_make(edges[e].to, item_frame(it));

            if (edge_reads(a->p, &edges[e], symbol))
                r = append_items(&a->kernel_items, &a->n_kernel_items, &a->cap_kernel_items, &to,
                                 1);
        }
        if (r < 0)
            return r;
    }
    a->n_kernel_items = first + items_sort(a->kernel_items + first, a->n_kernel_items - first);
    return 0;
}

int automaton_step(struct automaton *a, uint32_t config, uint32_t symbol, uint32_t *ret_config)
{
    const uint32_t first = a->n_kernel_items;
    uint32_t to = a->rows[config][symbol];
    int r;

    if (to != AUTOMATON_UNKNOWN) {
        *ret_config = to;
        return 0;
    }
    if (a->rows[config] == a->empty_row) {
        uint32_t *row = arena_zalloc(&a->row_memory, a->p->n_symbols * sizeof(*row));

        if (!row)
            return -ENOMEM;
        a->rows[config] = row;
    }
    to = AUTOMATON_DEAD;
    r = automaton_read(a, config, symbol);
    if (r < 0)
        a->n_kernel_items = first;
    else if (a->n_kernel_items > first)
        r = automaton_find(a, first, &to);
    if (r < 0)
        return r;
    a->rows[config][symbol] = to;
    *ret_config = to;
    return 0;
}

int automaton_join(struct automaton *a, uint32_t x, uint32_t y, uint32_t *ret_config)
{
    const struct config cx = a->configs[x], cy = a->configs[y];
    _cleanup_free_ item *items = NEW(item, (size_t)cx.n + cy.n);
    uint32_t n;

    if (!items)
        return -ENOMEM;
    if (cx.n > 0)
        memcpy(items, a->items + cx.first, cx.n * sizeof(*items));
    if (cy.n > 0)
        memcpy(items + cx.n, a->items + cy.first, cy.n * sizeof(*items));
    n = items_sort(items, cx.n + cy.n);
    return automaton_put_config(a, items, n, cx.is_complete || cy.is_complete, ret_config);
}
