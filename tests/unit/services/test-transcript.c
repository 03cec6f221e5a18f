/* SPDX-License-Identifier: Apache-2.0 */
/* Tests transcripts in every output format, and texts that need escaping. */
#include "audio/transcript.h"

#include "lib/test.h"

static void hear(struct transcript *t, double start, double end, const char *text)
{
    const int32_t tokens[] = {50364, 7};
    const struct inf_audio_word words[] = {{" one", start, end, 0.5f}};
    const struct inf_audio_event event = {
        .kind = INF_AUDIO_SEGMENT,
        .id = (uint32_t)t->n,
        .start = start,
        .end = end,
        .text = text,
        .tokens = tokens,
        .n_tokens = 2,
        .words = words,
        .n_words = 1,
    };
    struct http_text delta;
    const size_t before = t->text.len;

    ASSERT_OK(transcript_add(t, &event, &delta));
    assert_int_equal(t->text.len, before + delta.len);
}

static void check(const struct transcript *t, struct audio_params params, const char *expected)
{
    struct str out = {0};

    ASSERT_OK(transcript_write(t, &params, &out));
    ASSERT_STREQ(out.data ? out.data : "", expected);
    str_done(&out);
}

TEST(texts_are_joined_as_the_model_means_them)
{
    struct transcript t = {.seconds = 2.2};

    hear(&t, 0, 1, " Hello,");
    hear(&t, 1, 1.5, " world");
    hear(&t, 1.5, 2, "s.");
    hear(&t, 2, 2, " ");
    hear(&t, 2, 2.2, " \"Yes\" ");
    check(&t, (struct audio_params){.format = AUDIO_TEXT}, "Hello, worlds. \"Yes\"\n");
    check(&t, (struct audio_params){.format = AUDIO_JSON},
          "{\"text\":\"Hello, worlds. \\\"Yes\\\"\",\"usage\":{\"type\":\"duration\","
          "\"seconds\":3}}");
    transcript_done(&t);
}

TEST(subtitles_keep_their_shape)
{
    struct transcript t = {0};

    hear(&t, 0.0004, 59.9996, " a -\r---> b\r\n\n\nc ");
    hear(&t, 3599.9999, 36000.5, " -- d");
    check(&t, (struct audio_params){.format = AUDIO_SRT},
          "1\n00:00:00,000 --> 00:01:00,000\na -> b\nc\n\n"
          "2\n01:00:00,000 --> 10:00:00,500\n-- d\n\n");
    check(&t, (struct audio_params){.format = AUDIO_VTT},
          "WEBVTT\n\n00:00:00.000 --> 00:01:00.000\na -> b\nc\n\n"
          "01:00:00.000 --> 10:00:00.500\n-- d\n\n");
    transcript_done(&t);
}

TEST(silence_is_an_answer)
{
    struct transcript t = {.seconds = 1, .language = "en"};

    check(&t, (struct audio_params){.format = AUDIO_TEXT}, "\n");
    check(&t, (struct audio_params){.format = AUDIO_SRT}, "");
    check(&t, (struct audio_params){.format = AUDIO_VTT}, "WEBVTT\n\n");
    check(&t, (struct audio_params){.format = AUDIO_VERBOSE, .segments = true, .words = true},
          "{\"task\":\"transcribe\",\"language\":\"english\",\"duration\":1.000,\"text\":\"\","
          "\"segments\":[],\"words\":[],\"usage\":{\"type\":\"duration\",\"seconds\":1}}");
    transcript_done(&t);
}

TEST(languages_have_names)
{
    ASSERT_STREQ(language_name("de"), "german");
    ASSERT_STREQ(language_name("yue"), "cantonese");
    ASSERT_STREQ(language_name("xx"), "xx");
}

RUN_TESTS(cmocka_unit_test(texts_are_joined_as_the_model_means_them),
          cmocka_unit_test(subtitles_keep_their_shape), cmocka_unit_test(silence_is_an_answer),
          cmocka_unit_test(languages_have_names))
