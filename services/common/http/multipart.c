/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses multipart bodies (RFC 2046 §5.1.1) with a state machine over bytes.
 *
 * A delimiter is CR LF "--" boundary. CR occurs only at its beginning, so no other delimiter can
 * begin within bytes that match a part of a delimiter. After a mismatch the parser therefore emits
 * these bytes, and examines the present byte again. The first delimiter needs no CR LF before it;
 * the parser starts as if it had read one.
 */
#include "common/http/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/err.h"

enum {
    MULTIPART_BOUNDARY = 70, /* RFC 2046 */
    MULTIPART_DELIMITER = MULTIPART_BOUNDARY + 4,
    MULTIPART_HEAD = 4096, /* bytes of the head of a part */
    MULTIPART_PARTS = 256,
};

enum multipart_state {
    MULTIPART_PREAMBLE,
    MULTIPART_MARK, /* after a delimiter; the mark follows, which is "--" or CR LF */
    MULTIPART_LINES,
    MULTIPART_BODY,
    MULTIPART_EPILOGUE,
};

struct multipart {
    const struct multipart_events *events;
    void *user;
    enum multipart_state state;
    char delimiter[MULTIPART_DELIMITER + 1];
    size_t n_delimiter, matched;
    unsigned n_parts;
    size_t n_mark; /* bytes of the mark that were read */
    char mark;     /* the first byte of the mark */
    size_t n_head;
    char head[MULTIPART_HEAD + 1];
};

/* --- parameters of header fields --- */

struct multipart_text {
    const char *s;
    size_t len;
};

static bool text_is(struct multipart_text text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.s, word, text.len) == 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct multipart_text text_trim(struct multipart_text text)
{
    while (text.len && is_space(text.s[0]))
        text.s++, text.len--;
    while (text.len && is_space(text.s[text.len - 1]))
        text.len--;
    return text;
}

/* Returns the text before the first @c and removes both from @text. */
static struct multipart_text text_until(struct multipart_text *text, char c)
{
    const char *end = memchr(text->s, c, text->len);
    struct multipart_text found = {text->s, end ? (size_t)(end - text->s) : text->len};

    text->s += found.len + (end ? 1 : 0);
    text->len -= found.len + (end ? 1 : 0);
    return text_trim(found);
}

/* Parses the next `name=value` of @text, and removes quotes from the value. False: there is none,
 * or it is malformed; @text is empty only in the first case. @value must have space for all of
 * @text. */
static bool next_parameter(struct multipart_text *text, struct multipart_text *name, char *value)
{
    size_t n = 0, i = 0;

    *text = text_trim(*text);
    if (!text->len || !memchr(text->s, '=', text->len))
        return false;
    *name = text_until(text, '=');
    *text = text_trim(*text);
    if (!text->len || text->s[0] != '"') {
        const struct multipart_text token = text_until(text, ';');

        memcpy(value, token.s, token.len);
        value[token.len] = 0;
        return true;
    }
    for (i = 1; i < text->len && text->s[i] != '"'; i++) {
        /* Any other backslash belongs to a Windows path, which some clients send unescaped. */
        if (text->s[i] == '\\' && i + 1 < text->len && strchr("\"\\", text->s[i + 1]))
            i++;
        value[n++] = text->s[i];
    }
    if (i >= text->len)
        return false;
    value[n] = 0;
    text->s += i + 1;
    text->len -= i + 1;
    *text = text_trim(*text);
    if (text->len && text->s[0] != ';')
        return false;
    text_until(text, ';');
    return true;
}

/* Decodes the three characters that forms escape. */
static void text_unescape(char *text)
{
    static const struct {
        const char *from;
        char to;
    } escapes[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}};
    char *out = text;

    for (const char *s = text; *s;) {
        size_t i = 0;

        while (i < ARRAY_SIZE(escapes) && strncasecmp(s, escapes[i].from, 3) != 0)
            i++;
        *out++ = i < ARRAY_SIZE(escapes) ? escapes[i].to : *s;
        s += i < ARRAY_SIZE(escapes) ? 3 : 1;
    }
    *out = 0;
}

/* --- the boundary --- */

static bool boundary_is_sound(const char *boundary)
{
    static const char others[] = "'()+_,-./:=? ";
    const size_t n = strlen(boundary);

    if (!n || n > MULTIPART_BOUNDARY || boundary[n - 1] == ' ')
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = boundary[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr(others, c)))
            return false;
    }
    return true;
}

