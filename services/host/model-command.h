/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers POST /v1/models/load and POST /v1/models/unload for services that do not answer these
 * paths themselves. The functions are values of the member `answer` of struct model_route.
 */

struct http_request;
struct model_host;

/* Loads the model that the field `model` of the body names, for the purpose that params.load_key()
 * of the host returns. Answers when the model is in memory. The optional field `keep_alive` says
 * how long the model stays. */
void model_command_load(struct model_host *host, struct http_request *request);
/* Unloads the model, also if it is pinned. If requests still use it, it is unloaded after the last
 * of them, and the answer says so. */
void model_command_unload(struct model_host *host, struct http_request *request);
