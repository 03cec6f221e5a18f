/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes small random graphs for backend tests. Each graph has a few operations that plain
 * transformers do not have: several groups of state, experts, convolutions and gated delta rules.
 */

#include "backend/backend.h"
#include "core/arena.h"
#include "core/rng.h"
#include "graph/graph.h"

struct ops_model {
    struct arena arena;
    struct rng rng;
    struct graph *graph;
    enum inf_dtype dtype; /* number format of matrices */
    struct kv_layout layout;
};

enum { OPS_VOCAB = 61, OPS_EMBD = 64, OPS_BLOCK = 16, OPS_SEQS = 3, OPS_CTX = 400 };

/* The layers of a graph. */
enum ops_kind {
    OPS_COLUMNS,   /* COLS, CAP, all activations, gates with one column, norms without weight */
    OPS_ATTENTION, /* two groups of different shapes, a window, shared keys, sinks, softcap */
    OPS_EXPERTS,   /* routed products of each kind */
    OPS_RECURRENT, /* convolutions and gated delta rules beside attention */
    OPS_KINDS,
};

void ops_model_init(struct ops_model *m, enum ops_kind kind, enum inf_dtype dtype);
void ops_model_done(struct ops_model *m);
