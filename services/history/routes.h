/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the routes of the history service that the gateway forwards. Each row is ROUTE(METHOD,
 * PATH, RIGHT, MATCH, ERRORS, HANDLER), as in the routes.h of the other services.
 *
 * The history shows the names of all API keys and what each of them used, so it needs the right to
 * manage.
 */

#define HISTORY_ROUTES(ROUTE)                                                                      \
    ROUTE(GET, "/v1/history", MANAGE, EXACT, openai, .answer = history_report)
