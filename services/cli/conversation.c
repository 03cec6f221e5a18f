/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversation in this process (see conversation.h)
 *
 * Messages are kept as JSON, as the template wants them; each answer renders them all and starts
 * from the whole prompt, so that what the model sees is always what the template says.
 */
#include "cli/conversation.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include <infer/chat.h>
#include <infer/tokenizer.h>

#include "core/clock.h"
#include "core/err.h"

enum {
    CONVERSATION_POLL_MSEC = 50,
};

struct conversation {
    struct conversation_params params;
    struct inf_engine *engine;
    json_t *messages;
};

static json_t *message(const char *role, const char *text, size_t len)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", text, len);
}

int conversation_reset(struct conversation *c, const char *system)
{
    json_t *first = json_array_get(c->messages, 0), *fresh = json_array();
    const char *role = json_string_value(json_object_get(first, "role"));
    int r = fresh ? 0 : -1;

    if (r == 0 && system)
        r = json_array_append_new(fresh, message("system", system, strlen(system)));
    else if (r == 0 && role && strcmp(role, "system") == 0)
        r = json_array_append(fresh, first);
    if (r < 0) {
        json_decref(fresh);
        return -ENOMEM;
    }
    json_decref(c->messages);
    c->messages = fresh;
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
    if (params->system && conversation_reset(c, params->system) < 0)
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

/* The prompt of all messages; the caller frees it. */
static int render(const struct conversation *c, char **ret_text, size_t *ret_len,
                  struct inf_err *reterr)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(c->params.model);
    _cleanup_free_ char *messages = json_dumps(c->messages, JSON_COMPACT);
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

/* A template that writes BOS itself must not get a second one. */
static void drop_double_bos(const struct inf_tokenizer *tok, int32_t *ids, size_t *n)
{
    const int32_t bos = inf_tokenizer_bos(tok);

    if (bos >= 0 && *n >= 2 && ids[0] == bos && ids[1] == bos) {
        memmove(ids, ids + 1, (*n - 1) * sizeof(*ids));
        (*n)--;
    }
}

/* Streams the answer of a submitted request into @answer and @out. */
static int stream(struct conversation *c, uint64_t id, FILE *out, struct str *answer,
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
            if (stats->first_sec == 0)
                stats->first_sec = (double)(clock_usec() - start) / 1e6;
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
        stats->finish = ev.finish;
        stats->total_sec = (double)(clock_usec() - start) / 1e6;
        if (ev.finish == INF_FINISH_ERROR)
            return err_set(reterr, EIO, "%s", ev.error ? ev.error : "the engine failed");
        return 0;
    }
}

static int answer_prompt(struct conversation *c, const char *prompt, size_t len, FILE *out,
                         struct str *answer, struct conversation_stats *stats,
                         struct inf_err *reterr)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(c->params.model);
    _cleanup_free_ int32_t *ids = NULL;
    struct inf_request request = {
        .max_tokens = c->params.max_tokens,
        .sampling = c->params.sampling,
        .n_logprobs = -1,
        .session = c->params.session,
    };
    uint64_t id;
    size_t n;
    int r;

    r = inf_tokenizer_encode(tok, prompt, len, INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL, 0,
                             &ids, &n);
    if (r < 0)
        return err_set(reterr, -r, "cannot encode the prompt: %s", strerror(-r));
    if (n == 0)
        return err_set(reterr, EINVAL, "the prompt is empty");
    if (!c->params.raw)
        drop_double_bos(tok, ids, &n);
    request.tokens = ids;
    request.n_tokens = n;
    r = inf_engine_submit(c->engine, &request, &id, reterr);
    if (r > 0)
        return err_set(reterr, EAGAIN, "the engine is busy");
    return r < 0 ? r : stream(c, id, out, answer, stats, reterr);
}

int conversation_say(struct conversation *c, const char *text, FILE *out,
                     struct conversation_stats *ret_stats, struct inf_err *reterr)
{
    struct conversation_stats stats = {0};
    _cleanup_free_ char *prompt = NULL;
    _cleanup_str_ struct str answer = {0};
    const size_t before = json_array_size(c->messages);
    size_t len;
    int r;

    if (c->params.raw) {
        r = answer_prompt(c, text, strlen(text), out, &answer, &stats, reterr);
        if (r == 0)
            *ret_stats = stats;
        return r;
    }
    if (json_array_append_new(c->messages, message("user", text, strlen(text))) < 0)
        return err_set(reterr, EINVAL, "the text is not valid UTF-8");
    r = render(c, &prompt, &len, reterr);
    if (r == 0)
        r = answer_prompt(c, prompt, len, out, &answer, &stats, reterr);
    if (r == 0 &&
        json_array_append_new(c->messages,
                              message("assistant", answer.data ? answer.data : "", answer.len)) < 0)
        r = err_set(reterr, ENOMEM, "out of memory");
    if (r < 0) {
        while (json_array_size(c->messages) > before)
            json_array_remove(c->messages, before);
        return r;
    }
    *ret_stats = stats;
    return 0;
}
