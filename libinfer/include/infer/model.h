/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_MODEL_H
#define INFER_MODEL_H

/*
 * Models
 *
 * A model is a GGUF file, a directory in Hugging Face layout, or a .bin file of whisper.cpp. GGUF
 * files have version 2 or 3; a split model is opened by its first part. A directory contains
 * config.json, *.safetensors, tokenizer files, and, if the weights are in several files,
 * model.safetensors.index.json. Weights are mapped read-only and used in place. All other data is
 * read into memory when the model is opened. A model is immutable once it is open, and any number
 * of threads may use it.
 *
 * Files may change while they are mapped. If a file is replaced by renaming another file over it,
 * the mapping keeps the old content. If a file is written to or truncated, the model becomes stale:
 * all computing with it fails with -ESTALE from then on, and the caller may open the file again.
 * Reading a page beyond the new end of a file raises SIGBUS, which ends the process unless
 * inf_files_guard() was called.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_model;
struct inf_tokenizer;
struct inf_chat_template;

struct inf_model_params {
    const char *path;          /* file or directory */
    bool vocab_only;           /* load only the tokenizer and the chat template; weights may be
                                  missing, and the path may be a single tokenizer file */
    const char *chat_template; /* replaces the model's own template; NULL keeps it */
    inf_progress_fn progress;  /* may be NULL */
    void *progress_data;
};

/* All strings live as long as the model. Counts are 0 if the file does not state them. */
struct inf_model_info {
    const char *arch;       /* "llama", "qwen2", "qwen3", "whisper" */
    const char *name;       /* the name in the file; never NULL, may be "" */
    const char *format;     /* "gguf", "safetensors", "ggml"; "tokenizer" if only that was opened */
    enum inf_dtype dtype;   /* the number format of most bytes of the weights; weights whose scales
                               are tensors of their own are not counted */
    const char *dtype_text; /* the formats for people: "Q4_K + Q6_K" */
    uint64_t n_params;
    uint64_t n_bytes;       /* bytes of all stored tensors */
    uint64_t n_bytes_token; /* bytes of weights that decoding one token reads: all matrices that the
                               token is multiplied with, including the head, but not the token's row
                               of the embedding */
    uint64_t n_madds_token; /* multiply-adds of one token with the matrices of n_bytes_token */
    uint64_t n_madds_head;  /* the head's part of n_madds_token; a prompt needs the head only for
                               its last token */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_ctx_train;
    uint32_t sliding_window; /* tokens; 0: full attention in all layers */
    uint32_t token_width;    /* floats of a token vector; 0: the model was not trained for late
                                interaction */
    bool tied_head;
    bool predicts; /* a layer predicts further tokens, and can draft (inf_engine_params.draft_kind)
                    */
    const char *template_error; /* why the model's own chat template cannot be used; NULL: it can */
};

/*
 * Opens a model. On success *ret_model is one reference, which the caller owns; on failure *reterr
 * says why. -ENOENT: no such file; -EBADMSG: a malformed file; -EOPNOTSUPP: an architecture, number
 * format or feature that this build does not support; -ESTALE: a file changed while it was opened;
 * -ENOMEM.
 */
INF_PUBLIC int inf_model_open(const struct inf_model_params *params, struct inf_model **ret_model,
                              struct inf_err *reterr);
/*
 * Installs a handler for SIGBUS, once per process. If a program then reads a mapped page that a
 * model's file no longer has, it gets zeros, and the model becomes stale. The handler passes SIGBUS
 * with any other cause to the handler that was installed before. Threads must not block SIGBUS.
 * Returns 0 or -errno.
 */
INF_PUBLIC int inf_files_guard(void);
/* Compares the sizes and modification times of the model's files with those when the model was
 * opened. Returns 0, or -ESTALE with the reason. Any thread may call this function. */
