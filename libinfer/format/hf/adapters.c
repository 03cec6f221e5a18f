/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads models with task adapters: jina-embeddings-v4.
 *
 * The model's config.json names the tasks, and says how a text's vectors are pooled and how wide
 * its token vectors are. The folder adapters/ has the low-rank matrices (LoRA, Hu et al. 2021) of
 * all tasks in one file, as PEFT stores them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "format/hf/config.h"
#include "format/hf/reader.h"
#include "format/impl.h"
#include "format/json.h"

#define CONFIG_MAX ((size_t)1 << 20)
#define RANK_MAX   4096u

static bool is_task_name(const char *name)
{
    const size_t n = name ? strlen(name) : 0;

    return n > 0 && n < HPARAMS_TASK_NAME && !strpbrk(name, "./");
}

static int get_tasks(const struct hf_reader *r, struct hparams_embed *e)
{
    static const char *const usual[] = {"retrieval", "text-matching", "code"};
    const json_t *names = hf_get(r, "task_names", NULL);
    const size_t n = names ? json_array_size(names) : ARRAY_SIZE(usual);

    if (n == 0 || n > HPARAMS_MAX_TASKS)
        return err_set(r->err, EBADMSG, "config.json: task_names is not a list of up to %u names",
                       HPARAMS_MAX_TASKS);
    for (size_t i = 0; i < n; i++) {
        const char *name = names ? json_string_value(json_array_get(names, i)) : usual[i];

        if (!is_task_name(name))
            return err_set(r->err, EBADMSG, "config.json: task_names[%zu] is not a name", i);
        snprintf(e->tasks[i], sizeof(e->tasks[i]), "%s", name);
    }
    e->n_tasks = (uint32_t)n;
    return 0;
}

/* The settings are at the top level of the file. */
int hf_extra_jina(const struct hf_reader *in, const struct arch_class *class UNUSED,
                  struct hparams *hp)
{
    const struct hf_reader r = {.config = in->root, .err = in->err};
    const json_t *strategy = hf_get(&r, "single_vector_pool_strategy", NULL);
    struct hparams_embed *e = &hp->embed;
    int rc;

    if (strategy && (!json_is_string(strategy) || strcmp(json_string_value(strategy), "mean") != 0))
        return err_set(r.err, EOPNOTSUPP,
                       "config.json: single_vector_pool_strategy must be \"mean\"");
    e->pooling = POOLING_MEAN;
    rc = hf_get_count(&r, "multi_vector_projector_dim", NULL, 128, &e->multi_out);
    if (rc == 0 && (e->multi_out == 0 || e->multi_out > 1u << 20))
        return err_set(r.err, EBADMSG, "config.json: multi_vector_projector_dim is %u",
                       e->multi_out);
    return rc == 0 ? get_tasks(&r, e) : rc;
}

/* Refuses settings that would change the results and are not supported. */
static int check_refused(const struct hf_reader *r)
{
    static const char *const flags[] = {"use_dora", "lora_bias", "fan_in_fan_out"};
    static const char *const patterns[] = {"rank_pattern", "alpha_pattern", "modules_to_save"};
    const json_t *type = hf_get(r, "peft_type", NULL), *bias = hf_get(r, "bias", NULL);

    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "LORA") != 0))
        return err_set(r->err, EOPNOTSUPP, "adapter_config.json: \"peft_type\" must be \"LORA\"");
    if (bias && (!json_is_string(bias) || strcmp(json_string_value(bias), "none") != 0))
        return err_set(r->err, EOPNOTSUPP, "adapter_config.json: \"bias\" must be \"none\"");
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (json_is_true(hf_get(r, flags[i], NULL)))
            return err_set(r->err, EOPNOTSUPP, "adapter_config.json: %s is not supported",
                           flags[i]);
    for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
        const json_t *x = hf_get(r, patterns[i], NULL);

        if (x && json_object_size(x) + json_array_size(x) > 0)
            return err_set(r->err, EOPNOTSUPP, "adapter_config.json: %s is not supported",
                           patterns[i]);
    }
    return 0;
}

static int parse_adapters(const json_t *config, struct hparams_embed *e, struct inf_err *reterr)
{
    const struct hf_reader r = {.config = config, .err = reterr};
    float alpha = 0;
    int rc;

    rc = check_refused(&r);
    if (rc == 0)
        rc = hf_get_count(&r, "r", NULL, 8, &e->lora_rank);
    if (rc == 0)
        rc = hf_get_number(&r, "lora_alpha", NULL, 8, &alpha);
    if (rc < 0)
        return rc;
    if (e->lora_rank == 0 || e->lora_rank > RANK_MAX || !isfinite(alpha))
        return err_set(reterr, EBADMSG, "adapter_config.json: r is %u and lora_alpha is %g",
                       e->lora_rank, (double)alpha);
    e->lora_scale = json_is_true(hf_get(&r, "use_rslora", NULL))
                        ? alpha / sqrtf((float)e->lora_rank)
                        : alpha / (float)e->lora_rank;
    return 0;
}

int format_read_adapters(struct format *f, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, "adapters/adapter_config.json");
    _cleanup_json_ json_t *config = NULL;
    int r;

    if (f->hp.embed.n_tasks == 0)
        return 0;
    /* The model's own code normalizes vectors, even if modules.json lists no normalization. */
    f->hp.embed.raw = false;
    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    r = json_text_read(path, CONFIG_MAX, 0, &config, reterr);
    return r == 0 ? parse_adapters(config, &f->hp.embed, reterr) : r;
}
