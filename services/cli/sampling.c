/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the sampling parameters that are used with a model if the user gives none. */
#include "cli/sampling.h"

#include "cli/cli.h"
#include "common/config/config.h"
#include "common/models/models.h"

int cli_sampling(const char *verb, const struct cli_models *m, const char *name,
                 const struct inf_model *model, struct inf_sampling *s,
                 enum sampling_source sources[N_SAMPLING_KEYS])
{
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    const struct models_entry *entry;
    struct inf_sampling own;
    const int r = cli_config(verb, m, &config);

    if (r != CLI_OK)
        return r;
    if (models_scan(config, &models) < 0)
        return cli_error(verb, "out of memory");
    entry = models_find(models, name);
    if (entry)
        sampling_fill(s, &entry->sampling, SAMPLING_OF_MANIFEST, sources);
    sampling_of_model(model, &own);
    sampling_fill(s, &own, SAMPLING_OF_MODEL, sources);
    sampling_fill(s, &config->sampling, SAMPLING_OF_CONFIG, sources);
    if (config->temperature_last == CONFIG_LAST_TRUE) {
        s->order = sampling_llama.order;
        s->n_order = sampling_llama.n_order;
    }
    if (!s->has_seed && config->seed != UINT32_MAX) {
        s->has_seed = true;
        s->seed = config->seed;
    }
    return CLI_OK;
}
