/* SPDX-License-Identifier: Apache-2.0 */
/* Writes transcripts in the formats of OpenAI's API, and as SubRip and WebVTT. */
#include "audio/transcript.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/wire/json.h"
#include "core/array.h"

static void segment_done(struct transcript_segment *s)
{
    for (size_t i = 0; s->words && i < s->n_words; i++)
        free(s->words[i].text);
    free(s->words);
    free(s->tokens);
    free(s->text);
}

void transcript_done(struct transcript *t)
{
    for (size_t i = 0; i < t->n; i++)
        segment_done(&t->segments[i]);
    free(t->segments);
    str_done(&t->text);
    *t = (struct transcript){0};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static struct http_text text_trimmed(const char *text)
{
    struct http_text t = {text, strlen(text)};

    while (t.len && is_space(t.data[0]))
        t.data++, t.len--;
    while (t.len && is_space(t.data[t.len - 1]))
        t.len--;
    return t;
}

/* --- storing --- */

static int copy_words(struct transcript_segment *s, const struct inf_audio_event *e)
{
    s->words = NEW(struct transcript_word, e->n_words);
    if (!s->words)
        return -ENOMEM;
    s->n_words = e->n_words;
    for (size_t i = 0; i < e->n_words; i++) {
        s->words[i] =
            (struct transcript_word){strdup(e->words[i].text), e->words[i].start, e->words[i].end};
        if (!s->words[i].text)
            return -ENOMEM;
    }
    return 0;
}

static int copy_segment(struct transcript_segment *s, const struct inf_audio_event *e)
{
    *s = (struct transcript_segment){
        .id = e->id,
        .seek = e->seek,
        .start = e->start,
        .end = e->end,
        .text = strdup(e->text),
        .tokens = NEW(int32_t, e->n_tokens),
        .n_tokens = e->n_tokens,
        .temperature = e->temperature,
        .avg_logprob = e->avg_logprob,
        .compression_ratio = e->compression_ratio,
        .no_speech_prob = e->no_speech_prob,
    };
    if (!s->text || !s->tokens)
        return -ENOMEM;
    if (e->n_tokens)
        memcpy(s->tokens, e->tokens, e->n_tokens * sizeof(*s->tokens));
    return copy_words(s, e);
}

int transcript_add(struct transcript *t, const struct inf_audio_event *event,
                   struct http_text *ret_delta)
{
    const struct http_text text = text_trimmed(event->text);
    /* A space separates the segment from the text before it if the model began the segment with a
     * space. */
    const bool apart = t->text.len && text.len && is_space(event->text[0]);
    const size_t before = t->text.len;
    struct transcript_segment s;
    int r = ARRAY_GROW(t->segments, t->cap, t->n + 1);

    if (r < 0)
        return r;
    r = copy_segment(&s, event);
    if (r == 0 && apart)
        r = str_putc(&t->text, ' ');
    if (r == 0)
        r = str_append(&t->text, text.data, text.len);
    if (r < 0) {
        segment_done(&s);
        return r;
    }
    t->segments[t->n++] = s;
    *ret_delta =
        (struct http_text){t->text.data ? t->text.data + before : "", t->text.len - before};
    return 0;
}

/* --- JSON --- */

static int put_seconds(struct str *out, const char *name, double value)
{
    /* Times have milliseconds, because models are not more precise. */
    return str_printf(out, ",\"%s\":%.*f", name, 3, value);
}

int transcript_put_usage(const struct transcript *t, struct str *out)
{
    return str_printf(out, "{\"type\":\"duration\",\"seconds\":%.0f}", ceil(t->seconds));
}

static int put_number(struct str *out, const char *name, double value)
{
    const int r = str_printf(out, ",\"%s\":", name);

    return r < 0 ? r : json_put_double(out, value);
}

static int put_segment(struct str *out, const struct transcript_segment *s)
{
    int r = str_printf(out, "{\"id\":%u,\"seek\":%u", s->id, s->seek);

    r = r < 0 ? r : put_seconds(out, "start", s->start);
    r = r < 0 ? r : put_seconds(out, "end", s->end);
    r = r < 0 ? r : str_puts(out, ",\"text\":");
    r = r < 0 ? r : json_put_text(out, s->text);
    r = r < 0 ? r : str_puts(out, ",\"tokens\":[");
    for (size_t i = 0; r == 0 && i < s->n_tokens; i++)
        r = str_printf(out, "%s%d", i ? "," : "", s->tokens[i]);
    r = r < 0 ? r : str_putc(out, ']');
    r = r < 0 ? r : put_number(out, "temperature", (double)s->temperature);
    r = r < 0 ? r : put_number(out, "avg_logprob", (double)s->avg_logprob);
    r = r < 0 ? r : put_number(out, "compression_ratio", (double)s->compression_ratio);
    r = r < 0 ? r : put_number(out, "no_speech_prob", (double)s->no_speech_prob);
    return r < 0 ? r : str_putc(out, '}');
}

static int put_segments(const struct transcript *t, struct str *out)
{
    int r = str_puts(out, ",\"segments\":[");

    for (size_t i = 0; r == 0 && i < t->n; i++) {
        r = i ? str_putc(out, ',') : 0;
        r = r < 0 ? r : put_segment(out, &t->segments[i]);
    }
    return r < 0 ? r : str_putc(out, ']');
}

static int put_word(struct str *out, const struct transcript_word *w)
{
    const struct http_text text = text_trimmed(w->text);
    int r = str_puts(out, "{\"word\":");

    r = r < 0 ? r : json_put_string(out, text.data, text.len);
    r = r < 0 ? r : put_seconds(out, "start", w->start);
    r = r < 0 ? r : put_seconds(out, "end", w->end);
    return r < 0 ? r : str_putc(out, '}');
}

static int put_words(const struct transcript *t, struct str *out)
{
    bool any = false;
    int r = str_puts(out, ",\"words\":[");

    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; r == 0 && k < t->segments[i].n_words; k++) {
            r = any ? str_putc(out, ',') : 0;
            r = r < 0 ? r : put_word(out, &t->segments[i].words[k]);
            any = true;
        }
    return r < 0 ? r : str_putc(out, ']');
}

