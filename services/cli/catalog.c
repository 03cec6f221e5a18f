/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the installed models for verbs (see catalog.h). */
#include "cli/catalog.h"

#include <getopt.h>

#include "common/config/config.h"
#include "common/store/store.h"

void cli_catalog_done(struct cli_catalog *catalog)
{
    models_free(catalog->models);
    config_free(catalog->config);
    free(catalog->store);
    *catalog = (struct cli_catalog){0};
}

bool cli_catalog_options(const char *verb, const char *help, int argc, char **argv,
                         struct cli_models *m, bool *ret_json, int *ret_status)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'j') {
            *ret_json = true;
        } else if (c == 'h') {
            *ret_status = cli_help(help);
            return false;
        } else if (!cli_models_option(m, c, optarg)) {
            *ret_status = cli_usage(verb, "wrong option");
            return false;
        }
    }
    return true;
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
