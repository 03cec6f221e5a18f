/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values of config.json by type. The readers of all classes of models use it.
 */
#include "format/hf/reader.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

#define LABELS_MAX 65536u

const json_t *hf_value(const json_t *object, const char *key)
{
    const json_t *x = json_object_get(object, key);

    return json_is_null(x) ? NULL : x;
}

const json_t *hf_get(const struct hf_reader *r, const char *key, const char *other)
{
    const json_t *x = hf_value(r->config, key);

    return x || !other ? x : hf_value(r->config, other);
}

int hf_get_count(const struct hf_reader *r, const char *key, const char *other, uint32_t absent,
                 uint32_t *ret)
{
    const json_t *x = hf_get(r, key, other);

    if (!x && absent == HF_NEEDED)
        return err_set(r->err, EBADMSG, "config.json: %s is missing", key);
    if (x &&
        (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) > INT32_MAX))
        return err_set(r->err, EBADMSG, "config.json: %s is not a count", key);
    *ret = x ? (uint32_t)json_integer_value(x) : absent;
    return 0;
}

int hf_get_counts(const struct hf_reader *r, const struct hf_count *counts, size_t n)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = hf_get_count(r, counts[i].key, counts[i].other, counts[i].absent, counts[i].ret);
    return rc;
}

int hf_get_flag(const struct hf_reader *r, const char *key, bool absent, bool *ret)
{
    const json_t *x = hf_get(r, key, NULL);

    if (x && !json_is_boolean(x))
        return err_set(r->err, EBADMSG, "config.json: %s is neither true nor false", key);
    *ret = x ? json_is_true(x) : absent;
    return 0;
}

int hf_check_refused(const struct hf_reader *r, const struct hf_refused *keys, size_t n)
{
    const json_t *quant = hf_get(r, "quantization_config", NULL);

    if (quant) {
        const char *method = json_string_value(json_object_get(quant, "quant_method"));

        return err_set(r->err, EOPNOTSUPP,
                       "config.json: quantization_config (%.32s) is not supported",
                       method ? method : "of unknown method");
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *x = hf_get(r, keys[i].key, NULL);

        if (x && !json_is_false(x) && !(json_is_array(x) && json_array_size(x) == 0) &&
            !(json_is_number(x) && json_number_value(x) == keys[i].neutral))
            return err_set(r->err, EOPNOTSUPP, "config.json: %s is not supported", keys[i].key);
    }
    return 0;
}

int hf_get_number(const struct hf_reader *r, const char *key, const char *other, float absent,
                  float *ret)
{
    const json_t *x = hf_get(r, key, other);

    if (x && !json_is_number(x))
        return err_set(r->err, EBADMSG, "config.json: %s is not a number", key);
    *ret = x ? (float)json_number_value(x) : absent;
    return 0;
}

bool hf_act_find(const char *name, enum graph_act *ret_act)
{
    static const struct {
        const char *name;
        enum graph_act act;
    } acts[] = {
        {"silu", GRAPH_ACT_SILU},           {"swish", GRAPH_ACT_SILU},
        {"gelu", GRAPH_ACT_GELU_ERF},       {"gelu_new", GRAPH_ACT_GELU_TANH},
        {"gelu_fast", GRAPH_ACT_GELU_TANH}, {"gelu_pytorch_tanh", GRAPH_ACT_GELU_TANH},
        {"relu2", GRAPH_ACT_RELU2},
    };

    for (size_t i = 0; name && i < ARRAY_SIZE(acts); i++)
        if (strcmp(acts[i].name, name) == 0) {
            *ret_act = acts[i].act;
            return true;
        }
    return false;
}

int hf_get_act(const struct hf_reader *r, const char *key, const char *absent,
               enum graph_act *ret_act)
{
    const json_t *x = hf_get(r, key, NULL);
    const char *name = x ? json_string_value(x) : absent;

    if (hf_act_find(name, ret_act))
        return 0;
    return err_set(r->err, EOPNOTSUPP, "config.json: %s \"%.32s\" is not supported", key,
                   name ? name : "?");
}

int hf_get_labels(const struct hf_reader *r, uint32_t *ret_n)
{
    const json_t *labels = hf_get(r, "id2label", NULL);
    int rc;

    rc =
        hf_get_count(r, "num_labels", NULL, labels ? (uint32_t)json_object_size(labels) : 2, ret_n);
    if (rc == 0 && (*ret_n == 0 || *ret_n > LABELS_MAX))
        return err_set(r->err, EBADMSG, "config.json: the number of labels is %u", *ret_n);
    return rc;
}

const char *hf_class_name(const json_t *config)
{
    return json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
}
