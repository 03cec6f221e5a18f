/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the grammar of the answers to a request.
 *
 * An answer begins with thinking, if the model thinks. Text, calls, or text and then calls follow.
 * Text cannot contain the marker of a call, so a whole call follows each marker.
 */
#include "chat/reply/grammar.h"

#include <errno.h>
#include <string.h>

#include "chat/reply/grammar-calls.h"

static bool grammar_is_harmony(const struct reply *reply)
{
    return reply->format && reply->format->body == BODY_HARMONY;
}

/* Returns whether an answer can have calls. It has none if the prompt has begun its text, calls
 * begin without a marker, and the model is free to write text instead of a call: the parser could
 * not distinguish a call from the rest of the text. */
static bool grammar_has_calls(const struct reply *reply)
{
    return reply->n_tools &&
           !(reply->continues && reply->format->bare && reply->choice == TOOLS_AUTO);
}

/* Writes the constraint as an expression. */
static int put_constraint(struct lark *l, const struct constraint *c)
{
    json_t *any;

    switch (c->kind) {
    case CONSTRAINT_JSON:
        any = json_pack("{s:s}", "type", "object");
        lark_json(l, any);
        json_decref(any);
        return 0;
    case CONSTRAINT_SCHEMA:
        lark_json(l, c->value);
        return 0;
    case CONSTRAINT_CHOICE:
        lark_one_of(l, c->value);
        return 0;
    case CONSTRAINT_REGEX:
        lark_regex(l, json_string_value(c->value));
        return 0;
    case CONSTRAINT_LARK:
        lark_printf(l, "%%lark {\n%s\n} ", json_string_value(c->value));
        return 0;
    default:
        return -EOPNOTSUPP;
    }
}

/* Adds the rule `thinking`: the part in which the model thinks, with its end marker. */
static void put_thinking(struct lark *l, const struct reply *reply, bool is_off)
{
    const struct thinking_marks *marks = reply->thinking;

    if (is_off && !reply->is_open) {
        lark_puts(l, "thinking: \"\"\n");
        return;
    }
    lark_text_without(l, "THOUGHT", &marks->close, 1);
    lark_puts(l, "thinking: ");
    if (!reply->is_open) {
        lark_puts(l, "(");
        lark_marker(l, marks->open);
    }
    lark_puts(l, "THOUGHT ");
    lark_marker(l, marks->close);
    lark_puts(l, "SPACE");
    lark_puts(l, reply->is_open ? "\n" : ")?\n");
}

/* Adds the rule `answer`: text, calls, or the constraint. */
static int put_answer(struct lark *l, const struct reply *reply, const struct constraint *c)
{
    const bool calls = grammar_has_calls(reply);
    const bool text = !calls || reply->choice == TOOLS_AUTO;
    int r = 0;

    lark_puts(l, "answer: ");
    if (calls && text && c->kind == CONSTRAINT_NONE)
        lark_puts(l, reply->format->bare ? "calls | TEXT " : "TEXT calls | TEXT ");
    else if (calls)
        lark_puts(l, "calls ");
    if (text && c->kind != CONSTRAINT_NONE) {
        lark_puts(l, calls ? "| " : "");
        r = put_constraint(l, c);
    } else if (!calls) {
        lark_puts(l, "TEXT ");
    }
    lark_puts(l, "\n");
    return r;
}

/* Adds the terminal TEXT, which is any text without the openers of calls. */
static void put_text(struct lark *l, const struct reply *reply)
{
    const struct reply_format *f = grammar_has_calls(reply) ? reply->format : NULL;

    if (f && f->bare) {
        /* A text that begins with a bracket would be read as a call. */
        lark_printf(l, "TEXT: /(\\s*[^\\s%s].*)?/s\n", f->body == BODY_PYTHON ? "\\[" : "\\{");
        return;
    }
    lark_text_without(l, "TEXT", f ? f->openers : NULL, f ? ARRAY_SIZE(f->openers) : 0);
}

static int put_plain_answers(struct lark *l, const struct reply *reply, const struct constraint *c,
                             bool is_off)
{
    int r;

    lark_puts(l, reply->thinking ? "start: thinking answer\n" : "start: answer\n");
    if (reply->thinking) {
        put_thinking(l, reply, is_off);
        lark_puts(l, "SPACE: /[ \\n]{0,4}/\n");
    }
    put_text(l, reply);
    r = put_answer(l, reply, c);
    if (grammar_has_calls(reply))
        grammar_put_calls(l, reply);
    return r;
}

/* Writes the rules for an answer whose first message was begun by the prompt. The rules describe
 * the rest of this message, and the calls that may follow it. */
