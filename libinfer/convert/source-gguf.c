/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the tensors of a GGUF file for a new file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "convert/source-impl.h"
#include "core/err.h"
#include "format/gguf/ggml-type.h"
#include "quant/dtype.h"

static int source_add_gguf(struct source *s, const struct format_tensor *t, struct inf_err *reterr)
{
    struct source_tensor *to = &s->tensors[s->n];
    const uint64_t n_matrices = t->dims[2] * t->dims[3];
    uint32_t type;

    if (!ggml_type_find(t->type_name, &type))
        return err_set(reterr, EOPNOTSUPP, "tensor %.64s is stored as %s, which is not known",
                       t->name, t->type_name);
    if (t->dims[0] > UINT32_MAX || t->dims[1] > UINT32_MAX || n_matrices > UINT32_MAX)
        return err_set(reterr, EOPNOTSUPP, "tensor %.64s is too large", t->name);
    *to = (struct source_tensor){
        .name = t->name,
        .n_dims = t->n_dims,
        .type = type,
        .quantized = ggml_type(type)->block_elems > 1,
        .bytes = t->data,
        .size = t->size,
    };
    memcpy(to->dims, t->dims, sizeof(to->dims));
    if (t->dtype != INF_DTYPE_INVALID)
        to->w = (struct weight){
            .data = t->data,
            .dtype = t->dtype,
            .rows = (uint32_t)t->dims[1],
            .cols = (uint32_t)t->dims[0],
            .n_experts = n_matrices > 1 ? (uint32_t)n_matrices : 0,
            .expert_bytes = t->size / n_matrices,
            .name = t->name,
        };
    s->n++;
    return 0;
}

int source_open_gguf(struct source *s, const char *path, struct inf_err *reterr)
{
    struct gguf_str arch;
    int r;

    r = gguf_open(path, &s->gguf, reterr);
    if (r < 0)
        return r;
    if (gguf_string(s->gguf, "general.architecture", &arch))
        snprintf(s->arch, sizeof(s->arch), "%.*s", (int)MIN(arch.len, sizeof(s->arch) - 1),
                 arch.data);
    s->tensors = NEW(struct source_tensor, gguf_n_tensors(s->gguf));
    if (!s->tensors)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; r == 0 && i < gguf_n_tensors(s->gguf); i++)
        r = source_add_gguf(s, gguf_tensor_at(s->gguf, i), reterr);
    return r;
}
