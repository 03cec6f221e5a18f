/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits answers into pieces.
 *
 * The function of a state looks at the text after p->pos. If further text could change its
 * decision, it returns STEP_MORE. Therefore the pieces do not depend on how the text was divided
 * into parts.
 */
#include "chat/reply/parser-state.h"

#include <errno.h>
#include <string.h>

#include "chat/reply/call-id.h"
#include "chat/reply/name.h"

void parser_fail(struct reply_parser *p, int error)
{
    if (!p->error)
        p->error = error;
}

static void parser_flush(struct reply_parser *p)
{
    const struct piece piece = {.kind = p->run_kind, .text = p->run.data, .len = p->run.len};

    if (p->error || !p->run.len)
        return;
    p->error = p->sink.take(p->sink.data, &piece);
    str_clear(&p->run);
}

void parser_emit(struct reply_parser *p, enum piece_kind kind, const char *text, size_t len)
{
    if (!len)
        return;
    if (p->run_kind != kind)
        parser_flush(p);
    p->run_kind = kind;
    if (str_append(&p->run, text, len) < 0)
        parser_fail(p, -ENOMEM);
}

bool parser_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

enum match parser_match(const struct reply_parser *p, size_t at, const char *marker)
{
    const size_t left = p->in.len - at, len = strlen(marker);

    if (left && memcmp(p->in.data + at, marker, MIN(left, len)) != 0)
        return MATCH_NO;
    return left >= len ? MATCH_FULL : MATCH_PART;
}

enum match parser_take(struct reply_parser *p, const char *marker)
{
    const enum match m = parser_match(p, p->pos, marker);

    if (m == MATCH_FULL)
        p->pos += strlen(marker);
    return m;
}

static size_t parser_behind_space(const struct reply_parser *p, size_t at)
{
    while (at < p->in.len && parser_is_space(p->in.data[at]))
        at++;
    return at;
}

bool parser_skip_space(struct reply_parser *p)
{
    p->pos = parser_behind_space(p, p->pos);
    return p->pos < p->in.len;
}

size_t parser_name(const struct reply_parser *p, size_t at, bool *ret_is_whole)
{
    size_t n = 0;

    while (at + n < p->in.len && reply_is_name_byte(p->in.data[at + n]))
        n++;
    *ret_is_whole = at + n < p->in.len;
    return n;
}

/* Returns the index of the marker at byte @at. -1: there is none; -2: more text must decide. */
static int parser_find_marker(const struct reply_parser *p, size_t at, const char *const *markers,
                              size_t n)
{
    int found = -1;

    for (size_t k = 0; k < n && markers[k]; k++) {
        const enum match m =
            p->in.data[at] == markers[k][0] ? parser_match(p, at, markers[k]) : MATCH_NO;

        if (m == MATCH_FULL)
            return (int)k;
        if (m == MATCH_PART)
            found = -2;
    }
    return found;
}

int parser_scan(struct reply_parser *p, const char *const *markers, size_t n, enum piece_kind kind,
                bool trims_end)
{
    size_t i = MAX(p->pos, p->scanned), end;
    int found = -1;

    while (i < p->in.len && (found = parser_find_marker(p, i, markers, n)) == -1)
        i++;
    if (found == -2 && p->ended) {
        /* If the answer was cut after a call, the incomplete marker belongs to a further call, not
         * to a text. */
        if (p->is_cut && p->n_calls)
            p->in.len = i;
        i = p->in.len;
        found = -1;
    }
    p->scanned = i;
    if (p->trims_start) {
        p->pos = MIN(i, parser_behind_space(p, p->pos));
        p->trims_start = p->pos == i;
    }
    end = i;
    while (trims_end && !(found == -1 && p->ended) && end > p->pos &&
           parser_is_space(p->in.data[end - 1]))
        end--;
    if (end > p->pos)
        parser_emit(p, kind, p->in.data + p->pos, end - p->pos);
    p->pos = p->back = end;
    if (found < 0)
        return -1;
    p->pos = p->mark = i;
    return found;
}

static enum step parser_start(struct reply_parser *p)
{
    const struct thinking_marks *thinking = p->reply->thinking;
    size_t at;
    enum match m;

    if (p->reply->format && p->reply->format->body == BODY_HARMONY) {
        p->state = PARSER_CALL;
        if (p->reply->continues)
            call_harmony_begin_text(p);
        return STEP_AGAIN;
    }
    p->not_bare = p->reply->continues && p->reply->choice == TOOLS_AUTO;
    p->state = PARSER_TEXT;
    if (!thinking)
        return STEP_AGAIN;
    at = parser_behind_space(p, p->pos);
    m = parser_match(p, at, thinking->open);
    if (m == MATCH_PART && !p->ended) {
        p->state = PARSER_START;
        return STEP_MORE;
    }
    if (m == MATCH_FULL)
        p->pos = at + strlen(thinking->open);
    if (m == MATCH_FULL || p->reply->is_open) {
        p->state = PARSER_REASONING;
        p->trims_start = true;
    }
    return STEP_AGAIN;
}

static enum step parser_reasoning(struct reply_parser *p)
{
    const char *close = p->reply->thinking->close;

    if (parser_scan(p, &close, 1, PIECE_REASONING, true) < 0)
        return STEP_MORE;
    p->pos += strlen(close);
    p->state = PARSER_TEXT;
    p->trims_start = true;
    return STEP_AGAIN;
}

/* Begins a bare call (reply_format.bare) if the answer begins with a bracket. Returns STEP_FAIL if
 * the answer does not begin with a bracket. */
static enum step parser_bare(struct reply_parser *p)
{
    const size_t at = parser_behind_space(p, p->pos);
    const char bracket = p->reply->format->body == BODY_PYTHON ? '[' : '{';

