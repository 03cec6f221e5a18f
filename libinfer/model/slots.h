/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names the slots of all architectures. A slot is the place of one weight in a model or in each of
 * its layers, such as the matrix that computes the queries.
 *
 * A function that builds a part of a graph asks for weights by these ids, so that architectures
 * with the same part share it.
 */

enum slot {
    SLOT_ABSENT, /* no slot */

    /* Outside the layers. */
    SLOT_EMBD, /* token embedding */
    SLOT_OUT_NORM,
    SLOT_OUT_NORM_BIAS,
    SLOT_HEAD, /* the embedding if embedding and head are tied */
    SLOT_POS_EMBD,
    SLOT_TYPE_EMBD,
    SLOT_PER_LAYER_EMBD, /* embeddings of tokens for each layer */
    SLOT_PER_LAYER_PROJ,
    SLOT_PER_LAYER_NORM,
    SLOT_EMBD_NORM,
    SLOT_EMBD_NORM_BIAS,
    SLOT_STREAMS_IN, /* matrices that make the streams besides the first, in one tensor */
    SLOT_STREAM_IN_1,
    SLOT_STREAM_IN_2,
    SLOT_STREAM_IN_3,
    SLOT_STREAMS_OUT, /* matrices for the results of these streams */
    SLOT_STREAM_OUT_1,
    SLOT_STREAM_OUT_2,
    SLOT_STREAM_OUT_3,

    /* Attention. */
    SLOT_ATTN_NORM,
    SLOT_ATTN_NORM_BIAS,
    SLOT_QKV, /* q, k and v in one matrix */
    SLOT_QKV_BIAS,
    SLOT_Q,
    SLOT_Q_BIAS,
    SLOT_K,
    SLOT_K_BIAS,
    SLOT_V,
    SLOT_V_BIAS,
    SLOT_Q_NORM, /* norms of each head */
    SLOT_K_NORM,
    SLOT_SINKS,
    SLOT_OUT,
    SLOT_OUT_BIAS,
    SLOT_ATTN_SUB_NORM,  /* before the output matrix */
    SLOT_ATTN_POST_NORM, /* after attention */
    SLOT_ATTN_POST_NORM_BIAS,

    /* Residual streams beside each other, and the matrices of low rank beside attention. */
    SLOT_STREAM_ROUTER,
    SLOT_STREAM_ROUTER_NORM,
    SLOT_STREAM_PREDICT, /* factors of the streams before the layer */
    SLOT_STREAM_CORRECT, /* factors of the layer's change in each stream */
    SLOT_STREAM_SCALE,   /* [n_embd] */
    SLOT_LAUREL_IN,
    SLOT_LAUREL_OUT,
    SLOT_LAUREL_POST_NORM,

    /* Recurrent layers. */
    SLOT_DELTA_QKV,
    SLOT_DELTA_GATE,
    SLOT_DELTA_QKVZ, /* DELTA_QKV and DELTA_GATE in one matrix */
    SLOT_DELTA_A,
    SLOT_DELTA_B,
    SLOT_DELTA_BA, /* DELTA_B and DELTA_A in one matrix */
    SLOT_DELTA_CONV,
    SLOT_DELTA_LOG_A,
    SLOT_DELTA_DT,
    SLOT_DELTA_NORM,
    SLOT_DELTA_OUT,

    /* Feed-forward part. */
    SLOT_FFN_NORM,
    SLOT_FFN_NORM_BIAS,
    SLOT_GATE_UP, /* gate and up, in the order of the architecture's table, in one matrix */
    SLOT_GATE_UP_BIAS,
    SLOT_GATE,
    SLOT_GATE_BIAS,
    SLOT_UP,
    SLOT_UP_BIAS,
    SLOT_DOWN,
    SLOT_DOWN_BIAS,
    SLOT_FFN_SUB_NORM,  /* before the matrix down */
    SLOT_FFN_POST_NORM, /* after the feed-forward part */
    SLOT_FFN_POST_NORM_BIAS,
    SLOT_FFN_OWN_POST_NORM, /* before the sum with the experts */
    SLOT_PER_LAYER_GATE,
    SLOT_PER_LAYER_OUT,
    SLOT_PER_LAYER_POST_NORM,
    SLOT_LAYER_SCALE, /* [1]: factor of the result of the layer */

    /* [1]: factors of the results of matrices. */
    SLOT_Q_FACTOR,
    SLOT_K_FACTOR,
    SLOT_V_FACTOR,
    SLOT_OUT_FACTOR,
    SLOT_GATE_FACTOR,
    SLOT_UP_FACTOR,
    SLOT_DOWN_FACTOR,

    /* Experts. */
    SLOT_ROUTER,
    SLOT_ROUTER_NORM,  /* of the rows from which the scores are computed */
    SLOT_EXPERTS_NORM, /* before and after the experts */
    SLOT_EXPERTS_POST_NORM,
    SLOT_ROUTER_BIAS,     /* added to the scores */
    SLOT_ROUTER_FACTORS,  /* of the weights of the experts */
    SLOT_ROUTER_CHOICE,   /* added to the experts' weights only for their selection */
    SLOT_GATE_UP_EXPERTS, /* gate and up in one matrix */
    SLOT_GATE_UP_EXPERTS_BIAS,
    SLOT_GATE_EXPERTS,
    SLOT_GATE_EXPERTS_BIAS,
    SLOT_UP_EXPERTS,
    SLOT_UP_EXPERTS_BIAS,
    SLOT_DOWN_EXPERTS,
    SLOT_DOWN_EXPERTS_BIAS,
    SLOT_SHARED_ROUTER, /* [1, n_embd]: the weight of the expert that all rows use */
    SLOT_SHARED_GATE,
    SLOT_SHARED_UP,
    SLOT_SHARED_DOWN,

    /* The layer that predicts a further token. */
    SLOT_PREDICT_EMBD_NORM, /* norms of the token's embedding, and of the hidden state before it */
    SLOT_PREDICT_HIDDEN_NORM,
    SLOT_PREDICT_JOIN,     /* [n_embd, 2 × n_embd]: makes the layer's input of both */
    SLOT_PREDICT_OUT_NORM, /* the last norm, the embedding and the head, if the layer has its own
                            */
    SLOT_PREDICT_EMBD,
    SLOT_PREDICT_HEAD,

    /* Draft heads. */
    SLOT_TAPS_JOIN, /* [n_embd, layers × width of the other model]: joins hidden states of several
                       layers */
    SLOT_HIDDEN_NORM, /* of what this matrix computes */
    SLOT_ASSIST_IN, /* [n_embd, 2 × width of the other model]: makes the input of the first layer of
                       an embedding and a hidden state of that model */
    SLOT_ASSIST_OUT, /* [width of the other model, n_embd]: makes the next such hidden state */
    SLOT_CENTROIDS,  /* [clusters, n_embd]: scores of clusters of tokens */

    SLOT_N,
};
