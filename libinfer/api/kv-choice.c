/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the number format of keys and values that "auto" means.
 *
 * A table has the measured losses and speeds of the formats. The memory of a text depends on the
 * model and on the length of the text: with "+recent", a long text takes less memory than with
 * q8_0:q4_0, and a short text takes more. Therefore it also depends on both which formats are
 * dominated (infer/kv.h).
 */
#include <errno.h>
#include <string.h>

#include <infer/kv.h>

#include "api/handle.h"
#include "core/cgroup.h"
#include "core/err.h"
#include "quant/codec.h"

/* "auto" takes no format whose divergence is larger, in nats. */
#define CHOICE_MAX_DIVERGENCE 0.01
/* Divergences and speeds that differ by at most this part count as equal, because measurements
 * vary. */
#define CHOICE_NOISE 0.10

/* The formats from the most precise one to the least precise one. docs/benchmarks.md says how the
 * numbers were measured. */
static const struct measured {
    const char *name;
    double divergence, decode, prefill;
} table[] = {
    {"f32", 0, 0.45, 1.11},
    {"f16", 0.0000003, 1.00, 1.00},
    {"bf16", 0.000042, 0.91, 1.99},
    {"planar3", 0.00072, 0.01, 0.15},
    {"q8_0", 0.00075, 1.54, 1.63},
    {"affine4_32+recent", 0.0015, 1.92, 1.42},
    {"q4_0+recent", 0.0017, 1.77, 1.55},
    {"planar4", 0.0023, 0.01, 0.15},
    {"q6_0", 0.0030, 1.83, 1.59},
    {"q4_0:q3_0+recent", 0.0039, 2.57, 1.75},
    {"q8_0:q4_0", 0.0044, 1.39, 1.45},
    {"fp8", 0.0057, 1.55, 0.92},
    {"q5_0", 0.020, 1.94, 1.35},
    {"iso4", 0.023, 0.02, 0.25},
    {"rotor4", 0.025, 0.03, 0.28},
    {"affine4_32", 0.031, 1.74, 1.46},
    {"affine4_64", 0.047, 1.77, 1.61},
    {"q4_0", 0.051, 2.08, 1.67},
    {"q3_0+recent", 0.059, 2.07, 1.51},
    {"q4_0:q3_0", 0.069, 2.64, 1.84},
    {"turbo4", 0.072, 2.30, 1.98},
    {"rotor3", 0.081, 0.02, 0.28},
    {"iso3", 0.092, 0.02, 0.23},
    {"turbo4_qjl:turbo4", 0.12, 1.28, 1.41},
    {"affine3_32", 0.15, 1.89, 1.34},
    {"q3_0", 0.21, 2.20, 1.86},
    {"turbo3", 0.25, 1.95, 1.69},
    {"affine3_64", 0.32, 2.14, 1.40},
    {"turbo3_qjl:turbo3", 0.5, 1.60, 1.40},
    {"q2_0", 1.2, 2.27, 2.02},
    {"affine2_32", 1.3, 2.15, 1.36},
    {"turbo2_qjl:turbo2", 1.5, 1.94, 1.56},
    {"turbo2", 1.9, 2.51, 2.03},
    {"affine2_64", 2.3, 2.45, 1.75},
};

_Static_assert(ARRAY_SIZE(table) <= INF_MAX_KV_TYPES, "INF_MAX_KV_TYPES is too small");

/* The formats in the context of a model. A format that the model cannot have is without a layout.
 */
struct choice {
    struct inf_kv_type types[ARRAY_SIZE(table)];
    struct kv_layout layouts[ARRAY_SIZE(table)];
};

/* Returns whether @a is larger than @b by more than measurements vary. */
static bool is_more(double a, double b)
{
    return a > b * (1 + CHOICE_NOISE);
}

/* Returns whether @a dominates @b. */
static bool type_dominates(const struct inf_kv_type *a, const struct inf_kv_type *b)
{
    const bool worse = a->bytes > b->bytes || is_more(a->divergence, b->divergence) ||
                       is_more(b->decode, a->decode) || is_more(b->prefill, a->prefill);

    return !worse && (a->bytes < b->bytes || is_more(b->divergence, a->divergence) ||
                      is_more(a->decode, b->decode) || is_more(a->prefill, b->prefill));
}

