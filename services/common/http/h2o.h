/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Includes libh2o for loop.c, client.c, idle.c, and the files of server.h.
 *
 * No other file includes this header or the headers of libh2o.
 */

#include <h2o.h>
#include <h2o/http1.h>

#include "common/http/http.h"
#include "common/service/loop.h"

struct http_base {
    h2o_loop_t *loop;
};
