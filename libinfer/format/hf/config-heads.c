/* SPDX-License-Identifier: Apache-2.0 */
/* Reads settings and names of draft heads in Hugging Face layout: EAGLE-3, DFlash, and the
 * assistants of Gemma 4. */
#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "core/text.h"
#include "format/hf/names.h"
#include "format/hf/reader.h"

/* Reads a list of @least to @most layers, and adds @offset to each. */
static int get_taps(const struct hf_reader *r, const char *key, const json_t *list, uint32_t least,
                    uint32_t most, uint32_t offset, struct hparams_head *head)
{
    if (!json_is_array(list) || json_array_size(list) < least || json_array_size(list) > most)
        return least == most
                   ? err_set(r->err, EBADMSG, "config.json: %s is not a list of %u layers", key,
                             most)
                   : err_set(r->err, EBADMSG, "config.json: %s is not a list of %u to %u layers",
                             key, least, most);
    head->n_taps = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < head->n_taps; i++) {
        const json_t *layer = json_array_get(list, i);

        if (!json_is_integer(layer) || json_integer_value(layer) < 0 ||
            json_integer_value(layer) > HPARAMS_MAX_LAYERS)
            return err_set(r->err, EBADMSG, "config.json: %s has an item that is not a layer", key);
        head->taps[i] = (uint32_t)json_integer_value(layer) + offset;
    }
    return 0;
}

int hf_extra_eagle3(const struct hf_reader *r, const struct arch_class *class UNUSED,
                    struct hparams *hp)
{
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    const json_t *list = hf_get(r, key, NULL);

    if (!list)
        list = hf_value(hf_get(r, "eagle_config", NULL), key);
    return list ? get_taps(r, key, list, HPARAMS_EAGLE3_TAPS, HPARAMS_EAGLE3_TAPS, 0, &hp->head)
                : 0;
}

int hf_extra_dflash(const struct hf_reader *r, const struct arch_class *class UNUSED,
                    struct hparams *hp)
{
    static const char key[] = "dflash_config.target_layer_ids";
    const json_t *own = hf_get(r, "dflash_config", NULL);
    const json_t *mask = hf_value(own, "mask_token_id");

    if (!json_is_integer(mask) || json_integer_value(mask) < 0 ||
        json_integer_value(mask) > INT32_MAX)
        return err_set(r->err, EBADMSG, "config.json: dflash_config.mask_token_id is not a token");
    hp->head.mask = (uint32_t)json_integer_value(mask);
    hp->head.has_mask = true;
    /* The file counts the layers whose results the head reads, and struct hparams_head those whose
     * inputs it reads. */
    return get_taps(r, key, hf_value(own, "target_layer_ids"), 1, HPARAMS_TAPS, 1, &hp->head);
}

int hf_extra_assistant(const struct hf_reader *r, const struct arch_class *class UNUSED,
                       struct hparams *hp)
{
    const struct hf_reader root = {.config = r->root, .err = r->err, .root = r->root};
    bool clusters = false;
    int rc;

    rc = hf_get_count(&root, "backbone_hidden_size", NULL, 1536, &hp->head.n_target);
    if (rc == 0)
        rc = hf_get_flag(&root, "use_ordered_embeddings", false, &clusters);
    if (rc < 0 || !clusters)
        return rc;
    rc = hf_get_count(&root, "num_centroids", NULL, 2048, &hp->head.n_clusters);
    return rc < 0 ? rc
                  : hf_get_count(&root, "centroid_intermediate_top_k", NULL, 32,
                                 &hp->head.n_clusters_used);
}

bool hf_name_eagle3(const struct arch_desc *desc, const char *name, char *out)
{
    const char *rest = text_after(name, "midlayer.");
    char in_layer[256];

    if (!rest)
        return hf_name_slot(desc, name, out);
    return snprintf(in_layer, sizeof(in_layer), "layers.0.%s", rest) < (int)sizeof(in_layer) &&
           hf_name_slot(desc, in_layer, out);
}
