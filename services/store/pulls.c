/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /api/pull.
 *
 * Clients that pull the same model share one pull. The answer is a stream of JSON objects, one in
 * each line, as Ollama sends it. If the request has "stream": false, the answer is one object,
 * which is sent when the pull ends. Such an answer may take hours, so after a minute the service
 * sends its head and a space, and after each further minute another space. JSON allows spaces
 * before a value.
 */
#include <errno.h>
#include <string.h>

#include "common/config/config.h"
#include "common/http/api-error.h"
#include "common/http/problem.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/clock.h"
#include "store/progress.h"
#include "store/store-service.h"

#define PULLS_TICK_USEC  (200 * 1000u)
#define PULLS_QUIET_USEC (60 * 1000000u) /* between spaces in an answer without a stream */
#define PULLS_WINDOW     ((size_t)64 * 1024)

/* Struct pull is a pull, with the clients that wait for it. */
struct pull {
    struct job job; /* the first member */
    struct store_service *service;
    char key[PULL_SOURCE_SIZE]; /* pulls with equal keys are the same */
    struct progress *progress;
    struct store_request *watchers;
    bool is_left; /* no client waits any more, so the pull is being stopped */
    int result;
    struct inf_err err;
    struct pull *prev, *next;
};

/* --- progress for clients --- */

static int put_status(struct str *out, const char *status)
{
    return str_printf(out, "{\"status\":\"%s\"}\n", status);
}

static int put_file(struct str *out, const struct progress_file *file, uint64_t bytes)
{
    int r = str_puts(out, "{\"status\":");

    r = r < 0 ? r : json_put_text(out, file->what);
    if (r == 0 && file->digest[0])
        r = str_printf(out, ",\"digest\":\"%s\"", file->digest);
    if (r == 0 && file->size != UINT64_MAX)
        r = str_printf(out, ",\"total\":%llu", (unsigned long long)file->size);
    return r < 0 ? r : str_printf(out, ",\"completed\":%llu}\n", (unsigned long long)bytes);
}

static int put_verified(struct str *out, const struct progress_now *now)
{
    return str_printf(out,
                      "{\"status\":\"verifying sha256 digest\",\"total\":%llu,"
                      "\"completed\":%llu}\n",
                      (unsigned long long)now->to_verify, (unsigned long long)now->verified);
}

/* Writes what the client does not know yet about files that arrive. */
static int put_files(struct pull *pull, struct store_request *r, const struct progress_now *now,
                     struct str *out)
{
    int e = 0;

    for (; e == 0 && r->told_files < now->at && r->told_files < now->n_files; r->told_files++) {
        const struct progress_file *file = progress_file(pull->progress, r->told_files);

        e = put_file(out, file, file->size == UINT64_MAX ? r->told_bytes : file->size);
        r->told_bytes = 0;
    }
    if (e == 0 && now->phase == PROGRESS_FETCHING && now->at < now->n_files &&
        now->bytes != r->told_bytes) {
        e = put_file(out, progress_file(pull->progress, now->at), now->bytes);
        r->told_bytes = now->bytes;
    }
    return e;
}

static int put_news(struct pull *pull, struct store_request *r, struct str *out)
{
    struct progress_now now;
    int e = 0;

    progress_read(pull->progress, &now);
    if (!r->told_manifest)
        e = put_status(out, "pulling manifest");
    r->told_manifest = true;
    if (e == 0)
        e = put_files(pull, r, &now, out);
    if (e == 0 && now.phase == PROGRESS_VERIFYING && now.verified != r->told_verified) {
        e = put_verified(out, &now);
        r->told_verified = now.verified;
    }
    return e;
}

void store_answer_begin(struct store_request *r)
{
    if (r->begun)
        return;
    r->begun = true;
    http_response_begin(r->http, r->streams ? "application/x-ndjson" : "application/json",
                        UINT64_MAX);
}

