/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the format of each matrix of a new directory.
 *
 * Matrices whose rows are not whole groups stay floats, as in mlx-lm 0.32 (utils.quantize_model).
 * The recipes that mix two widths are those of mlx-lm's convert. As in mlx-lm, the routers of some
 * models get 8 bits.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "convert/dir.h"
#include "core/err.h"
#include "core/text.h"
#include "model/arch.h"
#include "quant/dtype.h"

#define AFFINE(n)                                                                                  \
    {                                                                                              \
        .layout = DIR_MLX, .form = { INF_DTYPE_MLX##n, 64 }                                        \
    }
#define MIXED(a, b)                                                                                \
    {                                                                                              \
        .layout = DIR_MLX, .form = {INF_DTYPE_MLX##a, 64}, .high = {INF_DTYPE_MLX##b, 64},         \
        .mixed = true                                                                              \
    }
#define FIXED(layout_, dtype, group)                                                               \
    {                                                                                              \
        .layout = layout_, .form = { INF_DTYPE_##dtype, group }                                    \
    }

static const struct dir_named {
    const char *name;
    struct dir_type type;
} types[] = {
    {"MLX", FIXED(DIR_MLX, INVALID, 0)},
    {"MLX2", AFFINE(2)},
    {"MLX3", AFFINE(3)},
    {"MLX4", AFFINE(4)},
    {"MLX5", AFFINE(5)},
    {"MLX6", AFFINE(6)},
    {"MLX8", AFFINE(8)},
    {"MLX_MIXED_2_6", MIXED(2, 6)},
    {"MLX_MIXED_3_4", MIXED(3, 4)},
    {"MLX_MIXED_3_6", MIXED(3, 6)},
    {"MLX_MIXED_4_6", MIXED(4, 6)},
    {"MLX_MXFP4", FIXED(DIR_MLX, FP4_PLANES, 32)},
    {"MLX_MXFP8", FIXED(DIR_MLX, MXFP8, 32)},
    {"MLX_NVFP4", FIXED(DIR_MLX, NVFP4_PLANES, 16)},
    {"GPTQ", FIXED(DIR_GPTQ, INVALID, 0)},
    {"AWQ", FIXED(DIR_AWQ, INVALID, 0)},
};

/* Reads the end of a name: "" or "_G" and 32, 64 or 128. */
static bool group_read(const char *end, struct dir_type *t)
{
    static const uint32_t groups[] = {32, 64, 128};
    char text[8];

    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        snprintf(text, sizeof(text), "_G%u", groups[i]);
        if (strcasecmp(end, text) == 0 && t->form.dtype != INF_DTYPE_INVALID &&
            dtype_affine(t->form.dtype)) {
            t->form.group = groups[i];
            t->high.group = t->mixed ? groups[i] : 0;
            return true;
        }
    }
    return !*end;
}

bool dir_type_find(const char *name, struct dir_type *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        const size_t n = strlen(types[i].name);

        *ret = types[i].type;
        if (strncasecmp(name, types[i].name, n) == 0 && group_read(name + n, ret))
            return true;
    }
    return false;
}

const char *dir_type_name(size_t i)
{
    return i < ARRAY_SIZE(types) ? types[i].name : NULL;
}

/* ---- rules ---- */

/* A rule of the user: matrices whose names match get the format of the rule. */
struct dir_rule {
    struct mix_override pattern;
    struct dir_form form;
};

/* Parses "PATTERN=TYPE"; TYPE is a type of MLX that is not mixed, or FLOAT. */
static int rule_init(struct dir_rule *r, const char *text, struct inf_err *reterr)
{
    const char *equal = strrchr(text, '=');
    struct dir_type t = {.layout = DIR_MLX, .form = {INF_DTYPE_INVALID, 0}};
    int rc = mix_pattern_init(&r->pattern, text, reterr);

    if (rc < 0)
        return rc;
    if (strcasecmp(equal + 1, "FLOAT") != 0 &&
        (!dir_type_find(equal + 1, &t) || t.mixed || t.form.dtype == INF_DTYPE_INVALID))
        rc = err_set(reterr, EINVAL, "\"%.32s\" is not a format of MLX for one matrix", equal + 1);
    r->form = t.form;
    if (rc < 0)
        mix_override_done(&r->pattern);
    return rc;
}

/* Returns the number of the layer in a name ("model.layers.7.mlp"), or 0. */
static uint32_t layer_of(const char *name)
{
    const char *p = strstr(name, "layers.");

    return p && isdigit((unsigned char)p[7]) ? (uint32_t)strtoul(p + 7, NULL, 10) : 0;
}

/* Chooses the format by the rules of mlx-lm's mixed recipes. The head always has more bits. The
 * matrices of the values and the down matrices have more bits in the first and the last eighth of
 * the layers, and in every third layer between them. */
static struct dir_form choose_mixed(const struct dir *d, const char *name)
{
    const uint32_t n = d->model->hp->n_layers, i = layer_of(name);
    const bool more = i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    const bool counts = strstr(name, "v_proj") || strstr(name, "v_a_proj") ||
                        strstr(name, "v_b_proj") || strstr(name, "down_proj");

    return (counts && more) || strstr(name, "lm_head") ? d->type.high : d->type.form;
}

/* Returns whether a matrix is a router that has 8 bits in mlx-lm. */
static bool is_router(const struct dir *d, const char *name)
{
    static const struct {
        const char *arch, *end;
    } rows[] = {
        {"qwen3moe", "mlp.gate"},  {"qwen3next", "mlp.gate"},
        {"qwen35", "mlp.gate"},    {"qwen3next", "shared_expert_gate"},
        {"gpt-oss", "router"},     {"qwen35", "shared_expert_gate"},
        {"gemma4", "router.proj"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strcmp(d->model->arch->desc.name, rows[i].arch) == 0 &&
            text_ends_with(name, rows[i].end))
            return true;
    return false;
}

static struct dir_form choose_form(const struct dir *d, const struct dir_rule *rules, size_t n,
                                   const struct dir_entry *e)
{
    const struct dir_form router = {INF_DTYPE_MLX8, 64}, none = {INF_DTYPE_INVALID, 0};
    struct dir_form form;

    for (size_t i = 0; i < n; i++)
        if (mix_override_matches(&rules[i].pattern, e->name))
            return rules[i].form.group > 0 && e->w.cols % rules[i].form.group != 0 ? none
                                                                                   : rules[i].form;
    if (e->small || d->type.form.dtype == INF_DTYPE_INVALID || e->w.cols % d->type.form.group != 0)
        return none;
    form = d->type.mixed ? choose_mixed(d, e->name) : d->type.form;
    if (!d->type.mixed && is_router(d, e->name))
        form = router;
    return e->w.cols % form.group == 0 && e->w.cols % 32 == 0 ? form : none;
}

/* ---- codes that are kept ---- */

/* Returns whether @w has the format @form already. */
static bool has_form(const struct weight *w, struct dir_form form)
{
    return w->dtype == form.dtype && w->group == form.group;
}

/* Chooses, for a quantized matrix, a format of MLX that holds the same numbers. */
static int keep_mlx(struct dir_entry *e, struct inf_err *reterr)
{
    static const uint32_t groups[] = {128, 64, 32};
    int r;

    e->kept = true;
    if (dtype_info(e->w.dtype)->planes && e->w.group > 0 && !e->w.coded) {
        e->to = (struct dir_form){e->w.dtype, e->w.group};
        e->type = e->w.plane_type;
        return 0;
    }
    r = repack_init(&e->repack, &e->w, reterr);
    for (size_t i = 0; r == 0 && e->to.group == 0 && i < ARRAY_SIZE(groups); i++)
        if (e->repack.group % groups[i] == 0 && e->w.cols % groups[i] == 0)
            e->to.group = groups[i];
    if (r == 0 && e->to.group == 0)
        return err_set(reterr, EOPNOTSUPP,
                       "%.96s has groups of %u columns, and MLX only knows 32, 64 and 128", e->name,
                       e->repack.group);
    for (enum inf_dtype t = 0; r == 0 && t < INF_DTYPE_N; t++)
        if (dtype_affine(t) && dtype_affine(t)->bits == e->repack.bits)
            e->to.dtype = t;
    return r == 0 ? repack_plane_type(&e->repack, &e->type, reterr) : r;
}

/* Checks that GPTQ or AWQ can hold a quantized matrix. */
static int keep_words(const struct dir *d, struct dir_entry *e, struct inf_err *reterr)
{
    const bool awq = d->type.layout == DIR_AWQ;
    const uint32_t step = awq ? 8 : 32;
    int r = repack_init(&e->repack, &e->w, reterr);

    e->kept = true;
    if (r < 0)
        return r;
    if (e->w.n_experts > 0)
        return err_set(reterr, EOPNOTSUPP,
                       "%.96s: matrices of experts are not written for GPTQ and AWQ", e->name);
    if (awq ? e->repack.bits != 4 : e->repack.bits == 5 || e->repack.bits == 6)
        return err_set(reterr, EOPNOTSUPP, "%.96s has codes of %u bits, which %s does not have",
                       e->name, e->repack.bits, awq ? "AWQ" : "GPTQ");
    if (e->w.rows % step != 0 || e->w.cols % 32 != 0 || e->w.cols % e->repack.group != 0)
        return err_set(
            reterr, EOPNOTSUPP,
            "%.96s has %u rows of %u columns in groups of %u, whose codes do not fill whole words",
            e->name, e->w.rows, e->w.cols, e->repack.group);
    return repack_check_zeros(&e->repack, reterr);
}

static enum plane_type scale_type(enum inf_dtype dtype)
{
    return dtype == INF_DTYPE_F32 ? PLANE_F32 : dtype == INF_DTYPE_F16 ? PLANE_F16 : PLANE_BF16;
}

static int choose_entry(const struct dir *d, const struct dir_rule *rules, size_t n,
                        struct dir_entry *e, struct inf_err *reterr)
{
    struct dir_form form;

    e->to = (struct dir_form){INF_DTYPE_INVALID, 0};
    if (!e->w.data || e->vector)
        return 0;
    form = choose_form(d, rules, n, e);
    if (e->quantized && d->type.layout != DIR_MLX)
        return keep_words(d, e, reterr);
    if (e->quantized && (form.dtype == INF_DTYPE_INVALID || has_form(&e->w, form)))
        return keep_mlx(e, reterr);
    e->to = form;
    e->type = e->quantized && !e->w.coded && dtype_affine(e->w.dtype)
                  ? e->w.plane_type
                  : scale_type(e->quantized ? e->w.dtype : e->floats);
    return 0;
}

/* Checks a directory in the layout of GPTQ or AWQ: it must have at least one quantized matrix, and
 * all of them must have the same number of bits and the same group. These layouts hold only
 * matrices that have such codes in the model already. */
static int choose_check(const struct dir *d, struct inf_err *reterr)
{
    uint32_t bits = 0, group = 0;

    for (size_t i = 0; d->type.layout != DIR_MLX && i < d->n; i++) {
        const struct dir_entry *e = &d->entries[i];

        if (!e->kept)
            continue;
        if (bits > 0 && (bits != e->repack.bits || group != dir_group(e)))
            return err_set(reterr, EOPNOTSUPP,
                           "%.96s has codes of %u bits in groups of %u, but other matrices differ; "
                           "GPTQ and AWQ need the same bits and groups for all matrices",
                           e->name, e->repack.bits, e->repack.group);
        bits = e->repack.bits;
        group = dir_group(e);
    }
    if (d->type.layout != DIR_MLX && bits == 0)
        return err_set(reterr, EOPNOTSUPP,
                       "the model is not quantized; directories for GPTQ and AWQ only hold codes "
                       "of a quantized model");
    return 0;
}

int dir_choose(struct dir *d, struct inf_err *reterr)
{
    const struct inf_convert_params *p = d->params;
    _cleanup_free_ struct dir_rule *rules = NEW(struct dir_rule, p->n_tensor_types);
    size_t n = 0;
    int r = rules ? 0 : err_set(reterr, ENOMEM, "out of memory");

    for (; r == 0 && n < p->n_tensor_types; n++) {
        r = d->type.layout == DIR_MLX
                ? rule_init(&rules[n], p->tensor_types[n], reterr)
                : err_set(reterr, EINVAL, "GPTQ and AWQ keep the format of each tensor");
        if (r < 0)
            break;
    }
    for (size_t i = 0; r == 0 && i < d->n; i++)
        r = choose_entry(d, rules, n, &d->entries[i], reterr);
    while (n > 0)
        mix_override_done(&rules[--n].pattern);
    return r == 0 ? choose_check(d, reterr) : r;
}