    if (at == p->in.len)
        return p->ended ? STEP_FAIL : STEP_MORE;
    p->not_bare = true;
    if (p->in.data[at] != bracket)
        return STEP_FAIL;
    p->back = p->trims_start ? at : p->pos;
    p->pos = p->mark = at;
    p->step = 0;
    p->state = PARSER_CALL;
    return STEP_AGAIN;
}

static enum step parser_text(struct reply_parser *p)
{
    const struct reply_format *format = p->reply->format;
    enum step s;

    if (!p->reply->n_tools && !(format && format->body == BODY_HARMONY)) {
        parser_scan(p, NULL, 0, PIECE_TEXT, false);
        return STEP_MORE;
    }
    if (format->bare && !p->not_bare && (s = parser_bare(p)) != STEP_FAIL)
        return s;
    if (parser_scan(p, format->openers, ARRAY_SIZE(format->openers), PIECE_TEXT, true) < 0)
        return STEP_MORE;
    p->step = 0;
    p->state = PARSER_CALL;
    return STEP_AGAIN;
}

/* Handles a text that began like a call but is not a call: the sink gets the first byte as text.
 * The search for calls continues after this byte. */
static enum step parser_not_a_call(struct reply_parser *p)
{
    const size_t from = p->trims_start ? parser_behind_space(p, p->back) : p->back;
    const size_t end = MIN(MAX(p->mark, from) + 1, p->in.len);

    if (end > from) {
        parser_emit(p, PIECE_TEXT, p->in.data + from, end - from);
        p->trims_start = false;
    }
    p->pos = p->scanned = end;
    p->state = PARSER_TEXT;
    p->not_bare = true;
    return STEP_AGAIN;
}

static enum step parser_call(struct reply_parser *p)
{
    const enum step s = p->reply->format->step(p);

    if (s == STEP_AGAIN)
        return s;
    if (s == STEP_DONE) {
        parser_end_call(p);
        p->scanned = p->pos;
        p->state = PARSER_TEXT;
        p->trims_start = p->not_bare = true;
        return STEP_AGAIN;
    }
    if (p->in_call)
        return STEP_MORE;
    if (s == STEP_FAIL || p->in.len - p->mark > PARSER_MAX_HEAD)
        return parser_not_a_call(p);
    return STEP_MORE;
}

static void parser_run(struct reply_parser *p)
{
    static enum step (*const states[])(struct reply_parser *) = {
        [PARSER_START] = parser_start,
        [PARSER_REASONING] = parser_reasoning,
        [PARSER_TEXT] = parser_text,
        [PARSER_CALL] = parser_call,
    };

    while (!p->error && states[p->state](p) == STEP_AGAIN)
        ;
}

/* Drops the text that is done. */
static void parser_drop(struct reply_parser *p)
{
    const bool keeps = p->state == PARSER_CALL && !p->in_call;
    const size_t done = keeps ? MIN(p->back, p->pos) : p->pos;

    str_cut(&p->in, done);
    p->pos -= done;
    p->mark -= MIN(p->mark, done);
    p->back -= MIN(p->back, done);
    p->scanned -= MIN(p->scanned, done);
}

void reply_parser_init(struct reply_parser *p, const struct reply *reply, struct piece_sink sink)
{
    *p = (struct reply_parser){.reply = reply, .sink = sink};
}

int reply_parser_feed(struct reply_parser *p, const char *text, size_t len)
{
    if (!p->error && str_append(&p->in, text, len) < 0)
        parser_fail(p, -ENOMEM);
    parser_run(p);
    parser_drop(p);
    parser_flush(p);
    return p->error;
}

int reply_parser_finish(struct reply_parser *p, bool is_cut)
{
    p->ended = true;
    p->is_cut = is_cut;
    parser_run(p);
    while (!p->error && p->state == PARSER_CALL && !p->in_call && !is_cut) {
        parser_not_a_call(p);
        parser_run(p);
    }
    parser_flush(p);
    return p->error;
}

bool reply_parser_is_thinking(const struct reply_parser *p)
{
    return p->state == PARSER_REASONING || p->thinks ||
           (p->state == PARSER_START && p->reply->thinking && p->reply->is_open);
}

bool parser_begin_call(struct reply_parser *p, const char *name, size_t len, const char *id,
                       size_t id_len)
{
    const struct reply_tool *tool = reply_find_tool(p->reply, name, len);
    char made[CALL_ID_SIZE];
    struct piece piece = {.kind = PIECE_CALL, .id = made};

    if (!tool)
        return false;
    p->tool = tool;
    p->in_call = true;
    p->drops = (p->reply->single && p->n_calls) || p->n_calls == PARSER_MAX_CALLS;
    p->depth = 0;
    p->in_string = p->escaped = false;
    p->custom = 0;
    p->n_arguments = 0;
    if (p->drops)
        return true;
    call_id_make(p->reply->format->ids, id, id_len, made);
    piece.text = tool->name;
    piece.len = len;
    piece.is_custom = tool->is_custom;
    parser_flush(p);
    if (!p->error)
        p->error = p->sink.take(p->sink.data, &piece);
    p->n_calls++;
    return true;
}

void parser_end_call(struct reply_parser *p)
{
    p->in_call = false;
    p->tool = NULL;
    p->trims_start = true;
    p->mark = p->back = p->pos;
}

bool reply_parser_has_calls(const struct reply_parser *p)
{
    return p->n_calls > 0;
}

void reply_parser_done(struct reply_parser *p)
{
    str_done(&p->in);
    str_done(&p->run);
    str_done(&p->key);
    str_done(&p->channel);
}
