/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_TYPES_H
#define INFER_TYPES_H

/*
 * Types that all public headers of libinfer share
 *
 * The library never logs to a terminal, never exits and never opens a socket. Functions return 0 or
 * a documented positive condition on success and a negative errno value on failure. Functions that
 * read files or other untrusted input also fill a struct inf_err.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define INF_PUBLIC __attribute__((visibility("default")))
#else
#define INF_PUBLIC
#endif

/* Number formats of weights. The values of the enum are specific to this library and appear in no
 * file format. */
enum inf_dtype {
    INF_DTYPE_F32,
    INF_DTYPE_F16,
    INF_DTYPE_BF16,
    INF_DTYPE_Q8_0,
    INF_DTYPE_Q4_0,
    INF_DTYPE_Q4_1,
    INF_DTYPE_Q5_0,
    INF_DTYPE_Q5_1,
    INF_DTYPE_Q4_K,
    INF_DTYPE_Q5_K,
    INF_DTYPE_Q6_K,
    INF_DTYPE_MXFP4,
    INF_DTYPE_TQ2_0,
    INF_DTYPE_TQ1_0,
    INF_DTYPE_IQ2_XXS,
    INF_DTYPE_IQ2_XS,
    INF_DTYPE_IQ2_S,
    INF_DTYPE_IQ3_XXS,
    INF_DTYPE_IQ3_S,
    INF_DTYPE_IQ1_S,
    INF_DTYPE_IQ1_M,
    INF_DTYPE_Q2_K,
    INF_DTYPE_Q3_K,
    INF_DTYPE_IQ4_NL,
    INF_DTYPE_IQ4_XS,
    INF_DTYPE_NVFP4,
    INF_DTYPE_Q1_0,
    INF_DTYPE_Q2_0,
    INF_DTYPE_MLX2,
    INF_DTYPE_MLX3,
    INF_DTYPE_MLX4,
    INF_DTYPE_MLX5,
    INF_DTYPE_MLX6,
    INF_DTYPE_MLX8,
    INF_DTYPE_MXFP8,
    INF_DTYPE_NVFP4_PLANES,
    INF_DTYPE_BITNET,
    INF_DTYPE_FP4_PLANES,
    INF_DTYPE_GPTQ2,
    INF_DTYPE_GPTQ3,
    INF_DTYPE_GPTQ4,
    INF_DTYPE_GPTQ8,
    INF_DTYPE_AWQ4,
    INF_DTYPE_CT4,
    INF_DTYPE_CT8,
    INF_DTYPE_INT8,
    INF_DTYPE_FP8,
    INF_DTYPE_NF4,
    INF_DTYPE_CTFP4,
    INF_DTYPE_N,
    INF_DTYPE_INVALID = -22,
};

/* Size of an error's text in bytes. The longest text names all architectures. */
#define INF_ERR_BYTES 480

/* Describes an error for people. The caller owns the struct; a function writes to it only if the
 * function fails. */
struct inf_err {
    int code;                 /* positive errno value */
    int64_t offset;           /* byte offset in the input, or -1 */
    char text[INF_ERR_BYTES]; /* one sentence without newline, valid UTF-8 */
};

/* Reports that the @fraction (0 … 1) of a long operation is done. The library calls this function
 * on the thread that called the operation. */
typedef void (*inf_progress_fn)(void *data, double fraction);

/* Returns the version of the library, "major.minor.patch". */
INF_PUBLIC const char *inf_version(void);

/* Returns the lower-case name of a number format ("q4_k"); NULL if the value is not in the enum. */
INF_PUBLIC const char *inf_dtype_name(enum inf_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