static int read_boundary(struct multipart *m, const char *type, size_t len, struct inf_err *reterr)
{
    struct multipart_text rest = {type, len}, name;
    char value[1024];
    bool found = false;

    if (len >= sizeof(value) || memchr(type, 0, len))
        return err_set(reterr, EINVAL, "the Content-Type is malformed");
    if (!text_is(text_until(&rest, ';'), "multipart/form-data"))
        return err_set(reterr, EINVAL, "the Content-Type must be multipart/form-data");
    while (next_parameter(&rest, &name, value)) {
        if (!text_is(name, "boundary"))
            continue;
        if (found || !boundary_is_sound(value))
            return err_set(reterr, EINVAL, "the boundary of multipart/form-data is malformed");
        found = true;
        m->n_delimiter = (size_t)snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%s", value);
    }
    if (rest.len)
        return err_set(reterr, EINVAL, "the Content-Type is malformed");
    if (!found)
        return err_set(reterr, EINVAL, "multipart/form-data needs a boundary");
    return 0;
}

int multipart_new(const char *type, size_t len, const struct multipart_events *events, void *user,
                  struct multipart **ret_multipart, struct inf_err *reterr)
{
    _cleanup_(multipart_freep) struct multipart *m = NEW(struct multipart, 1);
    int r;

    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    m->events = events;
    m->user = user;
    m->matched = 2;
    r = read_boundary(m, type, len, reterr);
    if (r < 0)
        return r;
    *ret_multipart = STEAL(m);
    return 0;
}

struct multipart *multipart_free(struct multipart *multipart)
{
    free(multipart);
    return NULL;
}

/* --- heads of parts --- */

struct multipart_head {
    struct multipart_part part;
    bool has_name;
    char name[MULTIPART_HEAD + 1], filename[MULTIPART_HEAD + 1];
};

static int read_disposition(struct multipart_head *head, struct multipart_text rest,
                            struct inf_err *reterr)
{
    char value[MULTIPART_HEAD + 1];
    struct multipart_text name;

    if (head->has_name)
        return err_set(reterr, EINVAL, "a part has two Content-Disposition fields");
    if (!text_is(text_until(&rest, ';'), "form-data"))
        return err_set(reterr, EINVAL, "a part is not form-data");
    while (next_parameter(&rest, &name, value)) {
        if (text_is(name, "name")) {
            if (head->has_name)
                return err_set(reterr, EINVAL, "a part has two names");
            text_unescape(value);
            strcpy(head->name, value);
            head->part.name = head->name;
            head->has_name = true;
        } else if (text_is(name, "filename")) {
            text_unescape(value);
            strcpy(head->filename, value);
            head->part.filename = head->filename;
        }
    }
    if (rest.len)
        return err_set(reterr, EINVAL, "the Content-Disposition of a part is malformed");
    if (!head->has_name || !head->name[0])
        return err_set(reterr, EINVAL, "a part has no name");
    return 0;
}

static int read_field(struct multipart_head *head, struct multipart_text line,
                      struct inf_err *reterr)
{
    const bool has_value = memchr(line.s, ':', line.len);
    const struct multipart_text name = text_until(&line, ':');

    if (!has_value || !name.len)
        return err_set(reterr, EINVAL, "the head of a part is malformed");
    line = text_trim(line);
    if (text_is(name, "Content-Disposition"))
        return read_disposition(head, line, reterr);
    if (text_is(name, "Content-Transfer-Encoding") && !text_is(line, "binary") &&
        !text_is(line, "8bit") && !text_is(line, "7bit"))
        return err_set(reterr, EINVAL,
                       "the Content-Transfer-Encoding of a part must be binary, 8bit or 7bit");
    return 0;
}

/* Reads a complete head. m->head has its lines with their line ends. */
static int read_head(struct multipart *m, struct inf_err *reterr)
{
    _cleanup_free_ struct multipart_head *head = NEW(struct multipart_head, 1);
    struct multipart_text rest = {m->head, m->n_head};
    int r = 0;

    if (!head)
        return err_set(reterr, ENOMEM, "out of memory");
    if (memchr(m->head, 0, m->n_head))
        return err_set(reterr, EINVAL, "the head of a part is malformed");
    while (r == 0 && rest.len) {
        struct multipart_text line = text_until(&rest, '\n');

        if (line.len && line.s[line.len - 1] == '\r')
            line.len--;
        if (line.len)
            r = read_field(head, line, reterr);
    }
    if (r == 0 && !head->has_name)
        r = err_set(reterr, EINVAL, "a part has no Content-Disposition");
    if (r < 0)
        return r;
    m->n_head = 0;
    return m->events->part(m->user, &head->part);
}

