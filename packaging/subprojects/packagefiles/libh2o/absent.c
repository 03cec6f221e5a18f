/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contains stubs for functions of libh2o that sconce does not build, although the parts that it
 * builds refer to them.
 *
 * HTTP/2 (libh2o 2.2 has no protection against rapid resets), the reverse proxy, TLS sessions in
 * memcached and configuration files are not in this library. The stubs of configuration files do
 * nothing, and an upgrade to HTTP/2 fails. The other stubs abort the process. They are never
 * called, because HTTP/2 is not offered, each request has a handler, and connections do not use
 * TLS.
 */
#include <stdlib.h>

#include "h2o.h"
#include "h2o/configurator.h"
#include "h2o/http2.h"
#include "h2o/memcached.h"

const h2o_protocol_callbacks_t H2O_HTTP2_CALLBACKS = {0};
const h2o_http2_settings_t H2O_HTTP2_SETTINGS_HOST = {0};

void h2o_http2_accept(h2o_accept_ctx_t *ctx, h2o_socket_t *sock, struct timeval connected_at)
{
    abort();
}

int h2o_http2_handle_upgrade(h2o_req_t *req, struct timeval connected_at)
{
    return -1;
}

void h2o__proxy_process_request(h2o_req_t *req)
{
    abort();
}

h2o_memcached_req_t *h2o_memcached_get(h2o_memcached_context_t *ctx,
                                       h2o_multithread_receiver_t *receiver, h2o_iovec_t key,
                                       h2o_memcached_get_cb cb, void *cb_data, int flags)
{
    abort();
}

void h2o_memcached_cancel_get(h2o_memcached_context_t *ctx, h2o_memcached_req_t *req)
{
    abort();
}

void h2o_memcached_set(h2o_memcached_context_t *ctx, h2o_iovec_t key, h2o_iovec_t value,
                       uint32_t expiration, int flags)
{
    abort();
}

void h2o_configurator__init_core(h2o_globalconf_t *conf)
{
}

void h2o_configurator__dispose_configurators(h2o_globalconf_t *conf)
{
}
