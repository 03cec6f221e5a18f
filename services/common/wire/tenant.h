/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose caches a request uses, as the gateway tells the services behind it
 *
 * Clients cannot say it: the gateway passes none of their headers of this name, and the sockets of
 * services are open to nobody but the gateway and root.
 */

#include "common/http/http.h"

#define TENANT_HEADER "x-sconce-tenant"
#define TENANT_SIZE   48
/* Of a request that shares nothing with any other, the next one of its own client included. */
#define TENANT_ALONE "alone"

/* "" when the header is not there. */
void tenant_take(const struct http_request *request, char out[TENANT_SIZE]);
bool tenant_is_alone(const char *tenant);
