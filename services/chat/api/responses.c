/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /v1/responses and POST /v1/responses/input_tokens.
 *
 * First, the chat service asks the keep service for the items that the request continues. The
 * result also tells whether the response can be kept. When the response is complete, the chat
 * service sends it to the keep service before it sends the last event to the client. Therefore the
 * client can continue the response at once.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/logprobs.h"
#include "chat/api/responses-body.h"
#include "chat/api/responses-output.h"
#include "chat/api/timings.h"
#include "chat/generation.h"
#include "chat/kept.h"
#include "chat/template.h"
#include "common/http/sse.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

struct responses_own {
    struct responses_body body;
    struct output output;
    json_t *context; /* array: the items that the request continues; NULL: none */
    json_t *found;   /* object: maps ids to the items to which the request refers; NULL: none */
    char error[512];
};

static struct responses_own *own_of(const struct generation *g)
{
    return g->own;
}

/* --- the keep service --- */

/* Sends @object to the keep service, and waits for the answer. Takes over the reference @object. */
static int ask(struct generation *g, const char *target, json_t *object, struct str *answer,
               int *ret_status)
{
    _cleanup_json_ json_t *json = object;
    _cleanup_free_ char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    if (!text)
        return -ENOMEM;
    return kept_ask(g->chat,
                    &(struct keep_question){
                        .method = "POST",
                        .target = {target, strlen(target)},
                        .tenant = g->tenant,
                        .id = g->request.id,
                        .body = {text, strlen(text)},
                    },
                    answer, ret_status);
}

/* Fills in @problem with the error that the keep service answered. */
static int keep_problem(const struct str *answer, int status, struct problem *problem)
{
    static const char *const codes[] = {"not_found", "previous_response_not_found",
                                        "context_length_exceeded", "misconfigured"};
    _cleanup_json_ json_t *json = NULL;
    struct inf_err err = {};
    json_t *error = NULL, *code = NULL;
    const char *known = "keep_failed", *message, *param;

    if (answer->len && json_parse(answer->data, answer->len, &json, &err) == 0)
        error = json_object_get(json, "error");
    code = json_object_get(error, "code");
    message = json_string_value(json_object_get(error, "message"));
    param = json_string_value(json_object_get(error, "param"));
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (field_is(code, codes[i]))
            known = codes[i];
    return problem_set(problem, status >= 400 ? status : 503, known, param, "%s",
                       message ? message : "The keep service failed.");
}

/* Called if the keep service cannot be asked. Refuses a request that needs the keep service. The
 * response to any other request is not kept. */
static int load_failed(struct responses_own *own, int error, struct problem *problem)
{
    const struct responses_body *b = &own->body;

    if (b->previous || b->conversation || b->references || b->must_store) {
        kept_unavailable(error, problem);
        snprintf(problem->param, sizeof(problem->param), "%s",
                 b->previous       ? "previous_response_id"
                 : b->conversation ? "conversation"
                 : b->references   ? "input"
                                   : "store");
        return -EINVAL;
    }
    own->body.store = false;
    return 0;
}

static int responses_load(struct generation *g, struct problem *problem)
{
    struct responses_own *own = own_of(g);
    const struct responses_body *b = &own->body;
    _cleanup_str_ struct str answer = {};
    _cleanup_json_ json_t *json = NULL;
    struct inf_err err = {};
    int status = 0, r;

    r = ask(g, "/keep/load",
            json_pack("{s:O?,s:O?,s:O?}", "previous", b->previous, "conversation", b->conversation,
                      "references", b->references),
            &answer, &status);
    if (r == -ENOMEM)
        return problem_no_memory(problem);
    if (r < 0 || status == 503) {
        r = r < 0 ? load_failed(own, r, problem) : load_failed(own, -EIO, problem);
        g->saves = false;
        return r;
    }
    if (status != 200)
        return keep_problem(&answer, status, problem);
    r = json_parse(answer.data, answer.len, &json, &err);
    if (r < 0)
        return problem_set(problem, 503, "keep_failed", NULL,
                           "The keep service gave a wrong answer: %s.", err.text);
    own->context = json_incref(json_object_get(json, "items"));
    own->found = json_incref(json_object_get(json, "references"));
    return 0;
}

