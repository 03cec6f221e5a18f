/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /completion and POST /infill, as llama-server does.
 *
 * A stream has one event for each piece of text, with the tokens of the piece. A last event for
 * each choice has all other fields. An answer that is not streamed is one object with all fields,
 * or an array of such objects if there are several prompts or choices.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/llama.h"
#include "chat/api/logprobs.h"
#include "chat/api/timings.h"
#include "common/http/sse.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

static int llama_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const struct llama_own *own = g->own;
    struct llama_choice *of = c->own;
    int r = 0;

    if (event->kind != INF_EVENT_TOKENS)
        return 0;
    for (size_t i = 0; i < event->n_tokens && r == 0; i++) {
        if (own->return_tokens || g->request.streaming)
            r = str_printf(&of->tokens, of->tokens.len ? ",%d" : "%d", event->tokens[i].token);
        if (r < 0 || g->params.n_logprobs < 0)
            continue;
        r = of->probs.len ? str_putc(&of->probs, ',') : 0;
        r = r < 0 ? r
                  : logprobs_put_token(&of->probs, tok, &event->tokens[i],
                                       g->params.post_logprobs ? LOGPROBS_LLAMA_POST
                                                               : LOGPROBS_LLAMA);
    }
    return r;
}

static int put_probs(const struct llama_choice *of, struct str *out)
{
    return of->probs.len ? str_printf(out, ",\"completion_probabilities\":[%s]", of->probs.data)
                         : 0;
}

/* Writes an event that is not the last one of its choice. */
static int put_chunk(struct generation *g, struct choice *c, const char *text, size_t len,
                     bool with_progress)
{
    const struct llama_own *own = g->own;
    struct llama_choice *of = c->own;
    struct str *out = &g->out;
    int r = sse_open(out);

    r = r < 0 ? r : str_printf(out, "{\"index\":%u,\"content\":", c->index);
    r = r < 0 ? r : json_put_string(out, text, len);
    r = r < 0 ? r
              : str_printf(out,
                           ",\"tokens\":[%s],\"stop\":false,\"id_slot\":%lld,"
                           "\"tokens_predicted\":%u,\"tokens_evaluated\":%zu",
                           of->tokens.len ? of->tokens.data : "", (long long)own->id_slot,
                           c->n_generated, c->prompt->n_tokens);
    if (r == 0 && g->params.with_timings) {
        r = str_puts(out, ",\"timings\":");
        r = r < 0 ? r : timings_put(c, out);
    }
    if (r == 0 && with_progress) {
        r = str_puts(out, ",\"prompt_progress\":");
        r = r < 0 ? r : timings_put_progress(c->prompt, out);
    }
    r = r < 0 ? r : put_probs(of, out);
    r = r < 0 ? r : str_putc(out, '}');
    str_clear(&of->tokens);
    str_clear(&of->probs);
    return r < 0 ? r : sse_close(out);
}

static int llama_piece(struct generation *g, struct choice *c, const struct piece *piece)
{
    return put_chunk(g, c, piece->text, piece->len, false);
}

static int llama_progress(struct generation *g, struct choice *c)
{
    return put_chunk(g, c, "", 0, true);
}

/* Writes how the choice ended. */
static int put_stop(const struct choice *c, struct str *out)
{
    static const char *const types[N_FINISHES] = {
        "none", "eos", "word", "limit", "eos",
    };
    int r = str_printf(out, ",\"stop_type\":\"%s\",\"stopping_word\":", types[c->finish]);

    return r < 0 ? r : json_put_text(out, c->finish == FINISH_STOP_TEXT ? c->stop_text : "");
}

static bool is_truncated(const struct generation *g, const struct choice *c)
{
    return c->prompt->n_tokens + c->n_generated >= inf_engine_n_ctx(g->resident->engine);
}

/* Writes the last object of a choice. */
static int put_final_whole(const struct generation *g, const struct choice *c, struct str *out)
{
    const struct llama_own *own = g->own;
    const struct llama_choice *of = c->own;
    const bool streaming = g->request.streaming;
    int r = str_printf(out, "{\"index\":%u,\"content\":", c->index);

    r = r < 0 ? r
              : json_put_string(out, !streaming && c->text.data ? c->text.data : "",
                                streaming ? 0 : c->text.len);
    r = r < 0 ? r
              : str_printf(out, ",\"tokens\":[%s],\"id_slot\":%lld,\"stop\":true,\"model\":",
                           of->tokens.len ? of->tokens.data : "", (long long)own->id_slot);
    r = r < 0 ? r : json_put_text(out, g->resident->base.name);
    r = r < 0 ? r
              : str_printf(out,
                           ",\"tokens_predicted\":%u,\"tokens_evaluated\":%zu,"
                           "\"generation_settings\":%s,\"prompt\":",
                           c->n_generated, c->prompt->n_tokens, own->settings.data);
    r = r < 0 ? r : json_put_string(out, c->prompt->text, c->prompt->text_len);
    r = r < 0
            ? r
            : str_printf(out, ",\"has_new_line\":%s,\"truncated\":%s",
                         c->has_new_line ? "true" : "false", is_truncated(g, c) ? "true" : "false");
    r = r < 0 ? r : put_stop(c, out);
    r = r < 0 ? r : str_printf(out, ",\"tokens_cached\":%u,\"timings\":", c->prompt->n_cached);
    r = r < 0 ? r : timings_put(c, out);
    r = r < 0 ? r : put_probs(of, out);
    return r < 0 ? r : str_putc(out, '}');
}

