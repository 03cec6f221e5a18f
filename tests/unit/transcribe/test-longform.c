/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the prompts, temperatures and segments of whole recordings with those of
 * openai-whisper's transcribe() (tests/golden). The results of the model for each window are given.
 */
#include "unit/transcribe/golden.h"

#include <math.h>

#include "transcribe/longform.h"

enum { TOKEN_BLANK = 220, N_TEMPERATURES = 6 };

struct head {
    int32_t timestamp_begin, end_of_text, n_context, n_frames, carry, keep, n_temperatures;
};

struct piece {
    int64_t start, end;
    int32_t *tokens;
    size_t n_tokens;
};

struct pieces {
    struct piece *list;
    size_t n;
};

static int32_t end_of_text;

static bool is_blank(void *arg, const int32_t *tokens, size_t n)
{
    (void)arg;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < end_of_text && tokens[i] != TOKEN_BLANK)
            return false;
    return true;
}

static struct longform_params read_params(FILE *f, const struct head *head, const double limits[3])
{
    struct longform_params p = {
        .timestamp_begin = head->timestamp_begin,
        .n_context = (uint32_t)head->n_context,
        .n_temperatures = (uint32_t)head->n_temperatures,
        .max_compression = limits[0],
        .min_log_probability = limits[1],
        .max_no_speech = limits[2],
        .carry = head->carry,
        .keep_initial = head->keep,
    };

    golden_read(f, p.temperatures, N_TEMPERATURES * sizeof(double));
    return p;
}

static void assert_prompt(const struct longform_window *window, FILE *f)
{
    size_t n;
    _cleanup_free_ int32_t *want = golden_row(f, &n);

    assert_int_equal(window->n_prompt + window->n_more, n);
    if (window->n_prompt > 0)
        assert_memory_equal(window->prompt, want, window->n_prompt * sizeof(*want));
    if (window->n_more > 0)
        assert_memory_equal(window->more, want + window->n_prompt, window->n_more * sizeof(*want));
}

static void keep(struct pieces *pieces, const struct longform_segment *s, const int32_t *tokens)
{
    struct piece *piece;

    pieces->list = realloc(pieces->list, (pieces->n + 1) * sizeof(*pieces->list));
    assert_non_null(pieces->list);
    piece = &pieces->list[pieces->n++];
    *piece = (struct piece){s->start, s->end, NULL, s->is_empty ? 0 : s->n_tokens};
    piece->tokens = calloc(piece->n_tokens + 1, sizeof(int32_t));
    assert_non_null(piece->tokens);
    memcpy(piece->tokens, tokens + s->first, piece->n_tokens * sizeof(int32_t));
}

/* Checks the arguments of one call of the decoder, and gives its result to @lf. */
static void run_window(struct longform *lf, uint64_t n_frames, FILE *f, struct pieces *pieces)
{
    const struct longform_segment *segments;
    struct longform_window window;
    _cleanup_free_ int32_t *tokens = NULL;
    double values[4];
    size_t n_tokens, n;
    int r;

    assert_int_equal(longform_next(lf, n_frames, &window), 0);
    assert_int_equal(window.n_frames, MIN(n_frames - window.seek, (uint64_t)LONGFORM_WINDOW));
    assert_prompt(&window, f);
    tokens = golden_row(f, &n_tokens);
    golden_read(f, values, sizeof(values));
    assert_true(window.temperature == values[0]);
    const struct longform_result result = {tokens, n_tokens, values[1], values[2], values[3]};

    r = longform_take(lf, &result, is_blank, NULL, &segments, &n);
    if (r == LONGFORM_AGAIN) {
        assert_int_equal(longform_seek(lf), window.seek);
        return;
    }
    assert_int_equal(r, 0);
    assert_true(longform_seek(lf) > window.seek);
    for (size_t i = 0; i < n; i++)
        keep(pieces, &segments[i], tokens);
}

static void assert_pieces(struct pieces *pieces, FILE *f)
{
    assert_int_equal(pieces->n, golden_int(f));
    for (size_t i = 0; i < pieces->n; i++) {
        const struct piece *piece = &pieces->list[i];
        _cleanup_free_ int32_t *tokens = NULL;
        size_t n;

        assert_int_equal(piece->start, golden_int(f));
        assert_int_equal(piece->end, golden_int(f));
        tokens = golden_row(f, &n);
        assert_int_equal(piece->n_tokens, n);
        assert_memory_equal(piece->tokens, tokens, n * sizeof(*tokens));
        free(piece->tokens);
    }
    free(pieces->list);
}

