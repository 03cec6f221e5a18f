/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares what a draft head has besides the weights of slots, and how its target passes hidden
 * states to it. */

#include "model/arch.h"

/* The parts of a draft head that are not weights of slots. */
struct model_head {
    struct weight join[HPARAMS_TAPS]; /* parts of SLOT_TAPS_JOIN, one for each hidden state */
    /* EAGLE-3: halves, for the embedding and for the hidden state */
    struct weight q[2], k[2], v[2];
    int32_t *tokens; /* [head.n_vocab]: the tokens of the target; NULL: all */
    /* Assistants of Gemma 4: the halves of SLOT_ASSIST_IN, for the embedding and for the hidden
     * state. */
    struct weight in[2];
    /* The rows of the head in the order of their clusters, one matrix for each cluster, and the
     * token of each row. Zeroed and NULL: there are no clusters. */
    struct weight clusters;
    uint32_t *cluster_tokens;
};

/* The state of a graph of a target while it is built. */
struct model_taps {
    const struct model_head *head;
    uint32_t layers[HPARAMS_TAPS];
    uint32_t n_all; /* layers that the head reads */
    uint32_t n;     /* layers that were reached */
    graph_ref sum;  /* of the products so far */
};

/* Adds what a draft head reads of the input @x of a layer. */
void head_tap(struct model_taps *taps, struct graph *g, uint32_t i_layer, graph_ref x);
/* Divides SLOT_TAPS_JOIN into the parts for the hidden states. -ENOMEM. */
int head_bind_taps(struct binder *b, struct model_head *head);
