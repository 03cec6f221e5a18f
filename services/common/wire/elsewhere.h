/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines how a service tells the gateway that another service has the model of a request.
 *
 * The gateway parses no bodies, so it sends requests for /v1/models/load and /v1/models/unload to
 * the chat service. If the model belongs to another service, the chat service answers with the
 * status ELSEWHERE_STATUS (RFC 9110, 421 Misdirected Request) and names that service in the header
 * ELSEWHERE_HEADER. The gateway then sends the same request to that service, once.
 */

#define ELSEWHERE_STATUS 421
#define ELSEWHERE_HEADER "x-sconce-service"
