/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a conversation with a model in this process (see conversation.h).
 *
 * Messages are stored as JSON, the input format of templates. When the context is full, the oldest
 * messages are dropped from the prompt, but they stay in the list, because the whole list is saved.
 * For each answer, all messages that were not dropped are rendered again, so the model always
 * receives exactly the prompt that the template produces.
 */
#include "cli/conversation/conversation.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include <infer/chat.h>
#include <infer/tokenizer.h>

#include "common/models/settings.h"
#include "core/clock.h"
#include "core/err.h"

enum {
    CONVERSATION_POLL_MSEC = 50,
    LEAST_ROOM = 8, /* 1/LEAST_ROOM of the context is kept free for an answer */
};

struct conversation {
    struct conversation_params params;
    struct inf_engine *engine;
    json_t *messages;
    size_t n_forgotten; /* messages after the system message that are dropped from the prompt */
};

static json_t *conversation_message(const char *role, const char *text, size_t len)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", text, len);
}

int conversation_reset(struct conversation *c, const char *system)
{
    json_t *first = json_array_get(c->messages, 0), *fresh = json_array();
    const char *role = json_string_value(json_object_get(first, "role"));
    int r = fresh ? 0 : -1;

    if (r == 0 && system)
        r = json_array_append_new(fresh, conversation_message("system", system, strlen(system)));
    else if (r == 0 && role && strcmp(role, "system") == 0)
        r = json_array_append(fresh, first);
    for (size_t i = 0; r == 0 && i < c->params.n_first; i++) {
        const struct model_message *m = &c->params.first[i];

        r = json_array_append_new(
            fresh,
            conversation_message(m->of_assistant ? "assistant" : "user", m->text, strlen(m->text)));
    }
    if (r < 0) {
        json_decref(fresh);
        return -ENOMEM;
    }
    json_decref(c->messages);
    c->messages = fresh;
    c->n_forgotten = 0;
    return 0;
}

int conversation_new(const struct conversation_params *params, struct conversation **ret,
                     struct inf_err *reterr)
{
    _cleanup_(conversation_freep) struct conversation *c = NEW(struct conversation, 1);
    struct inf_engine_params engine = params->engine;
    int r;

    if (!c || !(c->messages = params->messages ? json_deep_copy(params->messages) : json_array()))
        return err_set(reterr, ENOMEM, "out of memory");
    c->params = *params;
    engine.model = params->model;
    engine.max_seqs = 1;
    r = inf_engine_new(&engine, &c->engine, reterr);
    if (r < 0)
        return r;
    if (!params->messages && conversation_reset(c, params->system) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    *ret = STEAL(c);
    return 0;
}

struct conversation *conversation_free(struct conversation *c)
{
    if (!c)
        return NULL;
    inf_engine_free(c->engine);
    json_decref(c->messages);
    free(c);
    return NULL;
}

json_t *conversation_messages(const struct conversation *c)
{
    return c->messages;
}

static char *token_text(const struct inf_tokenizer *tok, int32_t id)
{
    size_t len;
    const char *text = id >= 0 ? inf_tokenizer_token_text(tok, id, &len) : NULL;

    return text ? strndup(text, len) : NULL;
}

static bool is_of(const json_t *message, const char *role)
{
    const char *text = json_string_value(json_object_get(message, "role"));

    return text && strcmp(text, role) == 0;
}

/* Returns how many messages at the beginning are never dropped: 1 if there is a system message. */
static size_t n_kept(const struct conversation *c)
{
    return is_of(json_array_get(c->messages, 0), "system");
}

/* Returns the messages that were not dropped, as JSON; the caller frees the text. NULL: out of
 * memory. */
static char *told_messages(const struct conversation *c)
{
    json_t *told = json_array(), *message;
    char *text = NULL;
    int r = told ? 0 : -1;
    size_t i;

    json_array_foreach(c->messages, i, message)
    {
        if (r == 0 && (i < n_kept(c) || i >= n_kept(c) + c->n_forgotten))
            r = json_array_append(told, message);
    }
    if (r == 0)
        text = json_dumps(told, JSON_COMPACT);
    json_decref(told);
    return text;
}

/* Renders the prompt from the messages that are not dropped; the caller frees it. */
static int conversation_render(const struct conversation *c, char **ret_text, size_t *ret_len,
                               struct inf_err *reterr)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(c->params.model);
    _cleanup_free_ char *messages = told_messages(c);
    _cleanup_free_ char *bos = token_text(tok, inf_tokenizer_bos(tok));
    _cleanup_free_ char *eos = token_text(tok, inf_tokenizer_eos(tok));
    const struct inf_chat_input input = {
        .messages = messages,
        .bos_token = bos,
        .eos_token = eos,
        .add_generation_prompt = true,
    };

