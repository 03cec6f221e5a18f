/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the installed models for verbs (see catalog.h). */
#include "cli/catalog.h"

#include "common/config/config.h"
#include "common/store/store.h"

void cli_catalog_done(struct cli_catalog *catalog)
{
    models_free(catalog->models);
    config_free(catalog->config);
    free(catalog->store);
    *catalog = (struct cli_catalog){0};
}

int cli_catalog_open(const char *verb, const struct cli_models *m, struct cli_catalog *ret_catalog)
{
    struct cli_catalog catalog = {0};
    struct inf_err err;
    int r = cli_config(verb, m, &catalog.config);

    if (r != CLI_OK)
        return r;
    if (models_scan(catalog.config, &catalog.models) < 0)
        r = cli_error(verb, "out of memory");
    else if (store_directory(catalog.config, m->n_dirs > 0, &catalog.store, &err) < 0)
        r = cli_error(verb, "%s", err.text);
    if (r != CLI_OK)
        cli_catalog_done(&catalog);
    else
        *ret_catalog = catalog;
    return r;
}

const struct models_entry *cli_catalog_find(const char *verb, const struct cli_catalog *catalog,
                                            const char *name)
{
    const struct models_entry *entry = models_find(catalog->models, name);

    if (!entry)
        cli_tell_no_model(verb, name, catalog->config, catalog->models);
    return entry;
}
