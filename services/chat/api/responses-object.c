/* SPDX-License-Identifier: Apache-2.0 */
/* Writes response objects and their items (see responses-output.h). */
#include <errno.h>
#include <string.h>

#include "chat/api/responses-output.h"
#include "common/wire/json.h"

static int put_str(struct str *out, const struct str *text)
{
    return json_put_string(out, text->data ? text->data : "", text->len);
}

int output_put_part(const struct output *o, const struct output_item *item, bool is_empty,
                    struct str *out)
{
    const struct str none = {};
    const char *type = item->kind == OUTPUT_MESSAGE ? "output_text"
                       : o->summarizes              ? "summary_text"
                                                    : "reasoning_text";
    int r = str_printf(out, "{\"type\":\"%s\",\"text\":", type);

    r = r < 0 ? r : put_str(out, is_empty ? &none : &item->text);
    if (item->kind == OUTPUT_MESSAGE)
        r = r < 0 ? r
                  : str_printf(out, ",\"annotations\":[],\"logprobs\":[%s]",
                               item->logprobs.data && !is_empty ? item->logprobs.data : "");
    return r < 0 ? r : str_putc(out, '}');
}

/* Writes the parts of an item. An item has no part before its first text comes. */
static int put_parts(const struct output *o, const struct output_item *item, struct str *out)
{
    int r = str_putc(out, '[');

    if (item->text.len || strcmp(item->status, "in_progress") != 0)
        r = r < 0 ? r : output_put_part(o, item, false, out);
    return r < 0 ? r : str_putc(out, ']');
}

static int put_reasoning(const struct output *o, const struct output_item *item, struct str *out)
{
    int r;

    if (o->summarizes) {
        r = str_puts(out, ",\"summary\":");
        return r < 0 ? r : put_parts(o, item, out);
    }
    r = str_puts(out, ",\"summary\":[],\"content\":");
    return r < 0 ? r : put_parts(o, item, out);
}

static int put_call(const struct output *o, const struct output_item *item, struct str *out)
{
    const json_t *pair = json_object_get(o->namespaces, item->name.data ? item->name.data : "");
    const json_t *space = json_array_get(pair, 0), *name = json_array_get(pair, 1);
    int r = str_puts(out, ",\"call_id\":");

    r = r < 0 ? r : json_put_text(out, item->call_id);
    r = r < 0 ? r : str_puts(out, ",\"name\":");
    r = r < 0 ? r : name ? json_put_text(out, json_string_value(name)) : put_str(out, &item->name);
    if (space) {
        r = r < 0 ? r : str_puts(out, ",\"namespace\":");
        r = r < 0 ? r : json_put_text(out, json_string_value(space));
    }
    r = r < 0
            ? r
            : str_printf(out, ",\"%s\":", item->kind == OUTPUT_CUSTOM_CALL ? "input" : "arguments");
    return r < 0 ? r : put_str(out, &item->text);
}

int output_put_item(const struct output *o, const struct output_item *item, struct str *out)
{
    static const char *const types[] = {
        [OUTPUT_REASONING] = "reasoning",
        [OUTPUT_MESSAGE] = "message",
        [OUTPUT_FUNCTION_CALL] = "function_call",
        [OUTPUT_CUSTOM_CALL] = "custom_tool_call",
    };
    int r = str_printf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\"", item->id,
                       types[item->kind], item->status);

    if (r == 0 && item->kind == OUTPUT_REASONING) {
        r = put_reasoning(o, item, out);
    } else if (r == 0 && item->kind == OUTPUT_MESSAGE) {
        r = str_puts(out, ",\"role\":\"assistant\",\"content\":");
        r = r < 0 ? r : put_parts(o, item, out);
    } else if (r == 0) {
        r = put_call(o, item, out);
    }
    return r < 0 ? r : str_putc(out, '}');
}

static int put_usage(const struct output *o, struct str *out)
{
    const struct output_usage *u = &o->usage;

    if (!o->has_usage)
        return str_puts(out, "null");
    return str_printf(
        out,
        "{\"input_tokens\":%llu,\"input_tokens_details\":{\"cached_tokens\":%llu},"
        "\"output_tokens\":%llu,\"output_tokens_details\":{\"reasoning_tokens\":%llu},"
        "\"total_tokens\":%llu}",
        (unsigned long long)u->n_input, (unsigned long long)u->n_cached,
        (unsigned long long)u->n_output, (unsigned long long)u->n_reasoning,
        (unsigned long long)(u->n_input + u->n_output));
}

static int put_error(const struct output *o, struct str *out)
{
    int r;

    if (!o->error)
        return str_puts(out, "null");
    r = str_puts(out, "{\"code\":");
    r = r < 0 ? r : json_put_text(out, o->error_code ? o->error_code : "server_error");
    r = r < 0 ? r : str_puts(out, ",\"message\":");
    r = r < 0 ? r : json_put_text(out, o->error);
    return r < 0 ? r : str_putc(out, '}');
}

const char *output_status(const struct output *o)
{
    return o->is_cut ? "incomplete" : "completed";
}

int output_put_response(const struct output *o, const char *status, struct str *out)
{
    int r = str_printf(out,
                       "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,"
                       "\"status\":\"%s\",\"error\":",
                       o->id, (long long)o->created, status);

    r = r < 0 ? r : put_error(o, out);
    r = r < 0 ? r
              : str_printf(out, ",\"incomplete_details\":%s,\"model\":",
                           strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}"
                                                             : "null");
    r = r < 0 ? r : json_put_text(out, o->model);
    r = r < 0 ? r : str_puts(out, ",\"output\":[");
    for (size_t i = 0; i < o->n_items && r == 0; i++) {
        r = i ? str_putc(out, ',') : 0;
        r = r < 0 ? r : output_put_item(o, &o->items[i], out);
    }
    r = r < 0 ? r : str_puts(out, "],\"usage\":");
    r = r < 0 ? r : put_usage(o, out);
    return r < 0 ? r
                 : str_printf(out, ",\"store\":%s%s}", o->store ? "true" : "false",
                              o->echo ? o->echo : "");
}

void output_done(struct output *o)
{
    for (size_t i = 0; i < o->n_items; i++) {
        free(o->items[i].call_id);
        str_done(&o->items[i].name);
        str_done(&o->items[i].text);
        str_done(&o->items[i].logprobs);
    }
    free(o->items);
    str_done(&o->logprobs);
    str_done(&o->extras);
}
