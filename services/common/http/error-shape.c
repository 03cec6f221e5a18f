/* SPDX-License-Identifier: Apache-2.0 */
/* Writes errors in the formats of the APIs. */
#include "common/http/error-shape.h"

#include <string.h>

#include "common/wire/json.h"

static const char *openai_type(int status)
{
    if (status == 429)
        return "rate_limit_error";
    if (status == 403)
        return "permission_error";
    return status >= 500 ? "server_error" : "invalid_request_error";
}

static int openai_put(struct str *out, const struct api_error *e)
{
    int r = str_puts(out, "{\"error\":{\"message\":");

    r = r < 0 ? r : json_put_text(out, e->message);
    r = r < 0 ? r : str_printf(out, ",\"type\":\"%s\",\"param\":", openai_type(e->status));
    r = r < 0 ? r : json_put_text(out, e->param);
    r = r < 0 ? r : str_puts(out, ",\"code\":");
    r = r < 0 ? r : json_put_text(out, e->code);
    return r < 0 ? r : str_puts(out, "}}");
}

/* The events of a stream of /v1/responses have their type and fields at the top level. Clients that
 * know only the other streams of OpenAI find the error in "error". */
static int responses_put_event(struct str *out, const struct api_error *e)
{
    int r = str_puts(out, "{\"type\":\"error\",\"code\":");

    r = r < 0 ? r : json_put_text(out, e->code);
    r = r < 0 ? r : str_puts(out, ",\"message\":");
    r = r < 0 ? r : json_put_text(out, e->message);
    r = r < 0 ? r : str_puts(out, ",\"param\":");
    r = r < 0 ? r : json_put_text(out, e->param);
    /* openai_put() writes {"error":…}, whose first brace becomes a comma. */
    const size_t at = out->len;
    r = r < 0 ? r : openai_put(out, e);
    if (r == 0)
        out->data[at] = ',';
    return r;
}

static const char *anthropic_type(int status)
{
    static const struct {
        const char *type;
        int status;
    } rows[] = {
        {"authentication_error", 401}, {"permission_error", 403}, {"not_found_error", 404},
        {"request_too_large", 413},    {"rate_limit_error", 429}, {"timeout_error", 504},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].status == status)
            return rows[i].type;
    return status >= 500 ? "api_error" : "invalid_request_error";
}

/* Anthropic's format does not name the wrong field of a request, and it has the code in `details`.
 * This function also writes `param` and `code` as OpenAI's format has them, because clients ignore
 * members that they do not know. */
static int anthropic_put(struct str *out, const struct api_error *e)
{
    int r = str_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                       anthropic_type(e->status));

    r = r < 0 ? r : json_put_text(out, e->message);
    r = r < 0 ? r : str_puts(out, ",\"param\":");
    r = r < 0 ? r : json_put_text(out, e->param);
    r = r < 0 ? r : str_puts(out, ",\"code\":");
    r = r < 0 ? r : json_put_text(out, e->code);
    r = r < 0 ? r : str_puts(out, ",\"details\":{\"error_code\":");
    r = r < 0 ? r : json_put_text(out, e->code);
    return r < 0 ? r : str_puts(out, "}}}");
}

static int ollama_put(struct str *out, const struct api_error *e)
{
    int r = str_puts(out, "{\"error\":");

    r = r < 0 ? r : json_put_text(out, e->message);
    return r < 0 ? r : str_putc(out, '}');
}

static const char *tei_type(const struct api_error *e)
{
    if (e->status == 429)
        return "Overloaded";
    if (e->status >= 500)
        return "Backend";
    return e->code && strcmp(e->code, "empty_input") == 0 ? "Empty" : "Validation";
}

static int tei_put(struct str *out, const struct api_error *e)
{
    int r = str_puts(out, "{\"error\":");

    r = r < 0 ? r : json_put_text(out, e->message);
    r = r < 0 ? r : str_printf(out, ",\"error_type\":\"%s\",\"code\":", tei_type(e));
    r = r < 0 ? r : json_put_text(out, e->code);
    r = r < 0 ? r : str_puts(out, ",\"param\":");
    r = r < 0 ? r : json_put_text(out, e->param);
    return r < 0 ? r : str_putc(out, '}');
}

static const char *llama_type(const struct api_error *e)
{
    if (e->n_ctx)
        return "exceed_context_size_error";
    switch (e->status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 501:
        return "not_supported_error";
    case 429:
    case 503:
        return "unavailable_error";
    default:
        return e->status >= 500 ? "server_error" : "invalid_request_error";
    }
}

/* llama-server's `code` is the status, so the code for programs is in a field of its own. */
static int llama_put(struct str *out, const struct api_error *e)
{
    int r = str_printf(out, "{\"error\":{\"code\":%d,\"message\":", e->status);

    r = r < 0 ? r : json_put_text(out, e->message);
    r = r < 0 ? r : str_printf(out, ",\"type\":\"%s\",\"param\":", llama_type(e));
    r = r < 0 ? r : json_put_text(out, e->param);
    r = r < 0 ? r : str_puts(out, ",\"reason\":");
    r = r < 0 ? r : json_put_text(out, e->code);
    if (r == 0 && e->n_ctx)
        r = str_printf(out, ",\"n_prompt_tokens\":%llu,\"n_ctx\":%llu",
                       (unsigned long long)e->n_prompt_tokens, (unsigned long long)e->n_ctx);
    return r < 0 ? r : str_puts(out, "}}");
}

const struct error_shape errors_openai = {openai_put, "data: ", "\n\n", "data: {\"error\":"};
const struct error_shape errors_responses = {openai_put, "event: error\ndata: ", "\n\n",
                                             "event: error\n", responses_put_event};
const struct error_shape errors_anthropic = {anthropic_put, "event: error\ndata: ", "\n\n",
                                             "event: error\n"};
const struct error_shape errors_ollama = {ollama_put, "", "\n", "{\"error\":"};
const struct error_shape errors_llama = {llama_put, "data: ", "\n\n", "data: {\"error\":"};
const struct error_shape errors_tei = {tei_put, "data: ", "\n\n", "data: {\"error\":"};

int error_shape_put_event(const struct error_shape *shape, struct str *out,
                          const struct api_error *error)
{
    const size_t len = out->len;
    int r = str_puts(out, shape->head);

    r = r < 0 ? r : shape->put_event ? shape->put_event(out, error) : shape->put(out, error);
    r = r < 0 ? r : str_puts(out, shape->tail);
    if (r < 0)
        out->len = len;
    return r;
}
