/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce alias: gives models further names
 */
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/cli.h"
#include "common/models/safe-path.h"
#include "common/store/store.h"

static const char help[] = "Usage: sconce alias [--json] MODEL ALIAS\n"
                           "       sconce alias [--json] --remove ALIAS\n"
                           "Gives an installed model another name, or removes such a name.\n\n"
                           "  --remove ALIAS       remove this name\n"
                           "  --json               print a JSON object\n" CLI_MODELS_HELP;

static int alias_told(const char *model, const char *alias, bool removed, bool json)
{
    json_t *out;

    if (!json) {
        printf(removed ? "\"%s\" is no longer a name of %s\n" : "\"%s\" is a name of %s now\n",
               alias, model);
        return CLI_OK;
    }
    out = json_pack("{s:s, s:s, s:b}", "model", model, "alias", alias, "removed", (int)removed);
    if (!out)
        return cli_error("alias", "the names are not UTF-8");
    json_dumpf(out, stdout, JSON_INDENT(2));
    json_decref(out);
    putchar('\n');
    return CLI_OK;
}

static int alias_add(const struct cli_catalog *catalog, const char *name, const char *alias,
                     bool json)
{
    const struct models_entry *entry = cli_catalog_find("alias", catalog, name);
    const struct models_entry *taken = models_find(catalog->models, alias);
    struct inf_err err;

    if (!entry)
        return CLI_FAILED;
    if (!model_name_is_safe(alias))
        return cli_error("alias",
                         "\"%s\" cannot be a name: a name is one word, or two words with a slash "
                         "between them, and no word begins with a dot",
                         alias);
    if (taken)
        return cli_error("alias", "\"%s\" is a name of %s already", alias, taken->name);
    if (store_alias_add(catalog->store, entry, alias, &err) < 0)
        return cli_error("alias", "%s", err.text);
    return alias_told(entry->name, alias, false, json);
}

static int alias_remove(const struct cli_catalog *catalog, const char *alias, bool json)
{
    const struct models_entry *entry = cli_catalog_find("alias", catalog, alias);
    struct inf_err err;

    if (!entry)
        return CLI_FAILED;
    if (store_alias_remove(catalog->store, entry, alias, &err) < 0)
        return cli_error("alias", "%s", err.text);
    return alias_told(entry->name, alias, true, json);
}

int verb_alias(int argc, char **argv)
{
    static const struct option options[] = {
        {"remove", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    _cleanup_(cli_catalog_done) struct cli_catalog catalog = {0};
    _cleanup_close_ int lock = -1;
    const char *removed = NULL;
    struct cli_models m = {0};
    struct inf_err err;
    bool json = false;
    int c, r;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'j')
            json = true;
        else if (c == 'r')
            removed = optarg;
        else if (c == 'h')
            return cli_help(help);
        else if (!cli_models_option(&m, c, optarg))
            return cli_usage("alias", "wrong option");
    }
    if (argc - optind != (removed ? 0 : 2))
        return cli_usage("alias", "give a model and its new name, or --remove and a name");
    r = cli_catalog_open("alias", &m, &catalog);
    if (r == CLI_OK && store_lock(catalog.store, &lock, &err) < 0)
        r = cli_error("alias", "%s", err.text);
    if (r != CLI_OK)
        return r;
    return removed ? alias_remove(&catalog, removed, json)
                   : alias_add(&catalog, argv[optind], argv[optind + 1], json);
}