static int put_harmony_rest(struct lark *l, const struct reply *reply, const struct constraint *c)
{
    const bool calls = reply->n_tools > 0, text = !calls || reply->choice == TOOLS_AUTO;
    int r = 0;

    lark_puts(l, "start: ");
    if (calls) {
        lark_puts(l, "ANY ");
        lark_marker(l, "<|end|><|start|>assistant");
        lark_puts(l, "note* calls");
    }
    lark_puts(l, calls && text ? " | " : "");
    if (text && c->kind == CONSTRAINT_NONE)
        lark_puts(l, "ANY");
    else if (text)
        r = put_constraint(l, c);
    return r;
}

/* Writes the rule of the messages of an answer. */
static void put_harmony_messages(struct lark *l, const struct reply *reply, bool is_off)
{
    const bool calls = reply->n_tools > 0, text = !calls || reply->choice == TOOLS_AUTO;

    lark_puts(l, is_off ? "start: (" : "start: thought* (");
    lark_puts(l, text ? "final" : "");
    lark_puts(l, calls ? (text ? "| note* calls" : "calls") : "");
    lark_puts(l, ")");
}

/* Writes the messages of gpt-oss. The prompt ends after <|start|>assistant. */
static int put_harmony(struct lark *l, const struct reply *reply, const struct constraint *c,
                       bool is_off)
{
    static const char *const ends[] = {"<|end|>", "<|start|>", "<|channel|>", "<|call|>",
                                       "<|return|>"};
    int r = 0;

    lark_text_without(l, "ANY", ends, ARRAY_SIZE(ends));
    if (reply->continues)
        r = put_harmony_rest(l, reply, c);
    else
        put_harmony_messages(l, reply, is_off);
    lark_puts(l, "\nthought: ");
    lark_marker(l, "<|channel|>analysis<|message|>");
    lark_puts(l, "ANY ");
    lark_marker(l, "<|end|><|start|>assistant");
    lark_puts(l, "\nnote: ");
    lark_marker(l, "<|channel|>commentary<|message|>");
    lark_puts(l, "ANY ");
    lark_marker(l, "<|end|><|start|>assistant");
    lark_puts(l, "\nfinal: ");
    lark_marker(l, "<|channel|>final<|message|>");
    if (c->kind == CONSTRAINT_NONE)
        lark_puts(l, "ANY");
    else if (r == 0)
        r = put_constraint(l, c);
    lark_puts(l, "\n");
    if (reply->n_tools)
        grammar_put_calls(l, reply);
    return r;
}

/* Writes a constraint that is the whole grammar. */
static int put_alone(const struct constraint *c, enum inf_grammar_kind *ret_kind, struct str *out)
{
    static const enum inf_grammar_kind kinds[] = {[CONSTRAINT_JSON] = INF_GRAMMAR_JSON,
                                                  [CONSTRAINT_SCHEMA] = INF_GRAMMAR_JSON_SCHEMA,
                                                  [CONSTRAINT_GBNF] = INF_GRAMMAR_GBNF,
                                                  [CONSTRAINT_REGEX] = INF_GRAMMAR_REGEX,
                                                  [CONSTRAINT_LARK] = INF_GRAMMAR_LARK};
    _cleanup_free_ char *schema = NULL;

    *ret_kind = kinds[c->kind];
    if (c->kind == CONSTRAINT_JSON)
        return 0;
    if (c->kind != CONSTRAINT_SCHEMA)
        return str_append(out, json_string_value(c->value), json_string_length(c->value));
    schema = json_dumps(c->value, JSON_COMPACT | JSON_ENCODE_ANY);
    return schema ? str_puts(out, schema) : -ENOMEM;
}

int reply_grammar(const struct reply *reply, const struct constraint *c, bool is_off,
                  const struct inf_tokenizer *tok, enum inf_grammar_kind *ret_kind, struct str *out)
{
    struct lark l = {.tok = tok};
    const bool thinks = reply->thinking && !(is_off && !reply->is_open);
    int r;

    if (!reply->n_tools && c->kind == CONSTRAINT_NONE)
        return 0;
    if (!reply->n_tools && !thinks && !grammar_is_harmony(reply) && c->kind != CONSTRAINT_CHOICE) {
        r = put_alone(c, ret_kind, out);
        return r < 0 ? r : 1;
    }
    *ret_kind = INF_GRAMMAR_LARK;
    r = grammar_is_harmony(reply) ? put_harmony(&l, reply, c, is_off)
                                  : put_plain_answers(&l, reply, c, is_off);
    r = r < 0 ? r : l.error;
    r = r < 0 ? r : str_append(out, l.out.data, l.out.len);
    if (r == 0 && l.later.len)
        r = str_append(out, l.later.data, l.later.len);
    lark_done(&l);
    return r < 0 ? r : 1;
}

int reply_tool_schema(const struct reply_tool *tool, struct str *out)
{
    json_t *schema = grammar_arguments(tool);
    _cleanup_free_ char *text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;

    json_decref(schema);
    return text ? str_puts(out, text) : -ENOMEM;
}
