/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the rows of services.ini and looks them up (see service-table.h). */
#include "common/config/service-table.h"

#include <string.h>

#include "common/config/config.h"

const struct service_row service_rows[N_SERVICES] = {SERVICE_ROWS};

#define BACKEND_ROW(id) &service_rows[id]
const struct service_row *const service_backends[N_BACKENDS] = {SERVICE_BACKENDS(BACKEND_ROW)};

const char *const service_units[N_SERVICE_UNITS] = {SERVICE_UNITS};

const struct service_row *service_row_find(const char *name)
{
    for (size_t i = 0; i < N_SERVICES; i++)
        if (strcmp(service_rows[i].name, name) == 0)
            return &service_rows[i];
    return NULL;
}

/* Returns whether @unit is a unit of the program that is started for the service (see `starts`). */
static bool service_row_starts_unit(const struct service_row *row, const char *unit)
{
    const size_t n = row->starts ? strlen(row->starts) : 0;

    return n > 0 && strncmp(unit, "sconce-", 7) == 0 && strncmp(unit + 7, row->starts, n) == 0 &&
           (unit[7 + n] == '.' || unit[7 + n] == '@');
}

const struct service_row *service_row_of_unit(const char *unit)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        const size_t n = strlen(service_rows[i].program);

        if (strncmp(unit, service_rows[i].program, n) == 0 && (unit[n] == '.' || unit[n] == '-'))
            return &service_rows[i];
        if (service_row_starts_unit(&service_rows[i], unit))
            return &service_rows[i];
    }
    return NULL;
}

bool service_row_connects(const struct service_row *row, enum service_id other)
{
    return row->connects & 1u << other;
}

static uint64_t service_row_u64(const struct config *config, size_t offset)
{
    return *(const uint64_t *)((const char *)config + offset);
}

uint64_t service_row_idle_usec(const struct service_row *row, const struct config *config)
{
    return service_row_u64(config, row->idle_timeout);
}

uint64_t service_row_max_body(const struct service_row *row, const struct config *config)
{
    return row->max_body ? service_row_u64(config, row->max_body) : 0;
}