    if (!messages)
        return err_set(reterr, ENOMEM, "out of memory");
    return inf_chat_render(inf_model_chat_template(c->params.model), &input, ret_text, ret_len,
                           reterr);
}

/* Removes the BOS token of the tokenizer if the template has written one itself. */
static void drop_double_bos(const struct inf_tokenizer *tok, int32_t *ids, size_t *n)
{
    const int32_t bos = inf_tokenizer_bos(tok);

    if (bos >= 0 && *n >= 2 && ids[0] == bos && ids[1] == bos) {
        memmove(ids, ids + 1, (*n - 1) * sizeof(*ids));
        (*n)--;
    }
}

/* Streams the answer of a submitted request into @answer and @out. */
static int conversation_stream(struct conversation *c, uint64_t id, FILE *out, struct str *answer,
                               struct conversation_stats *stats, struct inf_err *reterr)
{
    const uint64_t start = clock_usec();
    bool cancelled = false;
    struct inf_event ev;

    for (;;) {
        if (c->params.interrupt && *c->params.interrupt && !cancelled) {
            inf_engine_cancel(c->engine, id);
            cancelled = true;
        }
        if (inf_engine_wait_event(c->engine, CONVERSATION_POLL_MSEC, &ev) == 0)
            continue;
        if (ev.kind == INF_EVENT_TOKENS && ev.text_len > 0) {
            if (stats->first_sec == 0) {
                stats->first_sec = (double)(clock_usec() - start) / 1e6;
                stats->n_first = ev.n_generated;
            }
            fwrite(ev.text, 1, ev.text_len, out);
            fflush(out);
            if (str_append(answer, ev.text, ev.text_len) < 0)
                inf_engine_cancel(c->engine, id);
        }
        if (ev.kind != INF_EVENT_FINISH)
            continue;
        stats->n_prompt = ev.n_prompt;
        stats->n_cached = ev.n_cached;
        stats->n_generated = ev.n_generated;
        stats->n_accepted = ev.n_draft_accepted;
        stats->n_rejected = ev.n_draft_rejected;
        stats->finish = ev.finish;
        stats->total_sec = (double)(clock_usec() - start) / 1e6;
        stats->n_ctx = inf_engine_n_ctx(c->engine);
        stats->is_full = ev.finish == INF_FINISH_LENGTH &&
                         (c->params.max_tokens == 0 || ev.n_generated < c->params.max_tokens);
        if (ev.finish == INF_FINISH_ERROR || ev.finish == INF_FINISH_STALE)
            return err_set(reterr, EIO, "%s", ev.error ? ev.error : "the engine failed");
        return 0;
    }
}

/* Tokenizes a prompt; the caller frees the tokens. */
static int conversation_encode(const struct conversation *c, const char *prompt, size_t len,
                               int32_t **ret_ids, size_t *ret_n, struct inf_err *reterr)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(c->params.model);
    const int r = inf_tokenizer_encode(
        tok, prompt, len, INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL, 0, ret_ids, ret_n);

    if (r < 0)
        return err_set(reterr, -r, "cannot encode the prompt: %s", strerror(-r));
    if (*ret_n == 0)
        return err_set(reterr, EINVAL, "the prompt is empty");
    if (!c->params.raw)
        drop_double_bos(tok, *ret_ids, ret_n);
    return 0;
}

static int answer_prompt(struct conversation *c, const int32_t *ids, size_t n, FILE *out,
                         struct str *answer, struct conversation_stats *stats,
                         struct inf_err *reterr)
{
    struct inf_request request = {
        .tokens = ids,
        .n_tokens = n,
        .max_tokens = c->params.max_tokens,
        .sampling = c->params.sampling,
        .n_logprobs = -1,
        .session = c->params.session,
    };
    struct inf_stop stops[MODEL_MAX_STOPS];
    uint64_t id;
    int r;

