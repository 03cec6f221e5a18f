/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers DELETE /api/delete, POST /api/copy and POST /api/create.
 *
 * A change waits on its thread until no command and no pull changes the store. A copy is an alias
 * of the model. DELETE removes the model if the request gives its name or the source from which it
 * was pulled. If the request gives an alias, only the alias is removed.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/config/config.h"
#include "common/http/api-error.h"
#include "common/http/problem.h"
#include "common/models/manifest.h"
#include "common/models/models.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "common/store/store.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/str.h"
#include "store/creation.h"
#include "store/store-service.h"

enum {
    CHANGES_MAX = 64, /* changes that wait */
};

#define CREATIONS_TICK_USEC (1000 * 1000u)
/* The time without a byte in an answer that is a stream, and in one that is not. */
#define CREATIONS_STREAM_USEC (10 * 1000000u)
#define CREATIONS_QUIET_USEC  (60 * 1000000u)

struct store_change {
    struct job job; /* the first member */
    struct store_service *service;
    struct store_request *request;    /* NULL: the client has left */
    char *name, *copy;                /* copy NULL: the model is removed */
    struct store_creation *creation;  /* of a model; NULL: another change */
    bool tidies;                      /* only what killed processes have left is removed */
    struct store_change *prev, *next; /* other creations */
    int result;
    struct inf_err err;
};

static struct store_change *change_free(struct store_change *c)
{
    if (!c)
        return NULL;
    free(c->name);
    free(c->copy);
    creation_free(c->creation);
    free(c);
    return NULL;
}

/* Returns whether the model @e was pulled from the source that a client calls @name. */
static bool is_source_of(const struct models_entry *e, const char *name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct model_manifest manifest;
    struct pull_source source;
    char text[PULL_SOURCE_SIZE];

    if (!e->manifest || pull_source_read_name(name, &source, NULL) < 0 ||
        model_manifest_read(&arena, e->manifest, &manifest, NULL) < 0 || !manifest.source)
        return false;
    pull_source_put(&source, text, sizeof(text));
    return strcasecmp(manifest.source, text) == 0;
}

/* Returns the model that @name means; NULL: there is none. */
static const struct models_entry *find_model(const struct models *models, const char *name)
{
    const struct models_entry *e = models_find(models, name);

    for (size_t i = 0; !e && i < models_count(models); i++)
        if (is_source_of(models_at(models, i), name))
            e = models_at(models, i);
    return e;
}

static bool is_alias(const struct models_entry *e, const char *name)
{
    for (const char *const *a = e->aliases; *a; a++)
        if (strcasecmp(*a, name) == 0)
            return true;
    return false;
}

static int remove_model(const struct store_change *c, const struct models_entry *e,
                        struct inf_err *reterr)
{
    const char *dir = c->service->dir;
    uint64_t bytes;

    return is_alias(e, c->name) && !is_source_of(e, c->name)
               ? store_alias_remove(dir, e, c->name, reterr)
               : store_remove(dir, e, &bytes, reterr);
}

static int name_model(const struct store_change *c, const struct models *models,
                      const struct models_entry *e, struct inf_err *reterr)
{
    const struct models_entry *taken = models_find(models, c->copy);

    if (taken == e)
        return 0;
    if (taken)
        return err_set(reterr, EEXIST, "\"%.100s\" is a name of %s already", c->copy, taken->name);
    return store_alias_add(c->service->dir, e, c->copy, reterr);
}

