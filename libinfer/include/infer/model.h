/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_MODEL_H
#define INFER_MODEL_H

/*
 * Models
 *
 * A model is a GGUF file (v2, v3; split files are found from the first part), a directory in
 * Hugging Face layout: config.json, *.safetensors (with model.safetensors.index.json when
 * sharded) and tokenizer files, or a .bin file of whisper.cpp. Weights are mapped read-only and
 * used where they lie; all else is read into memory when the model is opened. A model is immutable
 * after it was opened and may be used by any number of threads.
 *
 * Files may change while they are mapped. A file that another is renamed to stays what it was. One
 * that is written to or becomes shorter makes the model stale: what is computed with it fails
 * (-ESTALE), now and later, and the file may be opened anew. Reading a page that is not there any
 * more raises SIGBUS, which ends the process unless inf_files_guard() was called.
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
    bool vocab_only;           /* tokenizer and chat template alone; weights may be absent, and
                                  the path may be that of a lone tokenizer file */
    const char *chat_template; /* replaces the model's own; NULL keeps it */
    inf_progress_fn progress;  /* may be NULL */
    void *progress_data;
};

/* All strings live as long as the model. Counts are 0 where the file does not tell. */
struct inf_model_info {
    const char *arch;       /* "llama", "qwen2", "qwen3", "whisper" */
    const char *name;       /* what the file calls itself; never NULL, may be "" */
    const char *format;     /* "gguf", "safetensors", "ggml"; "tokenizer" when only that was
                               opened */
    enum inf_dtype dtype;   /* the format that holds most bytes of the weights */
    const char *dtype_text; /* the same for people: "Q4_K + Q6_K" */
    uint64_t n_params;
    uint64_t n_bytes;       /* bytes of all tensors as stored */
    uint64_t n_bytes_token; /* bytes of weights that decoding one token reads: all matrices that it
                               multiplies with, the head included; one row of the embedding not */
    uint64_t n_madds_token; /* multiply-adds with these matrices */
    uint64_t n_madds_head;  /* the head's part of them: a prompt costs it once */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_ctx_train;
    uint32_t sliding_window; /* tokens; 0 = full attention everywhere */
    uint32_t token_width;    /* floats of the vectors of single tokens that it was trained to make,
                                for late interaction; 0 = it was not */
    bool tied_head;
    const char *template_error; /* why the model's own chat template is not used; or NULL */
};

/*
 * Opens a model. On success *ret_model holds one reference; on failure *reterr says why.
 * -ENOENT no such file; -EBADMSG malformed file; -EOPNOTSUPP an architecture, number format or
 * feature that this build does not run; -ESTALE: a file changed meanwhile; -ENOMEM.
 */
INF_PUBLIC int inf_model_open(const struct inf_model_params *params, struct inf_model **ret_model,
                              struct inf_err *reterr);
/*
 * Installs a handler for SIGBUS, once for the process: reading a mapped page of a model that is not
 * there any more gives zeros, and makes the model stale. Other causes of SIGBUS go to the handler
 * that was there before. Threads must not block SIGBUS. -errno.
 */
INF_PUBLIC int inf_files_guard(void);
/* Looks at sizes and times of the model's files: 0, or -ESTALE with the reason. May be called on
 * any thread. */
INF_PUBLIC int inf_model_check(const struct inf_model *model, struct inf_err *reterr);
INF_PUBLIC struct inf_model *inf_model_ref(struct inf_model *model);
/* Drops one reference; takes NULL; returns NULL. */
INF_PUBLIC struct inf_model *inf_model_unref(struct inf_model *model);

/* What a model can be wanted for. */
enum inf_model_use {
    INF_USE_GENERATE,      /* an engine's: text that goes on */
    INF_USE_VECTORS,       /* an embedder's: a vector of each text */
    INF_USE_TOKEN_VECTORS, /* a vector of each token */
    INF_USE_SCORES,        /* how well a text answers another */
    INF_USE_SPEECH,        /* a transcriber's: text of speech */
};

/* Whether the model can be used so, which costs little beside making what computes. Two threads
 * must not call it for the same model at the same time. 0; -EOPNOTSUPP: @reterr says why not;
 * -ENOMEM. */
INF_PUBLIC int inf_model_suits(struct inf_model *model, enum inf_model_use use,
                               struct inf_err *reterr);

INF_PUBLIC const struct inf_model_info *inf_model_info(const struct inf_model *model);
/* Borrowed, live as long as the model. The template is NULL when the model brings none. */
INF_PUBLIC const struct inf_tokenizer *inf_model_tokenizer(const struct inf_model *model);
INF_PUBLIC const struct inf_chat_template *inf_model_chat_template(const struct inf_model *model);

/* Metadata pairs as text, for `sconce info`: returns false past the last one. */
INF_PUBLIC bool inf_model_meta(const struct inf_model *model, size_t i, const char **ret_key,
                               const char **ret_value);

#ifdef __cplusplus
}
#endif
#endif
