/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses HTTP/1.x heads strictly (RFC 9112).
 *
 * The functions are pure: nothing is kept between calls. conn.c then rewrites the heads of requests
 * in a normal form, which libh2o parses again.
 */
#include "common/http/head.h"

#include <string.h>

#define HEAD_MAX_TARGET 8192

struct head_parser {
    struct head *head;
    unsigned n_hosts;
    bool is_answer, to_head;
};

static int head_refuse(struct head_parser *p, int status, const char *code, const char *message)
{
    p->head->refusal.status = status;
    p->head->refusal.code = code;
    p->head->refusal.message = message;
    return HEAD_REFUSED;
}

static int head_refuse_bad(struct head_parser *p, const char *message)
{
    return head_refuse(p, 400, "bad_request", message);
}

bool head_is_token(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

static bool head_is_clean(struct http_text text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.data[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* Sets *ret_line to the next line without its line end. Returns its size with the line end; 0: the
 * line is incomplete. */
static size_t head_next_line(const char *data, size_t len, struct http_text *ret_line)
{
    const char *end = len ? memchr(data, '\n', len) : NULL;

    if (!end)
        return 0;
    ret_line->data = data;
    ret_line->len = (size_t)(end - data);
    if (ret_line->len && data[ret_line->len - 1] == '\r')
        ret_line->len--;
    return (size_t)(end - data) + 1;
}

static int head_version(struct head_parser *p, struct http_text text)
{
    static const char version[] = "HTTP/1.";

    if (text.len != sizeof(version) || memcmp(text.data, version, sizeof(version) - 1) != 0) {
        if (text.len > 5 && memcmp(text.data, "HTTP/", 5) == 0)
            return head_refuse(p, 505, "version_not_supported", "Only HTTP/1.1 is supported.");
        return head_refuse_bad(p, p->is_answer ? "The status line is malformed."
                                               : "The request line is malformed.");
    }
    if (text.data[7] != '0' && text.data[7] != '1')
        return head_refuse(p, 505, "version_not_supported", "Only HTTP/1.1 is supported.");
    p->head->http10 = text.data[7] == '0';
    return 0;
}

static int head_request_line(struct head_parser *p, struct http_text line)
{
    const char *s = line.data, *end = line.data + line.len;
    struct http_text *method = &p->head->method, *target = &p->head->target;

    while (s < end && head_is_token(*s))
        s++;
    if (s == line.data || s == end || *s != ' ' || s - line.data > 32)
        return head_refuse_bad(p, "The request line is malformed.");
    *method = (struct http_text){line.data, (size_t)(s - line.data)};
    target->data = ++s;
    while (s < end && (unsigned char)*s > ' ' && (unsigned char)*s != 0x7f)
        s++;
    if (s == target->data || s == end || *s != ' ')
        return head_refuse_bad(p, "The request line is malformed.");
    target->len = (size_t)(s - target->data);
    if (target->len > HEAD_MAX_TARGET)
        return head_refuse(p, 414, "uri_too_long", "The request target is too long.");
    if (target->data[0] != '/' && !http_text_is(*target, "*"))
        return head_refuse_bad(p, "The request target must be a path.");
    return head_version(p, (struct http_text){s + 1, (size_t)(end - s - 1)});
}

static int head_status_line(struct head_parser *p, struct http_text line)
{
    const char *s = line.data;
    int r;

    if (line.len < 13 || s[8] != ' ' || s[12] != ' ')
        return head_refuse_bad(p, "The status line is malformed.");
    r = head_version(p, (struct http_text){s, 8});
    if (r)
        return r;
    for (unsigned i = 9; i < 12; i++) {
        if (s[i] < '0' || s[i] > '9')
            return head_refuse_bad(p, "The status is not a number.");
        p->head->status = p->head->status * 10 + (s[i] - '0');
    }
    if (p->head->status < 100 || p->head->status > 599)
        return head_refuse_bad(p, "The status is not valid in HTTP.");
    if (!head_is_clean((struct http_text){s + 13, line.len - 13}))
        return head_refuse_bad(p, "The status line has a control character.");
    p->head->closes = p->head->http10;
    return 0;
}

static int head_length(struct head_parser *p, struct http_text value)
{
    uint64_t n = 0;

    if (p->head->has_length)
        return head_refuse_bad(p, "Content-Length is given twice.");
    if (!value.len)
        return head_refuse_bad(p, "Content-Length is not a number.");
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return head_refuse_bad(p, "Content-Length is not a number.");
        if (n > UINT64_MAX / 16)
            return head_refuse(p, 413, "request_too_large", "The request body is too large.");
        n = n * 10 + (uint64_t)(value.data[i] - '0');
    }
    p->head->has_length = true;
    p->head->content_length = n;
    return 0;
}

static int head_coding(struct head_parser *p, struct http_text value)
{
    if (p->head->chunked || !http_text_is_nocase(value, "chunked"))
        return head_refuse(p, 501, "not_implemented",
                           "The only supported transfer coding is chunked.");
    p->head->chunked = true;
    return 0;
}

static int head_field(struct head_parser *p, struct http_text name, struct http_text value)
{
    if (http_text_is_nocase(name, "content-length"))
        return head_length(p, value);
    if (http_text_is_nocase(name, "transfer-encoding"))
        return head_coding(p, value);
    if (p->is_answer) {
        if (http_text_is_nocase(name, "connection"))
            p->head->closes = !http_text_is_nocase(value, "keep-alive");
    } else if (http_text_is_nocase(name, "host")) {
        if (++p->n_hosts > 1)
            return head_refuse_bad(p, "Host is given twice.");
    } else if (http_text_is_nocase(name, "expect")) {
        if (!http_text_is_nocase(value, "100-continue"))
            return head_refuse(p, 417, "expectation_failed", "The expectation is unknown.");
        p->head->continues = true;
    }
    return 0;
}

static int head_header_line(struct head_parser *p, struct http_text line)
{
    struct http_text name = {line.data, 0}, value;

    while (name.len < line.len && head_is_token(line.data[name.len]))
        name.len++;
    if (!name.len || name.len == line.len || line.data[name.len] != ':')
        return head_refuse_bad(p, "A header line is malformed.");
    if (p->head->n_headers == HEAD_MAX_HEADERS)
        return head_refuse(p, 431, "headers_too_large", "The request has too many headers.");
    value.data = line.data + name.len + 1;
    value.len = line.len - name.len - 1;
    while (value.len && (*value.data == ' ' || *value.data == '\t'))
        value.data++, value.len--;
    while (value.len && (value.data[value.len - 1] == ' ' || value.data[value.len - 1] == '\t'))
        value.len--;
    if (!head_is_clean(value))
        return head_refuse_bad(p, "A header value has a control character.");
    p->head->headers[p->head->n_headers++] = (struct http_header){name, value};
    return head_field(p, name, value);
}

static int head_finish_request(struct head_parser *p)
{
    if (!p->head->http10 && !p->n_hosts)
        return head_refuse_bad(p, "The Host header is missing.");
    if (p->head->http10)
        p->head->continues = false;
    return 0;
}

static int head_finish_answer(struct head_parser *p)
{
    const struct head *head = p->head;
    const bool framed = head->chunked || head->has_length;

    if (head->status == 101)
        return head_refuse_bad(p, "The connection changes to a protocol that was not requested.");
    if (framed && (head->status < 200 || head->status == 204))
        return head_refuse_bad(p, "An answer with this status must not have content.");
    if (!framed && head_has_content(head, p->to_head))
        return head_refuse_bad(p, "The answer does not say where its content ends.");
    return 0;
}

static int head_finish(struct head_parser *p)
{
    if (p->head->chunked && (p->head->has_length || p->head->http10))
        return head_refuse_bad(p,
                               "Transfer-Encoding is not allowed with Content-Length or HTTP/1.0.");
    return p->is_answer ? head_finish_answer(p) : head_finish_request(p);
}

static int head_parse(struct head_parser *p, const char *data, size_t len, size_t max_header)
{
    const size_t visible = MIN(len, max_header);
    struct http_text line;
    size_t at = 0, n;
    bool first = true;
    int r = 0;

    /* The array of headers is not zeroed, because it is large, and headers beyond n_headers are
     * never read. */
    p->head->size = p->head->n_headers = 0;
    p->head->method = p->head->target = (struct http_text){"", 0};
    memset((char *)p->head + offsetof(struct head, status), 0,
           sizeof(*p->head) - offsetof(struct head, status));
    /* One empty line before a request is ignored (RFC 9112, 2.2). */
    if (!p->is_answer && visible >= 2 && memcmp(data, "\r\n", 2) == 0)
        at = 2;
    while ((n = head_next_line(data + at, visible - at, &line))) {
        at += n;
        if (first)
            r = p->is_answer ? head_status_line(p, line) : head_request_line(p, line);
        else if (!line.len)
            break;
        else
            r = head_header_line(p, line);
        first = false;
        if (r)
            return r;
    }
    if (n) {
        p->head->size = at;
        return head_finish(p);
    }
    if (len < max_header)
        return HEAD_INCOMPLETE;
    return first ? head_refuse(p, 414, "uri_too_long", "The request target is too long.")
                 : head_refuse(p, 431, "headers_too_large", "The request head is too large.");
}

int head_check(const char *data, size_t len, size_t max_header, struct head *ret_head)
{
    struct head_parser p = {.head = ret_head};

    return head_parse(&p, data, len, max_header);
}

int head_check_answer(const char *data, size_t len, size_t max_header, bool to_head,
                      struct head *ret_head)
{
    struct head_parser p = {.head = ret_head, .is_answer = true, .to_head = to_head};

    return head_parse(&p, data, len, max_header);
}

void head_copy(struct head *to, const struct head *from)
{
    const size_t rest = offsetof(struct head, n_headers);

    memcpy(to, from, offsetof(struct head, headers) + from->n_headers * sizeof(from->headers[0]));
    memcpy((char *)to + rest, (const char *)from + rest, sizeof(*from) - rest);
}

bool head_has_content(const struct head *answer, bool to_head)
{
    return !to_head && answer->status >= 200 && answer->status != 204 && answer->status != 304;
}
