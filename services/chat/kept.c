/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards requests for kept responses and conversations to the keep service. */
#include "chat/kept.h"

#include <errno.h>
#include <string.h>

#include "chat/chat-api.h"
#include "chat/chat.h"
#include "common/http/api-error.h"
#include "common/wire/keep-client.h"
#include "host/model-request.h"

int kept_ask(const struct chat *chat, const struct keep_question *question, struct str *body,
             int *ret_status)
{
    return chat->keep_socket ? keep_client_ask(chat->keep_socket, question, body, ret_status)
                             : -ENOENT;
}

int kept_unavailable(int error, struct problem *problem)
{
    problem_set(problem, 503, "keep_unavailable", NULL,
                "The keep service, which keeps responses and conversations, cannot be reached: %s.",
                strerror(-error));
    problem->retry_sec = 5;
    return -EINVAL;
}

/* A request that is passed on to the keep service. */
struct kept {
    struct model_request request;
    struct chat *chat;
    char tenant[TENANT_SIZE];
    const char *method;
    struct str target, body, answer;
    int result, status;
};

static struct kept *kept_of(struct model_request *request)
{
    return CONTAINER_OF(request, struct kept, request);
}

static void kept_work(struct model_request *request)
{
    struct kept *k = kept_of(request);

    k->result = kept_ask(k->chat,
                         &(struct keep_question){
                             .method = k->method,
                             .target = {k->target.data, k->target.len},
                             .tenant = k->tenant,
                             .id = request->id,
                             .body = {k->body.data, k->body.len},
                         },
                         &k->answer, &k->status);
}

static void kept_then(struct model_request *request)
{
    struct kept *k = kept_of(request);
    struct problem problem;

    if (k->result == -ENAMETOOLONG) {
        problem_set(&problem, 404, "unknown_url", NULL, "The path or the query is too long.");
        model_request_refuse(request, &problem);
    } else if (k->result < 0) {
        kept_unavailable(k->result, &problem);
        model_request_refuse(request, &problem);
    } else {
        request->ended = true;
        http_respond(request->http, k->status, "application/json", k->answer.data, k->answer.len);
    }
}

static void kept_cancel(struct model_request *request)
{
    (void)request;
}

static void kept_done(struct model_request *request)
{
    struct kept *k = kept_of(request);

    str_done(&k->target);
    str_done(&k->body);
    str_done(&k->answer);
}

/* Copies the parts of the HTTP request that the keep service needs. The client may disconnect while
 * a thread uses them. */
static int kept_copy(struct kept *k, const struct http_request *http)
{
    const struct http_text method = http_request_method(http), path = http_request_path(http);
    const struct http_text query = http_request_query(http), body = http_request_body(http);
    int r;

    k->method = http_text_is(method, "POST")     ? "POST"
                : http_text_is(method, "DELETE") ? "DELETE"
                                                 : "GET";
    r = str_append(&k->target, path.data, path.len);
    if (query.len) {
        r = r < 0 ? r : str_putc(&k->target, '?');
        r = r < 0 ? r : str_append(&k->target, query.data, query.len);
    }
    return r < 0 ? r : str_append(&k->body, body.data, body.len);
}

static void kept_take(struct model_host *host, struct http_request *http)
{
    static const struct model_request_ops ops = {
        .size = sizeof(struct kept),
        .cancel = kept_cancel,
        .done = kept_done,
    };
    struct model_request *request = model_request_new(host, &ops, http);
    struct kept *k = kept_of(request);

    if (!request)
        return;
    k->chat = CONTAINER_OF(host, struct chat, host);
    tenant_take(http, k->tenant);
    if (!model_request_admit(request))
        return;
    if (kept_copy(k, http) < 0)
        model_request_fail(request, 503, "out_of_memory", "Out of memory.");
    else
        model_request_aside(request, &k->chat->keeping, kept_work, kept_then);
}

const struct chat_api api_kept = {.take = kept_take};
