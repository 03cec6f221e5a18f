/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints text while somebody speaks (see dictation.h).
 *
 * Each request is an ordinary transcription of a file with some seconds of sound. The answer has
 * segments with times.
 */
#include "cli/speech/dictation.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/err.h"
#include "core/str.h"

enum {
    STEP = MICROPHONE_RATE,             /* new samples before the next request */
    LONGEST = 60 * MICROPHONE_RATE,     /* maximum number of samples in a request */
    KEPT_SILENCE = MICROPHONE_RATE * 2, /* silence that is kept, since a word may begin in it */
    PROMPT = 400,                       /* maximum bytes of settled text in a prompt */
};

#define SETTLED_SECONDS 2.0 /* a segment is settled when this much sound follows it */
/* If a request has more sound but no settled segment, its segments count as settled, except the
 * last of several. */
#define CROWDED_SECONDS 25.0

struct dictation {
    struct speech_ask ask;
    const char *first_prompt;
    struct microphone *mic;
    FILE *out;
    bool at_terminal;
    uint64_t start; /* the first sample after the settled text */
    struct str said;
};

static const char *text_of(const json_t *segment)
{
    const char *text = json_string_value(json_object_get(segment, "text"));

    return text ? text + strspn(text, " ") : "";
}

static double end_of(const json_t *segment)
{
    return json_number_value(json_object_get(segment, "end"));
}

/* --- the terminal --- */

static size_t n_columns(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 8 ? size.ws_col : 80;
}

/* Returns the longest end of @text that fits into a line of @columns. Characters beyond ASCII count
 * as two columns, because some of them are that wide. */
static const char *line_of(const char *text, size_t len, size_t columns)
{
    const char *at = text + len;
    size_t used = 2;

    while (at > text && used < columns) {
        const unsigned char c = (unsigned char)at[-1];

        used += (c & 0xc0) == 0x80 ? 0 : c < 0x80 ? 1 : 2;
        if (used < columns)
            at--;
    }
    while (((unsigned char)*at & 0xc0) == 0x80)
        at++;
    return at;
}

static int show_rest(struct dictation *d, json_t *segments, size_t first)
{
    _cleanup_str_ struct str rest = {0};
    int r = 0;

    if (!d->at_terminal)
        return 0;
    for (size_t i = first; r == 0 && i < json_array_size(segments); i++)
        r = str_printf(&rest, "%s%s", rest.len ? " " : "", text_of(json_array_get(segments, i)));
    if (r == 0)
        fprintf(d->out, "\r\033[K%s",
                rest.len ? line_of(rest.data, rest.len, n_columns(fileno(d->out))) : "");
    fflush(d->out);
    return r;
}

static int write_line(struct dictation *d, const char *text)
{
    if (!*text)
        return 0;
    fprintf(d->out, "%s%s\n", d->at_terminal ? "\r\033[K" : "", text);
    fflush(d->out);
    return str_printf(&d->said, "%s%s", d->said.len ? " " : "", text);
}

/* --- requests --- */

/* Returns the prompt: the last words of the settled text. If there is no settled text yet, returns
 * the prompt that the user gave. */
static const char *prompt_of(const struct dictation *d)
{
    const char *at = d->said.data, *space;

    if (!d->said.len)
        return d->first_prompt;
    if (d->said.len <= PROMPT)
        return at;
    at += d->said.len - PROMPT;
    space = strchr(at, ' ');
    return space ? space + 1 : d->first_prompt;
}

static int dictation_parse(const char *answer, json_t **ret_segments, struct inf_err *reterr)
{
    json_t *json = json_loads(answer, 0, NULL);
    json_t *segments = json_object_get(json, "segments");

    *ret_segments = json_incref(segments);
    json_decref(json);
    return json_is_array(segments) ? 0 : err_set(reterr, EBADMSG, "the answer has no segments");
}

static int dictation_ask(struct dictation *d, uint64_t n, json_t **ret_segments,
                         struct inf_err *reterr)
{
    _cleanup_free_ char *answer = NULL;
    _cleanup_close_ int fd = -1;
    size_t answer_size = 0;
    uint64_t size = 0;
    FILE *out;
    int r;

    r = microphone_wav(d->mic, d->start, n, &fd, &size);
    if (r < 0)
        return err_set(reterr, -r, "%s", strerror(-r));
    out = open_memstream(&answer, &answer_size);
    if (!out)
        return err_set(reterr, ENOMEM, "out of memory");
    d->ask.prompt = prompt_of(d);
    r = speech_ask(&d->ask, fd, size, "microphone.wav", out, reterr);
    fclose(out);
    return r < 0 ? r : dictation_parse(answer, ret_segments, reterr);
}

/* Returns how many of the segments of @seconds of sound will not change any more. */
static size_t count_settled(json_t *segments, double seconds)
{
    const size_t n = json_array_size(segments);
    size_t settled = 0;

    while (settled < n && end_of(json_array_get(segments, settled)) <= seconds - SETTLED_SECONDS)
        settled++;
    if (settled == 0 && n > 0 && seconds > CROWDED_SECONDS)
        settled = n > 1 ? n - 1 : 1;
    return settled;
}

/* Requests the text of @n samples; @last: the recording has ended after them. */
static int dictation_take(struct dictation *d, uint64_t n, bool last, struct inf_err *reterr)
{
    json_t *segments = NULL;
    int r = dictation_ask(d, n, &segments, reterr);
    const size_t n_all = json_array_size(segments);
    const size_t n_settled = last ? n_all : count_settled(segments, (double)n / MICROPHONE_RATE);
    uint64_t done = 0;

    for (size_t i = 0; r == 0 && i < n_settled; i++) {
        r = write_line(d, text_of(json_array_get(segments, i)));
        done = (uint64_t)(MAX(end_of(json_array_get(segments, i)), 0.0) * MICROPHONE_RATE);
    }
    if (r == 0)
        r = show_rest(d, segments, n_settled);
    json_decref(segments);
    if (last)
        done = n;
    else if ((n_all == 0 && n > 2 * KEPT_SILENCE) || (done == 0 && n == LONGEST))
        done = n - KEPT_SILENCE;
    d->start += MIN(done, n);
    microphone_forget(d->mic, d->start);
    return r == -ENOMEM && !reterr->text[0] ? err_set(reterr, ENOMEM, "out of memory") : r;
}

int dictation_run(const struct speech_ask *ask_as, struct microphone *mic, FILE *out,
                  struct inf_err *reterr)
{
    struct dictation d = {.ask = *ask_as,
                          .first_prompt = ask_as->prompt,
                          .mic = mic,
                          .out = out,
                          .at_terminal = isatty(fileno(out))};
    uint64_t n = 0, n_all = 0;
    bool ended = false;
    int r = 0;

    d.ask.format = "verbose_json";
    d.ask.quiet = true;
    reterr->text[0] = 0;
    while (r == 0 && !(ended && d.start == n_all)) {
        ended = microphone_wait(mic, d.start + n + STEP, &n_all);
        n = MIN(n_all - d.start, (uint64_t)LONGEST);
        if (n > 0)
            r = dictation_take(&d, n, ended && d.start + n == n_all, reterr);
        n = n_all - d.start;
    }
    if (d.at_terminal)
        fputs("\r\033[K", out);
    fflush(out);
    if (r == 0 && n_all == 0)
        r = err_set(reterr, ENODATA, "the microphone gave no sound");
    str_done(&d.said);
    return r;
}
