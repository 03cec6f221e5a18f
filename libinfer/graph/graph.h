/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares graphs, which hold the operations of a model's forward pass.
 *
 * A graph describes one forward pass over the rows (tokens) of a batch; the number of rows is not
 * part of the graph. Values are float matrices [rows, width]; a graph_ref stands for a value. The
 * functions that append nodes check shapes and types. The graph keeps the first error, and
 * graph_error() returns it, so a model can build its graph without checking each call. Weights are
 * borrowed and must outlive the graph.
 *
 * A backend compiles a graph into a plan (backend/backend.h) and may fuse operations there.
 */

#include <infer/types.h>

#include "core/macros.h"

typedef int32_t graph_ref; /* index of a value; negative: none */

#define GRAPH_NONE ((graph_ref)-1)

/* Describes a weight matrix where it lies in memory: @rows × @cols, row-major. Each row is a whole
 * number of blocks of its number format. Vectors have rows = 1. If all members are zero (data is
 * NULL), the model does not have this weight. */
struct weight {
    const void *data;
    enum inf_dtype dtype;
    uint32_t rows, cols;
    const char *name; /* for messages; lives as long as data */
    bool packed;      /* stored in the layout for products of many rows on the CPU
                         (backend/reformat.h) */
};

enum graph_act {
    GRAPH_ACT_SILU,
    GRAPH_ACT_GELU_TANH,
    GRAPH_ACT_GELU_ERF,
    GRAPH_ACT_RELU2,
    GRAPH_ACT_TANH,
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
    uint32_t i_layer; /* index of the layer, which selects its K and V in the KV cache */
    uint32_t n_heads, n_kv_heads, head_dim;
    float scale;     /* factor of q·k, usually 1/sqrt(head_dim) */
    uint32_t window; /* a row at position p attends to positions p - window + 1 … p; 0: to all
                        positions up to p */
    /* For encoders: a row also attends to later rows, up to the distance that the window allows for
     * earlier rows. All rows of a sequence are then in one batch, from position 0 on. */
    bool both_ways;
    /* The node has no input for keys and values: rows attend to the memory of their sequence
     * (graph/batch.h). */
    bool memory;
    uint64_t kept;   /* bit h: a batch may request the scores of head h; only heads below 64 */
    uint32_t i_kept; /* index of the first head with a bit in `kept`, among all such heads of all
                        layers */
};

/* Says which number of a row of the batch selects the row of a table. */
enum graph_key {
    GRAPH_KEY_TOKEN,
    GRAPH_KEY_POSITION,
    GRAPH_KEY_TYPE, /* the token type: the segment in a pair of texts */
};

enum graph_op {
    GRAPH_EMBED,      /* table rows by token, position or type */
    GRAPH_INPUT,      /* rows given in the batch */
    GRAPH_RMS_NORM,   /* x / sqrt(mean(x²) + eps) × w, over groups of `group` columns */
    GRAPH_LAYER_NORM, /* (x - mean) / sqrt(variance + eps) × w + bias */
    GRAPH_MATMUL,     /* x · Wᵀ + bias */
    GRAPH_ROPE,
    GRAPH_ATTENTION, /* stores k and v, then computes softmax(q·kᵀ × scale) · v over the sequence
                        so far */
    GRAPH_STORE,     /* stores k and v as memory for other sequences */
    GRAPH_GLU,       /* act(gate) × up */
    GRAPH_ACT,       /* act(x) */
    GRAPH_ADD,
    GRAPH_SCALE, /* x × constant */
    GRAPH_ROWS,  /* keeps only the rows whose logits the batch requests */
    GRAPH_POOL,  /* the mean of the rows of each sequence */
    GRAPH_OUTPUT,
};

struct graph_node {
    enum graph_op op;
    graph_ref src[3];   /* inputs */
    uint32_t width;     /* columns of the result */
    bool rows_kept;     /* the result has only the n_logits rows whose logits are requested, not
                           n_rows; for POOL, one row per sequence */
    struct weight w;    /* EMBED, the norms, MATMUL */
    struct weight bias; /* LAYER_NORM, MATMUL */
    float f;            /* norms: eps; EMBED, SCALE: factor */
    uint32_t group;     /* RMS_NORM, ROPE: columns of a group (head_dim, or width) */
    enum graph_key key; /* EMBED */
    enum graph_act act;
    struct rope_params rope;
    struct attn_params attn;
};

struct graph;