/* Sends a client the progress that it does not know yet. */
static void watcher_tell(struct pull *pull, struct store_request *r)
{
    _cleanup_str_ struct str out = {0};

    if (r->streams) {
        if (http_response_pending(r->http) > PULLS_WINDOW || put_news(pull, r, &out) < 0)
            return;
    } else if (clock_usec() - r->told_usec < PULLS_QUIET_USEC || str_putc(&out, ' ') < 0) {
        return;
    }
    if (out.len == 0)
        return;
    store_answer_begin(r);
    r->told_usec = clock_usec();
    http_response_write(r->http, out.data, out.len);
}

void pulls_tick(struct loop_timer *timer)
{
    struct store_service *s = timer->data;

    for (struct pull *pull = s->pulls; pull; pull = pull->next)
        for (struct store_request *r = pull->watchers, *next; r; r = next) {
            next = r->next_watcher;
            watcher_tell(pull, r);
        }
    if (s->pulls)
        loop_timer_set(service_loop(s->service), timer, PULLS_TICK_USEC);
}

/* Sends the last objects of a stream, and ends it. */
static void watcher_end_stream(struct pull *pull, struct store_request *r)
{
    _cleanup_str_ struct str out = {0};
    int e = put_news(pull, r, &out);

    if (e == 0 && pull->result == 0) {
        e = put_status(&out, "writing manifest");
        e = e < 0 ? e : put_status(&out, "success");
    } else if (e == 0) {
        e = str_puts(&out, "{\"error\":");
        e = e < 0 ? e : json_put_text(&out, pull->err.text);
        e = e < 0 ? e : str_puts(&out, "}\n");
    }
    store_answer_begin(r);
    if (e < 0 || http_response_write(r->http, out.data, out.len) < 0)
        http_response_abort(r->http, NULL, 0);
    else
        http_response_end(r->http);
}

static void watcher_end(struct pull *pull, struct store_request *r)
{
    static const char done[] = "{\"status\":\"success\"}";

    r->pull = NULL;
    if (r->streams) {
        watcher_end_stream(pull, r);
    } else if (!r->begun && pull->result < 0) {
        store_send_error(r->http, pull->result, pull->err.text);
    } else if (!r->begun) {
        http_respond(r->http, 200, "application/json", done, sizeof(done) - 1);
    } else if (pull->result < 0 || http_response_write(r->http, done, sizeof(done) - 1) < 0) {
        /* The status 200 was already sent, so only a broken transfer can show the error. */
        http_response_abort(r->http, NULL, 0);
    } else {
        http_response_end(r->http);
    }
}

/* --- pulls --- */

static struct pull *pull_free(struct pull *pull)
{
    if (pull)
        progress_free(pull->progress);
    free(pull);
    return NULL;
}

static void pull_on_thread(struct job *job)
{
    struct pull *pull = (struct pull *)job;

    pull->result = progress_run(pull->progress, &pull->err);
}

static void pull_ended(struct job *job)
{
    struct pull *pull = (struct pull *)job;
    struct store_service *s = pull->service;
    struct store_request *next;

    if (pull->prev)
        pull->prev->next = pull->next;
    else
        s->pulls = pull->next;
    if (pull->next)
        pull->next->prev = pull->prev;
    s->n_pulls--;
    if (pull->result == 0)
        log_info("%s was pulled", pull->key);
    else
        log_info("%s was not pulled: %s", pull->key, pull->err.text);
    s->stats.n_pulled += pull->result == 0;
    s->stats.n_stopped += pull->result == -ECANCELED;
    s->stats.n_failed += pull->result < 0 && pull->result != -ECANCELED;
    for (struct store_request *r = pull->watchers; r; r = next) {
        next = r->next_watcher;
        watcher_end(pull, r);
    }
    pull_free(pull);
    service_touch(s->service);
}

