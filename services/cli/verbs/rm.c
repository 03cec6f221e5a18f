/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce rm: removes models from the store
 */
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/cli.h"
#include "common/store/store.h"

static const char help[] =
    "Usage: sconce rm [--json] MODEL...\n"
    "Removes models with their files. A file that other models share stays. A service that\n"
    "uses a model keeps it in memory until the service unloads it.\n\n"
    "  --json               print a JSON array\n" CLI_MODELS_HELP;

/* Removes one model, and reports this. */
static int rm_model(const struct cli_catalog *catalog, const char *name, json_t *list)
{
    const struct models_entry *entry = cli_catalog_find("rm", catalog, name);
    struct inf_err err;
    uint64_t bytes;

    if (!entry)
        return CLI_FAILED;
    if (store_remove(catalog->store, entry, &bytes, &err) < 0)
        return cli_error("rm", "%s", err.text);
    if (list)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "name", entry->name, "path",
                                              entry->path, "freed", (json_int_t)bytes));
    else
        printf("removed %s, which frees %s\n", entry->name, cli_size(bytes));
    return CLI_OK;
}

static int rm_all(const struct cli_catalog *catalog, int n, char **names, bool json)
{
    json_t *list = json ? json_array() : NULL;
    int status = CLI_OK;

    for (int i = 0; i < n; i++)
        if (rm_model(catalog, names[i], list) != CLI_OK)
            status = CLI_FAILED;
    if (list) {
        json_dumpf(list, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(list);
    }
    return status;
}

int verb_rm(int argc, char **argv)
{
    _cleanup_(cli_catalog_done) struct cli_catalog catalog = {0};
    _cleanup_close_ int lock = -1;
    struct cli_models m = {0};
    struct inf_err err;
    bool json = false;
    int r;

    if (!cli_catalog_options("rm", help, argc, argv, &m, &json, &r))
        return r;
    if (optind == argc)
        return cli_usage("rm", "give the names of the models to remove");
    r = cli_catalog_open("rm", &m, &catalog);
    if (r == CLI_OK && store_lock(catalog.store, &lock, &err) < 0)
        r = cli_error("rm", "%s", err.text);
    return r == CLI_OK ? rm_all(&catalog, argc - optind, argv + optind, json) : r;
}
