/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares Whisper's encoder and decoder.
 *
 * The encoder applies two convolutions over three frames to the frames of 10 ms. The second
 * convolution has stride two. Blocks of bidirectional attention follow (Radford et al. 2022). All
 * values of a graph have the same number of rows, so the encoder has three graphs. Each convolution
 * is a matrix product whose input rows hold three consecutive frames. The caller writes these input
 * rows.
 */

#include "core/macros.h"
#include "format/format.h"
#include "graph/graph.h"

struct whisper_shape {
    uint32_t n_mels, n_ctx; /* n_ctx: rows of the result, half the number of frames */
    uint32_t n_embd, n_heads, n_ff, n_layers;
};

/* A source of tensors, which have the names of Hugging Face, or those of OpenAI and whisper.cpp. */
struct whisper_source {
    const struct format_tensor *(*find)(const void *file, const char *name); /* NULL: absent */
    const void *file;
    bool hugging_face;
    bool mlx; /* convolutions and positions are those of mlx-whisper */
};

enum whisper_part {
    WHISPER_CONV1,  /* [2 × n_ctx, 3 × n_mels] → [2 × n_ctx, n_embd] */
    WHISPER_CONV2,  /* [n_ctx, 3 × n_embd] → [n_ctx, n_embd] */
    WHISPER_BLOCKS, /* [n_ctx, n_embd] → the same; row i is at position i of one sequence */
    WHISPER_N_PARTS,
};

struct whisper_encoder;

/* The weights of convolutions are copied. All other weights stay in the file, which must outlive
 * the encoder. -EBADMSG: a tensor is missing or has another shape; -EOPNOTSUPP: an unsupported
 * number format; -ENOMEM. */
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
 * the memory (graph/batch.h). The memory holds keys and values of the encoder's rows, computed once
 * per window of 30 s. The token table is also the head.
 */
struct whisper_text_shape {
    uint32_t n_vocab, n_ctx;
    uint32_t n_embd, n_heads, n_ff, n_layers;
};

/* A set of heads of the attention to the memory. Each layer has a mask in which bit h stands for
 * head h, so only heads below 64 can be in the set. */
struct whisper_heads {
    const uint64_t *masks; /* [n_layers] */
};

struct whisper_decoder;

/* Creates a decoder. Returns the same errors as whisper_encoder_new(). */
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
/* Builds the graph that computes the keys and values of the memory from the encoder's rows, which
 * are the batch's input. The graph stores them in the blocks that the batch names. The graph gives
 * no logits. -ENOMEM. */
int whisper_memory_graph(const struct whisper_decoder *d, struct graph **ret_graph,
                         struct inf_err *reterr);