    for (size_t i = 0; c->params.stops && c->params.stops[i] && i < MODEL_MAX_STOPS; i++)
        stops[request.n_stops++] =
            (struct inf_stop){c->params.stops[i], strlen(c->params.stops[i])};
    request.stops = stops;
    r = inf_engine_submit(c->engine, &request, &id, reterr);
    if (r > 0)
        return err_set(reterr, EAGAIN, "the engine is busy");
    return r < 0 ? r : conversation_stream(c, id, out, answer, stats, reterr);
}

/* Drops the oldest question that is in the prompt, and all messages up to the next question.
 * Returns false if there is no next question, because then the oldest question is the one to
 * answer. */
static bool forget_oldest(struct conversation *c)
{
    const size_t n = json_array_size(c->messages), begin = n_kept(c) + c->n_forgotten;
    size_t next = begin + 1;

    while (next < n && !is_of(json_array_get(c->messages, next), "user"))
        next++;
    if (next >= n)
        return false;
    c->n_forgotten += next - begin;
    return true;
}

/* Returns the number of tokens of the context to keep free for an answer. */
static size_t wanted_room(const struct conversation *c)
{
    const uint32_t least = inf_engine_n_ctx(c->engine) / LEAST_ROOM;

    return c->params.max_tokens ? MIN(c->params.max_tokens, least) : least;
}

/* Makes the tokens of the prompt. If the prompt leaves too little of the context for an answer, the
 * oldest messages are dropped until half of the context is free. The caller frees the tokens. */
static int make_prompt(struct conversation *c, int32_t **ret_ids, size_t *ret_n,
                       struct inf_err *reterr)
{
    const size_t n_ctx = inf_engine_n_ctx(c->engine);
    size_t most = n_ctx - wanted_room(c);

    for (;;) {
        _cleanup_free_ char *prompt = NULL;
        _cleanup_free_ int32_t *ids = NULL;
        size_t len, n;
        int r = conversation_render(c, &prompt, &len, reterr);

        r = r < 0 ? r : conversation_encode(c, prompt, len, &ids, &n, reterr);
        if (r < 0)
            return r;
        /* If the prompt still does not fit, the engine refuses it with an error that states its
         * size. */
        if (n <= most || !forget_oldest(c)) {
            *ret_ids = STEAL(ids);
            *ret_n = n;
            return 0;
        }
        most = n_ctx / 2;
    }
}

static int say_raw(struct conversation *c, const char *text, FILE *out,
                   struct conversation_stats *stats, struct inf_err *reterr)
{
    _cleanup_free_ int32_t *ids = NULL;
    _cleanup_str_ struct str answer = {0};
    size_t n;
    const int r = conversation_encode(c, text, strlen(text), &ids, &n, reterr);

    return r < 0 ? r : answer_prompt(c, ids, n, out, &answer, stats, reterr);
}

static int say_message(struct conversation *c, FILE *out, struct conversation_stats *stats,
                       struct inf_err *reterr)
{
    _cleanup_free_ int32_t *ids = NULL;
    _cleanup_str_ struct str answer = {0};
    size_t n;
    int r = make_prompt(c, &ids, &n, reterr);

    if (r == 0)
        r = answer_prompt(c, ids, n, out, &answer, stats, reterr);
    if (r == 0 && json_array_append_new(
                      c->messages, conversation_message("assistant", answer.data ? answer.data : "",
                                                        answer.len)) < 0)
        r = err_set(reterr, ENOMEM, "out of memory");
    return r;
}

int conversation_say(struct conversation *c, const char *text, FILE *out,
                     struct conversation_stats *ret_stats, struct inf_err *reterr)
{
    struct conversation_stats stats = {0};
    const size_t before = json_array_size(c->messages), n_forgotten = c->n_forgotten;
    int r;

    if (c->params.raw) {
        r = say_raw(c, text, out, &stats, reterr);
    } else if (json_array_append_new(c->messages,
                                     conversation_message("user", text, strlen(text))) < 0) {
        return err_set(reterr, EINVAL, "the text is not valid UTF-8");
    } else {
        r = say_message(c, out, &stats, reterr);
        stats.n_forgotten = c->n_forgotten - n_forgotten;
    }
    if (r < 0) {
        while (json_array_size(c->messages) > before)
            json_array_remove(c->messages, before);
        c->n_forgotten = n_forgotten;
        return r;
    }
    *ret_stats = stats;
    return 0;
}
