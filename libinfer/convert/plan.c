/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans a conversion: the format of each tensor, its importance, its place, and the header.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "convert/convert.h"
#include "core/err.h"
#include "core/file.h"
#include "format/gguf/ggml-type.h"
#include "quant/dtype.h"

/* general.quantization_version: the revision of the block layouts of llama.cpp. */
#define QUANT_VERSION 2u

static uint64_t model_number(const struct source *s, const char *key)
{
    char full[128];
    uint64_t x = 0;

    snprintf(full, sizeof(full), "%s.%s", source_arch(s), key);
    return source_number(s, full, &x) ? x : 0;
}

static int find_type(const char *name, uint32_t *ret_type, struct inf_err *reterr)
{
    *ret_type = MIX_NO_TYPE;
    if (!name || ggml_type_find(name, ret_type))
        return 0;
    return err_set(reterr, EINVAL, "there is no number format \"%.32s\"", name);
}

/* Describes the model to the rules of the mix. */
static int plan_model(struct mix_model *m, const struct inf_convert_params *params,
                      const struct source *s, struct inf_err *reterr)
{
    int r;

    *m = (struct mix_model){.tied = true, .pure = params->pure, .importance = params->imatrix};
    if (!params->type || !mix_find(params->type, &m->mix))
        return err_set(reterr, EINVAL, "there is no type \"%.32s\"",
                       params->type ? params->type : "");
    r = find_type(params->output_type, &m->output_type, reterr);
    if (r == 0)
        r = find_type(params->embedding_type, &m->embedding_type, reterr);
    snprintf(m->arch, sizeof(m->arch), "%s", source_arch(s));
    m->n_layers = (uint32_t)MIN(model_number(s, "block_count"), INT32_MAX);
    m->n_heads = (uint32_t)MIN(model_number(s, "attention.head_count"), INT32_MAX);
    m->n_kv_heads = (uint32_t)MIN(model_number(s, "attention.head_count_kv"), INT32_MAX);
    m->n_experts = (uint32_t)MIN(model_number(s, "expert_count"), INT32_MAX);
    for (size_t i = 0; i < source_n(s); i++) {
        m->n_value_tensors += mix_is_values(source_at(s, i)->name);
        if (strcmp(source_at(s, i)->name, "output.weight") == 0)
            m->tied = false;
    }
    return r;
}

/* Checks that a tensor can be given its new format. */
static int plan_check(const struct source_tensor *from, uint32_t type, struct inf_err *reterr)
{
    const struct ggml_type *to = ggml_type(type);

    if (type == from->type && from->bytes)
        return 0;
    if (!from->w.data)
        return err_set(reterr, EOPNOTSUPP, "tensor %.64s is stored as %s, which cannot be decoded",
                       from->name, ggml_type(from->type)->name);
    if (to->dtype == INF_DTYPE_INVALID || !dtype_info(to->dtype)->encode)
        return err_set(reterr, EOPNOTSUPP, "numbers cannot be encoded as %s", to->name);
    if (from->dims[0] % to->block_elems != 0)
        return err_set(reterr, EINVAL, "the rows of tensor %.64s are not whole blocks of %s",
                       from->name, to->name);
    return 0;
}

static int plan_importance(struct plan_tensor *t, const struct imatrix *im, struct inf_err *reterr)
{
    const struct source_tensor *from = t->from;
    const uint64_t want = from->dims[0] * from->dims[2] * from->dims[3];
    uint64_t n = 0;

    t->importance = im && t->type != from->type ? imatrix_find(im, from->name, &n) : NULL;
    /* An importance matrix that was made from a directory names a weight as the model binds it. */
    if (im && !t->importance && t->type != from->type && from->w.name)
        t->importance = imatrix_find(im, from->w.name, &n);
    if (!t->importance || n == want)
        return 0;
    t->importance = NULL;
    if (strcmp(from->name, "token_embd.weight") == 0 ||
        strcmp(from->name, "per_layer_token_embd.weight") == 0)
        return 0;
    return err_set(reterr, EINVAL,
                   "the importance matrix has %llu numbers for tensor %.64s, which needs %llu",
                   (unsigned long long)n, from->name, (unsigned long long)want);
}

/* Finds out whether the integers of a quantized matrix can be kept. */
static void plan_repack(struct plan_tensor *t)
{
    const struct source_tensor *from = t->from;

    t->repacked = from->w.data && from->quantized && !from->order.columns &&
                  from->dims[1] <= from->w.rows && (t->type != from->type || !from->bytes) &&
                  repack_init(&t->repack, &from->w, NULL) == 0 &&
                  repack_fits_blocks(&t->repack, ggml_type(t->type)->dtype);
}

