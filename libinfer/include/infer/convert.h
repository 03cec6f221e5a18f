/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_CONVERT_H
#define INFER_CONVERT_H

/*
 * Conversion of models to other number formats
 *
 * inf_convert() writes a GGUF file from a model, with each tensor in the number format that a named
 * mix chooses. The mixes and their choices are those of llama.cpp (llama-quantize). Other types
 * write a directory in Hugging Face layout: types such as MLX4 write the numbers that mlx-lm 0.32
 * writes, and the types MLX, GPTQ and AWQ keep the integers of a quantized model. inf_imatrix()
 * makes an importance matrix, which tells how much each column of a matrix matters.
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One tensor of the new file. The texts are borrowed. */
struct inf_convert_tensor {
    const char *name;
    const char *from, *to; /* number formats: "BF16", "Q4_K" */
    uint64_t dims[4];      /* dims[0] elements are a row */
    uint32_t n_dims;
    uint64_t bytes_from, bytes_to;
    size_t i, n;     /* it is tensor i of n */
    bool copied;     /* it keeps the model's bytes, or its codes in another layout */
    bool resumed;    /* an earlier, interrupted conversion wrote it */
    bool importance; /* its columns are weighted by the importance matrix */
    /* The root mean square of (decoded - original), divided by that of the original numbers; 0 if
     * the tensor was copied or resumed, or in a dry run. */
    double error;
};

struct inf_convert_params {
    const char *path;    /* the model: a GGUF file, or a directory */
    const char *out;     /* the new file or directory; NULL in a dry run */
    const char *type;    /* a mix: "Q4_K_M", "Q8_0", "F16", "COPY"…, or a type of directories:
                            "MLX4", "MLX4_G32", "MLX_MXFP4", "MLX", "GPTQ", "AWQ"…; in upper or
                            lower case */
    const char *imatrix; /* a file with an importance matrix, or NULL */
    /* Number formats of the head (output.weight) and of the embedding; NULL: the mix chooses. */
    const char *output_type, *embedding_type;
    /* [n_tensor_types]: "PATTERN=TYPE". PATTERN is a regular expression (PCRE2); the first that
     * matches a part of a tensor's name gives the tensor's format. */
    const char *const *tensor_types;
    size_t n_tensor_types;
    uint32_t n_threads; /* 0: all */
    bool pure;          /* important tensors do not get larger formats than others */
    bool dry_run;       /* choose the formats, but compute and write nothing */
    bool replace;       /* replace an existing file */
    /* Types of MLX, GPTQ and AWQ: a new shard begins before a shard would become larger than this;
     * 0: 5 GiB. */
    uint64_t shard_bytes;
    /* Called for each tensor, in the caller's thread, after it was written; NULL: not called. If it
     * returns false, the conversion ends with -ECANCELED, and can be continued later. */
    bool (*tensor)(void *data, const struct inf_convert_tensor *t);
    void *tensor_data;
    inf_progress_fn progress; /* NULL: not called */
    void *progress_data;
};

struct inf_convert_result {
    uint64_t n_tensors, n_elems;
    uint64_t n_requantized; /* tensors that were quantized before and are quantized again */
    uint64_t n_fallback;    /* tensors that got another format because their rows are not whole
                               blocks of the chosen format */
    uint64_t bytes_from, bytes_to; /* of the tensors */
    uint64_t file_bytes;           /* of the new file */
    bool needs_importance; /* in a dry run: the conversion would need an importance matrix */
};

/*
 * Converts a model. The new file is written as OUT.part and gets its name when it is complete. If a
 * file OUT.part of the same conversion exists, its tensors are kept and the conversion continues
 * after them. Each tensor is decoded again after it was encoded, and its error is limited: a
 * larger error ends the conversion with -EIO. The result does not depend on the number of threads.
 *
 * Returns 0, or: -EINVAL: a parameter is wrong, or the mix needs an importance matrix; -EEXIST: OUT
 * exists; -ENOTEMPTY: the directory OUT exists; -EBUSY: another process writes OUT.part; -ENOSPC:
 * the disk has no room; -ECANCELED; -EOPNOTSUPP: a tensor or the model cannot be converted;
 * -ESTALE: the model changed while it was read; and errors of inf_model_open().
 */
INF_PUBLIC int inf_convert(const struct inf_convert_params *params,
                           struct inf_convert_result *ret_result, struct inf_err *reterr);

/* Returns the name of type @i: first the mixes, then the types of directories; NULL: there are no
 * more. */
INF_PUBLIC const char *inf_convert_type(size_t i);

struct inf_imatrix_params {
    struct inf_model *model;
    const char *out;     /* the new file */
    const char *dataset; /* name of the text, for the file; NULL: none */
    const char *isa;     /* as in inf_engine_params */
    uint32_t n_threads;  /* 0: all */
    uint32_t n_ctx;      /* tokens of a chunk, at least 16; 0: 512 */
    uint32_t n_chunks;   /* limit; 0: all whole chunks of the text */
    bool head;           /* also the head (output.weight) */
    bool replace;        /* replace an existing file */
    /* Called after each chunk, in the caller's thread; NULL: not called. If it returns false, the
     * computation ends with -ECANCELED. */
    bool (*chunk)(void *data, uint32_t n_done, uint32_t n_chunks);
    void *chunk_data;
};

struct inf_imatrix_result {
    uint64_t n_tokens, n_matrices;
    uint32_t n_chunks;
};

/*
 * Runs the model over a text of @n_tokens tokens on the CPU, and writes a GGUF file in the form of
 * llama-imatrix of llama.cpp (tools/imatrix/README.md of August 2026). For each column of each
 * matrix, the file has the sum of the squares of the numbers by which the column was multiplied.
 * The matrices of experts have a sum for each expert. The text is cut into chunks as in
 * inf_perplexity(). The result does not depend on the number of threads. The caller keeps @tokens.
 * -EINVAL: the text is shorter than one chunk, a token is not in the vocabulary, or a size is out
 * of range; -EEXIST: the file exists; -EOPNOTSUPP: the model does not generate text; -EBADMSG: a
 * number in the model is not finite; -ECANCELED; other errors are those of inf_engine_new().
 */
INF_PUBLIC int inf_imatrix(const struct inf_imatrix_params *params, const int32_t *tokens,
                           size_t n_tokens, struct inf_imatrix_result *ret_result,
                           struct inf_err *reterr);

#ifdef __cplusplus
}
#endif
#endif
