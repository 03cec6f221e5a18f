/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 9112 request heads, read strictly
 *
 * Pure: bytes in, verdict out; nothing is kept between calls. The HTTP library parses the same
 * bytes again afterwards; what passes here is what both understand in one way.
 */
#include "common/head.h"

#include <string.h>
#include <strings.h>

#define HEAD_MAX_HEADERS 100
#define HEAD_MAX_TARGET  8192

struct head_line {
    const char *s;
    size_t len;
};

struct head_parser {
    struct head head;
    const struct head_limits *limits;
    unsigned n_headers, n_hosts;
    bool http10;
};

static int head_refuse(struct head_parser *p, int status, const char *code, const char *message)
{
    p->head.status = status;
    p->head.code = code;
    p->head.message = message;
    return HEAD_REFUSED;
}

static bool head_is_token(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

/* The next line without its end; its size with the end, or 0 when there is no whole one. */
static size_t head_next_line(const char *data, size_t len, struct head_line *ret_line)
{
    const char *end = memchr(data, '\n', len);

    if (!end)
        return 0;
    ret_line->s = data;
    ret_line->len = (size_t)(end - data);
    if (ret_line->len && data[ret_line->len - 1] == '\r')
        ret_line->len--;
    return (size_t)(end - data) + 1;
}

static int head_request_line(struct head_parser *p, struct head_line line)
{
    static const char version[] = "HTTP/1.";
    const char *s = line.s, *end = line.s + line.len, *target;

    while (s < end && head_is_token(*s))
        s++;
    if (s == line.s || s == end || *s != ' ' || s - line.s > 32)
        return head_refuse(p, 400, "bad_request", "The request line is malformed.");
    target = ++s;
    while (s < end && (unsigned char)*s > ' ' && (unsigned char)*s != 0x7f)
        s++;
    if (s == target || s == end || *s != ' ')
        return head_refuse(p, 400, "bad_request", "The request line is malformed.");
    if (s - target > HEAD_MAX_TARGET)
        return head_refuse(p, 414, "uri_too_long", "The request target is too long.");
    if (*target != '/' && !(s - target == 1 && *target == '*'))
        return head_refuse(p, 400, "bad_request", "The request target must be a path.");
    s++;
    if ((size_t)(end - s) != sizeof(version) || memcmp(s, version, sizeof(version) - 1) != 0) {
        if (end - s > 5 && memcmp(s, "HTTP/", 5) == 0)
            return head_refuse(p, 505, "version_not_supported", "Only HTTP/1.1 is spoken here.");
        return head_refuse(p, 400, "bad_request", "The request line is malformed.");
    }
    s += sizeof(version) - 1;
    if (*s != '0' && *s != '1')
        return head_refuse(p, 505, "version_not_supported", "Only HTTP/1.1 is spoken here.");
    p->http10 = *s == '0';
    return 0;
}

static bool head_name_is(struct head_line name, const char *other)
{
    return name.len == strlen(other) && strncasecmp(name.s, other, name.len) == 0;
}

static int head_length(struct head_parser *p, struct head_line value)
{
    uint64_t n = 0;

    if (p->head.has_length)
        return head_refuse(p, 400, "bad_request", "Content-Length is given twice.");
    if (!value.len)
        return head_refuse(p, 400, "bad_request", "Content-Length is not a number.");
    for (size_t i = 0; i < value.len; i++) {
        if (value.s[i] < '0' || value.s[i] > '9')
            return head_refuse(p, 400, "bad_request", "Content-Length is not a number.");
        if (n > UINT64_MAX / 16)
            return head_refuse(p, 413, "request_too_large", "The request body is too large.");
        n = n * 10 + (uint64_t)(value.s[i] - '0');
    }
    p->head.has_length = true;
    p->head.content_length = n;
    return 0;
}

static int head_field(struct head_parser *p, struct head_line name, struct head_line value)
{
    if (head_name_is(name, "host")) {
        if (++p->n_hosts > 1)
            return head_refuse(p, 400, "bad_request", "Host is given twice.");
    } else if (head_name_is(name, "content-length")) {
        return head_length(p, value);
    } else if (head_name_is(name, "transfer-encoding")) {
        if (p->head.chunked || !head_name_is(value, "chunked"))
            return head_refuse(p, 501, "not_implemented",
                               "The only transfer coding that is understood is chunked.");
        p->head.chunked = true;
    } else if (head_name_is(name, "expect")) {
        if (!head_name_is(value, "100-continue"))
            return head_refuse(p, 417, "expectation_failed", "The expectation is unknown.");
    }
    return 0;
}

static int head_header_line(struct head_parser *p, struct head_line line)
{
    struct head_line name = {line.s, 0}, value;

    while (name.len < line.len && head_is_token(line.s[name.len]))
        name.len++;
    if (!name.len || name.len == line.len || line.s[name.len] != ':')
        return head_refuse(p, 400, "bad_request", "A header line is malformed.");
    if (++p->n_headers > HEAD_MAX_HEADERS)
        return head_refuse(p, 431, "headers_too_large", "The request has too many headers.");
    value.s = line.s + name.len + 1;
    value.len = line.len - name.len - 1;
    while (value.len && (*value.s == ' ' || *value.s == '\t'))
        value.s++, value.len--;
    while (value.len && (value.s[value.len - 1] == ' ' || value.s[value.len - 1] == '\t'))
        value.len--;
    for (size_t i = 0; i < value.len; i++) {
        const unsigned char c = (unsigned char)value.s[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return head_refuse(p, 400, "bad_request", "A header value has a control character.");
    }
    return head_field(p, name, value);
}

static int head_finish(struct head_parser *p)
{
    if (!p->http10 && !p->n_hosts)
        return head_refuse(p, 400, "bad_request", "The Host header is missing.");
    if (p->head.chunked && (p->head.has_length || p->http10))
        return head_refuse(p, 400, "bad_request",
                           "Transfer-Encoding must not stand beside Content-Length or HTTP/1.0.");
    if (p->head.has_length && p->head.content_length > p->limits->max_body)
        return head_refuse(p, 413, "request_too_large", "The request body is too large.");
    return 0;
}

int head_check(const char *data, size_t len, const struct head_limits *limits,
               struct head *ret_head)
{
    struct head_parser p = {.limits = limits};
    const size_t visible = MIN(len, limits->max_header);
    struct head_line line;
    size_t at = 0, n;
    int r = 0;
    bool first = true;

    /* A stray empty line before a request is forgiven (RFC 9112, 2.2). */
    if (visible >= 2 && memcmp(data, "\r\n", 2) == 0)
        at = 2;
    for (;;) {
        n = head_next_line(data + at, visible - at, &line);
        if (!n)
            break;
        at += n;
        if (first)
            r = head_request_line(&p, line);
        else if (!line.len)
            break;
        else
            r = head_header_line(&p, line);
        first = false;
        if (r)
            goto out;
    }
    if (n) {
        p.head.size = at;
        r = head_finish(&p);
    } else if (len >= limits->max_header) {
        r = first ? head_refuse(&p, 414, "uri_too_long", "The request target is too long.")
                  : head_refuse(&p, 431, "headers_too_large", "The request head is too large.");
    } else {
        return HEAD_INCOMPLETE;
    }
out:
    *ret_head = p.head;
    return r;
}
