/* SPDX-License-Identifier: Apache-2.0 */
/* Joins tokens to words, and corrects the times of the words. */
#include "transcribe/words.h"

#include <math.h>
#include <string.h>

#include "core/macros.h"
#include "core/utf8.h"
#include "tokenizer/codepoint.h"

#define FRAMES_PER_SECOND 50.0
#define MAX_MEDIAN        0.7

static const char ascii_punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
static const char sentence_ends[] = ".。!！?？";
static const char prepended[] = "\"'“¿([{-";
static const char appended[] = "\"'.。,，!！?？:：”)]}、";

struct slice {
    const char *text;
    size_t len;
};

static struct slice slice_of(const struct words_text *text, const struct word *word)
{
    return (struct slice){text->text + word->text, word->n_text};
}

/* Returns whether the slice occurs in @chars; an empty slice always does. */
static bool is_in(struct slice s, const char *chars)
{
    return s.len == 0 || memmem(chars, strlen(chars), s.text, s.len) != NULL;
}

/* Returns the code point at the beginning of valid UTF-8; *@ret_n is its length in bytes. */
static uint32_t first_point(struct slice s, size_t *ret_n)
{
    const unsigned char *b = (const unsigned char *)s.text;
    const size_t n = b[0] < 0x80 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    uint32_t cp = n == 1 ? b[0] : b[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++)
        cp = cp << 6 | (b[i] & 0x3f);
    *ret_n = n;
    return cp;
}

static struct slice strip_slice(struct slice s)
{
    size_t n, end = 0;

    if (!utf8_valid(s.text, s.len))
        return s;
    while (s.len > 0 && uni_space(first_point(s, &n)))
        s = (struct slice){s.text + n, s.len - n};
    for (size_t at = 0; at < s.len; at += n)
        if (!uni_space(first_point((struct slice){s.text + at, s.len - at}, &n)))
            end = at + n;
    s.len = end;
    return s;
}

void words_strip(const char **text, size_t *len)
{
    const struct slice s = strip_slice((struct slice){*text, *len});

    *text = s.text;
    *len = s.len;
}

/* Returns whether a part of the text ends within a code point that the text completes. */
static bool is_cut(const struct words_text *text, size_t begin, size_t end)
{
    const size_t all = text->ends[text->n_tokens - 1];
    const size_t at = begin + utf8_valid_prefix(text->text + begin, end - begin);

    for (size_t n = end - at + 1; at < end && n <= 4 && at + n <= all; n++)
        if (utf8_valid(text->text + at, n))
            return true;
    return false;
}

/* Groups tokens so that each group ends at the end of a code point. */
static size_t split_points(const struct words_text *text, struct word *words)
{
    size_t first = 0, begin = 0, n = 0;

    for (size_t i = 0; i < text->n_tokens; i++) {
        const size_t end = text->ends[i];

        if (is_cut(text, begin, end))
            continue;
        words[n++] = (struct word){
            .text = begin, .n_text = end - begin, .token = first, .n_tokens = i + 1 - first};
        first = i + 1;
        begin = end;
    }
    return n;
}

static bool begins_word(const struct words_text *text, const struct word *part)
{
    const struct slice s = slice_of(text, part);

    return (s.len > 0 && s.text[0] == ' ') || is_in(strip_slice(s), ascii_punctuation);
}

size_t words_split(const struct words_text *text, bool has_blanks, struct word *words)
{
    const size_t n_parts = split_points(text, words);
    size_t n = 0;

    if (!has_blanks)
        return n_parts;
    for (size_t i = 0; i < n_parts; i++) {
        const struct word part = words[i];

        if (n == 0 || begins_word(text, &part)) {
            words[n++] = part;
            continue;
        }
        words[n - 1].n_text += part.n_text;
        words[n - 1].n_tokens += part.n_tokens;
    }
    return n;
}

void words_set_times(struct word *words, size_t n_words, const uint32_t *frames,
                     const float *probabilities)
{
    for (size_t i = 0; i < n_words; i++) {
        struct word *w = &words[i];
        double sum = 0;

        for (size_t t = 0; t < w->n_tokens; t++)
            sum += (double)probabilities[w->token + t];
        w->probability = sum / (double)w->n_tokens;
        w->start = frames[w->token] / FRAMES_PER_SECOND;
        w->end = frames[w->token + w->n_tokens] / FRAMES_PER_SECOND;
    }
}

