/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes a tiny random transformer for backend tests: graph and weights.
 *
 * Shapes are odd on purpose. The same options and seed give the same model.
 */

#include "core/arena.h"
#include "core/rng.h"
#include "graph/graph.h"

struct tiny_options {
    enum inf_dtype dtype; /* number format of matrices */
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab;
    enum rope_style rope;
    uint32_t rope_dims; /* 0 means head_dim */
    uint32_t window;    /* the window of layers with odd numbers; 0: none */
    bool qk_norm, bias, tied;
    uint64_t seed;
};

/* tiny_qwen has all options of a layer: a window, norms of q and k, biases, and rotation of only a
 * part of each head. */
extern const struct tiny_options tiny_qwen;

struct tiny {
    struct tiny_options o;
    struct arena arena;
    struct graph *graph;
};

void tiny_init(struct tiny *t, const struct tiny_options *options);
void tiny_done(struct tiny *t);
