/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts a service that runs only for one command.
 *
 * A verb starts the service that it needs, as `sconce serve` would, in three cases: no gateway
 * answers; the model is given by its path; or --models or --config is given. The service confines
 * itself as usual. The verb does its work in a child process, while the parent supervises the
 * service and forwards signals.
 */

#include "cli/cli.h"
#include "common/config/service-table.h"

struct own_service {
    const char *verb; /* for messages */
    const struct service_row *service;
    const struct cli_models *models; /* the options --models and --config */
    const char *model;               /* a name or a path; NULL: the service's default */
};

/* Returns true if the service must be started: the options --models or --config are given, the
 * model is given by its path, or the gateway at @address cannot be used. */
bool own_service_is_needed(const struct own_service *own, const char *address);
/* Starts the service and calls @work in a child process, with the service's address, the name under
 * which the service knows the model (NULL if own->model is NULL), and @data. Returns the exit
 * status of @work; 128 plus the number of the signal that killed the child; or CLI_FAILED after
 * printing an error. */
int own_service_run(const struct own_service *own,
                    int (*work)(const char *address, const char *model, void *data), void *data);
