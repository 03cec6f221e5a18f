/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the settings of rotary positions from config.json.
 *
 * Since transformers 5 they are in "rope_parameters", for some classes in one object for each kind
 * of layer. Before transformers 5, they were in "rope_scaling", with the bases beside this key.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "format/hf/config.h"
#include "format/hf/reader.h"

static int get_ctx_orig(const struct hf_reader *r, const struct hf_reader *rope, struct hparams *hp)
{
    const char *const key = "original_max_position_embeddings";
    const json_t *x = hf_get(r, key, NULL) ? hf_get(r, key, NULL) : hf_get(rope, key, NULL);

    hp->rope_ctx_orig = hp->n_ctx_train;
    if (!x)
        return 0;
    if (!json_is_integer(x) || json_integer_value(x) < 1 || json_integer_value(x) > INT32_MAX)
        return err_set(r->err, EBADMSG, "config.json: %s is not a count", key);
    hp->rope_ctx_orig = (uint32_t)json_integer_value(x);
    return 0;
}

static int get_llama3(const struct hf_reader *r, const struct hf_reader *rope, struct hparams *hp)
{
    int rc;

    hp->rope_scaling = ROPE_SCALING_LLAMA3;
    rc = get_ctx_orig(r, rope, hp);
    if (rc == 0)
        rc = hf_get_number(rope, "low_freq_factor", NULL, 0, &hp->rope_low_freq_factor);
    if (rc == 0)
        rc = hf_get_number(rope, "high_freq_factor", NULL, 0, &hp->rope_high_freq_factor);
    return rc;
}

static int get_yarn(const struct hf_reader *r, const struct hf_reader *rope, struct hparams *hp)
{
    const struct {
        const char *key;
        float *ret;
    } numbers[] = {
        {"attention_factor", &hp->yarn_attn_factor},  {"mscale", &hp->yarn_mscale},
        {"mscale_all_dim", &hp->yarn_mscale_all_dim}, {"beta_fast", &hp->yarn_beta_fast},
        {"beta_slow", &hp->yarn_beta_slow},
    };
    bool truncate = true;
    int rc;

    hp->rope_scaling = ROPE_SCALING_YARN;
    rc = get_ctx_orig(r, rope, hp);
    if (rc == 0 && !hf_get(rope, "factor", NULL) && hp->rope_ctx_orig)
        hp->rope_factor = (float)hp->n_ctx_train / (float)hp->rope_ctx_orig;
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && rc == 0; i++)
        rc = hf_get_number(rope, numbers[i].key, NULL, 0, numbers[i].ret);
    if (rc == 0)
        rc = hf_get_flag(rope, "truncate", true, &truncate);
    if (hp->yarn_beta_fast == 0)
        hp->yarn_beta_fast = 32;
    if (hp->yarn_beta_slow == 0)
        hp->yarn_beta_slow = 1;
    hp->yarn_no_truncate = !truncate;
    return rc;
}

static int refuse_type(const struct hf_reader *r, const char *type)
{
    return err_set(r->err, EOPNOTSUPP, "config.json: the rope type \"%.32s\" is not supported",
                   type ? type : "?");
}

/* Reads how many pairs of a head each of the three positions rotates. Lists of other lengths are
 * ignored. */
static void get_sections(const struct hf_reader *rope, struct hparams *hp)
{
    const json_t *list = hf_get(rope, "mrope_section", NULL);

    for (size_t i = 0; json_array_size(list) == 3 && i < 3; i++) {
        const json_int_t x = json_integer_value(json_array_get(list, i));

        hp->rope_sections[i] = x > 0 && x < INT32_MAX ? (uint32_t)x : 0;
    }
}

