/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from config.json what each layer of a model is: attention with or without a window, or a
 * recurrent layer; and whether it has experts.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "format/hf/config.h"
#include "format/hf/reader.h"

/* Reads the list layer_types. */
static int set_types(const struct hf_reader *r, const struct arch_desc *desc, const json_t *types,
                     struct hparams *hp)
{
    if (!json_is_array(types) || json_array_size(types) < hp->n_layers)
        return err_set(r->err, EBADMSG, "config.json: layer_types does not fit %u layers",
                       hp->n_layers);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));

        if (type && strcmp(type, "full_attention") == 0)
            hparams_set_full(hp, i);
        else if (type && desc->recurrent && strcmp(type, "linear_attention") == 0)
            hp->layers[i].kind = LAYER_RECURRENT;
        else if (!type || strcmp(type, "sliding_attention") != 0)
            return err_set(r->err, EOPNOTSUPP,
                           "config.json: the layer type \"%.32s\" is not supported",
                           type ? type : "?");
    }
    return 0;
}

static int get_window(const struct hf_reader *r, const struct arch_window *w, struct hparams *hp)
{
    const char *key = w->hf_key ? w->hf_key : "sliding_window";
    uint32_t window = 0;
    bool on = true;
    int rc = 0;

    if (w->switched)
        rc = hf_get_flag(r, "use_sliding_window", false, &on);
    /* The value null means no window. Only a missing key has the default of the class. */
    if (rc < 0 || !on || json_is_null(json_object_get(r->config, key)))
        return rc;
    rc = hf_get_count(r, key, NULL, w->absent, &window);
    hp->window = w->both ? window / 2 + 1 : window;
    return rc;
}

/* Sets which layers have no window if there is no list of layers. */
static int get_groups(const struct hf_reader *r, const struct arch_window *w, struct hparams *hp)
{
    uint32_t n_full = 0, every = w->every;
    int rc = 0;

    if (w->hf_full_key)
        rc = hf_get_count(r, w->hf_full_key, NULL, 28, &n_full);
    if (rc == 0 && w->hf_every_key)
        rc = hf_get_count(r, w->hf_every_key, w->hf_every_key_2, w->every, &every);
    for (uint32_t i = 0; rc == 0 && i < hp->n_layers; i++)
        if (i < n_full || (every > 0 && (i + (w->first ? 0 : 1)) % every == 0))
            hparams_set_full(hp, i);
    return rc;
}

/* Reads which layers have experts: those that experts.step selects, except the layers in the list
 * mlp_only_layers. */
static int get_sparse(const struct hf_reader *r, struct hparams *hp)
{
    const json_t *dense = hf_get(r, "mlp_only_layers", NULL);
    size_t i;
    json_t *x;

    field_set_sparse(hp);
    if (dense && !json_is_array(dense))
        return err_set(r->err, EBADMSG, "config.json: mlp_only_layers is not a list");
    json_array_foreach(dense, i, x)
    {
        if (!json_is_integer(x))
            return err_set(r->err, EBADMSG, "config.json: mlp_only_layers[%zu] is not a layer", i);
        if (json_integer_value(x) >= 0 && json_integer_value(x) < hp->n_layers)
            hp->layers[json_integer_value(x)].sparse = false;
    }
    return 0;
}

int hf_get_layers(const struct hf_reader *r, const struct arch_desc *desc,
                  const struct arch_class *class, struct hparams *hp)
{
    const json_t *types = hf_get(r, "layer_types", NULL);
    int rc = 0;

    if (hp->n_layers == 0 || hp->n_layers > HPARAMS_MAX_LAYERS)
        return 0; /* hparams_check() refuses this number of layers */
    if (class->window)
        rc = get_window(r, class->window, hp);
    if (rc == 0 && hp->experts.n > 0)
        rc = get_sparse(r, hp);
    if (rc < 0)
        return rc;
    /* A model of the class Mistral can have layer_types too, because transformers loads it as a
     * Ministral. */
    if (types && (hp->window > 0 || desc->recurrent))
        return set_types(r, desc, types, hp);
    return hp->window > 0 ? get_groups(r, class->window, hp) : 0;
}
