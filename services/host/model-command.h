/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers POST /v1/models/load and POST /v1/models/unload for services that have no endpoint of
 * their own for them. They are functions `answer` of a struct model_route.
 */

struct http_request;
struct model_host;

/* Loads the model of the body's field `model` for the purpose params.load_key() of the host, and
 * answers when it is in memory. The optional field `keep_alive` says how long it stays. */
void model_command_load(struct model_host *host, struct http_request *request);
/* Unloads the model, also if it is pinned. If requests still use it, it is unloaded after the last
 * of them, and the answer says so. */
void model_command_unload(struct model_host *host, struct http_request *request);
