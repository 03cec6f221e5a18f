/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends transcription requests (see speech.h).
 *
 * A form is sent over HTTP/1.0, where the answer ends when the connection is closed. A stream is
 * complete if it contains [DONE]; a stream that ends without it has failed.
 */
#include "cli/speech/speech.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/cli.h"
#include "cli/suite/http-get.h"
#include "core/err.h"
#include "core/str.h"
#include "core/text.h"

#define BOUNDARY "sconce-6f1d5c0e9b"

enum { SPEECH_MAX_ANSWER = 256 << 20 };

/* Struct answer is the state of reading an answer. */
struct answer {
    struct str head, body;
    int status;
    bool is_stream, in_body, done, any;
    FILE *out;
    char error[512];
};

/* --- the form --- */

static int put_field(struct str *form, const char *name, const char *value)
{
    return !value ? 0
                  : str_printf(form,
                               "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"\r\n"
                               "\r\n%s\r\n",
                               name, value);
}

/* Appends the header of the file part, with the file name, but without characters that would end
 * the name. */
static int put_file(struct str *form, const char *name)
{
    int r = str_puts(form, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"file\"; "
                           "filename=\"");

    for (; r == 0 && *name; name++)
        r = str_putc(form,
                     (unsigned char)*name < ' ' || *name == '"' || *name == '\\' ? '_' : *name);
    return r < 0 ? r : str_puts(form, "\"\r\n\r\n");
}

static int make_form(const struct speech_ask *ask, const char *name, struct str *form)
{
    const bool streams = strcmp(ask->format, "text") == 0;
    int r = put_field(form, "model", ask->model);

    r = r < 0 ? r : put_field(form, "language", ask->language);
    r = r < 0 ? r : put_field(form, "prompt", ask->prompt);
    r = r < 0 ? r : put_field(form, "hotwords", ask->hotwords);
    r = r < 0 ? r : put_field(form, "response_format", ask->format);
    r = r < 0 ? r : put_field(form, "stream", streams ? "true" : NULL);
    r = r < 0 ? r : put_field(form, "vad_filter", ask->skip_silence ? "true" : NULL);
    if (r == 0 && ask->words) {
        r = put_field(form, "timestamp_granularities[]", "segment");
        r = r < 0 ? r : put_field(form, "timestamp_granularities[]", "word");
    }
    return r < 0 ? r : put_file(form, name);
}