/* Returns the items of the request. Replaces a reference to an item by the item. */
static json_t *saved_input(const struct responses_own *own)
{
    json_t *items = json_array(), *item;
    size_t i;

    json_array_foreach(own->body.input, i, item)
    {
        json_t *found = NULL;

        if (field_is(json_object_get(item, "type"), "item_reference"))
            found = json_object_get(own->found, json_string_value(json_object_get(item, "id")));
        if (json_array_append(items, found ? found : item) < 0) {
            json_decref(items);
            return NULL;
        }
    }
    return items;
}

static void responses_count_usage(struct generation *g)
{
    struct output *o = &own_of(g)->output;
    const struct usage u = generation_usage(g);

    o->usage = (struct output_usage){.n_input = u.n_prompt,
                                     .n_cached = u.n_cached,
                                     .n_output = u.n_generated,
                                     .n_reasoning = u.n_reasoning};
    o->has_usage = true;
}

static void responses_save(struct generation *g)
{
    struct responses_own *own = own_of(g);
    struct output *o = &own->output;
    _cleanup_str_ struct str text = {}, answer = {};
    json_t *response = NULL, *input = NULL;
    struct inf_err err = {};
    int status = 0, r;

    responses_count_usage(g);
    r = output_put_response(o, output_status(o), &text);
    r = r < 0 ? r : json_parse(text.data, text.len, &response, &err);
    if (r == 0)
        input = saved_input(own);
    if (r == 0)
        r = ask(g, "/keep/save",
                input ? json_pack("{s:o,s:o}", "response", response, "input", input) : NULL,
                &answer, &status);
    o->store = r == 0 && status == 200;
}

/* --- reading --- */

static int responses_read(struct generation *g, struct problem *problem)
{
    struct responses_own *own = own_of(g);
    struct responses_body *b = &own->body;
    int r = responses_body_read(g->body, b, &g->params, &g->conversation, problem);

    if (r < 0)
        return r;
    if (tenant_is_alone(g->tenant)) {
        if (b->must_store)
            return problem_set(problem, 400, "no_identity", "store",
                               "'store' must be false: responses are kept only for clients with an "
                               "API key, and for users of the unix socket.");
        b->store = false;
    }
    g->saves = b->store && !g->api->computes_only;
    g->loads = g->saves || b->previous || b->conversation || b->references;
    return 0;
}

/* Returns whether the request has nothing to answer. Agents send such requests to learn whether the
 * endpoint exists, and expect an empty response. */
static bool is_probe(const struct responses_own *own)
{
    return !own->body.instructions && !json_array_size(own->body.input) &&
           !json_array_size(own->context);
}

static int responses_prepare_items(struct generation *g, struct problem *problem)
{
    struct responses_own *own = own_of(g);

    if (!own->context && !own->found)
        return 0;
    return responses_items_read(&own->body, own->context, own->found, &g->conversation, problem);
}

static int responses_prepare(struct generation *g, struct problem *problem)
{
    struct responses_own *own = own_of(g);
    int r = responses_prepare_items(g, problem);

    own->output = (struct output){
        .id = g->id,
        .model = g->resident->base.name,
        .created = g->created,
        .echo = own->body.echo.data,
        .namespaces = own->body.namespaces,
        .store = own->body.store,
        .summarizes = own->body.summarizes,
        .streams = g->params.stream,
    };
    if (r < 0 || is_probe(own))
        return r;
    return conversation_prepare(g, problem);
}

