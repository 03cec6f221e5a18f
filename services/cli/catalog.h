/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens the list of installed models and the store, for verbs that handle installed models. */

#include "cli/cli.h"
#include "common/models/models.h"

/* The configuration, the installed models and the store. A struct of zeros is empty. */
struct cli_catalog {
    struct config *config;
    struct models *models;
    char *store; /* the directory into which models are installed */
};

/* Parses the options of a verb that has only --json, --help and the options that choose models
 * (struct cli_models). @help is the verb's help text. Returns true if the verb goes on;
 * argv[optind] is then the first name on the command line. Returns false if the verb ends with the
 * exit status *ret_status. */
bool cli_catalog_options(const char *verb, const char *help, int argc, char **argv,
                         struct cli_models *m, bool *ret_json, int *ret_status);
/* Reads the configuration, searches for the models and finds the store. Returns CLI_OK, or prints
 * an error. */
int cli_catalog_open(const char *verb, const struct cli_models *m, struct cli_catalog *ret_catalog);
void cli_catalog_done(struct cli_catalog *catalog);
/* Finds a model by its name or alias. NULL: there is none, and the reason is printed. */
const struct models_entry *cli_catalog_find(const char *verb, const struct cli_catalog *catalog,
                                            const char *name);