int graph_new(struct graph **ret_graph);
struct graph *graph_free(struct graph *g);
DEFINE_CLEANUP(struct graph *, graph_free);

graph_ref graph_embed(struct graph *g, const struct weight *table, float scale);
/* Looks up rows of a table by position or token type. A batch for such a graph must not have a
 * position or type beyond the table. */
graph_ref graph_embed_by(struct graph *g, const struct weight *table, enum graph_key key);
/* Makes `input` of the batch, [rows, width], a value of the graph. A graph can have only one such
 * node. */
graph_ref graph_input(struct graph *g, uint32_t width);
/* Normalizes each group of @group columns (usually a head) by itself. @group 0: the whole width is
 * one group. */
graph_ref graph_rms_norm(struct graph *g, graph_ref x, const struct weight *w, float eps,
                         uint32_t group);
/* @bias may be NULL or have no data. */
graph_ref graph_layer_norm(struct graph *g, graph_ref x, const struct weight *w,
                           const struct weight *bias, float eps);
/* @bias may be NULL or have no data. */
graph_ref graph_matmul(struct graph *g, graph_ref x, const struct weight *w,
                       const struct weight *bias);
graph_ref graph_rope(struct graph *g, graph_ref x, uint32_t head_dim,
                     const struct rope_params *rope);
/* q: [rows, n_heads × head_dim]; k, v: [rows, n_kv_heads × head_dim]; the result has the shape of
 * q. */
graph_ref graph_attention(struct graph *g, graph_ref q, graph_ref k, graph_ref v,
                          const struct attn_params *attn);
/* Computes attention over the memory of each sequence. Earlier steps have stored the k and v of the
 * memory. */
graph_ref graph_attention_memory(struct graph *g, graph_ref q, const struct attn_params *attn);
/* Stores k and v of all rows as the k and v of layer attn->i_layer. The result must not be
 * read. */
graph_ref graph_store(struct graph *g, graph_ref k, graph_ref v, const struct attn_params *attn);
graph_ref graph_glu(struct graph *g, graph_ref gate, graph_ref up, enum graph_act act);
graph_ref graph_act(struct graph *g, graph_ref x, enum graph_act act);
graph_ref graph_add(struct graph *g, graph_ref a, graph_ref b);
graph_ref graph_scale(struct graph *g, graph_ref x, float factor);
graph_ref graph_rows(struct graph *g, graph_ref x);
/* Computes the mean of the rows of each sequence. A batch for a graph with this node requests the
 * logits of exactly one row of each sequence. It does not matter which row this is. */
graph_ref graph_pool(struct graph *g, graph_ref x);
/* Makes @x, the logits, the output of the graph. This must be the last node. */
void graph_output(struct graph *g, graph_ref x);
/* Appends any node, for code that rewrites graphs. Fills in `width` and `rows_kept`, except that an
 * input node already has its width. */
graph_ref graph_append(struct graph *g, struct graph_node node);

/* Returns 0 if the graph is valid, else -EINVAL or -ENOMEM with the first error in *reterr. */
int graph_error(const struct graph *g, struct inf_err *reterr);
size_t graph_n_nodes(const struct graph *g);
const struct graph_node *graph_node(const struct graph *g, graph_ref ref);

/*
 * Finds the border before layer @i_layer: the position where the graph can be cut (cut.c).
 * *ret_last is the last node before the border. *ret_value is the only value that is computed
 * before the border and read behind it; it has all rows of the batch. Behind the last layer there
 * is a border only if the value there still has all rows. Returns 0; -EOPNOTSUPP if there is no
 * border or several values cross it; or -ENOMEM.
 */
int graph_border(const struct graph *g, uint32_t i_layer, graph_ref *ret_last, graph_ref *ret_value,
                 struct inf_err *reterr);
/*
 * Cuts a valid graph at the border before layer @i_layer. The output of the lower part is the value
 * that crosses the border; a batch that needs all its rows requests the logits of all rows. This
 * value is the input of the upper part, whose layers count from 0. Both parts use the weights of
 * @g. Returns 0, or an error of graph_border() or graph_error().
 */
int graph_cut(const struct graph *g, uint32_t i_layer, struct graph **ret_low,
              struct graph **ret_high, struct inf_err *reterr);

/* Writes the graph as text, one node per line, for golden tests. Returns 0 or -ENOMEM. */
struct str;
int graph_dump(const struct graph *g, struct str *out);
