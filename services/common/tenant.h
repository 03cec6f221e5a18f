/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose caches a request uses, as the gateway tells the services behind it
 *
 * Clients cannot say it: the gateway passes none of their headers of this name. Whoever else
 * reaches the socket of a service is trusted as much as the gateway.
 */

#include "common/http.h"

#define TENANT_HEADER "x-sconce-tenant"
#define TENANT_SIZE   48

/* "" when the header is not there. */
void tenant_take(const struct http_request *request, char out[TENANT_SIZE]);