static void check_recording(FILE *f)
{
    _cleanup_(longform_freep) struct longform *lf = NULL;
    _cleanup_free_ int32_t *initial = NULL;
    struct longform_window window;
    struct longform_params params;
    struct pieces pieces = {0};
    struct head head;
    double limits[3];
    size_t n_initial;
    int32_t n_calls;

    golden_read(f, &head, sizeof(head));
    initial = golden_row(f, &n_initial);
    golden_read(f, limits, sizeof(limits));
    params = read_params(f, &head, limits);
    end_of_text = head.end_of_text;
    ASSERT_OK(longform_new(&params, initial, n_initial, &lf));
    n_calls = golden_int(f);
    for (int32_t i = 0; i < n_calls; i++)
        run_window(lf, (uint64_t)head.n_frames, f, &pieces);
    assert_int_equal(longform_next(lf, (uint64_t)head.n_frames, &window), LONGFORM_END);
    assert_pieces(&pieces, f);
}

TEST(recordings_are_walked_as_the_reference_does)
{
    FILE *f = golden_open("audio/longform.bin");
    int n = 0;

    for (; !golden_end(f); n++)
        check_recording(f);
    assert_int_equal(n, 12);
    fclose(f);
}

static struct longform *new_simple(void)
{
    const struct longform_params params = {.timestamp_begin = 100,
                                           .n_context = 64,
                                           .n_temperatures = 1,
                                           .max_compression = NAN,
                                           .min_log_probability = NAN,
                                           .max_no_speech = NAN};
    struct longform *lf;

    end_of_text = 90;
    ASSERT_OK(longform_new(&params, NULL, 0, &lf));
    return lf;
}

TEST(no_answer_stops_the_walk)
{
    static const int32_t standing[] = {100, 100, 5}, text_first[] = {5, 101, 101, 7};
    _cleanup_(longform_freep) struct longform *lf = new_simple();
    const struct longform_segment *segments;
    struct longform_window window;
    size_t n;

    assert_int_equal(longform_next(lf, 9000, &window), 0);
    ASSERT_OK(
        longform_take(lf, &(struct longform_result){standing, 3}, is_blank, NULL, &segments, &n));
    assert_int_equal(longform_seek(lf), 3000);
    assert_int_equal(longform_next(lf, 9000, &window), 0);
    ASSERT_OK(
        longform_take(lf, &(struct longform_result){text_first, 4}, is_blank, NULL, &segments, &n));
    assert_int_equal(n, 1);
    assert_int_equal(segments[0].start, 3000);
    assert_int_equal(segments[0].end, 3002);
    assert_int_equal(longform_seek(lf), 3002);
    assert_int_equal(longform_next(lf, 9000, &window), 0);
    ASSERT_OK(longform_take(lf, &(struct longform_result){NULL, 0}, is_blank, NULL, &segments, &n));
    assert_true(n == 1 && segments[0].is_empty);
    assert_int_equal(longform_seek(lf), 6002);
}

TEST(words_say_where_the_next_window_begins)
{
    static const int32_t open_end[] = {100, 5}, silent_end[] = {100, 5, 120};
    _cleanup_(longform_freep) struct longform *lf = new_simple();
    const struct longform_segment *segments;
    struct longform_window window;
    size_t n;

    assert_int_equal(longform_next(lf, 9000, &window), 0);
    ASSERT_OK(
        longform_take(lf, &(struct longform_result){open_end, 2}, is_blank, NULL, &segments, &n));
    longform_words_end(lf, 0);
    assert_int_equal(longform_seek(lf), 3000);
    longform_words_end(lf, 1234);
    assert_int_equal(longform_seek(lf), 1234);
    assert_int_equal(longform_next(lf, 9000, &window), 0);
    ASSERT_OK(
        longform_take(lf, &(struct longform_result){silent_end, 3}, is_blank, NULL, &segments, &n));
    longform_words_end(lf, 2000);
    assert_int_equal(longform_seek(lf), 4234);
}

TEST(repetitions_are_seen_by_zlib)
{
    char text[400];
    double ratio;

    memset(text, 'a', sizeof(text));
    ASSERT_OK(longform_compression(text, sizeof(text), &ratio));
    assert_true(ratio > 20);
    ASSERT_OK(longform_compression("", 0, &ratio));
    assert_true(ratio == 0);
}

RUN_TESTS(cmocka_unit_test(recordings_are_walked_as_the_reference_does),
          cmocka_unit_test(no_answer_stops_the_walk),
          cmocka_unit_test(words_say_where_the_next_window_begins),
          cmocka_unit_test(repetitions_are_seen_by_zlib))
