/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The automaton of a grammar, which is made while it is used
 *
 * An item is a state of the program and a frame. The frame is the set of items with which the text
 * continues after the end of the state's rule. A configuration is the set of all items that the
 * text so far may have reached. It stores only items that consume something. Equal frames and equal
 * configurations are stored once. So texts that can be continued in the same ways lead to the same
 * configuration, and each step from a configuration with a symbol is computed once.
 *
 * All callers of a rule at one place of the text share one frame. Therefore a rule that contains
 * itself at its start gives frames that contain each other.
 *
 * A text can be completed from each configuration. All functions need the lock of the grammar.
 */

#include "core/arena.h"
#include "core/index.h"
#include "grammar/program.h"
#include "grammar/vocab.h"

#define AUTOMATON_UNKNOWN 0u /* the step has not been computed */
#define AUTOMATON_DEAD    1u /* no text continues in this way */
#define AUTOMATON_FIRST   2u

#define FRAME_BOTTOM 0u /* the frame after the end of the whole text */

/* state << 32 | frame */
typedef uint64_t item;

/* For slice.c: tells which texts of one family (a set of characters, see vocab.h) may follow. */
struct cover {
    uint8_t phase; /* a state of utf8_step() */
    uint8_t good;  /* all texts of up to this length may follow; COVER_ANY: texts of any length */
    uint8_t bad;   /* at least one text of this number of characters cannot follow; 0: unknown */
};

struct config {
    uint32_t first, n; /* n items, from index `first` on */
    uint32_t mask;     /* number of its mask + 1; 0: none */
    uint32_t next;     /* for forced.c: what may follow; 0: not known yet */
    bool is_complete;  /* the text may end here */
    struct cover cover[N_FAMILIES];
    uint8_t known[N_FAMILIES]; /* the largest cover of a state that belongs to the configuration */
};

struct frame {
    uint32_t first, n; /* n items in frame_items, from index `first` on */
};

/* A configuration before the edges that consume nothing are followed. */
struct kernel {
    uint32_t first, n, config;
};

struct closure;

struct automaton {
    const struct program *p;
    struct config *configs;
    uint32_t *
        *rows; /* [n_configs][n_symbols] the steps of each configuration; empty_row: none yet */
    uint32_t *empty_row;
    item *items, *frame_items, *kernel_items;
    struct frame *frames;
    struct kernel *kernels;
    struct index config_index, frame_index, kernel_index;
    struct arena row_memory;
    struct closure *closure;
    uint32_t n_configs, cap_configs, cap_rows, n_items, cap_items;
    uint32_t n_frames, cap_frames, n_frame_items, cap_frame_items;
    uint32_t n_kernels, cap_kernels, n_kernel_items, cap_kernel_items;
};

/* The automaton borrows @p. */
int automaton_init(struct automaton *a, const struct program *p);
void automaton_done(struct automaton *a);
/* Finds the configuration of the empty text. */
int automaton_start(struct automaton *a, uint32_t *ret_config);
/* Finds the configuration that follows @config when the text continues with a symbol. -E2BIG: the
 * automaton has become too large; -ENOMEM. */
int automaton_step(struct automaton *a, uint32_t config, uint32_t symbol, uint32_t *ret_config);
/* Finds the configuration that has the items of @x and those of @y. */
int automaton_join(struct automaton *a, uint32_t x, uint32_t y, uint32_t *ret_config);
/* Returns the bytes that the automaton uses. */
size_t automaton_size(const struct automaton *a);
/* Forgets everything except the @n configurations *configs[]. Their numbers change, and *configs[]
 * are set to the new numbers. */
int automaton_forget(struct automaton *a, uint32_t **configs, size_t n);

/* For closure.c: stores a frame or a configuration, or finds an equal one. @items are sorted. */
int automaton_put_frame(struct automaton *a, const item *items, uint32_t n, uint32_t *ret_frame);
int automaton_put_config(struct automaton *a, const item *items, uint32_t n, bool is_complete,
                         uint32_t *ret_config);
void automaton_set_known(struct automaton *a, uint32_t config, const uint8_t known[N_FAMILIES]);
/* Makes @n frames with consecutive numbers and without items. */
int automaton_new_frames(struct automaton *a, uint32_t n, uint32_t *ret_first);
int automaton_set_frame(struct automaton *a, uint32_t frame, const item *items, uint32_t n);

/* Returns a hash of sorted items. Tables of different kinds use different values of @seed. */
uint32_t items_hash(const item *items, uint32_t n, uint64_t seed);
#define FRAME_SEED 1
/* Sorts items, and removes duplicates. Returns their new number. */
uint32_t items_sort(item *items, uint32_t n);

static inline item item_make(uint32_t state, uint32_t frame)
{
    return (uint64_t)state << 32 | frame;
}

static inline uint32_t item_state(item it)
{
    return (uint32_t)(it >> 32);
}

static inline uint32_t item_frame(item it)
{
    return (uint32_t)it;
}
