/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-embed, the embed service, computes embeddings and rankings.
 *
 * It reads the configuration, confines itself, takes its sockets and serves.
 */
#include "common/config/config.h"
#include "common/config/options.h"
#include "common/models/models.h"
#include "common/service/log.h"
#include "common/service/misconfigured.h"
#include "embed/embed-request.h"
#include "embed/embed-resident.h"
#include "embed/embed.h"

/* Only the gateway and tools on this machine connect; by default, the gateway allows fewer
 * connections than this. */
#define EMBED_MAX_CONNECTIONS 4096

/* Models for ranking are loaded for scores, and all others for vectors. */
static const void *embed_load_key(const struct models_entry *entry)
{
    static const enum inf_embed_kind vectors = INF_EMBED_VECTORS, scores = INF_EMBED_SCORES;

    return entry->task == MODELS_RERANK ? &scores : &vectors;
}

static int embed_run(struct embed *embed, const struct options *options)
{
    const struct config *config = options->config;

    return model_host_run(&embed->host,
                          &(struct model_host_params){
                              .name = "embed",
                              .routes = embed_routes,
                              .n_routes = n_embed_routes,
                              .residents = &embed_residents_ops,
                              .max_models = config->embed.max_models,
                              .max_connections = EMBED_MAX_CONNECTIONS,
                              .max_requests = config->embed.max_queue,
                              .prepares = true,
                              .max_body = config->gateway.max_body,
                              .idle_timeout_usec = config->embed.idle_timeout_usec,
                              .request_timeout_usec = config->embed.request_timeout_usec,
                              .status = embed_status,
                              .begin = call_new,
                              .load_key = embed_load_key,
                          },
                          options);
}

int main(int argc, char **argv)
{
    static struct embed embed;
    struct options options;
    int r;

    log_open("embed");
    r = options_read("embed", argc, argv, &options);
    if (r >= 0)
        return r;
    metrics_open();
    if (!misconfigured_confine("embed", &options))
        r = 1;
    else if (options.wrong)
        r = misconfigured_serve("embed", &options);
    else
        r = embed_run(&embed, &options);
    options_done(&options);
    return r;
}
