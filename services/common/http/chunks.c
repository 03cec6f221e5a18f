/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses chunked bodies with a state machine over bytes.
 *
 * Each state defines which byte may come next. Lines must end in CR LF. Extensions and trailers
 * must be well-formed and small enough, and are dropped.
 */
#include "common/http/chunks.h"

#include "common/http/head.h"

#define CHUNKS_MAX_LINE       ((size_t)4096) /* limit of the line before a chunk */
#define CHUNKS_MAX_EXTENSIONS ((size_t)16 * 1024)
#define CHUNKS_MAX_TRAILERS   ((size_t)16 * 1024)

enum {
    CHUNKS_SIZE_FIRST, /* 0: the initial state */
    CHUNKS_SIZE,
    CHUNKS_EXT_SPACE, /* in spaces before a semicolon */
    CHUNKS_EXT_NAME_FIRST,
    CHUNKS_EXT_NAME,
    CHUNKS_EXT_NAME_SPACE,
    CHUNKS_EXT_VALUE_FIRST,
    CHUNKS_EXT_VALUE,
    CHUNKS_EXT_QUOTED,
    CHUNKS_EXT_ESCAPED,
    CHUNKS_EXT_QUOTED_END,
    CHUNKS_SIZE_LF,
    CHUNKS_DATA,
    CHUNKS_DATA_CR,
    CHUNKS_DATA_LF,
    CHUNKS_TRAILER_FIRST,
    CHUNKS_TRAILER_NAME,
    CHUNKS_TRAILER_VALUE,
    CHUNKS_TRAILER_LF,
    CHUNKS_LAST_LF,
    CHUNKS_OVER,
};

