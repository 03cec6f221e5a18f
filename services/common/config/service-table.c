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

const struct service_row *service_row_of_unit(const char *unit)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        const size_t n = strlen(service_rows[i].program);

        if (strncmp(unit, service_rows[i].program, n) == 0 && (unit[n] == '.' || unit[n] == '-'))
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
