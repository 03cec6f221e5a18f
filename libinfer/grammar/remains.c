/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an automaton small again: copies the configurations that are in use to a new automaton. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "grammar/automaton.h"

/* Holds what is remembered while configurations are copied to a new automaton. They are copied
 * because the old automaton has become too large. */
struct remains {
    const struct automaton *from;
    struct automaton *to;
    uint32_t *number; /* [from->n_frames]: the number of a frame in @to; 0: forgotten */
    uint32_t *stack;
    uint32_t n_stack;
    item *items;
    uint32_t cap_items;
};

static void remains_mark(struct remains *m, const item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t frame = item_frame(items[i]);

        if (frame == FRAME_BOTTOM || m->number[frame] != 0)
            continue;
        m->number[frame] = 1;
        m->stack[m->n_stack++] = frame;
    }
}

/* Copies items to m->items, with the new numbers of their frames. The items stay sorted, because
 * the new numbers have the order of the old ones. */
static int remains_translate(struct remains *m, const item *items, uint32_t n)
{
    int r;

    r = ARRAY_GROW(m->items, m->cap_items, n);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        m->items[i] = item_make(item_state(items[i]), m->number[item_frame(items[i])]);
    return r;
}

static int remains_copy_frames(struct remains *m)
{
    uint32_t n = 0, first;
    int r;

    for (uint32_t i = 0; i < m->from->n_frames; i++)
        if (m->number[i] != 0)
            m->number[i] = ++n;
    r = automaton_new_frames(m->to, n, &first);
    assert(r < 0 || first == FRAME_BOTTOM + 1);
    if (r == 0)
        r = index_reserve(&m->to->frame_index, (size_t)n + 1);
    for (uint32_t i = 0; r == 0 && i < m->from->n_frames; i++) {
        const struct frame frame = m->from->frames[i];
        uint32_t at, found, hash;

        if (m->number[i] == 0)
            continue;
        r = remains_translate(m, m->from->frame_items + frame.first, frame.n);
        if (r == 0)
            r = automaton_set_frame(m->to, m->number[i], m->items, frame.n);
        hash = items_hash(m->items, frame.n, FRAME_SEED);
        at = index_start(&m->to->frame_index, hash);
        while (index_match(&m->to->frame_index, hash, &at, &found))
            at++;
        index_put(&m->to->frame_index, at, hash, m->number[i]);
    }
    return r;
}

static int remains_copy(struct remains *m, uint32_t **configs, size_t n)
{
    _cleanup_free_ uint32_t *new = NEW(uint32_t, n);
    int r = 0;

    if (!new)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct config *config = &m->from->configs[*configs[i]];

        remains_mark(m, m->from->items + config->first, config->n);
    }
    while (m->n_stack > 0) {
        const struct frame *frame = &m->from->frames[m->stack[--m->n_stack]];

        remains_mark(m, m->from->frame_items + frame->first, frame->n);
    }
    r = remains_copy_frames(m);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct config *config = &m->from->configs[*configs[i]];

        r = remains_translate(m, m->from->items + config->first, config->n);
        if (r == 0)
            r = automaton_put_config(m->to, m->items, config->n, config->is_complete, &new[i]);
        if (r == 0)
            automaton_set_known(m->to, new[i], config->known);
    }
    for (size_t i = 0; r == 0 && i < n; i++)
        *configs[i] = new[i];
    return r;
}

int automaton_forget(struct automaton *a, uint32_t **configs, size_t n)
{
    struct automaton new;
    struct remains m = {.from = a, .to = &new};
    int r;

    r = automaton_init(&new, a->p);
    if (r < 0)
        return r;
    m.number = NEW(uint32_t, a->n_frames);
    m.stack = NEW(uint32_t, a->n_frames);
    r = m.number && m.stack ? remains_copy(&m, configs, n) : -ENOMEM;
    free(m.number);
    free(m.stack);
    free(m.items);
    if (r < 0) {
        automaton_done(&new);
        return r;
    }
    automaton_done(a);
    *a = new;
    return 0;
}