static int get_scaling(const struct hf_reader *r, const struct hf_reader *rope, struct hparams *hp)
{
    const json_t *x = hf_get(rope, "rope_type", "type");
    const char *type = x ? json_string_value(x) : "default";

    if (!type)
        return refuse_type(r, type);
    get_sections(rope, hp);
    /* In a text without images, all three positions of "mrope" are equal. */
    if (strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0)
        return 0;
    if (strcmp(type, "llama3") == 0)
        return get_llama3(r, rope, hp);
    if (strcmp(type, "yarn") == 0)
        return get_yarn(r, rope, hp);
    if (strcmp(type, "proportional") == 0) {
        hp->rope_proportional = true;
        return 0;
    }
    if (strcmp(type, "linear") != 0)
        return refuse_type(r, type);
    hp->rope_scaling = ROPE_SCALING_LINEAR;
    return 0;
}

/* Reads how many dimensions of a head are rotated. */
static int get_partial(const struct hf_reader *r, const struct hf_reader *rope,
                       const struct arch_class *class, struct hparams *hp)
{
    const bool applies = class->flags & CLASS_PARTIAL_ROPE;
    float partial = applies && class->partial > 0 ? class->partial : 1;
    int rc;

    if (applies)
        rc = hf_get_number(r, "partial_rotary_factor", NULL, partial, &partial);
    else
        rc = 0;
    if (rc == 0)
        rc = hf_get_number(rope, "partial_rotary_factor", NULL, partial, &partial);
    if (rc < 0)
        return rc;
    if (!applies && partial != 1)
        return err_set(r->err, EOPNOTSUPP, "config.json: partial_rotary_factor is not supported");
    if (!(partial > 0 && partial <= 1))
        return err_set(r->err, EBADMSG, "config.json: partial_rotary_factor is %g",
                       (double)partial);
    hp->rope_partial = partial;
    hp->rope_dims = (uint32_t)(partial * (float)hp->head_dim);
    return 0;
}

/* Reads the rotation in layers with a window. @rope reads the object with the settings of these
 * layers, if there is one. */
static int get_window(const struct hf_reader *r, const struct hf_reader *rope,
                      const struct arch_window *w, struct hparams *hp)
{
    const char *type = json_string_value(hf_get(rope, "rope_type", "type"));
    int rc = 0;

    if (type && strcmp(type, "default") != 0)
        return refuse_type(r, type);
    hp->rope_theta_window = w->theta;
    if (w->hf_theta_key)
        rc = hf_get_number(r, w->hf_theta_key, NULL, w->theta, &hp->rope_theta_window);
    return rc == 0 ? hf_get_number(rope, "rope_theta", NULL, hp->rope_theta_window,
                                   &hp->rope_theta_window)
                   : rc;
}

int hf_get_rope(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp)
{
    const struct hf_reader all = {.config = hf_get(r, "rope_parameters", "rope_scaling"),
                                  .err = r->err};
    const json_t *full = hf_get(&all, "full_attention", NULL);
    const json_t *windowed = hf_get(&all, "sliding_attention", NULL);
    const struct arch_window *w = class->window && class->window->theta > 0 ? class->window : NULL;
    const struct hf_reader rope = {.config = full || windowed ? full : all.config, .err = r->err};
    const struct hf_reader rope_window = {.config = windowed, .err = r->err};
    float theta = class->theta > 0 ? class->theta : 10000;
    int rc;

    if ((all.config && !json_is_object(all.config)) || (full && !json_is_object(full)))
        return err_set(r->err, EBADMSG, "config.json: the rope parameters are not an object");
    if (!w && (full || windowed))
        return err_set(r->err, EOPNOTSUPP,
                       "config.json: rope parameters per kind of layer are not supported");
    rc = hf_get_number(r, class->theta_key ? class->theta_key : "rope_theta", NULL, theta, &theta);
    if (rc == 0)
        rc = hf_get_number(&rope, "rope_theta", NULL, theta, &hp->rope_theta);
    if (rc == 0)
        rc = get_partial(r, &rope, class, hp);
    if (rc == 0)
        rc = hf_get_number(&rope, "factor", NULL, 1, &hp->rope_factor);
    if (rc == 0)
        rc = get_scaling(r, &rope, hp);
    return rc == 0 && w ? get_window(r, &rope_window, w, hp) : rc;
}
