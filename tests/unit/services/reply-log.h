/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares tools, and a log of the pieces of an answer, for the tests of replies. The log is a
 * text. It has a mark and the text of each piece: T: text, R: reasoning, C: the name of a called
 * tool, A: the arguments of a call, I: the input of a custom tool. */

#include <string.h>

#include "chat/reply/parser.h"
#include "common/wire/json.h"

struct reply_log {
    struct str text;
    int last; /* kind of the last piece; -1: none */
};

/* Logs a piece. Consecutive pieces of the same kind are joined. */
static inline int reply_log_take(void *data, const struct piece *piece)
{
    static const char *const names[] = {"T:", "R:", "C:", "A:", "I:"};
    struct reply_log *log = data;
    int r = 0;

    if ((int)piece->kind != log->last || piece->kind == PIECE_CALL) {
        r = log->text.len ? str_putc(&log->text, '|') : 0;
        r = r < 0 ? r : str_puts(&log->text, names[piece->kind]);
    }
    log->last = (int)piece->kind;
    return r < 0 ? r : str_append(&log->text, piece->text, piece->len);
}

static const char reply_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},"
    "\"detailed\":{\"type\":\"boolean\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\"}},\"near\":{\"type\":\"object\"},\"note\":{\"type\":[\"string\",\"null\"]},"
    "\"any\":{}},\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}},"
    "{\"type\":\"custom\",\"custom\":{\"name\":\"patch\"}}]";

static inline struct reply reply_of(const char *format, const char *thinking, bool with_tools)
{
    struct reply reply = {.format = format ? reply_format_named(format) : NULL,
                          .thinking = thinking ? thinking_find(thinking) : NULL};
    const struct tool_rules rules = {.choice = TOOLS_AUTO};
    struct inf_err err;
    json_t *tools = NULL;

    if (with_tools && json_parse(reply_tools, strlen(reply_tools), &tools, &err) == 0)
        reply_set_tools(&reply, tools, &rules);
    json_decref(tools);
    return reply;
}

/* Parses @text in parts of @first bytes, then of @step bytes (0: the rest). */
static inline void reply_log_parse(const struct reply *reply, const char *text, size_t len,
                                   size_t first, size_t step, bool is_cut, struct str *out)
{
    struct reply_log log = {.last = -1};
    struct reply_parser parser;
    size_t at = 0, n = first < len ? first : len;

    reply_parser_init(&parser, reply, (struct piece_sink){reply_log_take, &log});
    while (at < len) {
        if (reply_parser_feed(&parser, text + at, n) < 0)
            abort();
        at += n;
        n = step && step < len - at ? step : len - at;
    }
    if (reply_parser_finish(&parser, is_cut) < 0)
        abort();
    reply_parser_done(&parser);
    *out = log.text;
}