static int chunks_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool chunks_is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool chunks_is_text(char c)
{
    const unsigned char byte = (unsigned char)c;

    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

/* Handles the byte after a part of an extension. */
static int chunks_ext_goes_on(struct chunks *c, char byte)
{
    if (byte != ';' && byte != '\r')
        return CHUNKS_BAD;
    c->state = byte == ';' ? CHUNKS_EXT_NAME_FIRST : CHUNKS_SIZE_LF;
    return 0;
}

static int chunks_size(struct chunks *c, char byte)
{
    const int digit = chunks_digit(byte);

    if (digit >= 0) {
        if (c->left > (UINT64_MAX >> 4))
            return CHUNKS_LARGE;
        c->left = c->left << 4 | (unsigned)digit;
        c->state = CHUNKS_SIZE;
        return c->left > c->max - c->total ? CHUNKS_LARGE : 0;
    }
    if (c->state == CHUNKS_SIZE_FIRST)
        return CHUNKS_BAD;
    if (!chunks_is_space(byte))
        return chunks_ext_goes_on(c, byte);
    c->state = CHUNKS_EXT_SPACE;
    return 0;
}

static int chunks_ext_name(struct chunks *c, char byte)
{
    if (head_is_token(byte) && c->state != CHUNKS_EXT_NAME_SPACE)
        c->state = CHUNKS_EXT_NAME;
    else if (chunks_is_space(byte))
        c->state =
            c->state == CHUNKS_EXT_NAME_FIRST ? CHUNKS_EXT_NAME_FIRST : CHUNKS_EXT_NAME_SPACE;
    else if (c->state == CHUNKS_EXT_NAME_FIRST)
        return CHUNKS_BAD;
    else if (byte == '=')
        c->state = CHUNKS_EXT_VALUE_FIRST;
    else if (c->state == CHUNKS_EXT_NAME_SPACE && byte == '\r')
        return CHUNKS_BAD;
    else
        return chunks_ext_goes_on(c, byte);
    return 0;
}

static int chunks_ext_value(struct chunks *c, char byte)
{
    if (head_is_token(byte))
        c->state = CHUNKS_EXT_VALUE;
    else if (c->state == CHUNKS_EXT_VALUE_FIRST && byte == '"')
        c->state = CHUNKS_EXT_QUOTED;
    else if (c->state == CHUNKS_EXT_VALUE_FIRST)
        return chunks_is_space(byte) ? 0 : CHUNKS_BAD;
    else if (chunks_is_space(byte))
        c->state = CHUNKS_EXT_SPACE;
    else
        return chunks_ext_goes_on(c, byte);
    return 0;
}

static int chunks_ext_quoted(struct chunks *c, char byte)
{
    if (!chunks_is_text(byte))
        return CHUNKS_BAD;
    if (c->state == CHUNKS_EXT_ESCAPED)
        c->state = CHUNKS_EXT_QUOTED;
    else if (byte == '"')
        c->state = CHUNKS_EXT_QUOTED_END;
    else if (byte == '\\')
        c->state = CHUNKS_EXT_ESCAPED;
    return 0;
}

static int chunks_expect(struct chunks *c, char byte, char expected, unsigned next)
{
    if (byte != expected)
        return CHUNKS_BAD;
    c->state = next;
    return 0;
}

static int chunks_size_line(struct chunks *c, char byte)
{
    if (++c->n_line > CHUNKS_MAX_LINE ||
        (c->state != CHUNKS_SIZE && c->state != CHUNKS_SIZE_FIRST && c->state != CHUNKS_SIZE_LF &&
         ++c->n_extensions > CHUNKS_MAX_EXTENSIONS))
        return CHUNKS_BAD;
    switch (c->state) {
    case CHUNKS_SIZE_FIRST:
    case CHUNKS_SIZE:
        return chunks_size(c, byte);
    case CHUNKS_EXT_NAME_FIRST:
    case CHUNKS_EXT_NAME:
    case CHUNKS_EXT_NAME_SPACE:
        return chunks_ext_name(c, byte);
    case CHUNKS_EXT_VALUE_FIRST:
    case CHUNKS_EXT_VALUE:
        return chunks_ext_value(c, byte);
    case CHUNKS_EXT_QUOTED:
    case CHUNKS_EXT_ESCAPED:
        return chunks_ext_quoted(c, byte);
    case CHUNKS_EXT_SPACE:
        if (chunks_is_space(byte))
            return 0;
        return chunks_expect(c, byte, ';', CHUNKS_EXT_NAME_FIRST);
    case CHUNKS_EXT_QUOTED_END:
        if (!chunks_is_space(byte))
            return chunks_ext_goes_on(c, byte);
        c->state = CHUNKS_EXT_SPACE;
        return 0;
    default: /* CHUNKS_SIZE_LF */
        c->n_line = 0;
        c->total += c->left;
        return chunks_expect(c, byte, '\n', c->left ? CHUNKS_DATA : CHUNKS_TRAILER_FIRST);
    }
}

static int chunks_trailer(struct chunks *c, char byte)
{
    if (++c->n_trailers > CHUNKS_MAX_TRAILERS)
        return CHUNKS_TRAILERS;
    switch (c->state) {
    case CHUNKS_TRAILER_FIRST:
        if (byte != '\r' && !head_is_token(byte))
            return CHUNKS_BAD;
        c->state = byte == '\r' ? CHUNKS_LAST_LF : CHUNKS_TRAILER_NAME;
        return 0;
    case CHUNKS_TRAILER_NAME:
        return head_is_token(byte) ? 0 : chunks_expect(c, byte, ':', CHUNKS_TRAILER_VALUE);
    case CHUNKS_TRAILER_VALUE:
        return chunks_is_text(byte) ? 0 : chunks_expect(c, byte, '\r', CHUNKS_TRAILER_LF);
    case CHUNKS_TRAILER_LF:
        return chunks_expect(c, byte, '\n', CHUNKS_TRAILER_FIRST);
    default: /* CHUNKS_LAST_LF */
        return chunks_expect(c, byte, '\n', CHUNKS_OVER);
    }
}

/* Handles a byte that is not content. */
static int chunks_byte(struct chunks *c, char byte)
{
    if (c->state < CHUNKS_DATA)
        return chunks_size_line(c, byte);
    if (c->state == CHUNKS_DATA_CR)
        return chunks_expect(c, byte, '\r', CHUNKS_DATA_LF);
    if (c->state == CHUNKS_DATA_LF)
        return chunks_expect(c, byte, '\n', CHUNKS_SIZE_FIRST);
    return chunks_trailer(c, byte);
}

int chunks_next(struct chunks *c, const char *data, size_t len, size_t *ret_used,
                struct http_text *ret_content)
{
    size_t at = 0;
    int r = 0;

    while (at < len && c->state != CHUNKS_DATA && c->state != CHUNKS_OVER && r == 0)
        r = chunks_byte(c, data[at++]);
    if (r == 0 && c->state == CHUNKS_DATA && at < len) {
        *ret_content = (struct http_text){data + at, (size_t)MIN(c->left, (uint64_t)(len - at))};
        at += ret_content->len;
        c->left -= ret_content->len;
        if (!c->left)
            c->state = CHUNKS_DATA_CR;
    } else if (r == 0) {
        r = c->state == CHUNKS_OVER ? CHUNKS_END : CHUNKS_MORE;
    }
    *ret_used = at;
    return r;
}
