/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the items of a response from pieces, and writes the events of a stream.
 *
 * The name of an event is its type, which is also in its data. The data also have a sequence
 * number. An item has these events, in this order: the item was added, its part was added, deltas
 * of the text, the whole text, the part is done, the item is done. Calls have no part.
 */
#include <errno.h>
#include <string.h>

#include "chat/api/responses-output.h"
#include "common/wire/json.h"
#include "core/array.h"

/* The names of the events of each kind of item; NULL: there is no such event. */
struct event_names {
    const char *id_prefix;
    const char *part_added, *delta, *done, *part_done;
    const char *text; /* the field that has the whole text, in the event `done` */
};

static const struct event_names reasoning_names = {
    "rs_",
    "response.content_part.added",
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.content_part.done",
    "text",
};
static const struct event_names summary_names = {
    "rs_",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "text",
};
static const struct event_names message_names = {
    "msg_",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "text",
};
static const struct event_names function_names = {
    "fc_",
    NULL,
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    NULL,
    "arguments",
};
static const struct event_names custom_names = {
    "ctc_",
    NULL,
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    NULL,
    "input",
};

static const struct event_names *names_of(const struct output *o, enum output_kind kind)
{
    switch (kind) {
    case OUTPUT_REASONING:
        return o->summarizes ? &summary_names : &reasoning_names;
    case OUTPUT_MESSAGE:
        return &message_names;
    case OUTPUT_FUNCTION_CALL:
        return &function_names;
    case OUTPUT_CUSTOM_CALL:
        break;
    }
    return &custom_names;
}

/* --- one event --- */

static int event_open(struct output *o, const char *type, struct str *out)
{
    return str_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", type, type,
                      (unsigned long long)o->n_events++);
}

static int event_close(const struct output *o, struct str *out)
{
    const int r = str_append(out, o->extras.data, o->extras.len);

    return r < 0 ? r : str_puts(out, "}\n\n");
}

/* Opens an event of the last item. Events of parts also have the number of the part, which is
 * always 0. */
static int item_event_open(struct output *o, const char *type, struct str *out)
{
    const struct output_item *item = &o->items[o->n_items - 1];
    int r = event_open(o, type, out);

    r = r < 0
            ? r
            : str_printf(out, ",\"item_id\":\"%s\",\"output_index\":%zu", item->id, o->n_items - 1);
    if (r == 0 && item->kind == OUTPUT_REASONING && o->summarizes)
        r = str_puts(out, ",\"summary_index\":0");
    else if (r == 0 && (item->kind == OUTPUT_REASONING || item->kind == OUTPUT_MESSAGE))
        r = str_puts(out, ",\"content_index\":0");
    return r;
}

static int response_event(struct output *o, const char *type, const char *status, struct str *out)
{
    int r = event_open(o, type, out);

    r = r < 0 ? r : str_puts(out, ",\"response\":");
    r = r < 0 ? r : output_put_response(o, status, out);
    return r < 0 ? r : event_close(o, out);
}

/* Writes an event which says that the last item was added or is done. */
static int item_event(struct output *o, const char *type, struct str *out)
{
    int r = event_open(o, type, out);

    r = r < 0 ? r : str_printf(out, ",\"output_index\":%zu,\"item\":", o->n_items - 1);
    r = r < 0 ? r : output_put_item(o, &o->items[o->n_items - 1], out);
    return r < 0 ? r : event_close(o, out);
}

static int part_event(struct output *o, const char *type, bool is_empty, struct str *out)
{
    int r = item_event_open(o, type, out);

    r = r < 0 ? r : str_puts(out, ",\"part\":");
    r = r < 0 ? r : output_put_part(o, &o->items[o->n_items - 1], is_empty, out);
    return r < 0 ? r : event_close(o, out);
}

/* --- items --- */

static int item_begin(struct output *o, enum output_kind kind, const struct piece *piece,
                      struct str *out)
{
    const struct event_names *names = names_of(o, kind);
    struct output_item *item;
    int r;

    if (ARRAY_GROW_ZEROED(o->items, o->items_cap, o->n_items + 1) < 0)
        return -ENOMEM;
    item = &o->items[o->n_items++];
    item->kind = kind;
    item->status = "in_progress";
    request_id_new(names->id_prefix, item->id);
    if (piece && piece->kind == PIECE_CALL) {
        item->call_id = strdup(piece->id);
        r = item->call_id ? str_append(&item->name, piece->text, piece->len) : -ENOMEM;
        if (r < 0)
            return r;
    }
    if (!o->streams)
        return 0;
    r = item_event(o, "response.output_item.added", out);
    return r < 0 || !names->part_added ? r : part_event(o, names->part_added, true, out);
}