/* Finds the pull of @source, unless it is being stopped. */
static struct pull *pull_find(const struct store_service *s, const struct pull_source *source)
{
    char key[PULL_SOURCE_SIZE];
    struct pull *pull = s->pulls;

    pull_source_put(source, key, sizeof(key));
    while (pull && (pull->is_left || strcmp(pull->key, key) != 0))
        pull = pull->next;
    return pull;
}

static struct pull *pull_new(struct store_service *s, const struct pull_source *source)
{
    struct pull *pull = NEW(struct pull, 1);

    if (!pull)
        return NULL;
    if (progress_new(s->config, &s->secrets, s->dir, s->fetch_socket, source, &pull->progress) < 0)
        return pull_free(pull);
    pull->job = (struct job){.run = pull_on_thread, .done = pull_ended};
    pull->service = s;
    pull_source_put(source, pull->key, sizeof(pull->key));
    pull->next = s->pulls;
    if (s->pulls)
        s->pulls->prev = pull;
    s->pulls = pull;
    s->n_pulls++;
    jobs_queue(s->jobs, &s->pulling, &pull->job);
    return pull;
}

void pulls_leave(struct store_request *r)
{
    struct pull *pull = r->pull;
    struct store_request **at = &pull->watchers;

    while (*at != r)
        at = &(*at)->next_watcher;
    *at = r->next_watcher;
    r->pull = NULL;
    if (pull->watchers)
        return;
    pull->is_left = true;
    progress_stop(pull->progress);
}

void pulls_stop(struct store_service *s)
{
    for (struct pull *pull = s->pulls; pull; pull = pull->next) {
        pull->is_left = true;
        progress_stop(pull->progress);
    }
}

/* --- the request --- */

/* Reads the body; *ret_body owns the text of the source. */
static int read_request(struct store_request *r, json_t **ret_body, struct pull_source *ret_source,
                        struct problem *problem)
{
    static const char *const pull_fields[] = {"model", "name", "insecure", "stream", NULL};
    bool insecure = false;
    const char *name;
    struct inf_err err;
    json_t *body;
    int e = store_read_body(r->http, &body, problem);

    if (e < 0)
        return e;
    r->streams = true;
    e = fields_known(body, "", pull_fields, problem);
    e = e < 0 ? e : store_read_name(body, "model", "name", &name, problem);
    e = e < 0 ? e : field_bool(body, "stream", &r->streams, problem);
    e = e < 0 ? e : field_bool(body, "insecure", &insecure, problem);
    if (e >= 0 && insecure)
        e = problem_set(problem, 400, "unsupported_value", "insecure",
                        "Models are fetched only from servers with certificates.");
    if (e >= 0 && pull_source_read_name(name, ret_source, &err) < 0)
        e = problem_set(problem, 400, "invalid_model", "model", "%s", err.text);
    if (e < 0) {
        json_decref(body);
        return e;
    }
    *ret_body = body;
    return 0;
}

void store_pull(struct store_request *r)
{
    struct store_service *s = r->service;
    struct problem problem;
    struct pull_source source;
    struct pull *pull;
    json_t *body;

    if (read_request(r, &body, &source, &problem) < 0) {
        problem_send(&problem, r->http);
        return;
    }
    pull = pull_find(s, &source);
    if (!pull && s->n_pulls >= s->config->store.max_pulls) {
        api_error_send(r->http, 503, "too_many_pulls", NULL, 60,
                       "%u models are being pulled already; try again later.", s->n_pulls);
    } else if (!pull && !(pull = pull_new(s, &source))) {
        api_error_send(r->http, 503, "out_of_memory", NULL, 1, "Out of memory.");
    } else {
        r->pull = pull;
        r->next_watcher = pull->watchers;
        pull->watchers = r;
        r->told_usec = clock_usec();
        watcher_tell(pull, r);
        if (!loop_timer_is_set(&s->tick))
            loop_timer_set(service_loop(s->service), &s->tick, PULLS_TICK_USEC);
    }
    json_decref(body);
}
