/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whisper: the encoder and the decoder
 *
 * Frames of 10 ms pass two convolutions over three frames, the second with stride two, then blocks
 * of bidirectional attention (Radford et al. 2022). All values of a graph have the same number of
 * rows, so the encoder has three graphs. Each convolution is a matrix product whose input rows hold
 * three consecutive frames; the caller lays them out.
 */

#include "core/macros.h"
#include "format/format.h"
#include "graph/graph.h"

struct whisper_shape {
    uint32_t n_mels, n_ctx; /* n_ctx: rows of the result, half the number of frames */
    uint32_t n_embd, n_heads, n_ff, n_layers;
};

/* A source of tensors, named as by Hugging Face, or as by OpenAI and whisper.cpp. */
struct whisper_source {
    const struct format_tensor *(*find)(const void *file, const char *name); /* NULL: absent */
    const void *file;
    bool hugging_face;
};

enum whisper_part {
    WHISPER_CONV1,  /* [2 × n_ctx, 3 × n_mels] → [2 × n_ctx, n_embd] */
    WHISPER_CONV2,  /* [n_ctx, 3 × n_embd] → [n_ctx, n_embd] */
    WHISPER_BLOCKS, /* [n_ctx, n_embd] → the same; row i is at position i of one sequence */
    WHISPER_N_PARTS,
};

struct whisper_encoder;

/* Weights stay in the file, which must outlive the encoder; those of convolutions are copied.
 * -EBADMSG: a tensor is missing or has another shape; -EOPNOTSUPP: an unsupported number format;
 * -ENOMEM. */
int whisper_encoder_new(const struct whisper_source *src, const struct whisper_shape *shape,
                        struct whisper_encoder **ret_encoder, struct inf_err *reterr);
struct whisper_encoder *whisper_encoder_free(struct whisper_encoder *e);
DEFINE_CLEANUP(struct whisper_encoder *, whisper_encoder_free);

const struct whisper_shape *whisper_encoder_shape(const struct whisper_encoder *e);
/* Returns the number format of the encoder's matrices. */
enum inf_dtype whisper_encoder_dtype(const struct whisper_encoder *e);
/* Builds the graph of one part. The graph takes the input of the batch, and its output has all
 * rows. -ENOMEM. */
int whisper_encoder_graph(const struct whisper_encoder *e, enum whisper_part part,
                          struct graph **ret_graph, struct inf_err *reterr);

/*
 * The decoder writes text from the encoder's output. Its blocks attend to the text so far, then to
 * the memory: keys and values of the encoder's rows, computed once per window (graph/batch.h). The
 * token table is also the head.
 */
struct whisper_text_shape {
    uint32_t n_vocab, n_ctx;
    uint32_t n_embd, n_heads, n_ff, n_layers;
};

/* Heads of the attention to the memory, per layer: bit h is head h, below 64. */
struct whisper_heads {
    const uint64_t *masks; /* [n_layers] */
};

struct whisper_decoder;

/* Like whisper_encoder_new(). */
int whisper_decoder_new(const struct whisper_source *src, const struct whisper_text_shape *shape,
                        struct whisper_decoder **ret_decoder, struct inf_err *reterr);
struct whisper_decoder *whisper_decoder_free(struct whisper_decoder *d);
DEFINE_CLEANUP(struct whisper_decoder *, whisper_decoder_free);

const struct whisper_text_shape *whisper_decoder_shape(const struct whisper_decoder *d);
/* Returns the number format of the decoder's token table. */
enum inf_dtype whisper_decoder_dtype(const struct whisper_decoder *d);
/* Builds the graph from tokens to logits. Batches may request the scores of the heads @kept (NULL:
 * none), numbered layer by layer. -ENOMEM. */
int whisper_decoder_graph(const struct whisper_decoder *d, const struct whisper_heads *kept,
                          struct graph **ret_graph, struct inf_err *reterr);
/* Builds the graph from the encoder's rows, which are the batch's input, to keys and values of the
 * memory, which it stores in the blocks that the batch names. The graph gives no logits.
 * -ENOMEM. */
int whisper_memory_graph(const struct whisper_decoder *d, struct graph **ret_graph,
                         struct inf_err *reterr);
