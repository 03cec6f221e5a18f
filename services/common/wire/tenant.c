/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the header with the tenant (see tenant.h). */
#include "common/wire/tenant.h"

#include <stdio.h>
#include <string.h>

void tenant_take(const struct http_request *request, char out[TENANT_SIZE])
{
    struct http_text tenant = {"", 0};

    http_request_header(request, TENANT_HEADER, &tenant);
    snprintf(out, TENANT_SIZE, "%.*s", (int)MIN(tenant.len, TENANT_SIZE - 1), tenant.data);
}

bool tenant_is_alone(const char *tenant)
{
    return strcmp(tenant, TENANT_ALONE) == 0;
}
