/* SPDX-License-Identifier: Apache-2.0 */
/* Answers POST /tokenize, /detokenize and /apply-template, as llama-server does. */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/tokenize.h"
#include "chat/template.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/utf8.h"

static int out_of_memory(int r, struct problem *problem)
{
    return r < 0 ? problem_no_memory(problem) : 0;
}

static int put_piece(struct str *out, const struct inf_tokenizer *tok, int32_t id)
{
    unsigned char bytes[512];
    size_t len = MIN(inf_tokenizer_token_bytes(tok, id, bytes, sizeof(bytes)), sizeof(bytes));
    int r = str_printf(out, "{\"id\":%d,\"piece\":", id);

    if (!len) {
        const char *piece = inf_tokenizer_token_text(tok, id, &len);

        r = r < 0 ? r : json_put_string(out, piece ? piece : "", piece ? len : 0);
    } else if (utf8_valid((const char *)bytes, len)) {
        r = r < 0 ? r : json_put_string(out, (const char *)bytes, len);
    } else {
        for (size_t i = 0; i < len && r == 0; i++)
            r = str_printf(out, "%c%u", i ? ',' : '[', bytes[i]);
        r = r < 0 ? r : str_putc(out, ']');
    }
    return r < 0 ? r : str_putc(out, '}');
}

static int tokenize_prepare(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const json_t *text = tokenize_text(g);
    bool add_special = false, parse_special = true, pieces = false;
    _cleanup_free_ int32_t *ids = NULL;
    size_t n = 0;
    int r;

    if ((r = field_bool(g->body, "add_special", &add_special, problem)) < 0 ||
        (r = field_bool(g->body, "parse_special", &parse_special, problem)) < 0 ||
        (r = field_bool(g->body, "with_pieces", &pieces, problem)) < 0)
        return r;
    r = inf_tokenizer_encode(tok, json_string_value(text), json_string_length(text),
                             (add_special ? INF_ENCODE_ADD_SPECIAL : 0u) |
                                 (parse_special ? INF_ENCODE_PARSE_SPECIAL : 0u),
                             0, &ids, &n);
    r = r < 0 ? r : str_puts(&g->out, "{\"tokens\":[");
    for (size_t i = 0; i < n && r == 0; i++) {
        r = i ? str_putc(&g->out, ',') : 0;
        if (r == 0)
            r = pieces ? put_piece(&g->out, tok, ids[i]) : str_printf(&g->out, "%d", ids[i]);
    }
    return out_of_memory(r < 0 ? r : str_puts(&g->out, "]}"), problem);
}

static int detokenize_prepare(struct generation *g, struct problem *problem)
{
    json_t *tokens = field_find(g->body, "tokens"), *token;
    _cleanup_free_ int32_t *ids = NEW(int32_t, json_array_size(tokens));
    _cleanup_free_ char *text = NULL;
    size_t i, len = 0;
    int r = ids ? 0 : -ENOMEM;

    if (r < 0)
        return out_of_memory(r, problem);
    json_array_foreach(tokens, i, token)
    {
        const json_int_t id = json_integer_value(token);

        if (!json_is_integer(token))
            return field_wrong_type("tokens", "token ids", token, problem);
        if (id < 0 || id >= inf_model_info(g->resident->base.model)->n_vocab)
            return problem_set(problem, 400, "invalid_value", "tokens",
                               "Invalid value for 'tokens': %lld is not a token id of this model.",
                               (long long)id);
        ids[i] = (int32_t)id;
    }
    r = inf_tokenizer_decode(inf_model_tokenizer(g->resident->base.model), ids,
                             json_array_size(tokens), true, &text, &len);
    r = r < 0 ? r : str_puts(&g->out, "{\"content\":");
    r = r < 0 ? r : json_put_string(&g->out, text, len);
    return out_of_memory(r < 0 ? r : str_putc(&g->out, '}'), problem);
}

static int apply_template_prepare(struct generation *g, struct problem *problem)
{
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    int r;

    r = template_render(g, &text, &len, problem);
    if (r < 0)
        return r;
    r = str_puts(&g->out, "{\"prompt\":");
    r = r < 0 ? r : json_put_string(&g->out, text, len);
    return out_of_memory(r < 0 ? r : str_putc(&g->out, '}'), problem);
}

const struct chat_api api_tokenize = {
    .id_prefix = "tok-",
    .computes_only = true,
    .read = tokenize_read,
    .prepare = tokenize_prepare,
};

const struct chat_api api_detokenize = {
    .id_prefix = "detok-",
    .computes_only = true,
    .read = detokenize_read,
    .prepare = detokenize_prepare,
};

const struct chat_api api_apply_template = {
    .id_prefix = "tmpl-",
    .prompt_field = "messages",
    .computes_only = true,
    .read = apply_template_read,
    .prepare = apply_template_prepare,
};
