/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from config.json how weights are quantized.
 *
 * The number format follows from the tensors themselves. The settings only decide what does not
 * follow from the tensors, and whether a format is supported. Other formats are refused by name.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

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

/* Reads a key whose value is one of two words. *ret_second: whether the value is @second. */
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

/* Reads "group_size", which is -1 if all columns share a scale. */
static int quantized_group(const struct hf_reader *q, struct hparams *hp)
{
    const json_t *x = hf_get(q, "group_size", NULL);

    if (x && (!json_is_integer(x) || json_integer_value(x) < -1 || json_integer_value(x) == 0 ||
              json_integer_value(x) > INT32_MAX))
        return err_set(q->err, EBADMSG,
                       "config.json: quantization_config: group_size is not a number of columns");
    if (x && json_integer_value(x) > 0)
        hp->coded_group = (uint32_t)json_integer_value(x);
    return 0;
}

static int quantized_gptq(const struct hf_reader *q, struct hparams *hp)
{
    bool is_v2 = false;
    int rc = quantized_word(q, "checkpoint_format", "gptq", "gptq_v2", &is_v2);

    hp->coded = is_v2 ? CODED_GPTQ_V2 : CODED_GPTQ;
    return rc == 0 ? quantized_group(q, hp) : rc;
}

static int quantized_awq(const struct hf_reader *q, struct hparams *hp)
{
    const json_t *version = hf_get(q, "version", NULL);
    const char *word = version ? json_string_value(version) : "gemm";
    uint32_t bits = 4;
    int rc;

    if (!word || strcasecmp(word, "gemm") != 0)
        return err_set(q->err, EOPNOTSUPP,
                       "config.json: quantization_config: version \"%.32s\" of AWQ is not "
                       "supported; only \"gemm\" is",
                       word ? word : "?");
    rc = hf_get_count(q, "bits", "w_bit", 4, &bits);
    if (rc == 0 && bits != 4)
        return err_set(q->err, EOPNOTSUPP,
                       "config.json: quantization_config: AWQ with %u bits is not supported, only "
                       "with 4",
                       bits);
    hp->coded = CODED_AWQ;
    return rc == 0 ? quantized_group(q, hp) : rc;
}

/* Reads the settings of ParoQuant 0.1, which is AWQ with rotations of the inputs. */
static int quantized_paro(const struct hf_reader *q, struct hparams *hp)
{
    const int r = quantized_awq(q, hp);

    hp->coded = CODED_PARO;
    return r;
}

/* Returns whether a value is missing, null, false, or an empty object or list. */
static bool quantized_is_empty(const json_t *x)
{
    return !x || json_is_null(x) || json_is_false(x) ||
           (json_is_object(x) && json_object_size(x) == 0) ||
           (json_is_array(x) && json_array_size(x) == 0);
}

/* Reads the settings of compressed-tensors. The rest follows from the shapes and types of
 * tensors. */
static int quantized_tensors(const struct hf_reader *q, struct hparams *hp)
{
    const json_t *sparsity = hf_get(q, "sparsity_config", NULL), *groups, *x;
    const char *format, *key;

    format = json_string_value(hf_value(sparsity, "format"));
    if (!quantized_is_empty(sparsity) && (!format || strcmp(format, "dense") != 0))
        return err_set(q->err, EOPNOTSUPP,
                       "config.json: quantization_config: sparsity_config is not supported");
    if (!quantized_is_empty(hf_value(hf_get(q, "transform_config", NULL), "config_groups")))
        return err_set(q->err, EOPNOTSUPP,
                       "config.json: quantization_config: transform_config is not supported");
    groups = hf_get(q, "config_groups", NULL);
    json_object_foreach((json_t *)groups, key, x)
    {
        const struct hf_reader weights = {.config = hf_value(x, "weights"), .err = q->err};
        int rc = weights.config ? quantized_group(&weights, hp) : 0;

        if (rc < 0)
            return rc;
    }
    hp->coded = CODED_TENSORS;
    return 0;
}

static int quantized_fp8(const struct hf_reader *q, struct hparams *hp)
{
    const json_t *size = hf_get(q, "weight_block_size", NULL);
    bool is_e5m2 = false;

    if (size && (json_array_size(size) != 2 || json_integer_value(json_array_get(size, 0)) != 128 ||
                 json_integer_value(json_array_get(size, 1)) != 128))
        return err_set(q->err, EOPNOTSUPP,
                       "config.json: quantization_config: only a weight_block_size of 128 x 128 is "
                       "supported");
    hp->coded = CODED_FP8;
    return quantized_word(q, "fmt", "e4m3", "float8_e4m3fn", &is_e5m2);
}

static int quantized_bits_and_bytes(const struct hf_reader *q, struct hparams *hp)
{
    bool is_8 = false;
    int rc = hf_get_flag(q, "load_in_8bit", false, &is_8);

    if (rc == 0 && is_8)
        return err_set(q->err, EOPNOTSUPP,
                       "config.json: quantization_config: load_in_8bit is not supported, only "
                       "4 bits");
    hp->coded = CODED_4BIT;
    return rc;
}

/* Reads the settings of a coded matrix (quant/coded.h). Returns 1 if @method is another format. */
static int quantized_coded(const struct hf_reader *q, const char *method, struct hparams *hp)
{
    static const struct {
        const char *method;
        int (*read)(const struct hf_reader *q, struct hparams *hp);
    } methods[] = {
        {"gptq", quantized_gptq},
        {"awq", quantized_awq},
        {"paroquant", quantized_paro},
        {"compressed-tensors", quantized_tensors},
        {"fp8", quantized_fp8},
        {"fbgemm_fp8", quantized_fp8},
        {"bitsandbytes", quantized_bits_and_bytes},
    };

    for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
        if (strcmp(methods[i].method, method) == 0)
            return methods[i].read(q, hp);
    return 1;
}

int hf_get_quantized(const struct hf_reader *r, const struct arch_desc *desc,
                     const struct arch_class *class, struct hparams *hp)
{
    const json_t *quant = hf_get(r, "quantization_config", NULL);
    json_t *mlx = json_object_get(r->root, "quantization");
    const char *method;

    if (!quant)
        quant = hf_value(r->root, "quantization_config");
    if (!quant) /* files of older versions of compressed-tensors */
        quant = hf_value(r->root, "compression_config");
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
    if (method) {
        const int rc =
            quantized_coded(&(struct hf_reader){.config = quant, .err = r->err}, method, hp);

        if (rc <= 0)
            return rc;
    }
    return quantized_refuse(r, desc, method);
}
