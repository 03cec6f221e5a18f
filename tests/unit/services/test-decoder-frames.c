/* SPDX-License-Identifier: Apache-2.0 */
/* Tests output of a decoder that is cut at every byte, and invalid output. */
#include "audio/frames.h"

#include <math.h>

#include "core/str.h"
#include "lib/test.h"

static void put_samples(struct str *s, const float *samples, uint32_t n)
{
    const struct decoder_frame head = {DECODER_SAMPLES, n};

    ASSERT_OK(str_append(s, &head, sizeof(head)));
    ASSERT_OK(str_append(s, samples, n * sizeof(*samples)));
}

static void put_end(struct str *s, const struct decoder_end *end)
{
    const struct decoder_frame head = {DECODER_END, sizeof(*end)};

    ASSERT_OK(str_append(s, &head, sizeof(head)));
    ASSERT_OK(str_append(s, end, sizeof(*end)));
}

/* Reads @s in pieces of at most @step bytes; returns the last result, and sets *ret_n to the number
 * of samples. */
static int read_all(const struct str *s, size_t step, size_t *ret_n, struct decoder_end *ret_end)
{
    struct frames frames = {0};
    const float *samples;
    size_t n, at = 0;
    int r = FRAMES_NONE;

    *ret_n = 0;
    while (r >= 0 && r != FRAMES_END && at < s->len) {
        size_t room;
        void *to = frames_room(&frames, &room);

        room = MIN(MIN(room, step), s->len - at);
        memcpy(to, s->data + at, room);
        frames_add(&frames, room);
        at += room;
        r = frames_next(&frames, &samples, &n, ret_end);
        if (r == FRAMES_SAMPLES)
            *ret_n += n;
    }
    if (r == FRAMES_END)
        assert_int_equal(frames_next(&frames, &samples, &n, ret_end), -EBADMSG);
    return r;
}

TEST(frames_arrive_however_they_are_cut)
{
    const struct decoder_end said = {.result = DECODER_CODEC, .format = "ogg", .codec = "speex"};
    static float samples[DECODER_FRAME_SAMPLES] = {-1, 1, 0.5f};
    struct str s = {0};

    put_samples(&s, samples, 3);
    put_samples(&s, samples, DECODER_FRAME_SAMPLES);
    put_end(&s, &said);
    for (size_t step = 1; step < s.len; step += 1 + step / 3) {
        struct decoder_end end = {0};
        size_t n;

        assert_int_equal(read_all(&s, step, &n, &end), FRAMES_END);
        assert_int_equal(n, 3 + DECODER_FRAME_SAMPLES);
        assert_memory_equal(&end, &said, sizeof(end));
    }
    str_done(&s);
}

static void check_broken(struct str *s)
{
    struct decoder_end end;
    size_t n;

    assert_int_equal(read_all(s, 1000, &n, &end), -EBADMSG);
    str_clear(s);
}

TEST(invalid_frames_end_the_stream)
{
    const float bad[] = {NAN, INFINITY, -INFINITY, 1.001f, -2};
    const struct decoder_frame heads[] = {{0, 1},
                                          {DECODER_SAMPLES, 0},
                                          {DECODER_SAMPLES, DECODER_FRAME_SAMPLES + 1},
                                          {DECODER_SAMPLES, UINT32_MAX},
                                          {DECODER_END, 0},
                                          {DECODER_END, sizeof(struct decoder_end) + 1}};
    struct decoder_end end = {.result = DECODER_N_RESULTS};
    struct str s = {0};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        put_samples(&s, &bad[i], 1);
        check_broken(&s);
    }
    for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
        ASSERT_OK(str_append(&s, &heads[i], sizeof(heads[i])));
        check_broken(&s);
    }
    put_end(&s, &end);
    check_broken(&s);
    end = (struct decoder_end){.codec = "a\nb"};
    put_end(&s, &end);
    check_broken(&s);
    end = (struct decoder_end){0};
    memset(end.format, 'x', sizeof(end.format));
    put_end(&s, &end);
    check_broken(&s);
    str_done(&s);
}

RUN_TESTS(cmocka_unit_test(frames_arrive_however_they_are_cut),
          cmocka_unit_test(invalid_frames_end_the_stream))
