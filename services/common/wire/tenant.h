/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the tenant of a request, the owner of its cached prompts, from a header.
 *
 * Clients cannot set the header, because the gateway drops it from their requests, and only the
 * gateway and root can connect to the sockets of services.
 */

#include "common/http/http.h"

#define TENANT_HEADER "x-sconce-tenant"
#define TENANT_SIZE   48
/* The tenant of a request that shares cached prompts with no other request, not even with later
 * requests of the same client. */
#define TENANT_ALONE "alone"

/* Writes the tenant to @out; "" if there is no such header. */
void tenant_take(const struct http_request *request, char out[TENANT_SIZE]);
bool tenant_is_alone(const char *tenant);
