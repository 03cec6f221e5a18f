/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads settings of encoders from config.json that no table describes.
 *
 * The classes of BERT's encoders differ in how they encode positions, in the feed-forward layers,
 * and in the layers after the last transformer layer. Nomic's own code uses other names than
 * transformers for most settings.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "format/hf/config.h"
#include "format/hf/reader.h"

/* Refuses values that are texts, which the lists of refused keys do not cover. */
static int check_texts(const struct hf_reader *r, const struct arch_class *class)
{
    const char *positions = class->kind == BERT_GTE ? "rope" : "absolute";
    const json_t *x = hf_get(r, "position_embedding_type", NULL);

    if (x && (!json_is_string(x) || strcmp(json_string_value(x), positions) != 0) &&
        class->kind != BERT_NOMIC)
        return err_set(r->err, EOPNOTSUPP, "config.json: only \"%s\" positions are supported",
                       positions);
    x = hf_get(r, "layer_norm_type", NULL);
    if (x && (!json_is_string(x) || strcmp(json_string_value(x), "layer_norm") != 0))
        return err_set(r->err, EOPNOTSUPP, "config.json: layer_norm_type is not supported");
    return 0;
}

static int check_heads(const struct hf_reader *r, const struct hparams *hp)
{
    if (hp->n_embd % hp->n_heads == 0)
        return 0;
    return err_set(r->err, EBADMSG,
                   "config.json: a width of %u cannot be divided evenly among %u heads", hp->n_embd,
                   hp->n_heads);
}

/* Reads the settings of rotary positions. Since transformers 5 they are in "rope_parameters".
 * Before transformers 5, they were in "rope_scaling", with the base beside this key. */
static int get_rope(const struct hf_reader *r, float theta, struct hparams *hp)
{
    const struct hf_reader inner = {.config = hf_get(r, "rope_parameters", "rope_scaling"),
                                    .err = r->err};
    const json_t *x = hf_get(&inner, "rope_type", "type");
    const char *type = x ? json_string_value(x) : "default";
    int rc;

    if (!type || (strcmp(type, "default") != 0 &&
                  (strcmp(type, "ntk") != 0 || hf_get(&inner, "mixed_b", NULL))))
        return err_set(r->err, EOPNOTSUPP, "config.json: the rope type \"%.32s\" is not supported",
                       type ? type : "?");
    if (strcmp(type, "ntk") == 0)
        hp->rope_scaling = ROPE_SCALING_NTK;
    rc = hf_get_number(r, "rotary_emb_base", "rope_theta", theta, &hp->rope_theta);
    if (rc == 0)
        rc = hf_get_number(&inner, "rope_theta", NULL, hp->rope_theta, &hp->rope_theta);
    return rc == 0 ? hf_get_number(&inner, "factor", NULL, 1, &hp->rope_factor) : rc;
}

static int get_positions(const struct hf_reader *r, const struct arch_class *class,
                         struct hparams *hp)
{
    uint32_t padding = 1;
    int rc;

    hp->rope_theta = 10000;
    hp->rope_factor = 1;
    if (class->kind == BERT_NOMIC)
        return get_rope(r, 1000, hp);
    if (class->kind == BERT_GTE)
        return get_rope(r, class->theta, hp);
    hp->embed.n_pos = hp->n_ctx_train;
    /* The number of rotated dimensions is not used, but must be valid. */
    hp->rope_dims = hp->head_dim & ~1u;
    if (class->kind == BERT_PLAIN)
        return 0;
    rc = hf_get_count(r, "pad_token_id", NULL, 1, &padding);
    if (rc < 0)
        return rc;
    if (padding + 1 >= hp->embed.n_pos)
        return err_set(r->err, EBADMSG, "config.json: no position is left after pad_token_id");
    hp->embed.pos_first = padding + 1;
    hp->embed.pos_skips = true;
    hp->n_ctx_train = hp->embed.n_pos - hp->embed.pos_first;
    return 0;
}

static int get_act(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp)
{
    static const struct {
        const char *name;
        enum graph_act act;
    } units[] = {{"swiglu", GRAPH_ACT_SILU}, {"geglu", GRAPH_ACT_GELU_ERF}};
    const bool nomic = class->kind == BERT_NOMIC;
    const json_t *x = hf_get(r, "hidden_act", "activation_function");
    const char *name = x ? json_string_value(x) : nomic ? "silu" : "gelu";

    hp->embed.gated = nomic || class->kind == BERT_GTE;
    for (size_t i = 0; nomic && name && i < ARRAY_SIZE(units); i++)
        if (strcmp(units[i].name, name) == 0) {
            hp->act = units[i].act;
            return 0;
        }
    if (field_act_find(name, &hp->act))
        return 0;
    return err_set(r->err, EOPNOTSUPP, "config.json: the activation \"%.32s\" is not supported",
                   name ? name : "?");
}

static int get_labels(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp)
{
    if (!(class->flags & CLASS_CLASSIFIES))
        return 0;
    hp->embed.has_head = true;
    return hf_get_labels(r, &hp->embed.n_labels);
}

int hf_extra_bert(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp)
{
    int rc;

    rc = check_texts(r, class);
    if (rc == 0)
        rc = check_heads(r, hp);
    if (rc == 0)
        rc = get_positions(r, class, hp);
    if (rc == 0)
        rc = get_act(r, class, hp);
    if (rc == 0)
        rc = get_labels(r, class, hp);
    if (rc == 0 && (class->flags & CLASS_LATE)) {
        /* ColBERT has one dense layer without bias. The shape of this layer's tensor gives the
         * width of the layer. */
        hp->embed.late = true;
        hp->embed.n_dense = 1;
        hp->embed.dense_linear[0] = true;
    }
    return rc;
}

int hf_extra_modern(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp)
{
    struct hparams_embed *e = &hp->embed;
    const char *pooling = json_string_value(hf_get(r, "classifier_pooling", NULL));
    int rc;

    rc = check_heads(r, hp);
    if (rc < 0 || !(class->flags & CLASS_CLASSIFIES))
        return rc;
    e->has_head = true;
    e->score_pooling = pooling && strcmp(pooling, "mean") == 0 ? POOLING_MEAN : POOLING_CLS;
    return hf_get_labels(r, &e->n_labels);
}

int hf_extra_gemma(const struct hf_reader *r, const struct arch_class *class UNUSED,
                   struct hparams *hp UNUSED)
{
    if (json_is_true(hf_get(r, "use_bidirectional_attention", NULL)))
        return 0;
    return err_set(r->err, EOPNOTSUPP,
                   "config.json: Gemma3TextModel without use_bidirectional_attention is not "
                   "supported");
}
