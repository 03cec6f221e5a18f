/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What struct inf_model and struct inf_engine are, for the files of api/. */

#include <stdatomic.h>

#include <infer/engine.h>
#include <infer/model.h>

#include "format/format.h"
#include "model/model.h"
#include "sched/sched.h"
#include "tokenizer/tokenizer.h"

struct inf_model {
    atomic_uint n_refs;
    struct format *format; /* NULL: a lone tokenizer file */
    struct model *model;   /* NULL: vocabulary only */
    struct inf_tokenizer *tok;
    struct inf_chat_template *tmpl;
    struct inf_model_info info;
    char dtype_text[64];
    char template_error[256];
};

struct inf_engine {
    struct inf_model *model;
    struct sched *sched;
};

/* What a runner of @model shall hold. */
struct setup {
    const char *device, *isa, *kv_type;
    uint32_t n_threads;
    uint32_t n_ctx;    /* positions of one sequence */
    uint32_t n_blocks; /* 0: what one sequence needs */
    uint32_t max_rows, max_logits, max_seqs;
};

/* The layout of the model's KV cache. Without a type, models with F32 weights, which are
 * references, keep F32, and others F16. -EINVAL: unknown type; -EOPNOTSUPP: not for this model. */
int setup_kv_layout(const struct inf_model *model, const char *kv_type,
                    struct kv_layout *ret_layout, struct inf_err *reterr);
/* A backend with a compiled plan. -EINVAL: no weights, unknown names; else as backend_new() and
 * setup_kv_layout(). */
int setup_runner(const struct inf_model *model, const struct setup *setup,
                 struct runner **ret_runner, struct inf_err *reterr);
