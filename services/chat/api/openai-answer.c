/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the parts that the answers of OpenAI's endpoints for text share. */
#include "chat/api/openai-answer.h"

#include "chat/api/timings.h"
#include "common/http/sse.h"
#include "common/wire/json.h"

static int openai_word_head(const struct generation *g, const char *object, struct str *out)
{
    int r = str_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", g->id,
                       object, (long long)g->created);

    r = r < 0 ? r : json_put_text(out, g->resident->base.name);
    return r < 0 ? r
                 : str_printf(out, ",\"system_fingerprint\":\"%s\",\"choices\":[",
                              g->resident->fingerprint);
}

int openai_put_head(struct generation *g, const char *object)
{
    struct openai_own *own = g->own;
    int r = own->head.len ? 0 : openai_word_head(g, object, &own->head);

    if (r < 0)
        str_clear(&own->head);
    return r < 0 ? r : str_append(&g->out, own->head.data, own->head.len);
}

int openai_put_usage(const struct generation *g, struct str *out)
{
    const struct usage u = generation_usage(g);

    return str_printf(out,
                      "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":%llu,\"audio_tokens\":0},"
                      "\"completion_tokens_details\":{\"reasoning_tokens\":%llu,\"audio_tokens\":0,"
                      "\"accepted_prediction_tokens\":%llu,\"rejected_prediction_tokens\":%llu}}",
                      (unsigned long long)u.n_prompt, (unsigned long long)u.n_generated,
                      (unsigned long long)(u.n_prompt + u.n_generated),
                      (unsigned long long)u.n_cached, (unsigned long long)u.n_reasoning,
                      (unsigned long long)u.n_accepted, (unsigned long long)u.n_rejected);
}

int openai_put_usage_event(struct generation *g, const char *object)
{
    int r;

    if (!g->params.include_usage)
        return 0;
    r = sse_open(&g->out);
    r = r < 0 ? r : openai_put_head(g, object);
    r = r < 0 ? r : str_puts(&g->out, "],\"usage\":");
    r = r < 0 ? r : openai_put_usage(g, &g->out);
    r = r < 0 ? r : openai_put_extras(g, &g->out);
    r = r < 0 ? r : str_putc(&g->out, '}');
    return r < 0 ? r : sse_close(&g->out);
}

int openai_put_extras(const struct generation *g, struct str *out)
{
    int r = 0;

    if (g->params.with_timings && g->n_choices) {
        r = str_puts(out, ",\"timings\":");
        r = r < 0 ? r : timings_put(&g->choices[0], out);
    }
    if (r < 0 || !g->params.with_prompt || !g->n_prompts || !g->prompts[0].text)
        return r;
    r = str_puts(out, ",\"__verbose\":{\"prompt\":");
    r = r < 0 ? r : json_put_string(out, g->prompts[0].text, g->prompts[0].text_len);
    return r < 0 ? r : str_putc(out, '}');
}

int openai_put_progress(struct generation *g, struct choice *c, const char *object)
{
    int r = sse_open(&g->out);

    r = r < 0 ? r : openai_put_head(g, object);
    r = r < 0 ? r : str_puts(&g->out, "],\"prompt_progress\":");
    r = r < 0 ? r : timings_put_progress(c->prompt, &g->out);
    if (r == 0 && g->params.with_timings) {
        r = str_puts(&g->out, ",\"timings\":");
        r = r < 0 ? r : timings_put(c, &g->out);
    }
    r = r < 0 ? r : str_putc(&g->out, '}');
    return r < 0 ? r : sse_close(&g->out);
}

void openai_own_done(struct generation *g)
{
    struct openai_own *own = g->own;

    str_done(&own->head);
}
