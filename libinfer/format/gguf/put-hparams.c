/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes hyperparameters as GGUF keys, from the tables that reading uses.
 *
 * The keys are read again and compared. So a setting that GGUF files cannot express causes an error
 * here, and not wrong answers of the new model.
 */
#include "format/gguf/put-hparams.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "format/fields.h"
#include "format/gguf/ggml-type.h"
#include "format/gguf/hparams.h"

struct put {
    struct gguf_out *w;
    const struct arch_desc *desc;
    const char *arch;         /* general.architecture */
    const struct hparams *hp; /* what the file says */
    char key[96];             /* the last key */
};

static const char *put_key(struct put *p, const char *name)
{
    snprintf(p->key, sizeof(p->key), "%s.%s", p->arch, name);
    return p->key;
}

static void put_u32(struct put *p, const char *name, uint32_t x)
{
    gguf_out_u32(p->w, put_key(p, name), x);
}

static void put_f32(struct put *p, const char *name, float x)
{
    gguf_out_f32(p->w, put_key(p, name), x);
}

static uint32_t field_layer_count(const struct arch_field *f, const struct hparams *hp, uint32_t i)
{
    const uint32_t x = *(const uint32_t *)((const char *)&hp->layers[i] + f->layer - 1);

    return x > 0 ? x : *(const uint32_t *)((const char *)hp + f->offset);
}

/* Writes a count, or a list if it differs between layers. */
static void put_count(struct put *p, const struct arch_field *f)
{
    uint32_t all[HPARAMS_MAX_LAYERS];
    bool equal = true;

    for (uint32_t i = 0; f->layer > 0 && i < p->hp->n_layers; i++) {
        all[i] = field_layer_count(f, p->hp, i);
        equal = equal && all[i] == all[0];
    }
    if (equal)
        put_u32(p, f->gguf, *(const uint32_t *)((const char *)p->hp + f->offset));
    else
        gguf_out_array(p->w, put_key(p, f->gguf), GGUF_U32, all, p->hp->n_layers);
}

static void put_layer_numbers(struct put *p, const struct arch_field *f)
{
    float all[HPARAMS_MAX_LAYERS];

    for (uint32_t i = 0; i < p->hp->n_layers; i++)
        all[i] = *(const float *)((const char *)&p->hp->layers[i] + f->layer - 1);
    gguf_out_array(p->w, put_key(p, f->gguf), GGUF_F32, all, p->hp->n_layers);
}

static void put_field(struct put *p, const struct arch_field *f)
{
    const void *at = (const char *)p->hp + f->offset;

    switch (f->kind) {
    case FIELD_COUNT:
        if (*(const uint32_t *)at > 0 || (f->flags & (FIELD_IN_GGUF | FIELD_ZERO)))
            put_count(p, f);
        break;
    case FIELD_NUMBER:
        if (f->layer > 0 && (f->flags & FIELD_IN_GGUF))
            put_layer_numbers(p, f);
        else if (*(const float *)at != 0 && f->layer == 0)
            put_f32(p, f->gguf, *(const float *)at);
        break;
    case FIELD_FLAG:
        if (*(const bool *)at)
            gguf_out_bool(p->w, put_key(p, f->gguf), true);
        break;
    case FIELD_ACT:
        break;
    }
}

static void put_heads(struct put *p, const struct field_lists *fields)
{
    const struct hparams *hp = p->hp;

    if (!field_reads_gguf(fields, "attention.head_count_kv"))
        put_u32(p, "attention.head_count_kv", hp->n_kv_heads);
    if (!field_reads_gguf(fields, "attention.key_length"))
        put_u32(p, "attention.key_length", hp->head_dim);
    put_u32(p, "attention.value_length", hp->head_dim);
    if (field_reads_gguf(fields, "attention.key_length_swa"))
        put_u32(p, "attention.value_length_swa", hp->gemma.head_dim_window);
    if (hp->rope_dims_window > 0)
        put_u32(p, "rope.dimension_count_swa", hp->rope_dims_window);
    if (!field_reads_gguf(fields, "rope.dimension_count"))
        put_u32(p, "rope.dimension_count", hp->rope_dims);
}

static void put_yarn(struct put *p)
{
    const struct hparams *hp = p->hp;

    put_u32(p, "rope.scaling.original_context_length", hp->rope_ctx_orig);
    put_f32(p, "rope.scaling.yarn_beta_fast", hp->yarn_beta_fast);
    put_f32(p, "rope.scaling.yarn_beta_slow", hp->yarn_beta_slow);
    if (hp->yarn_attn_factor != 0)
        put_f32(p, "rope.scaling.yarn_attn_factor", hp->yarn_attn_factor);
    if (hp->yarn_mscale_all_dim != 0)
        put_f32(p, "rope.scaling.yarn_log_multiplier", hp->yarn_mscale_all_dim);
}

/* Writes the settings of rotary positions. The scaling of Llama 3 and the choice of rotated pairs
 * have no keys, because they are in the tensor rope_freqs.weight. */
static void put_rope(struct put *p)
{
    const struct hparams *hp = p->hp;
    const char *type = hp->rope_scaling == ROPE_SCALING_YARN     ? "yarn"
                       : hp->rope_scaling == ROPE_SCALING_LINEAR ? "linear"
                                                                 : NULL;

    put_f32(p, "rope.freq_base", hp->rope_theta);
    if (!type)
        return;
    gguf_out_string(p->w, put_key(p, "rope.scaling.type"), type, strlen(type));
    put_f32(p, "rope.scaling.factor", hp->rope_factor);
    if (hp->rope_scaling == ROPE_SCALING_YARN)
        put_yarn(p);
}

