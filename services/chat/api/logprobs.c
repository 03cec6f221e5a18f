/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log-probabilities of tokens as JSON.
 *
 * The bytes of a token may be incomplete UTF-8. For such a token, /v1/chat/completions writes a
 * text with U+FFFD, and also the bytes. /v1/completions writes a text such as "bytes:\xe2\x80".
 * OpenAI's API does the same.
 */
#include "chat/api/logprobs.h"

#include <infer/tokenizer.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"
#include "core/utf8.h"

#define TOKEN_MAX 512

static size_t token_bytes(const struct inf_tokenizer *tok, int32_t id, unsigned char *buf)
{
    size_t len = inf_tokenizer_token_bytes(tok, id, buf, TOKEN_MAX);

    /* Special tokens have no text, so their names are shown. */
    if (!len) {
        const char *piece = inf_tokenizer_token_text(tok, id, &len);

        if (!piece)
            return 0;
        memcpy(buf, piece, MIN(len, (size_t)TOKEN_MAX));
    }
    return MIN(len, (size_t)TOKEN_MAX);
}

/* JSON has no infinity; OpenAI's API uses -9999 for impossible tokens. */
static double logprob_value(float logprob)
{
    return isfinite(logprob) ? (double)logprob : -9999.0;
}

static int put_entry(struct str *out, const struct inf_tokenizer *tok, int32_t id, float logprob,
                     enum logprobs_form form)
{
    unsigned char bytes[TOKEN_MAX];
    const size_t len = token_bytes(tok, id, bytes);
    int r = str_putc(out, '{');

    if (r == 0 && form != LOGPROBS_CHAT)
        r = str_printf(out, "\"id\":%d,", id);
    if (r < 0 || (r = str_puts(out, "\"token\":")) < 0 ||
        (r = json_put_string(out, (const char *)bytes, len)) < 0 ||
        (r = str_puts(out, form == LOGPROBS_LLAMA_POST ? ",\"prob\":" : ",\"logprob\":")) < 0 ||
        (r = json_put_double(out, form == LOGPROBS_LLAMA_POST ? exp((double)logprob)
                                                              : logprob_value(logprob))) < 0 ||
        (r = str_puts(out, ",\"bytes\":[")) < 0)
        return r;
    for (size_t i = 0; i < len && r == 0; i++)
        r = str_printf(out, i ? ",%u" : "%u", bytes[i]);
    return r < 0 ? r : str_putc(out, ']');
}

int logprobs_put_token(struct str *out, const struct inf_tokenizer *tok,
                       const struct inf_token_logprob *token, enum logprobs_form form)
{
    int r = put_entry(out, tok, token->token, token->logprob, form);

    if (r == 0)
        r = str_puts(out, form == LOGPROBS_LLAMA_POST ? ",\"top_probs\":[" : ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < token->n_top && r == 0; i++) {
        if (i)
            r = str_putc(out, ',');
        r = r < 0 ? r : put_entry(out, tok, token->top[i].token, token->top[i].logprob, form);
        r = r < 0 ? r : str_putc(out, '}');
    }
    return r < 0 ? r : str_puts(out, "]}");
}

int logprobs_add_event(const struct generation *g, const struct inf_event *event, struct str *out)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    int r = 0;

    if (event->kind != INF_EVENT_TOKENS || g->params.n_logprobs < 0)
        return 0;
    for (size_t i = 0; i < event->n_tokens && r == 0; i++) {
        r = out->len ? str_putc(out, ',') : 0;
        r = r < 0 ? r : logprobs_put_token(out, tok, &event->tokens[i], LOGPROBS_CHAT);
    }
    return r;
}

static int put_legacy_token(struct str *out, const struct inf_tokenizer *tok, int32_t id)
{
    unsigned char bytes[TOKEN_MAX];
    const size_t len = token_bytes(tok, id, bytes);
    int r;

    if (utf8_valid((const char *)bytes, len))
        return json_put_string(out, (const char *)bytes, len);
    r = str_puts(out, "\"bytes:");
    for (size_t i = 0; i < len && r == 0; i++)
        r = str_printf(out, "\\\\x%02x", bytes[i]);
    return r < 0 ? r : str_putc(out, '"');
}

static int put_legacy_top(struct str *out, const struct inf_tokenizer *tok,
                          const struct inf_token_logprob *token)
{
    _cleanup_str_ struct str names = {};
    int r = str_putc(out, '{');
    bool first = true;

    for (uint32_t i = 0; i < token->n_top && r == 0; i++) {
        _cleanup_str_ struct str name = {};

        r = put_legacy_token(&name, tok, token->top[i].token);
        /* Two ids may have the same text. Only the likelier id, which comes first, is written. */
        if (r < 0 || (names.len && memmem(names.data, names.len, name.data, name.len)))
            continue;
        if ((r = str_append(&names, name.data, name.len)) < 0 ||
            (!first && (r = str_putc(out, ',')) < 0) ||
            (r = str_append(out, name.data, name.len)) < 0 || (r = str_putc(out, ':')) < 0 ||
            (r = json_put_double(out, logprob_value(token->top[i].logprob))) < 0)
            return r;
        first = false;
    }
    return r < 0 ? r : str_putc(out, '}');
}

static int32_t token_code_points(const struct inf_tokenizer *tok, int32_t id, bool show_special)
{
    unsigned char bytes[TOKEN_MAX];
    size_t len;
    int32_t n = 0;

    if (!show_special && (inf_tokenizer_token_flags(tok, id) & INF_TOKEN_SPECIAL))
        return 0;
    len = MIN(inf_tokenizer_token_bytes(tok, id, bytes, TOKEN_MAX), (size_t)TOKEN_MAX);
    for (size_t i = 0; i < len; i++)
        n += (bytes[i] & 0xc0) != 0x80;
    return n;
}

int logprobs_add_legacy(struct logprobs_legacy *l, const struct inf_tokenizer *tok,
                        const struct inf_token_logprob *token)
{
    struct str *all[] = {l->tokens, l->token_logprobs, l->top_logprobs, l->text_offset};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(all) && r == 0; i++)
        if (all[i]->len)
            r = str_putc(all[i], ',');
    if (r < 0 || (r = put_legacy_token(l->tokens, tok, token->token)) < 0)
        return r;
    /* The first token of a prompt has no probability. */
    if (isnan(token->logprob)) {
        if ((r = str_puts(l->token_logprobs, "null")) < 0 ||
            (r = str_puts(l->top_logprobs, "null")) < 0)
            return r;
    } else if ((r = json_put_double(l->token_logprobs, logprob_value(token->logprob))) < 0 ||
               (r = put_legacy_top(l->top_logprobs, tok, token)) < 0) {
        return r;
    }
    r = str_printf(l->text_offset, "%d", MAX(*l->offset, 0));
    *l->offset += token_code_points(tok, token->token, l->show_special);
    return r;
}

int logprobs_put_legacy(struct str *out, const struct logprobs_legacy *l)
{
    const struct {
        const char *name;
        const struct str *items;
    } rows[] = {{"{\"tokens\":[", l->tokens},
                {"],\"token_logprobs\":[", l->token_logprobs},
                {"],\"top_logprobs\":[", l->top_logprobs},
                {"],\"text_offset\":[", l->text_offset}};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++) {
        r = str_puts(out, rows[i].name);
        if (r == 0 && rows[i].items->len)
            r = str_append(out, rows[i].items->data, rows[i].items->len);
    }
    return r < 0 ? r : str_puts(out, "]}");
}