INF_PUBLIC int inf_model_check(const struct inf_model *model, struct inf_err *reterr);
INF_PUBLIC struct inf_model *inf_model_ref(struct inf_model *model);
/* Drops one reference. NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_model *inf_model_unref(struct inf_model *model);

/* Purposes that a model can serve. */
enum inf_model_use {
    INF_USE_GENERATE,      /* generate text, in an engine */
    INF_USE_VECTORS,       /* one vector per text, in an embedder */
    INF_USE_TOKEN_VECTORS, /* one vector per token, in an embedder */
    INF_USE_SCORES,        /* score how well one text answers another, in an embedder */
    INF_USE_SPEECH,        /* transcribe speech, in a transcriber */
};

/* Checks whether the model can serve a purpose. The check is cheap compared with creating an
 * engine, embedder or transcriber. Two threads must not call the function for one model at the same
 * time. Returns 0; -EOPNOTSUPP with the reason in @reterr; -ENOMEM. */
INF_PUBLIC int inf_model_suits(struct inf_model *model, enum inf_model_use use,
                               struct inf_err *reterr);

/* The memory that a running text takes besides the weights, in bytes. A text of N tokens takes N ×
 * per_token, rounded up to blocks of 64 tokens, and also `windows` and `recurrent`, which do not
 * depend on N. `windows` is the memory of the tokens of the window and of one block in the windowed
 * layers; while a prompt is read, these layers also take the tokens of one step. */
struct inf_kv_size {
    uint64_t per_token; /* keys and values of one token in the layers with full attention */
    uint64_t windows;   /* keys and values in the layers with windowed attention */
    uint64_t recurrent; /* state of the recurrent layers; each kept copy of it takes as much */
};
/* Computes the memory of a text of a model that can generate, with the number format @kv_type of
 * keys and values (infer/engine.h; NULL or "auto": what "auto" means if memory is not short).
 * Returns 0; -EINVAL: unknown format; -EOPNOTSUPP with the reason; -ENOMEM. */
INF_PUBLIC int inf_model_kv_size(const struct inf_model *model, const char *kv_type,
                                 struct inf_kv_size *ret_size, struct inf_err *reterr);

INF_PUBLIC const struct inf_model_info *inf_model_info(const struct inf_model *model);
/* Return the tokenizer and the chat template, which are borrowed and live as long as the model. The
 * template is NULL if the model has none. */
INF_PUBLIC const struct inf_tokenizer *inf_model_tokenizer(const struct inf_model *model);
INF_PUBLIC const struct inf_chat_template *inf_model_chat_template(const struct inf_model *model);

/* Counts the tensors of one number format, their elements and their bytes. The format has the name
 * that the file gives it. This build may be unable to compute with the format, and "U32" stands for
 * codes whose scales are tensors of their own. */
struct inf_type_count {
    const char *type; /* "Q4_K"; lives as long as the model */
    uint64_t n_tensors, n_elements, n_bytes;
};
/* The largest number of formats that inf_model_types() distinguishes. */
#define INF_MAX_TYPES 32
/* Counts the stored tensors by number format, and writes the formats to @dst, the one with most
 * bytes first. Returns how many there are; 0 for a single tokenizer file. */
INF_PUBLIC size_t inf_model_types(const struct inf_model *model,
                                  struct inf_type_count dst[INF_MAX_TYPES]);

/* Gives the @i-th pair of metadata as text, for `sconce info`. Returns false past the last one. */
INF_PUBLIC bool inf_model_meta(const struct inf_model *model, size_t i, const char **ret_key,
                               const char **ret_value);

/* Checks whether @draft can be the draft_model of an engine (infer/engine.h) for @model: both have
 * the same tokens, except that one vocabulary may have up to 1,024 more at its end. Returns 0, or
 * -EINVAL with the reason. */
INF_PUBLIC int inf_model_can_draft(const struct inf_model *draft, const struct inf_model *model,
                                   struct inf_err *reterr);

#ifdef __cplusplus
}
#endif
#endif