/* Returns an object with the members of @whole that @fields name. "a/b" names the member b of a. */
static json_t *select_fields(const json_t *fields, const json_t *whole)
{
    json_t *out = json_object(), *field;
    size_t i;

    json_array_foreach(fields, i, field)
    {
        const char *at = json_string_value(field), *slash;
        const json_t *value = whole;

        while (value && (slash = strchr(at, '/'))) {
            value = json_object_getn(value, at, (size_t)(slash - at));
            at = slash + 1;
        }
        value = value ? json_object_get(value, at) : NULL;
        if (value)
            json_object_set(out, json_string_value(field), (json_t *)value);
    }
    return out;
}

static int put_final(const struct generation *g, const struct choice *c, struct str *out)
{
    const struct llama_own *own = g->own;
    _cleanup_str_ struct str whole = {};
    _cleanup_json_ json_t *all = NULL, *some = NULL;
    _cleanup_free_ char *text = NULL;
    int r;

    if (!own->fields)
        return put_final_whole(g, c, out);
    r = put_final_whole(g, c, &whole);
    if (r < 0)
        return r;
    all = json_loadb(whole.data, whole.len, 0, NULL);
    some = all ? select_fields(own->fields, all) : NULL;
    text = some ? json_dumps(some, JSON_COMPACT) : NULL;
    return text ? str_puts(out, text) : -ENOMEM;
}

static int llama_begin(struct generation *g)
{
    /* The HTTP headers are sent with the first bytes of the body. This SSE comment sends them at
     * once. */
    return str_puts(&g->out, ": accepted\n\n");
}

static int llama_finish(struct generation *g, struct choice *c)
{
    int r;

    if (!g->request.streaming)
        return 0;
    r = sse_open(&g->out);
    r = r < 0 ? r : put_final(g, c, &g->out);
    return r < 0 ? r : sse_close(&g->out);
}

static int llama_end(struct generation *g)
{
    const struct llama_own *own = g->own;
    int r = 0;

    if (g->request.streaming)
        return 0;
    if (own->is_many)
        r = str_putc(&g->out, '[');
    for (size_t i = 0; i < g->n_choices && r == 0; i++) {
        r = i ? str_putc(&g->out, ',') : 0;
        r = r < 0 ? r : put_final(g, &g->choices[i], &g->out);
    }
    return r < 0 || !own->is_many ? r : str_putc(&g->out, ']');
}

static void llama_choice_done(struct choice *c)
{
    struct llama_choice *of = c->own;

    str_done(&of->tokens);
    str_done(&of->probs);
}

static void llama_done(struct generation *g)
{
    struct llama_own *own = g->own;

    json_decref(own->fields);
    json_decref(own->stop);
    json_decref(own->grammar);
    str_done(&own->settings);
}

/* These members of struct chat_api are the same for both endpoints. */
#define LLAMA_SHARED                                                                               \
    .prompt_field = "prompt",                                                                      \
    .finishes = {[FINISH_STOP] = "eos", [FINISH_STOP_TEXT] = "word", [FINISH_LENGTH] = "limit"},   \
    .sampling = &sampling_llama, .own_size = sizeof(struct llama_own),                             \
    .choice_size = sizeof(struct llama_choice), .stream_type = SSE_TYPE,                           \
    .stream_pause = SSE_COMMENT, .begin = llama_begin, .tokens = llama_tokens,                     \
    .piece = llama_piece, .progress = llama_progress, .finish = llama_finish, .end = llama_end,    \
    .choice_done = llama_choice_done, .done = llama_done

const struct chat_api api_llama_completion = {
    LLAMA_SHARED,
    .id_prefix = "cmpl-",
    .read = llama_completion_read,
    .prepare = llama_completion_prepare,
};

const struct chat_api api_llama_infill = {
    LLAMA_SHARED,
    .id_prefix = "fill-",
    .read = llama_infill_read,
    .prepare = llama_infill_prepare,
};