static int count_prepare(struct generation *g, struct problem *problem)
{
    const struct responses_own *own = own_of(g);
    int r = responses_prepare_items(g, problem);
    size_t n = 0;

    if (r == 0 && !is_probe(own))
        r = conversation_prepare(g, problem);
    if (r < 0)
        return r;
    for (size_t i = 0; i < g->n_prompts; i++)
        n += g->prompts[i].n_tokens;
    return str_printf(&g->out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", n) < 0
               ? problem_no_memory(problem)
               : 0;
}

/* --- writing --- */

static int responses_begin(struct generation *g)
{
    return output_begin(&own_of(g)->output, &g->out);
}

static int responses_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    (void)c;
    return logprobs_add_event(g, event, &own_of(g)->output.logprobs);
}

static int responses_set_extras(struct generation *g, struct choice *c, bool with_progress)
{
    struct str *extras = &own_of(g)->output.extras;
    int r = 0;

    str_clear(extras);
    if (g->params.with_timings) {
        r = str_puts(extras, ",\"timings\":");
        r = r < 0 ? r : timings_put(c, extras);
    }
    if (r == 0 && with_progress) {
        r = str_puts(extras, ",\"prompt_progress\":");
        r = r < 0 ? r : timings_put_progress(c->prompt, extras);
    }
    return r;
}

static int responses_progress(struct generation *g, struct choice *c)
{
    int r = responses_set_extras(g, c, true);

    r = r < 0 ? r : output_progress(&own_of(g)->output, &g->out);
    str_clear(&own_of(g)->output.extras);
    return r;
}

static int responses_piece(struct generation *g, struct choice *c, const struct piece *piece)
{
    const int r = responses_set_extras(g, c, false);

    return r < 0 ? r : output_piece(&own_of(g)->output, piece, &g->out);
}

static int responses_finish(struct generation *g, struct choice *c)
{
    const int r = responses_set_extras(g, c, false);

    return r < 0 ? r : output_finish(&own_of(g)->output, c->finish == FINISH_LENGTH, &g->out);
}

static int responses_end(struct generation *g)
{
    responses_count_usage(g);
    return output_end(&own_of(g)->output, &g->out);
}

static int responses_fail(struct generation *g, const struct problem *problem)
{
    struct responses_own *own = own_of(g);

    /* A complete response must not change: a thread may be sending it to the keep service. */
    if (g->n_choices && g->n_finished == g->n_choices)
        return 0;
    snprintf(own->error, sizeof(own->error), "%s", problem->message);
    own->output.error = own->error;
    own->output.error_code = problem->code;
    own->output.store = false;
    return output_fail(&own->output, &g->out);
}

static void responses_done(struct generation *g)
{
    struct responses_own *own = own_of(g);

    responses_body_done(&own->body);
    output_done(&own->output);
    json_decref(own->context);
    json_decref(own->found);
}

const struct chat_api api_responses = {
    .id_prefix = "resp_",
    .prompt_field = "input",
    .finishes = {[FINISH_STOP] = "completed",
                 [FINISH_STOP_TEXT] = "completed",
                 [FINISH_LENGTH] = "incomplete",
                 [FINISH_CALLS] = "completed"},
    .own_size = sizeof(struct responses_own),
    .takes_pieces = true,
    .read = responses_read,
    .load = responses_load,
    .prepare = responses_prepare,
    .stream_type = SSE_TYPE,
    .stream_pause = SSE_COMMENT,
    .begin = responses_begin,
    .tokens = responses_tokens,
    .piece = responses_piece,
    .progress = responses_progress,
    .finish = responses_finish,
    .save = responses_save,
    .fail = responses_fail,
    .end = responses_end,
    .done = responses_done,
};

const struct chat_api api_responses_count = {
    .id_prefix = "resp_",
    .prompt_field = "input",
    .own_size = sizeof(struct responses_own),
    .computes_only = true,
    .read = responses_read,
    .load = responses_load,
    .prepare = count_prepare,
    .done = responses_done,
};
