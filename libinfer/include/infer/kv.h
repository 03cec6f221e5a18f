/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_KV_H
#define INFER_KV_H

/* The number formats of keys and values, what they cost, and which of them "auto" means */

#include <infer/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A number format of keys and values in the context of a model. The loss and the speeds were
 * measured once (docs/benchmarks.md, "The table of auto"); the bytes are those of the model.
 *
 * A format is dominated if another one that the model can have is at least as good in bytes,
 * divergence and both speeds, and better in one of them. Speeds that differ by at most 10 % count
 * as equal.
 */
struct inf_kv_type {
    const char *name;   /* kv_type in inf_engine_params; static */
    uint64_t bytes;     /* memory of a text of the context's length; 0: the model cannot have the
                           format; then `automatic` is false, and `better` is NULL */
    double divergence;  /* from f32, in nats: Gemma 3 270M, texts of 512 or 4,096 tokens */
    double decode;      /* speed of attention ÷ that of f16: one row after 8,192 tokens */
    double prefill;     /* the same for 512 rows (f32: 64) after 4,096 tokens */
    bool automatic;     /* "auto" may mean this format, if the device has it */
    const char *better; /* a format that dominates this one; NULL: none; static */
};
/* The largest number of formats that inf_model_kv_types() describes. */
#define INF_MAX_KV_TYPES 48

/* Describes the formats in the order in which "auto" tries them: the most precise first. @n_ctx:
 * the length of the text in tokens. @ret_types: [INF_MAX_KV_TYPES]. Sets *ret_n to the number of
 * formats. Returns 0; -EINVAL: the model cannot generate text; -ENOMEM. */
INF_PUBLIC int inf_model_kv_types(const struct inf_model *model, uint64_t n_ctx,
                                  struct inf_kv_type *ret_types, size_t *ret_n,
                                  struct inf_err *reterr);
/*
 * Finds the format that "auto" means for an engine with these parameters on the CPU: the first
 * automatic format with which one text of n_ctx tokens fits into the memory of the KV cache
 * (kv_bytes, or its default). If none fits, it is the smallest automatic format. *ret_type: static.
 * Returns the errors of inf_model_kv_types().
 */
INF_PUBLIC int inf_model_kv_auto(const struct inf_engine_params *params, const char **ret_type,
                                 struct inf_err *reterr);

/*
 * Computes the memory that the drafts of an engine with these parameters take for a text, besides
 * that of inf_model_kv_size(): the keys and values of draft_model, of a draft head, or of the
 * model's own layer that predicts further tokens. A drafter whose heads do not allow kv_type has
 * the format of "auto". All numbers are 0 if no model drafts. With the kind "auto", a device that
 * cannot compute the layer of the model drafts without it, and takes no memory for it. Returns 0;
 * -EINVAL; -EOPNOTSUPP; -ENOMEM.
 */
INF_PUBLIC int inf_model_draft_kv_size(const struct inf_engine_params *params,
                                       struct inf_kv_size *ret_size, struct inf_err *reterr);

/*
 * Tells whether the engine stores keys and values in the format @kv_type (see the parameters).
 * "auto" is the format that "auto" meant when the engine was made. Returns 0 if it does; 1 if it
 * does not, but another engine for this model and device could; -EINVAL: unknown format;
 * -EOPNOTSUPP with the reason: the model's heads or the device do not allow the format. Any thread
 * may call this function.
 */
INF_PUBLIC int inf_engine_kv_type(const struct inf_engine *engine, const char *kv_type,
                                  struct inf_err *reterr);
/* Returns the format that the engine uses, such as "q8_0" or "q4_0:q3_0+recent". Borrowed. */
INF_PUBLIC const char *inf_engine_kv_name(const struct inf_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
