/* SPDX-License-Identifier: Apache-2.0 */
/* Compares spans of speech with those of the reference code (tests/golden/make_audio.py). */
#include "lib/test.h"

#include "core/macros.h"
#include "media/speech.h"

struct set {
    uint32_t n_samples;
    float threshold;
    uint32_t times[5];
    uint32_t n_spans;
};

static void assert_next(const struct speech_span *span, uint32_t *n_left, FILE *f)
{
    uint32_t want[2];

    assert_true(*n_left > 0);
    assert_int_equal(fread(want, sizeof(want), 1, f), 1);
    assert_int_equal(span->start, want[0]);
    assert_int_equal(span->end, want[1]);
    (*n_left)--;
}

static void check_set(const struct set *set, const float *p, uint32_t n, FILE *f)
{
    const struct speech_params params = {
        set->threshold, -1,           set->times[0], set->times[1], set->times[2],
        set->times[3],  set->times[4]};
    uint32_t n_left = set->n_spans;
    struct speech_finder finder;
    struct speech_span span;

    speech_finder_init(&finder, &params);
    for (uint32_t i = 0; i < n; i++)
        if (speech_finder_push(&finder, p[i], &span))
            assert_next(&span, &n_left, f);
    while (speech_finder_end(&finder, set->n_samples, &span))
        assert_next(&span, &n_left, f);
    assert_int_equal(n_left, 0);
}

TEST(spans_are_those_of_the_reference)
{
    FILE *f = fopen(test_golden("audio/speech.bin"), "rb");
    _cleanup_free_ float *p = NULL;
    struct set set;
    uint32_t n = 0, n_sets = 0;

    assert_non_null(f);
    assert_int_equal(fread(&n, sizeof(n), 1, f), 1);
    p = NEW(float, n);
    assert_non_null(p);
    assert_int_equal(fread(p, sizeof(*p), n, f), n);
    for (; fread(&set, sizeof(set), 1, f) == 1; n_sets++)
        check_set(&set, p, n, f);
    assert_int_equal(n_sets, 24);
    fclose(f);
}

TEST(a_span_is_reported_once_it_is_final)
{
    struct speech_finder finder;
    struct speech_span span;
    uint32_t n = 0;

    speech_finder_init(&finder, &SPEECH_PARAMS_DEFAULT);
    for (int i = 0; i < 20; i++)
        assert_false(speech_finder_push(&finder, 0.9f, &span));
    /* A pause of 100 ms ends the span. Four silent chunks of 32 ms are long enough for this pause,
     * and for the padding of this span and of a span after the pause. */
    while (!speech_finder_push(&finder, 0.1f, &span))
        n++;
    assert_int_equal(n, 4);
    assert_int_equal(span.start, 0);
    assert_int_equal(span.end, 20 * 512 + 480);
    assert_false(speech_finder_end(&finder, 25 * 512, &span));
}

TEST(no_sound_gives_no_span)
{
    struct speech_finder finder;
    struct speech_span span;

    speech_finder_init(&finder, &SPEECH_PARAMS_DEFAULT);
    assert_false(speech_finder_end(&finder, 0, &span));
    assert_false(speech_finder_push(&finder, 0.01f, &span));
    assert_false(speech_finder_end(&finder, 512, &span));
}

RUN_TESTS(cmocka_unit_test(spans_are_those_of_the_reference),
          cmocka_unit_test(a_span_is_reported_once_it_is_final),
          cmocka_unit_test(no_sound_gives_no_span))