/* --- states --- */

static int multipart_emit(const struct multipart *m, const char *data, size_t len)
{
    return m->state == MULTIPART_BODY && len ? m->events->data(m->user, data, len) : 0;
}

/* Searches for the delimiter in the preamble or in the body of a part. Moves *pos past the bytes
 * that were read. */
static int find_delimiter(struct multipart *m, const char *data, size_t len, size_t *pos)
{
    size_t i = *pos;
    int r = 0;

    while (r == 0 && i < len) {
        if (m->matched == 0) {
            const char *cr = memchr(data + i, '\r', len - i);
            const size_t n = cr ? (size_t)(cr - data) - i : len - i;

            r = multipart_emit(m, data + i, n);
            i += n;
            if (r < 0 || !cr)
                break;
        }
        if (data[i] != m->delimiter[m->matched]) {
            r = multipart_emit(m, m->delimiter, m->matched);
            m->matched = 0;
            continue;
        }
        i++;
        if (++m->matched == m->n_delimiter) {
            r = m->state == MULTIPART_BODY ? m->events->end(m->user) : 0;
            m->matched = m->n_mark = 0;
            m->state = MULTIPART_MARK;
            break;
        }
    }
    *pos = i;
    return r;
}

/* Handles a byte after a delimiter: "--" ends the body, and CR LF begins a part. Spaces before
 * either are padding. */
static int read_mark(struct multipart *m, char c, struct inf_err *reterr)
{
    if (m->n_mark == 0) {
        if (is_space(c))
            return 0;
        if (c != '-' && c != '\r')
            return err_set(reterr, EINVAL, "a boundary must be followed by \"--\" or a line end");
        m->mark = c;
        m->n_mark = 1;
        return 0;
    }
    if (c != (m->mark == '-' ? '-' : '\n'))
        return err_set(reterr, EINVAL, "a boundary must be followed by \"--\" or a line end");
    if (m->mark == '-') {
        m->state = MULTIPART_EPILOGUE;
        return 0;
    }
    if (++m->n_parts > MULTIPART_PARTS)
        return err_set(reterr, EINVAL, "the form has more than %d parts", MULTIPART_PARTS);
    m->n_head = 0;
    m->state = MULTIPART_LINES;
    return 0;
}

static int read_line_byte(struct multipart *m, char c, struct inf_err *reterr)
{
    const char *h = m->head;
    size_t n;
    int r;

    if (m->n_head == MULTIPART_HEAD)
        return err_set(reterr, EINVAL, "the head of a part is larger than %d bytes",
                       MULTIPART_HEAD);
    m->head[m->n_head++] = c;
    n = m->n_head;
    if (c != '\n')
        return 0;
    if (n < 2 || h[n - 2] != '\r')
        return err_set(reterr, EINVAL, "the head of a part is malformed");
    /* An empty line ends the head. */
    if (n != 2 && !(n >= 4 && h[n - 4] == '\r' && h[n - 3] == '\n'))
        return 0;
    r = read_head(m, reterr);
    m->state = MULTIPART_BODY;
    return r;
}

int multipart_feed(struct multipart *m, const char *data, size_t len, struct inf_err *reterr)
{
    size_t i = 0;
    int r = 0;

    while (r >= 0 && i < len) {
        switch (m->state) {
        case MULTIPART_PREAMBLE:
        case MULTIPART_BODY:
            r = find_delimiter(m, data, len, &i);
            break;
        case MULTIPART_MARK:
            r = read_mark(m, data[i++], reterr);
            break;
        case MULTIPART_LINES:
            r = read_line_byte(m, data[i++], reterr);
            break;
        case MULTIPART_EPILOGUE:
            i = len;
            break;
        }
    }
    return r < 0 ? r : 0;
}

int multipart_finish(const struct multipart *m, struct inf_err *reterr)
{
    if (m->state != MULTIPART_EPILOGUE)
        return err_set(reterr, EINVAL, "the form ends before its last boundary");
    return 0;
}
