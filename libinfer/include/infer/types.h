/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_TYPES_H
#define INFER_TYPES_H

/*
 * Types that every public header of libinfer shares
 *
 * The library never logs to a terminal, never exits and never opens a socket. Functions return 0
 * (or a documented positive condition), or a negative errno value; those that read files or other
 * untrusted input also fill a struct inf_err.
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

/* Number formats of weights and of the KV cache. The values are ours, not those of a file format.
 */
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
    INF_DTYPE_N,
    INF_DTYPE_INVALID = -22,
};

/* What went wrong, for people. Written only when the call fails; the caller owns it. */
struct inf_err {
    int code;       /* positive errno value */
    int64_t offset; /* byte offset in the input, or -1 */
    char text[240]; /* one sentence, no newline, valid UTF-8 */
};

/* Tells @fraction (0..1) of a long operation. Called on the thread that called the library. */
typedef void (*inf_progress_fn)(void *data, double fraction);

/* The library's version, "major.minor.patch". */
INF_PUBLIC const char *inf_version(void);

/* The lower-case name of a number format ("q4_k"), or NULL for values outside the enum. */
INF_PUBLIC const char *inf_dtype_name(enum inf_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
