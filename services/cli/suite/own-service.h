/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A service for the length of one command
 *
 * Where no gateway answers, or where a model is named by its path, a verb starts the service that
 * it needs itself, as `sconce serve` would, behind the service's own walls. The verb's work is done
 * in a child, while the parent supervises the service and passes signals on.
 */

#include "cli/cli.h"

struct own_service {
    const char *verb;                /* for messages */
    const char *service;             /* "embed" or "audio" */
    const struct cli_models *models; /* what --models and --config say */
    const char *model;               /* a name or a path; NULL: what the service takes by itself */
};

/* Whether @own is to be started instead of asking the gateway at @address. */
bool own_service_is_needed(const struct own_service *own, const char *address);
/* Starts it and calls @work in a child: with the service's address, with the name by which it knows
 * the model (NULL as in @own), and with @data. Returns the exit status of @work; 128 and the number
 * of the signal that ended it; or CLI_FAILED, which was told. */
int own_service_run(const struct own_service *own,
                    int (*work)(const char *address, const char *model, void *data), void *data);