static int plan_tensor(struct plan *p, const struct inf_convert_params *params, struct mix_model *m,
                       const struct source_tensor *from, const struct imatrix *im,
                       struct inf_err *reterr)
{
    struct plan_tensor *t = &p->tensors[p->n];
    const struct mix_tensor mt = {from->name, from->n_dims, from->dims, from->type};
    int r;

    t->from = from;
    t->type = mix_choose(m, &mt);
    r = plan_check(from, t->type, reterr);
    if (r == 0)
        r = plan_importance(t, im, reterr);
    if (r < 0)
        return r;
    p->n++;
    plan_repack(t);
    if (t->type == from->type || t->importance || !mix_needs_importance(m, from->name, t->type))
        return 0;
    p->needs_importance = true;
    return params->dry_run ? 0
                           : err_set(reterr, EINVAL,
                                     "%s needs an importance matrix with numbers for tensor %.64s",
                                     ggml_type(t->type)->name, from->name);
}

static void plan_put_meta(struct gguf_out *w, const struct inf_convert_params *params,
                          const struct mix_model *m, const struct source *s,
                          const struct imatrix *im)
{
    uint64_t type = mix_info(m->mix)->file_type;

    source_put_meta(s, w);
    if (m->mix == MIX_COPY)
        source_number(s, "general.file_type", &type);
    gguf_out_u32(w, "general.quantization_version", QUANT_VERSION);
    gguf_out_u32(w, "general.file_type", (uint32_t)type);
    if (!im)
        return;
    gguf_out_string(w, "quantize.imatrix.file", path_base(params->imatrix),
                    strlen(path_base(params->imatrix)));
    if (imatrix_dataset(im)[0])
        gguf_out_string(w, "quantize.imatrix.dataset", imatrix_dataset(im),
                        strlen(imatrix_dataset(im)));
    gguf_out_u32(w, "quantize.imatrix.entries_count", (uint32_t)imatrix_n_entries(im));
    if (imatrix_n_chunks(im) > 0)
        gguf_out_u32(w, "quantize.imatrix.chunks_count", imatrix_n_chunks(im));
}

static int plan_header(struct plan *p, const struct inf_convert_params *params,
                       const struct mix_model *m, const struct source *s, const struct imatrix *im,
                       struct inf_err *reterr)
{
    struct gguf_out w = {0};
    int r = 0;

    plan_put_meta(&w, params, m, s, im);
    for (size_t i = 0; i < p->n; i++) {
        const struct source_tensor *from = p->tensors[i].from;

        r = gguf_out_tensor(&w, from->name, from->dims, from->n_dims, p->tensors[i].type);
        if (r == 0)
            p->tensors[i].place = w.places[i];
    }
    if (r == 0)
        r = gguf_out_header(&w, &p->header, &p->header_size);
    if (r == 0 && !size_add(p->header_size, w.data_size, &p->total))
        r = -EOVERFLOW;
    gguf_out_done(&w);
    return r == 0 ? 0
                  : err_set(reterr, -r,
                            r == -ENOMEM ? "out of memory" : "the new file would be too large");
}

int plan_init(struct plan *p, const struct inf_convert_params *params, const struct source *s,
              const struct imatrix *im, struct inf_err *reterr)
{
    _cleanup_free_ struct mix_override *overrides = NULL;
    struct mix_model m;
    size_t n = 0;
    int r;

    r = plan_model(&m, params, s, reterr);
    p->tensors = NEW(struct plan_tensor, source_n(s));
    overrides = NEW(struct mix_override, params->n_tensor_types);
    if (r == 0 && (!p->tensors || !overrides))
        r = err_set(reterr, ENOMEM, "out of memory");
    for (; r == 0 && n < params->n_tensor_types; n++) {
        r = mix_override_init(&overrides[n], params->tensor_types[n], reterr);
        if (r < 0)
            break;
    }
    m.overrides = overrides;
    m.n_overrides = n;
    for (size_t i = 0; r == 0 && i < source_n(s); i++)
        r = plan_tensor(p, params, &m, source_at(s, i), im, reterr);
    if (r == 0)
        r = plan_header(p, params, &m, s, im, reterr);
    p->n_fallback = m.n_fallback;
    while (n > 0)
        mix_override_done(&overrides[--n]);
    return r;
}

void plan_done(struct plan *p)
{
    free(p->tensors);
    free(p->header);
    *p = (struct plan){0};
}
