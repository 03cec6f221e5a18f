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

/* Reads a list with one count or one number for each layer. */
static int get_list(const struct hf_reader *r, const struct arch_field *f, const json_t *list,
                    struct hparams *hp)
{
    if (!json_is_array(list))
        return err_set(r->err, EBADMSG, "config.json: %s is not a list", f->hf);
    if (json_array_size(list) < hp->n_layers || hp->n_layers > HPARAMS_MAX_LAYERS)
        return err_set(r->err, EBADMSG, "config.json: %s does not fit %u layers", f->hf,
                       hp->n_layers);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const json_t *x = json_array_get(list, i);

        if (f->kind == FIELD_NUMBER ? !json_is_number(x)
                                    : !json_is_integer(x) || json_integer_value(x) < 0 ||
                                          json_integer_value(x) > INT32_MAX)
            return err_set(r->err, EBADMSG, "config.json: %s[%u] is not a %s", f->hf, i,
                           f->kind == FIELD_NUMBER ? "number" : "count");
        field_store_layer(f, hp, i, json_number_value(x));
    }
    return 0;
}

/* Reads a field that the file has. */
static int get_present(const struct hf_reader *r, const struct arch_field *f, const json_t *x,
                       struct hparams *hp)
{
    const char *key = hf_value(r->config, f->hf) ? f->hf : f->hf_2;
    enum graph_act act = GRAPH_ACT_SILU;
    uint32_t count = 0;
    float number = 0;
    bool flag = false;
    double value = 0;
    int rc = 0;

    switch (f->kind) {
    case FIELD_COUNT:
        if (f->layer > 0 && json_is_array(x))
            return get_list(r, f, x, hp);
        rc = hf_get_count(r, key, NULL, 0, &count);
        value = count;
        break;
    case FIELD_NUMBER:
        if (f->layer > 0)
            return get_list(r, f, x, hp);
        rc = hf_get_number(r, key, NULL, 0, &number);
        value = (double)number;
        break;
    case FIELD_FLAG:
        rc = hf_get_flag(r, key, false, &flag);
        value = flag;
        break;
    case FIELD_ACT:
        rc = hf_get_act(r, key, NULL, &act);
        value = act;
        break;
    }
    if (rc == 0)
        field_store(f, hp, value);
    return rc;
}

int hf_get_fields(const struct hf_reader *r, const struct field_lists *lists, struct hparams *hp)
{
    const struct arch_field *f;
    int rc;

    /* The number of layers comes first, because lists depend on it. */
    rc = hf_get_count(r, "num_hidden_layers", "n_layer", 0, &hp->n_layers);
    for (size_t i = 0; rc == 0 && (f = field_at(lists, &i)); i++) {
        const json_t *x = f->hf ? hf_get(r, f->hf, f->hf_2) : NULL;

        if (x)
            rc = get_present(r, f, x, hp);
        else if (f->kind == FIELD_NUMBER && f->layer == 0 && f->hf &&
                 json_is_null(json_object_get(r->config, f->hf)))
            field_store(f, hp, 0); /* only a missing key has the default of the class */
        else if (!field_store_absent(f, hp, FIELD_IN_HF))
            rc = err_set(r->err, EBADMSG, "config.json: %s is missing", f->hf);
    }
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

int hf_check_refused(const struct hf_reader *r, const struct field_lists *lists,
                     const struct arch_refused *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *x = hf_get(r, keys[i].key, NULL);

        if (x && !field_reads_hf(lists, keys[i].key) && !json_is_false(x) &&
            !(json_is_array(x) && json_array_size(x) == 0) &&
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

int hf_get_act(const struct hf_reader *r, const char *key, const char *absent,
               enum graph_act *ret_act)
{
    const json_t *x = hf_get(r, key, NULL);
    const char *name = x ? json_string_value(x) : absent;

    if (field_act_find(name, ret_act))
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