static int change_run(const struct store_change *c, struct inf_err *reterr)
{
    _cleanup_(models_freep) struct models *models = NULL;
    _cleanup_close_ int lock = -1;
    const struct models_entry *e;
    int r;

    if (c->creation)
        return creation_run(c->creation, c->service->config, c->service->dir, &c->service->verified,
                            reterr);
    /* If there is nothing to remove, the store is not locked, and no lock file is made. */
    if (c->tidies && !store_has_removed(c->service->dir) && !creation_has_left(c->service->dir))
        return 0;
    r = store_lock(c->service->dir, &lock, reterr);
    if (r < 0)
        return r;
    store_clean_removed(c->service->dir);
    creation_tidy(c->service->dir);
    if (c->tidies)
        return 0;
    if (models_scan(c->service->config, &models) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    e = find_model(models, c->name);
    if (!e)
        return err_set(reterr, ENOENT, "model '%.200s' not found", c->name);
    return c->copy ? name_model(c, models, e, reterr) : remove_model(c, e, reterr);
}

static void change_on_thread(struct job *job)
{
    struct store_change *c = (struct store_change *)job;

    c->result = change_run(c, &c->err);
}

/* Logs and counts a change. */
static void change_note(const struct store_change *c)
{
    static const char *const words[] = {"removed", "given another name", "made"};
    const unsigned kind = c->creation ? 2 : c->copy ? 1 : 0;
    const char *name = c->creation ? creation_name(c->creation) : c->name;
    uint64_t *const counts[] = {&c->service->stats.n_removed, &c->service->stats.n_named,
                                &c->service->stats.n_created};

    if (c->result < 0) {
        log_info("%s was not %s: %s", name, words[kind], c->err.text);
    } else {
        log_info("%s was %s", name, words[kind]);
        ++*counts[kind];
    }
}

void creations_tick(struct loop_timer *timer)
{
    static const char line[] = "{\"status\":\"verifying sha256 digest\"}\n";
    struct store_service *s = timer->data;

    for (struct store_change *c = s->creations; c; c = c->next) {
        struct store_request *r = c->request;

        if (!r || clock_usec() - r->told_usec <
                      (r->streams ? CREATIONS_STREAM_USEC : CREATIONS_QUIET_USEC))
            continue;
        store_answer_begin(r);
        r->told_usec = clock_usec();
        http_response_write(r->http, r->streams ? line : " ", r->streams ? sizeof(line) - 1 : 1);
    }
    if (s->creations)
        loop_timer_set(service_loop(s->service), timer, CREATIONS_TICK_USEC);
}

/* Ends an answer whose head has been sent. Without a stream only a broken transfer tells of an
 * error, because the status 200 is sent already. */
static void end_created(const struct store_change *c, const char *text, size_t len)
{
    struct http_request *http = c->request->http;
    _cleanup_str_ struct str out = {0};
    int e = 0;

    if (c->result < 0) {
        e = c->request->streams ? str_puts(&out, "{\"error\":") : -EIO;
        e = e < 0 ? e : json_put_text(&out, c->err.text);
        e = e < 0 ? e : str_puts(&out, "}\n");
    }
    if (e < 0 || http_response_write(http, c->result < 0 ? out.data : text,
                                     c->result < 0 ? out.len : len) < 0)
        http_response_abort(http, NULL, 0);
    else
        http_response_end(http);
}

/* Answers as Ollama does at the end of a creation. */
static void answer_created(const struct store_change *c)
{
    static const char lines[] = "{\"status\":\"writing manifest\"}\n{\"status\":\"success\"}\n";
    static const char one[] = "{\"status\":\"success\"}";
    const struct store_request *r = c->request;
    const char *text = r->streams ? lines : one;

    if (r->begun)
        end_created(c, text, strlen(text));
    else
        http_respond(r->http, 200, r->streams ? "application/x-ndjson" : "application/json", text,
                     strlen(text));
}

static void creation_unlist(const struct store_change *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        c->service->creations = c->next;
    if (c->next)
        c->next->prev = c->prev;
}

static void change_ended(struct job *job)
{
    struct store_change *c = (struct store_change *)job;
    struct store_service *s = c->service;

    s->n_changes--;
    if (c->creation)
        creation_unlist(c);
    if (!c->tidies)
        change_note(c);
    /* Uploaded files have become files of the model. */
    if (c->creation)
        uploads_tidy(s);
    if (c->request) {
        c->request->change = NULL;
        if (c->result < 0 && !c->request->begun)
            store_send_error(c->request->http, c->result, c->err.text);
        else if (c->creation)
            answer_created(c);
        else
            http_respond(c->request->http, 200, NULL, "", 0);
    }
    change_free(c);
    service_touch(s->service);
}

static void change_queue(struct store_service *s, struct store_change *c)
{
    c->job = (struct job){.run = change_on_thread, .done = change_ended};
    c->service = s;
    s->n_changes++;
    if (c->creation) {
        c->next = s->creations;
        if (c->next)
            c->next->prev = c;
        s->creations = c;
        if (!loop_timer_is_set(&s->creations_tick))
            loop_timer_set(service_loop(s->service), &s->creations_tick, CREATIONS_TICK_USEC);
    }
    jobs_queue(s->jobs, &s->changing, &c->job);
}

/* Starts a change; @c NULL: there is no memory. */
static void change_start(struct store_request *r, struct store_change *c)
{
    struct store_service *s = r->service;

    if (!c) {
        api_error_send(r->http, 503, "out_of_memory", NULL, 1, "Out of memory.");
    } else if (s->n_changes == CHANGES_MAX) {
        change_free(c);
        api_error_send(r->http, 503, "too_many_changes", NULL, 5,
                       "The store is being changed by too many requests; try again later.");
    } else {
        c->request = r;
        r->change = c;
        change_queue(s, c);
    }
}

/* Copies the texts; @copy may be NULL. NULL: there is no memory. */
static struct store_change *change_new(const char *name, const char *copy)
{
    struct store_change *c = NEW(struct store_change, 1);

    if (!c)
        return NULL;
    c->name = strdup(name);
    c->copy = copy ? strdup(copy) : NULL;
    return c->name && (!copy || c->copy) ? c : change_free(c);
}

void changes_tidy(struct store_service *s)
{
    struct store_change *c = NEW(struct store_change, 1);

    if (!c)
        return;
    c->tidies = true;
    change_queue(s, c);
}

void changes_leave(struct store_request *r)
{
    r->change->request = NULL;
    r->change = NULL;
}

void store_delete(struct store_request *r)
{
    static const char *const delete_fields[] = {"model", "name", NULL};
    struct problem problem;
    const char *name;
    json_t *body;
    int e = store_read_body(r->http, &body, &problem);

    if (e < 0) {
        problem_send(&problem, r->http);
        return;
    }
    e = fields_known(body, "", delete_fields, &problem);
    e = e < 0 ? e : store_read_name(body, "model", "name", &name, &problem);
    if (e < 0)
        problem_send(&problem, r->http);
    else
        change_start(r, change_new(name, NULL));
    json_decref(body);
}

void store_copy(struct store_request *r)
{
    static const char *const copy_fields[] = {"source", "destination", NULL};
    const char *source, *destination;
    struct problem problem;
    json_t *body;
    int e = store_read_body(r->http, &body, &problem);

    if (e < 0) {
        problem_send(&problem, r->http);
        return;
    }
    e = fields_known(body, "", copy_fields, &problem);
    e = e < 0 ? e : store_read_name(body, "source", NULL, &source, &problem);
    e = e < 0 ? e : store_read_name(body, "destination", NULL, &destination, &problem);
    e = e < 0 ? e : store_check_name(destination, "destination", &problem);
    if (e < 0)
        problem_send(&problem, r->http);
    else
        change_start(r, change_new(source, destination));
    json_decref(body);
}

void store_create(struct store_request *r)
{
    struct store_creation *creation;
    struct store_change *c;
    struct problem problem;
    json_t *body;
    int e = store_read_body(r->http, &body, &problem);

    if (e < 0) {
        problem_send(&problem, r->http);
        return;
    }
    if (creation_new(body, &creation, &problem) < 0) {
        problem_send(&problem, r->http);
        json_decref(body);
        return;
    }
    r->told_usec = clock_usec();
    r->streams = creation_streams(creation);
    c = NEW(struct store_change, 1);
    if (c)
        c->creation = creation;
    else
        creation_free(creation);
    change_start(r, c);
}