/* Writes the event with the whole text of the last item. */
static int item_text_event(struct output *o, const struct event_names *names, struct str *out)
{
    const struct output_item *item = &o->items[o->n_items - 1];
    int r = item_event_open(o, names->done, out);

    r = r < 0 ? r : str_printf(out, ",\"%s\":", names->text);
    r = r < 0 ? r : json_put_string(out, item->text.data ? item->text.data : "", item->text.len);
    if (item->kind == OUTPUT_MESSAGE)
        r = r < 0 ? r
                  : str_printf(out, ",\"logprobs\":[%s]",
                               item->logprobs.data ? item->logprobs.data : "");
    if (item->kind == OUTPUT_FUNCTION_CALL) {
        r = r < 0 ? r : str_puts(out, ",\"name\":");
        r = r < 0 ? r
                  : json_put_string(out, item->name.data ? item->name.data : "", item->name.len);
    }
    return r < 0 ? r : event_close(o, out);
}

/* Ends the last item, if it has not ended. */
static int item_end(struct output *o, const char *status, struct str *out)
{
    struct output_item *item = o->n_items ? &o->items[o->n_items - 1] : NULL;
    const struct event_names *names;
    int r;

    if (!item || strcmp(item->status, "in_progress") != 0)
        return 0;
    item->status = status;
    names = names_of(o, item->kind);
    if (!o->streams)
        return 0;
    r = item_text_event(o, names, out);
    r = r < 0 || !names->part_done ? r : part_event(o, names->part_done, false, out);
    return r < 0 ? r : item_event(o, "response.output_item.done", out);
}

static int join_logprobs(struct str *to, const struct str *more)
{
    int r = to->len && more->len ? str_putc(to, ',') : 0;

    return r < 0 || !more->len ? r : str_append(to, more->data, more->len);
}

/* Appends text to the last item. */
static int item_add(struct output *o, const struct piece *piece, struct str *out)
{
    struct output_item *item = &o->items[o->n_items - 1];
    const struct event_names *names = names_of(o, item->kind);
    const bool is_message = item->kind == OUTPUT_MESSAGE;
    int r = str_append(&item->text, piece->text, piece->len);

    if (is_message)
        r = r < 0 ? r : join_logprobs(&item->logprobs, &o->logprobs);
    if (r == 0 && o->streams) {
        r = item_event_open(o, names->delta, out);
        r = r < 0 ? r : str_puts(out, ",\"delta\":");
        r = r < 0 ? r : json_put_string(out, piece->text, piece->len);
        if (is_message)
            r = r < 0 ? r
                      : str_printf(out, ",\"logprobs\":[%s]",
                                   o->logprobs.len ? o->logprobs.data : "");
        r = r < 0 ? r : event_close(o, out);
    }
    str_clear(&o->logprobs);
    return r;
}

/* Returns the kind of the item to which a piece belongs. */
static enum output_kind piece_item(const struct piece *piece)
{
    switch (piece->kind) {
    case PIECE_REASONING:
        return OUTPUT_REASONING;
    case PIECE_CALL:
        return piece->is_custom ? OUTPUT_CUSTOM_CALL : OUTPUT_FUNCTION_CALL;
    case PIECE_ARGUMENTS:
        return OUTPUT_FUNCTION_CALL;
    case PIECE_INPUT:
        return OUTPUT_CUSTOM_CALL;
    case PIECE_TEXT:
        break;
    }
    return OUTPUT_MESSAGE;
}

int output_begin(struct output *o, struct str *out)
{
    int r = response_event(o, "response.created", "in_progress", out);

    return r < 0 ? r : response_event(o, "response.in_progress", "in_progress", out);
}

int output_progress(struct output *o, struct str *out)
{
    return response_event(o, "response.in_progress", "in_progress", out);
}

int output_piece(struct output *o, const struct piece *piece, struct str *out)
{
    const struct output_item *last = o->n_items ? &o->items[o->n_items - 1] : NULL;
    const enum output_kind kind = piece_item(piece);
    int r = 0;

    if (piece->kind != PIECE_CALL && piece->len == 0)
        return 0;
    if (!last || last->kind != kind || piece->kind == PIECE_CALL) {
        r = item_end(o, "completed", out);
        r = r < 0 ? r : item_begin(o, kind, piece, out);
    }
    return r < 0 || piece->kind == PIECE_CALL ? r : item_add(o, piece, out);
}

int output_finish(struct output *o, bool is_cut, struct str *out)
{
    int r = 0;

    o->is_cut = is_cut;
    /* Clients expect a message even if the model wrote nothing. */
    if (!o->n_items)
        r = item_begin(o, OUTPUT_MESSAGE, NULL, out);
    return r < 0 ? r : item_end(o, output_status(o), out);
}

int output_end(struct output *o, struct str *out)
{
    int r;

    if (!o->streams) {
        r = output_put_response(o, output_status(o), out);
        if (r < 0 || !o->extras.len)
            return r;
        out->len--; /* the brace that closes the response */
        r = str_append(out, o->extras.data, o->extras.len);
        return r < 0 ? r : str_putc(out, '}');
    }
    return response_event(o, o->is_cut ? "response.incomplete" : "response.completed",
                          output_status(o), out);
}

int output_fail(struct output *o, struct str *out)
{
    return response_event(o, "response.failed", "failed", out);
}
