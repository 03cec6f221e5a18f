/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tenants: owners of cached prompts. A header tells a service the tenant of a request
 *
 * Clients cannot set the header: the gateway drops it from their requests, and only the gateway and
 * root can connect to the sockets of services.
 */

#include "common/http/http.h"

#define TENANT_HEADER "x-sconce-tenant"
#define TENANT_SIZE   48
/* For a request that shares nothing with any other, not even with later requests of the same
 * client. */
#define TENANT_ALONE "alone"

/* Returns "" if the header is absent. */
void tenant_take(const struct http_request *request, char out[TENANT_SIZE]);
bool tenant_is_alone(const char *tenant);
