/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares words and their times, computed from attention scores, with those of openai-whisper's
 * add_word_timestamps() (tests/golden).
 */
#include "unit/transcribe/golden.h"

#include <math.h>

#include "transcribe/align.h"
#include "transcribe/words.h"

struct head {
    int32_t has_blanks, n_heads, n_tokens, n_frames, n_skip, n_text, n_segments;
};

struct spoken {
    struct head head;
    size_t *ends;
    char *text;
    float *scores, *probabilities;
    double offset, last_end;
};

static void read_spoken(FILE *f, struct spoken *s)
{
    size_t n_bytes;

    golden_read(f, &s->head, sizeof(s->head));
    s->ends = calloc((size_t)s->head.n_text, sizeof(*s->ends));
    assert_non_null(s->ends);
    for (int32_t i = 0; i < s->head.n_text; i++)
        s->ends[i] = (size_t)golden_int(f);
    n_bytes = s->ends[s->head.n_text - 1];
    s->text = golden_array(f, ALIGN_UP(n_bytes, 4), 1);
    s->scores = golden_array(
        f, (size_t)s->head.n_heads * (size_t)s->head.n_tokens * (size_t)s->head.n_frames,
        sizeof(float));
    s->probabilities = golden_array(f, (size_t)s->head.n_text, sizeof(float));
    golden_read(f, &s->offset, sizeof(s->offset));
    golden_read(f, &s->last_end, sizeof(s->last_end));
}

static void spoken_done(struct spoken *s)
{
    free(s->ends);
    free(s->text);
    free(s->scores);
    free(s->probabilities);
}

/* Makes the words of a window with their times, shortens long ones, and joins punctuation to its
 * words. */
static size_t make_words(struct spoken *s, struct word *words, struct words_lengths *ret_lengths)
{
    const struct words_text text = {s->text, s->ends, (size_t)s->head.n_text};
    const struct align_params p = {(uint32_t)s->head.n_heads, (uint32_t)s->head.n_tokens,
                                   (uint32_t)s->head.n_frames, (uint32_t)s->head.n_skip};
    _cleanup_free_ uint32_t *frames = NEW(uint32_t, text.n_tokens + 1);
    _cleanup_free_ double *scratch = NEW(double, text.n_tokens);
    size_t n;

    assert_true(frames && scratch);
    ASSERT_OK(align_tokens(&p, s->scores, frames));
    n = words_split(&text, s->head.has_blanks, words);
    words_set_times(words, n, frames, s->probabilities);
    *ret_lengths = words_measure(words, n, scratch);
    words_join(&text, words, n, ret_lengths);
    return n;
}

static void assert_word(const struct word *w, FILE *f)
{
    double want[3];

    assert_int_equal(w->n_text, golden_int(f));
    golden_read(f, want, sizeof(want));
    assert_true(fabs(w->start - want[0]) < 1e-9);
    assert_true(fabs(w->end - want[1]) < 1e-9);
    assert_true(fabs(w->probability - want[2]) < 1e-6);
}

static void check_spoken(struct spoken *s, FILE *f)
{
    struct words_lengths lengths;
    _cleanup_free_ struct word *words = NEW(struct word, (size_t)s->head.n_text);
    size_t n_left, at = 0;

    assert_non_null(words);
    n_left = make_words(s, words, &lengths);
    for (int32_t i = 0; i < s->head.n_segments; i++) {
        const size_t n_tokens = (size_t)golden_int(f);
        const int32_t n_want = golden_int(f);
        struct words_segment segment;
        size_t n_taken, n;
        double want[4];

        n = words_take(words + at, n_left, n_tokens, s->offset, &n_taken);
        golden_read(f, want, sizeof(want));
        segment = (struct words_segment){want[0], want[1]};
        s->last_end = words_fit(words + at, n, &segment, s->last_end, &lengths);
        assert_int_equal(n, n_want);
        assert_true(fabs(segment.start - want[2]) < 1e-9);
        assert_true(fabs(segment.end - want[3]) < 1e-9);
        for (size_t k = 0; k < n; k++)
            assert_word(&words[at + k], f);
        at += n_taken;
        n_left -= n_taken;
    }
}

TEST(words_are_those_of_the_reference)
{
    FILE *f = golden_open("audio/words.bin");
    int n = 0;

    for (; !golden_end(f); n++) {
        struct spoken s = {0};

        read_spoken(f, &s);
        check_spoken(&s, f);
        spoken_done(&s);
    }
    assert_int_equal(n, 4);
    fclose(f);
}

TEST(broken_text_is_still_split_into_words)
{
    /* The bytes are a code point in two tokens, an unfinished code point, and a byte that starts no
     * code point. */
    static const char bytes[] = "\xc3\xa9 \xe3\x81 \xff";
    static const size_t ends[] = {1, 2, 3, 4, 5, 6, 7};
    const struct words_text text = {bytes, ends, ARRAY_SIZE(ends)};
    struct word words[ARRAY_SIZE(ends)];
    const size_t n = words_split(&text, false, words);
    size_t at = 0;

    assert_int_equal(words[0].n_tokens, 2);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(words[i].text, at);
        at += words[i].n_text;
    }
    assert_int_equal(at, 7);
    assert_int_equal(words_split(&text, true, words), 3);
}

TEST(scores_without_a_difference_give_some_path)
{
    enum { HEADS = 2, TOKENS = 5, FRAMES = 3 };
    const struct align_params p = {HEADS, TOKENS, FRAMES, 1};
    float scores[HEADS * TOKENS * FRAMES] = {0};
    uint32_t frames[TOKENS - 2];

    ASSERT_OK(align_tokens(&p, scores, frames));
    assert_int_equal(frames[0], 0);
    for (int i = 1; i < TOKENS - 2; i++)
        assert_true(frames[i] >= frames[i - 1] && frames[i] < FRAMES);
}

RUN_TESTS(cmocka_unit_test(words_are_those_of_the_reference),
          cmocka_unit_test(broken_text_is_still_split_into_words),
          cmocka_unit_test(scores_without_a_difference_give_some_path))
