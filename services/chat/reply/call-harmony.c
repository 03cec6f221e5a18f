/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads answers of gpt-oss (harmony).
 *
 * An answer is a list of messages: <|start|>assistant<|channel|>CHANNEL to=RECIPIENT
 * <|constrain|>json<|message|>BODY<|end|>. The prompt ends after the first <|start|>assistant.
 * Messages in the channel `analysis` are reasoning. Messages to functions.NAME are calls. All other
 * messages are text.
 */
#include <errno.h>
#include <string.h>

#include "chat/reply/parser-state.h"

#define HARMONY_MAX_HEADER 1024

enum {
    HARMONY_HEADER,
    HARMONY_CALL, /* the arguments come next */
    HARMONY_ARGUMENTS,
    HARMONY_BODY,
};

static const char *const harmony_ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                           "<|channel|>"};
static const char harmony_message[] = "<|message|>";

static enum step harmony_to(struct reply_parser *p, int step)
{
    p->step = step;
    return STEP_AGAIN;
}

/* Returns the word that follows @word in the header, and its length; NULL: the header does not
 * contain @word. */
static const char *harmony_word(const struct reply_parser *p, const char *word, size_t *ret_len)
{
    const char *found = strstr(p->channel.data, word);

    if (!found)
        return NULL;
    found += strlen(word);
    *ret_len = strcspn(found, " \t\n<");
    return found;
}

static bool harmony_begins(const struct reply_parser *p, size_t at)
{
    static const char *const firsts[] = {"<|channel|>", "<|start|>", "<|constrain|>", "to="};

    while (at < p->in.len && parser_is_space(p->in.data[at]))
        at++;
    for (size_t i = 0; i < ARRAY_SIZE(firsts); i++)
        if (parser_match(p, at, firsts[i]) != MATCH_NO)
            return true;
    return false;
}

/* Reads the header, up to the text of the message. */
static enum step harmony_take_header(struct reply_parser *p)
{
    size_t i = p->pos;

    while (i < p->in.len && parser_match(p, i, harmony_message) != MATCH_FULL)
        i++;
    if (i == p->in.len || i - p->pos > HARMONY_MAX_HEADER)
        return i - p->pos > HARMONY_MAX_HEADER || !harmony_begins(p, p->pos) ? STEP_FAIL
                                                                             : STEP_MORE;
    if (!harmony_begins(p, p->pos))
        return STEP_FAIL;
    str_clear(&p->channel);
    if (str_append(&p->channel, p->in.data + p->pos, i - p->pos) < 0 ||
        str_putc(&p->channel, ' ') < 0) {
        parser_fail(p, -ENOMEM);
        return STEP_MORE;
    }
    p->pos = p->mark = p->back = i + strlen(harmony_message);
    return STEP_DONE;
}

static enum step harmony_header(struct reply_parser *p)
{
    const enum step s = harmony_take_header(p);
    const char *channel;
    size_t n;

    if (s == STEP_MORE && p->ended)
        p->pos = p->mark = p->back = p->in.len;
    if (s != STEP_DONE)
        return s;
    p->trims_start = false;
    if (harmony_word(p, "to=functions.", &n))
        return harmony_to(p, HARMONY_CALL);
    channel = harmony_word(p, "<|channel|>", &n);
    p->thinks = channel && n == strlen("analysis") && memcmp(channel, "analysis", n) == 0;
    p->scanned = p->pos;
    return harmony_to(p, HARMONY_BODY);
}

static enum step harmony_call(struct reply_parser *p)
{
    size_t n = 0;
    const char *name = harmony_word(p, "to=functions.", &n);

    if (!parser_skip_space(p))
        return STEP_MORE;
    p->mark = p->back = p->pos;
    if (p->in.data[p->pos] == '{' && parser_begin_call(p, name, n, NULL, 0))
        return harmony_to(p, HARMONY_ARGUMENTS);
    p->scanned = p->pos;
    return harmony_to(p, HARMONY_BODY);
}

static enum step harmony_body(struct reply_parser *p)
{
    const enum piece_kind kind = p->thinks ? PIECE_REASONING : PIECE_TEXT;
    const int found = parser_scan(p, harmony_ends, ARRAY_SIZE(harmony_ends), kind, false);

    p->mark = p->back = p->pos;
    if (found < 0)
        return STEP_MORE;
    if (found < 3)
        p->pos += strlen(harmony_ends[found]);
    p->mark = p->back = p->pos;
    p->thinks = false;
    return harmony_to(p, HARMONY_HEADER);
}

void call_harmony_begin_text(struct reply_parser *p)
{
    p->step = HARMONY_BODY;
}

enum step call_harmony_step(struct reply_parser *p)
{
    switch (p->step) {
    case HARMONY_HEADER:
        return harmony_header(p);
    case HARMONY_CALL:
        return harmony_call(p);
    case HARMONY_ARGUMENTS:
        if (parser_json(p) != STEP_DONE)
            return STEP_MORE;
        parser_end_call(p);
        p->scanned = p->pos;
        return harmony_to(p, HARMONY_BODY);
    default:
        return harmony_body(p);
    }
}