static int write_json(const struct transcript *t, struct str *out)
{
    int r = str_puts(out, "{\"text\":");

    r = r < 0 ? r : json_put_string(out, t->text.data ? t->text.data : "", t->text.len);
    r = r < 0 ? r : str_puts(out, ",\"usage\":");
    r = r < 0 ? r : transcript_put_usage(t, out);
    return r < 0 ? r : str_putc(out, '}');
}

static int write_verbose(const struct transcript *t, const struct audio_params *p, struct str *out)
{
    const bool translates = p->task == INF_AUDIO_TRANSLATE;
    int r =
        str_printf(out, "{\"task\":\"%s\",\"language\":", translates ? "translate" : "transcribe");

    r = r < 0 ? r : json_put_text(out, translates ? "english" : language_name(t->language));
    r = r < 0 ? r : put_seconds(out, "duration", t->seconds);
    r = r < 0 ? r : str_puts(out, ",\"text\":");
    r = r < 0 ? r : json_put_string(out, t->text.data ? t->text.data : "", t->text.len);
    if (r == 0 && p->segments)
        r = put_segments(t, out);
    if (r == 0 && p->words)
        r = put_words(t, out);
    r = r < 0 ? r : str_puts(out, ",\"usage\":");
    r = r < 0 ? r : transcript_put_usage(t, out);
    return r < 0 ? r : str_putc(out, '}');
}

/* --- subtitles --- */

static int put_time(struct str *out, double seconds, char point)
{
    const uint64_t ms = seconds > 0 ? (uint64_t)llround(seconds * 1000) : 0;

    return str_printf(out, "%02u:%02u:%02u%c%03u", (unsigned)(ms / 3600000),
                      (unsigned)(ms / 60000 % 60), (unsigned)(ms / 1000 % 60), point,
                      (unsigned)(ms % 1000));
}

/* Writes the text of a cue without empty lines, which would end the cue, and without "-->", which
 * marks times. */
static int put_cue_text(struct str *out, const char *text)
{
    const struct http_text t = text_trimmed(text);
    int r = 0;

    for (size_t i = 0; r == 0 && i < t.len; i++) {
        const char c = t.data[i];

        /* If several dashes are before ">", only one of them stays. */
        while (c == '>' && out->len > 1 && memcmp(out->data + out->len - 2, "--", 2) == 0)
            out->len--;
        if (c != '\r' && !(c == '\n' && out->data[out->len - 1] == '\n'))
            r = str_putc(out, c);
    }
    return r;
}

static int write_subtitles(const struct transcript *t, bool vtt, struct str *out)
{
    int r = vtt ? str_puts(out, "WEBVTT\n\n") : 0;

    for (size_t i = 0; r == 0 && i < t->n; i++) {
        const struct transcript_segment *s = &t->segments[i];

        r = vtt ? 0 : str_printf(out, "%zu\n", i + 1);
        r = r < 0 ? r : put_time(out, s->start, vtt ? '.' : ',');
        r = r < 0 ? r : str_puts(out, " --> ");
        r = r < 0 ? r : put_time(out, s->end, vtt ? '.' : ',');
        r = r < 0 ? r : str_putc(out, '\n');
        r = r < 0 ? r : put_cue_text(out, s->text);
        r = r < 0 ? r : str_puts(out, "\n\n");
    }
    return r;
}

static int write_text(const struct transcript *t, struct str *out)
{
    const int r = str_append(out, t->text.data ? t->text.data : "", t->text.len);

    return r < 0 ? r : str_putc(out, '\n');
}

/* --- all formats --- */

const char *transcript_type(enum audio_format format)
{
    static const char *const types[] = {
        [AUDIO_JSON] = "application/json",
        [AUDIO_TEXT] = "text/plain; charset=utf-8",
        [AUDIO_SRT] = "application/x-subrip; charset=utf-8",
        [AUDIO_VTT] = "text/vtt; charset=utf-8",
        [AUDIO_VERBOSE] = "application/json",
    };

    return types[format];
}

int transcript_write(const struct transcript *t, const struct audio_params *params, struct str *out)
{
    switch (params->format) {
    case AUDIO_TEXT:
        return write_text(t, out);
    case AUDIO_SRT:
    case AUDIO_VTT:
        return write_subtitles(t, params->format == AUDIO_VTT, out);
    case AUDIO_VERBOSE:
        return write_verbose(t, params, out);
    case AUDIO_JSON:
        break;
    }
    return write_json(t, out);
}