/* Finds which formats are dominated, and which formats "auto" may take. Each format that "auto" may
 * take needs fewer bytes than the more precise formats before it that "auto" may take. */
static void choice_compare(struct choice *c, bool f32)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_kv_type *type = &c->types[i];

        for (size_t k = 0; type->bytes > 0 && k < ARRAY_SIZE(table) && !type->better; k++)
            if (c->types[k].bytes > 0 && type_dominates(&c->types[k], type))
                type->better = c->types[k].name;
        type->automatic = type->bytes > 0 && type->bytes < least && !type->better &&
                          type->divergence <= CHOICE_MAX_DIVERGENCE && (i > 0 || f32);
        if (type->automatic)
            least = type->bytes;
    }
}

/* Describes the formats for a text of @n_ctx tokens. Formats that @backend does not support count
 * as formats that the model cannot have; NULL: the CPU, which supports all. -ENOMEM, -EINVAL. */
static int choice_make(const struct inf_model *model, struct backend *backend, uint64_t n_ctx,
                       struct choice *c, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    const int r = model_build(model->model, &graph, reterr);

    if (r < 0)
        return r;
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_kv_type *type = &c->types[i];
        struct inf_err ignored;

        type->name = table[i].name;
        type->divergence = table[i].divergence;
        type->decode = table[i].decode;
        type->prefill = table[i].prefill;
        if (setup_layout_of_graph(model, graph, type->name, &c->layouts[i], &ignored) == 0 &&
            (!backend || setup_kv_check(backend, &c->layouts[i], &ignored) == 0))
            type->bytes = setup_text_bytes(&c->layouts[i], n_ctx);
    }
    choice_compare(c, model->info.dtype == INF_DTYPE_F32);
    return 0;
}

/* Returns the format for a KV cache of an engine; see inf_model_kv_auto(). */
static size_t choice_take(const struct choice *c, const struct inf_engine_params *p,
                          struct backend *backend, uint64_t room, const struct setup *setup)
{
    size_t smallest = SIZE_MAX;

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (!c->types[i].automatic)
            continue;
        if (setup_kv_fits(p, &c->layouts[i], backend, room, setup))
            return i;
        if (smallest == SIZE_MAX || c->types[i].bytes < c->types[smallest].bytes)
            smallest = i;
    }
    return smallest;
}

int kv_choice_of_engine(const struct inf_engine_params *p, struct backend *backend, uint64_t room,
                        const struct setup *setup, const char **ret_type, struct inf_err *reterr)
{
    struct choice c;
    size_t i;
    const int r = choice_make(p->model, backend, setup->n_ctx, &c, reterr);

    if (r < 0)
        return r;
    i = choice_take(&c, p, backend, room, setup);
    /* A model without keys and values takes no bytes in any format. */
    *ret_type = i == SIZE_MAX ? "auto" : c.types[i].name;
    return 0;
}

int inf_model_kv_types(const struct inf_model *model, uint64_t n_ctx, struct inf_kv_type *ret_types,
                       size_t *ret_n, struct inf_err *reterr)
{
    struct choice c;
    const int r = model->model ? choice_make(model, NULL, n_ctx, &c, reterr)
                               : model_refuse_text(model, reterr);

    if (r < 0)
        return r;
    memcpy(ret_types, c.types, sizeof(c.types));
    *ret_n = ARRAY_SIZE(table);
    return 0;
}

int inf_model_kv_auto(const struct inf_engine_params *params, const char **ret_type,
                      struct inf_err *reterr)
{
    struct setup setup;
    int r = params->model->model ? 0 : model_refuse_text(params->model, reterr);

    if (r == 0)
        r = setup_of_engine(params, &setup, reterr);
    return r < 0 ? r
                 : kv_choice_of_engine(params, NULL, memory_bytes() / 4, &setup, ret_type, reterr);
}
