/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from config.json how weights are quantized.
 *
 * The tensors themselves tell which number format they have. The settings only decide what the
 * tensors cannot tell, and whether a format is supported. Other formats are refused by name.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "format/hf/config.h"
#include "format/hf/reader.h"

static int quantized_refuse(const struct hf_reader *r, const struct arch_desc *desc,
                            const char *method)
{
    return err_set(r->err, EOPNOTSUPP,
                   "config.json: quantization_config (%.32s) is not supported%s",
                   method ? method : "of unknown method",
                   desc->n_ggufs > 0 ? "; use a GGUF file of this model" : "");
}

/* Reads a key whose value is one of two words. *ret_second: it is @second. */
static int quantized_word(const struct hf_reader *q, const char *key, const char *first,
                          const char *second, bool *ret_second)
{
    const json_t *x = hf_get(q, key, NULL);
    const char *word = x ? json_string_value(x) : first;

    *ret_second = word && strcmp(word, second) == 0;
    if (*ret_second || (word && strcmp(word, first) == 0))
        return 0;
    return err_set(q->err, EOPNOTSUPP,
                   "config.json: quantization_config: %s \"%.32s\" is neither \"%s\" nor \"%s\"",
                   key, word ? word : "?", first, second);
}

/* Refuses lists of matrices that are not quantized, unless they name only the head and the
 * embedding, which are never quantized. */
static int quantized_check_kept(const struct hf_reader *q)
{
    const json_t *list = hf_get(q, "modules_to_not_convert", NULL), *x;
    size_t i;

    json_array_foreach(list, i, x)
    {
        const char *name = json_string_value(x);

        if (!name || (strcmp(name, "lm_head") != 0 && strcmp(name, "model.embed_tokens") != 0))
            return err_set(q->err, EOPNOTSUPP,
                           "config.json: modules_to_not_convert: \"%.64s\" is not supported",
                           name ? name : "?");
    }
    return 0;
}

/* Reads the settings of BitNet b1.58 (transformers, BitNetQuantConfig). */
static int quantized_bitnet(const struct hf_reader *q, struct hparams *hp)
{
    bool multiplied = false, online = false, normed = false;
    int rc;

    rc = quantized_word(q, "linear_class", "bitlinear", "autobitlinear", &multiplied);
    if (rc == 0)
        rc = quantized_word(q, "quantization_mode", "offline", "online", &online);
    if (rc == 0)
        rc = hf_get_flag(q, "use_rms_norm", false, &normed);
    if (rc == 0)
        rc = quantized_check_kept(q);
    if (rc < 0)
        return rc;
    if (normed)
        return err_set(q->err, EOPNOTSUPP,
                       "config.json: quantization_config: use_rms_norm is not supported");
    /* The class BitLinear of transformers only knows packed weights. */
    hp->ternary = !multiplied ? TERNARY_DIVIDED : online ? TERNARY_ONLINE : TERNARY_MULTIPLIED;
    return 0;
}

int hf_get_quantized(const struct hf_reader *r, const struct arch_desc *desc,
                     const struct arch_class *class, struct hparams *hp)
{
    const json_t *quant = hf_get(r, "quantization_config", NULL);
    json_t *mlx = json_object_get(r->root, "quantization");
    const char *method;

    if (!quant)
        quant = hf_value(r->root, "quantization_config");
    method = json_string_value(json_object_get(quant, "quant_method"));
    /* MLX writes its settings under both names; old versions only wrote "quantization". */
    if (!method && json_is_object(mlx))
        return hf_check_mlx(r, mlx);
    if (!quant)
        return 0;
    if (method && strcmp(method, "bitnet") == 0 && !desc->encoder)
        return quantized_bitnet(&(struct hf_reader){.config = quant, .err = r->err}, hp);
    if (method && strcmp(method, "mxfp4") == 0 && (class->flags & CLASS_MXFP4))
        return 0;
    return quantized_refuse(r, desc, method);
}