static int send_all(int fd, const char *data, size_t len)
{
    while (len) {
        const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int send_file(int sock, int fd, uint64_t size, struct cli_progress *progress)
{
    char buf[65536];
    uint64_t at = 0;
    int r = 0;

    while (r == 0 && at < size) {
        const ssize_t n = pread(fd, buf, MIN(sizeof(buf), size - at), (off_t)at);

        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        r = send_all(sock, buf, (size_t)n);
        at += (uint64_t)n;
        if (progress)
            cli_progress(progress, (double)at / (double)size);
    }
    return r;
}

static int send_form(int sock, const struct speech_ask *ask, int fd, uint64_t size,
                     const char *name)
{
    static const char tail[] = "\r\n--" BOUNDARY "--\r\n";
    struct cli_progress progress = {.label = "sending"};
    _cleanup_str_ struct str form = {0}, head = {0};
    int r = make_form(ask, name, &form);

    if (r == 0)
        r = str_printf(&head,
                       "POST /v1/audio/%s HTTP/1.0\r\nHost: localhost\r\n"
                       "Content-Type: multipart/form-data; boundary=" BOUNDARY "\r\n"
                       "Content-Length: %llu\r\n%s%s%s\r\n",
                       ask->translate ? "translations" : "transcriptions",
                       (unsigned long long)(form.len + size + sizeof(tail) - 1),
                       ask->key ? "Authorization: Bearer " : "", ask->key ? ask->key : "",
                       ask->key ? "\r\n" : "");
    if (r == 0)
        r = send_all(sock, head.data, head.len);
    if (r == 0)
        r = send_all(sock, form.data, form.len);
    if (r == 0)
        r = send_file(sock, fd, size, ask->quiet ? NULL : &progress);
    cli_progress_done(&progress);
    return r < 0 ? r : send_all(sock, tail, sizeof(tail) - 1);
}

/* --- the answer --- */

static void take_error(struct answer *a, const json_t *json)
{
    const char *message =
        json_string_value(json_object_get(json_object_get(json, "error"), "message"));

    if (message)
        snprintf(a->error, sizeof(a->error), "%s", message);
}

/* Handles the data of an event. */
static void take_event(struct answer *a, const char *data)
{
    json_t *json = strcmp(data, "[DONE]") == 0 ? NULL : json_loads(data, 0, NULL);
    const char *delta = json_string_value(json_object_get(json, "delta"));

    a->done = a->done || strcmp(data, "[DONE]") == 0;
    take_error(a, json);
    if (delta) {
        fputs(delta, a->out);
        fflush(a->out);
        a->any = true;
    }
    json_decref(json);
}

/* Handles the complete lines of a stream, and keeps an incomplete last line. */
static void take_lines(struct answer *a)
{
    char *line = a->body.data, *end;

    while (line && (end = memchr(line, '\n', a->body.len - (size_t)(line - a->body.data)))) {
        *end = 0;
        if (text_starts_with(line, "data: "))
            take_event(a, line + 6);
        line = end + 1;
    }
    if (line && line != a->body.data) {
        const size_t left = a->body.len - (size_t)(line - a->body.data);

        memmove(a->body.data, line, left);
        a->body.len = left;
    }
}

static int take_head(struct answer *a)
{
    const char *end = memmem(a->head.data, a->head.len, "\r\n\r\n", 4);

    if (!end)
        return 0;
    if (sscanf(a->head.data, "HTTP/1.%*c %d", &a->status) != 1)
        return -EBADMSG;
    a->is_stream = memmem(a->head.data, (size_t)(end - a->head.data), "text/event-stream", 17);
    a->in_body = true;
    return str_append(&a->body, end + 4, a->head.len - (size_t)(end + 4 - a->head.data));
}

static int take_bytes(struct answer *a, const char *data, size_t len)
{
    struct str *to = a->in_body ? &a->body : &a->head;
    int r;

    if (to->len + len > SPEECH_MAX_ANSWER)
        return -EFBIG;
    r = str_append(to, data, len);
    if (r == 0 && !a->in_body)
        r = take_head(a);
    if (r == 0 && a->is_stream)
        take_lines(a);
    return r;
}

/* Reads until the connection ends. @counts: shows a counter of seconds until text arrives. */
static int read_answer(int sock, const char *name, bool counts, struct answer *a)
{
    unsigned seconds = 0;
    char buf[16384];
    int r = 0;

    while (r == 0) {
        struct pollfd fds = {sock, POLLIN, 0};
        ssize_t n;

        if (counts && !a->any && poll(&fds, 1, 1000) == 0) {
            fprintf(stderr, "\r%s: %u s", name, ++seconds);
            continue;
        }
        if (seconds)
            fputs("\r\033[K", stderr);
        seconds = 0;
        n = recv(sock, buf, sizeof(buf), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        r = take_bytes(a, buf, (size_t)n);
    }
    return r;
}

static int speech_finish(struct answer *a, struct inf_err *reterr)
{
    if (!a->in_body)
        return err_set(reterr, EBADMSG, "the gateway closed the connection without an answer");
    if (!a->is_stream && a->status == 200) {
        fwrite(a->body.data ? a->body.data : "", 1, a->body.len, a->out);
        if (a->body.len && a->body.data[a->body.len - 1] != '\n')
            fputc('\n', a->out);
        return fflush(a->out) < 0 ? err_set(reterr, errno, "%s", strerror(errno)) : 0;
    }
    if (a->any)
        fputc('\n', a->out);
    if (a->is_stream && a->done && !a->error[0])
        return 0;
    if (!a->is_stream && a->body.data) {
        json_t *json = json_loads(a->body.data, 0, NULL);

        take_error(a, json);
        json_decref(json);
    }
    return err_set(reterr, EREMOTEIO, "%s", a->error[0] ? a->error : "the answer is incomplete");
}

int speech_ask(const struct speech_ask *ask, int fd, uint64_t size, const char *name, FILE *out,
               struct inf_err *reterr)
{
    _cleanup_close_ int sock = http_connect(ask->address);
    const bool counts = !ask->quiet && isatty(STDERR_FILENO);
    struct answer answer = {.out = out};
    int sent, r;

    if (sock < 0)
        return err_set(reterr, -sock, "%s: %s", ask->address, strerror(-sock));
    sent = send_form(sock, ask, fd, size, name);
    /* The server may answer with an error and close the connection before the whole request was
     * sent. */
    r = sent < 0 && sent != -EPIPE && sent != -ECONNRESET
            ? sent
            : read_answer(sock, name, counts, &answer);
    r = r < 0 && !answer.in_body ? err_set(reterr, -r, "%s: %s", ask->address, strerror(-r))
                                 : speech_finish(&answer, reterr);
    str_done(&answer.head);
    str_done(&answer.body);
    return r;
}
