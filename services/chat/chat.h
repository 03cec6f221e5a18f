/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The chat service runs models that generate text, and offers them through HTTP APIs (chat-api.h).
 *
 * The thread of the event loop owns all objects. Two threads open and load models, several threads
 * render templates and tokenize prompts, and each engine has its own thread.
 */

#include "chat/device.h"
#include "host/model-host.h"

struct chat_stats {
    uint64_t n_prompt_tokens, n_cached_tokens, n_generated_tokens;
    uint64_t n_finished_stop, n_finished_length;
    struct metrics_histogram first_token;
    double prompt_seconds, generation_seconds; /* time spent on computing prompts, and on generating
                                                  tokens */
    uint64_t n_most_tokens;                    /* the largest number of tokens in a prompt and its
                                                  answer */
};

struct chat {
    struct model_host host;
    struct chat_device device;
    char *keep_socket;       /* path of the keep service's socket; NULL: no directory for sockets is
                                known */
    struct job_lane keeping; /* queue of the calls to the keep service */
    char *cache_socket; /* path of the cache service's socket; NULL: no cache service is used */
    struct chat_stats stats;
};

/* router.c */
extern const struct model_route chat_routes[];
extern const size_t n_chat_routes;

/* listing.c */
void chat_list_models(struct model_host *host, struct http_request *request);
void chat_show_model(struct model_host *host, struct http_request *request);

/* api/ollama-models.c and api/ollama-show.c */
void ollama_tags(struct model_host *host, struct http_request *request);
void ollama_ps(struct model_host *host, struct http_request *request);
void ollama_show(struct model_host *host, struct http_request *request);

/* api/properties.c, api/slots.c */
void chat_properties(struct model_host *host, struct http_request *request);
void chat_slots(struct model_host *host, struct http_request *request);
void chat_slot_action(struct model_host *host, struct http_request *request);

/* report.c */
void chat_health(struct model_host *host, struct http_request *request);
void chat_metrics(struct model_host *host, struct http_request *request);
/* The callback params.status of the host. */
void chat_status(void *host, char *text, size_t size);