static int compare_lengths(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct words_lengths words_measure(const struct word *words, size_t n_words, double *scratch)
{
    double median = 0;
    size_t n = 0;

    for (size_t i = 0; i < n_words; i++)
        if (words[i].end != words[i].start)
            scratch[n++] = words[i].end - words[i].start;
    qsort(scratch, n, sizeof(*scratch), compare_lengths);
    if (n > 0)
        median = MIN((scratch[(n - 1) / 2] + scratch[n / 2]) / 2, MAX_MEDIAN);
    return (struct words_lengths){median, 2 * median};
}

static void shorten_at_sentences(const struct words_text *text, struct word *words, size_t n_words,
                                 double max)
{
    for (size_t i = 1; i < n_words; i++) {
        if (words[i].end - words[i].start <= max)
            continue;
        if (is_in(slice_of(text, &words[i]), sentence_ends))
            words[i].end = words[i].start + max;
        else if (is_in(slice_of(text, &words[i - 1]), sentence_ends))
            words[i].start = words[i].end - max;
    }
}

/* Merges @from into the adjacent word @to, which keeps its times. */
static void merge_words(struct word *from, struct word *to)
{
    to->text = MIN(from->text, to->text);
    to->token = MIN(from->token, to->token);
    to->n_text += from->n_text;
    to->n_tokens += from->n_tokens;
    from->n_text = from->n_tokens = 0;
}

static void join_forward(const struct words_text *text, struct word *words, size_t n_words)
{
    size_t next = n_words - 1;

    for (size_t i = n_words - 1; i-- > 0;) {
        const struct slice s = slice_of(text, &words[i]);

        if (s.len > 0 && s.text[0] == ' ' && is_in(strip_slice(s), prepended))
            merge_words(&words[i], &words[next]);
        else
            next = i;
    }
}

static void join_back(const struct words_text *text, struct word *words, size_t n_words)
{
    size_t last = 0;

    for (size_t i = 1; i < n_words; i++) {
        const struct slice before = slice_of(text, &words[last]);

        if (!(before.len > 0 && before.text[before.len - 1] == ' ') &&
            is_in(slice_of(text, &words[i]), appended))
            merge_words(&words[i], &words[last]);
        else
            last = i;
    }
}

void words_join(const struct words_text *text, struct word *words, size_t n_words,
                const struct words_lengths *lengths)
{
    if (n_words == 0)
        return;
    if (lengths->max > 0)
        shorten_at_sentences(text, words, n_words, lengths->max);
    join_forward(text, words, n_words);
    join_back(text, words, n_words);
}

/* Converts a time in the window to a time in the recording, rounded to hundredths of a second. */
static double placed_time(double time, double offset)
{
    return rint((offset + time) * 100) / 100;
}

size_t words_take(struct word *words, size_t n_words, size_t n_tokens, double offset,
                  size_t *ret_n_taken)
{
    size_t n = 0, seen = 0, i = 0;

    for (; i < n_words && seen < n_tokens; i++) {
        struct word w = words[i];

        seen += w.n_tokens;
        if (w.n_text == 0)
            continue;
        w.start = placed_time(w.start, offset);
        w.end = placed_time(w.end, offset);
        words[n++] = w;
    }
    *ret_n_taken = i;
    return n;
}

/* Shortens the first two words after a pause, because their times may include the pause by
 * mistake. */
static void fit_first(struct word *words, size_t n_words, double last_end,
                      const struct words_lengths *lengths)
{
    const double max = lengths->max;
    struct word *first = &words[0], *second = &words[1];

    if (first->end - last_end <= lengths->median * 4)
        return;
    if (first->end - first->start <= max && (n_words < 2 || second->end - first->start <= max * 2))
        return;
    if (n_words > 1 && second->end - second->start > max)
        first->end = second->start = MAX(second->end / 2, second->end - max);
    first->start = MAX(0, first->end - max);
}

double words_fit(struct word *words, size_t n_words, struct words_segment *segment, double last_end,
                 const struct words_lengths *lengths)
{
    struct word *first = words, *last;

    if (n_words == 0)
        return last_end;
    last = words + n_words - 1;
    fit_first(words, n_words, last_end, lengths);
    if (segment->start < first->end && segment->start - 0.5 > first->start)
        first->start = MAX(0, MIN(first->end - lengths->median, segment->start));
    else
        segment->start = first->start;
    if (segment->end > last->start && segment->end + 0.5 < last->end)
        last->end = MAX(last->start + lengths->median, segment->end);
    else
        segment->end = last->end;
    return segment->end;
}
