/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the parameters of operations (graph/graph.h). */

#include "graph/state.h"
#include "graph/weight.h"

enum graph_act {
    GRAPH_ACT_SILU,
    GRAPH_ACT_GELU_TANH,
    GRAPH_ACT_GELU_ERF,
    GRAPH_ACT_RELU2,
    GRAPH_ACT_TANH,
    GRAPH_ACT_SIGMOID,
    GRAPH_ACT_LINEAR, /* x */
    /* gpt-oss: with g = min(gate, 7) and u = up limited to -7 … 7, the gated unit is
     * g × sigmoid(1.702 × g) × (u + 1). Only for GLU. */
    GRAPH_ACT_SWIGLU_LIMITED,
};

enum rope_style {
    ROPE_HALF,  /* pairs (i, i + n/2): "neox", Hugging Face layout */
    ROPE_PAIRS, /* pairs (2i, 2i + 1): original Llama layout, GGUF llama */
};

/* Describes the rotary embedding (Su et al. 2021) of the first n_dims elements of each head. The
 * angle of pair i at position p is p × inv_freq[i]. inv_freq includes any scaling (linear, llama3,
 * yarn). */
struct rope_params {
    enum rope_style style;
    uint32_t n_dims;       /* even, ≤ head_dim */
    const float *inv_freq; /* [n_dims / 2]; outlives the graph */
    float mscale;          /* factor on sin and cos (yarn); 1 otherwise */
};

struct attn_params {
    uint32_t i_layer; /* number of the layer in its group, which selects its K and V in the KV
                         store */
    uint32_t n_heads, n_kv_heads, head_dim;
    float scale;     /* factor of q·k, usually 1/sqrt(head_dim) */
    uint32_t window; /* a row at position p attends to positions p - window + 1 … p; 0: to all
                        positions up to p */
    /* A row also attends to later rows of its sequence in the batch, up to the distance that the
     * window allows for earlier rows. In encoders, all rows of a sequence are in one batch, from
     * position 0 on. */
    bool both_ways;
    /* The node has no input for keys and values: rows attend to the memory of their sequence
     * (graph/batch.h). */
    bool memory;
    uint64_t kept;    /* bit h: a batch may request the scores of head h; only heads below 64 */
    uint32_t i_kept;  /* index of the first head with a bit in `kept`, among all such heads of all
                         layers */
    uint32_t i_group; /* the group of the state (graph/state.h) that holds K and V */
    /* The node has no input for keys and values. It reads the keys and values that an earlier
     * attention node of this graph with the same i_group and i_layer has stored. */
    bool shared;
    /* The node has no input for keys and values. Steps of another graph over the same store have
     * stored those of the positions before a row. The row at position p, which is not 0, attends to
     * the positions p - window … p - 1; window 0: to all positions before p. */
    bool past;
    float softcap; /* c: a score s becomes c × tanh(s / c); 0: scores stay as they are */
    /* [n_heads] logits that take part in the softmax of each head, but have no value. No data: the
     * model has none. */
    struct weight sinks;
};

/* Returns whether the node has inputs for keys and values. */
static inline bool attn_has_keys(const struct attn_params *p)
{
    return !p->memory && !p->shared && !p->past;
}

/* Returns the place of K and V. */
static inline struct state_place attn_place(const struct attn_params *p)
{
    return (struct state_place){p->i_group, p->i_layer};
}

#define COLS_PARTS_MAX 3

/* Selects columns. The input consists of runs of `stride` columns. The result consists of n_parts
 * parts. A part has, for each run, the columns `first` … `first` + `n` - 1 of this run. */
struct cols_params {
    uint32_t stride, n_parts;
    struct cols_part {
        uint32_t first, n;
    } parts[COLS_PARTS_MAX];
};

/*
 * Describes a gated delta rule (Yang et al. 2024, "Gated Delta Networks"). A row of the first input
 * has the queries [n_k_heads, k_dim], then the keys [n_k_heads, k_dim], then the values [n_v_heads,
 * v_dim]. For value head h with the query q and the key k of its key head, both divided by
 * sqrt(sum of squares + eps), the row's a and b, and the state S [v_dim, k_dim] of the head:
 *
 *   g = exp(-exp(A[h]) × softplus(a[h] + dt[h])),  beta = sigmoid(b[h])
 *   S = g × S;  S = S + (beta × (v - S · k)) ⊗ k;  result = scale × S · q
 */
struct delta_params {
    struct state_place place;
    uint32_t n_k_heads, n_v_heads, k_dim, v_dim;
    /* The key head of value head h is h % n_k_heads; otherwise it is h / (n_v_heads / n_k_heads).
     */
    bool interleaved;
    bool negated; /* the weight holds -exp(A), as GGUF files do */
    float scale, eps;
};

/* How the scores of a row become the weights of its experts. */
enum route_score {
    ROUTE_SOFTMAX,          /* softmax over all experts */
    ROUTE_SOFTMAX_SELECTED, /* softmax over the selected experts */
    ROUTE_SIGMOID,
};

/* The n_used experts with the largest scores are selected or, if there is a bias, those with the
 * largest sums of weight and bias. If these numbers are equal, the expert with the lower number
 * comes first. The slots of a row are ordered by expert number. */
struct route_params {
    enum route_score score;
    uint32_t n_used;
    bool normalized; /* the weights of a row are divided by their sum */
    float scale;     /* factor of all weights */
};

/* The columns of the experts of a route, in their order, have places in a wider row: column c of
 * expert e is at places[e × (columns of an expert) + c], and all these places are distinct. */
struct spread_params {
    uint32_t width;         /* of the wider row */
    const uint32_t *places; /* [experts, columns of an expert]; outlives the graph */
};

#define TURN_GROUP_MAX  256u
#define TURN_ROUNDS_MAX 16u

/*
 * Says how rows are prepared for a product whose matrix does not have the columns of its input: the
 * matrix has them in another order, or they were rotated before the matrix was quantized (Liang et
 * al. 2025, "ParoQuant", arXiv 2511.10645). Column k of the result is column order[k] of the input,
 * times factors[k]. Then, in each round, the columns a and b of each pair become a × cos(t) + b ×
 * sin(t) and b × cos(t) - a × sin(t), where t is the angle of the pair. Both columns belong to one
 * group.
 */
struct turn_params {
    uint32_t width;
    uint32_t group;        /* neighboring columns: a divisor of the width */
    uint32_t n_rounds;     /* 0: no rotation */
    const uint32_t *order; /* [width], or NULL: the order of the input */
    const float *factors;  /* [width], or NULL: 1 */
    const uint8_t *pairs;  /* [n_rounds, width]: numbers of columns in their group. Two neighbors
                              are a pair, and each column is in one pair of a round */
    const float *turns;    /* [n_rounds, width / 2, 2]: cos and sin of each pair */
};

#define BLEND_STREAMS_MAX 8

/* The columns of a row are n_in streams of the same width. Stream j of the n_out streams of the
 * result is stream j of the base, if there is one, plus the sum over i of factor[j × n_in + i] ×
 * stream i. */
struct blend_params {
    uint32_t n_in, n_out;
};