/* Writes what only some architectures have, and no table describes. */
static void put_others(struct put *p)
{
    const struct hparams *hp = p->hp;

    if (hp->rope_sections[0] > 0)
        gguf_out_array(p->w, put_key(p, "rope.dimension_sections"), GGUF_I32, hp->rope_sections,
                       ARRAY_SIZE(hp->rope_sections));
    /* The factor 1 means no scaling. llama.cpp's converter also writes these two keys. */
    if (strcmp(p->arch, "bitnet") == 0 && hp->rope_scaling == ROPE_SCALING_NONE) {
        gguf_out_string(p->w, put_key(p, "rope.scaling.type"), "linear", strlen("linear"));
        put_f32(p, "rope.scaling.factor", 1);
    }
    if (hp->gemma.laurel_rank > 0) {
        put_u32(p, "altup.active_idx", 0);
        put_u32(p, "altup.num_inputs", HPARAMS_STREAMS);
    }
}

static void put_window(struct put *p)
{
    const struct hparams *hp = p->hp;
    uint8_t windows[HPARAMS_MAX_LAYERS];
    bool all = true;

    if (hp->window == 0)
        return;
    put_u32(p, "attention.sliding_window", hp->window);
    if (hp->rope_theta_window > 0)
        put_f32(p, "rope.freq_base_swa", hp->rope_theta_window);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        windows[i] = hparams_window(hp, i) > 0;
        all = all && windows[i];
    }
    if (!all || (p->desc->window && p->desc->window->every > 0))
        gguf_out_array(p->w, put_key(p, "attention.sliding_window_pattern"), GGUF_BOOL, windows,
                       hp->n_layers);
}

const char *gguf_arch_name(const struct arch_desc *desc, const struct hparams *hp)
{
    for (size_t i = 0; hp->experts.n > 0 && i < desc->n_ggufs; i++)
        if (desc->ggufs[i].experts)
            return desc->ggufs[i].name;
    return desc->ggufs[0].name;
}

static void put_all(struct put *p, const struct field_lists *fields)
{
    const struct arch_field *f;

    gguf_out_string(p->w, "general.architecture", p->arch, strlen(p->arch));
    gguf_out_string(p->w, "general.type", "model", 5);
    gguf_out_string(p->w, "general.name", p->hp->name, strlen(p->hp->name));
    for (size_t i = 0; (f = field_at(fields, &i)); i++)
        if (f->gguf)
            put_field(p, f);
    put_heads(p, fields);
    put_rope(p);
    put_window(p);
    put_others(p);
}

/* Makes a file of the keys. Some hyperparameters are stored as the number of rows of a tensor, so
 * the file has these tensors, whose data are zeros. The caller frees *ret_data. */
static int make_file(const struct put *p, const struct field_lists *fields, char **ret_data,
                     size_t *ret_size)
{
    struct gguf_out w = {0};
    struct put again = *p;
    const struct arch_field *f;
    _cleanup_free_ char *header = NULL;
    size_t n = 0;
    int r;

    again.w = &w;
    put_all(&again, fields);
    for (size_t i = 0; (f = field_at(fields, &i)); i++)
        if (f->gguf_rows) {
            const uint64_t dims[] = {1, *(const uint32_t *)((const char *)p->hp + f->offset)};

            gguf_out_tensor(&w, f->gguf_rows, dims, 2, GGML_TYPE_F32);
        }
    r = gguf_out_header(&w, &header, &n);
    *ret_size = n + w.data_size;
    *ret_data = r == 0 ? calloc(1, *ret_size) : NULL;
    if (*ret_data)
        memcpy(*ret_data, header, n);
    gguf_out_done(&w);
    return r == 0 && !*ret_data ? -ENOMEM : r;
}

/* Reads the keys again, and compares them with the hyperparameters. */
static int check_keys(struct put *p, const struct hparams *hp, const struct arch_list *archs,
                      const struct field_lists *fields, struct inf_err *reterr)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    _cleanup_free_ char *file = NULL;
    _cleanup_free_ struct hparams *again = NEW(struct hparams, 1);
    const struct arch_desc *desc;
    const char *name;
    size_t n;
    int r;

    r = make_file(p, fields, &file, &n);
    if (r < 0 || !again)
        return err_set(reterr, again ? -r : ENOMEM, "out of memory");
    r = gguf_parse(file, n, &g, reterr);
    if (r == 0)
        r = gguf_hparams(g, archs, again, &desc, reterr);
    if (r < 0)
        return r;
    name = desc == p->desc ? hparams_difference(hp, again) : "the architecture";
    return name ? err_set(reterr, EOPNOTSUPP,
                          "a GGUF file of the architecture %s cannot say what config.json says "
                          "about %s",
                          p->arch, name)
                : 0;
}

int gguf_put_hparams(struct gguf_out *w, const struct arch_list *archs,
                     const struct arch_desc *desc, const struct hparams *hp, struct inf_err *reterr)
{
    const struct field_lists fields = field_lists_of(desc, NULL);
    _cleanup_free_ struct hparams *said = NEW(struct hparams, 1);
    struct put p = {.w = w, .desc = desc, .arch = gguf_arch_name(desc, hp), .hp = said};

    if (!said)
        return err_set(reterr, ENOMEM, "out of memory");
    *said = *hp;
    if (desc->to_gguf)
        desc->to_gguf(said);
    put_all(&p, &fields);
    return check_keys(&p, hp, archs, &fields, reterr);
}
