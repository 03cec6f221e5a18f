/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the two file formats of one small model (tests/golden/make_whisper_text.py), which have
 * the same vocabulary, tokens and weights. Also tests invalid files.
 */
#include "transcribe/tokens.h"

#include "api/handle.h"
#include "format/json.h"
#include "tokenizer/tokenizer.h"
#include "unit/transcribe/golden.h"

#define DIR "audio/whisper"

static struct inf_model *open_model(const char *name)
{
    const struct inf_model_params params = {.path = test_golden(name)};
    struct inf_model *m = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(inf_model_open(&params, &m, &err), err);
    assert_non_null(m->whisper);
    return m;
}

static void init_tokens(struct speech_tokens *t, const struct inf_model *m)
{
    struct inf_err err;

    *t = (struct speech_tokens){0};
    ASSERT_OK_ERR(speech_tokens_init(t, m->tok, m->whisper->config, &err), err);
}

TEST(controls_are_found_in_both_files)
{
    static const char *const names[] = {DIR, DIR "/ggml.bin"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct inf_model *m = open_model(names[i]);
        struct speech_tokens t;

        init_tokens(&t, m);
        assert_int_equal(t.n_vocab, 1914);
        assert_int_equal(t.end, 400);
        assert_int_equal(t.start, 401);
        assert_int_equal(t.translate, 407);
        assert_int_equal(t.transcribe, 408);
        assert_int_equal(t.previous, 410);
        assert_int_equal(t.no_speech, 411);
        assert_int_equal(t.no_timestamps, 412);
        assert_int_equal(t.timestamp_begin, 413);
        assert_int_equal(t.n_languages, 5);
        assert_int_equal(t.multilingual, i == 0);
        assert_int_equal(t.languages[speech_language(&t, "zh")], 403);
        assert_int_equal(speech_language(&t, "German"), 2);
        assert_int_equal(speech_language(&t, "castilian"), 3);
        assert_int_equal(speech_language(&t, "fr"), -1);
        assert_int_equal(speech_language(&t, "klingon"), -1);
        speech_tokens_done(&t);
        inf_model_unref(m);
    }
}

/* The tokens that openai/whisper suppresses are the last item of heard.json. */
TEST(symbols_are_forbidden)
{
    _cleanup_(json_decrefpp) json_t *cases =
        json_load_file(test_golden(DIR "/heard.json"), 0, NULL);
    const json_t *want;
    struct inf_model *m = open_model(DIR);
    struct speech_tokens t;

    assert_non_null(cases);
    want = json_object_get(json_array_get(cases, json_array_size(cases) - 1), "suppressed");
    assert_true(json_array_size(want) > 10);
    init_tokens(&t, m);
    assert_int_equal(t.n_forbidden, json_array_size(want));
    for (size_t i = 0; i < t.n_forbidden; i++) {
        bool found = false;

        for (size_t j = 0; j < t.n_forbidden; j++)
            found |= t.forbidden[j] == json_integer_value(json_array_get(want, i));
        assert_true(found);
    }
    assert_int_equal(t.n_not_first, 2);
    assert_int_equal(t.not_first[0], 220);
    assert_int_equal(t.not_first[1], t.end);
    speech_tokens_done(&t);
    inf_model_unref(m);
}

/* The merges that libinfer derives from the ggml file are those in tokenizer.json. */
TEST(both_files_encode_alike)
{
    static const char *const texts[] = {
        "",
        "the words of before, and there again: in the other one",
        " The  thing's 1234 \xc3\xa4\xe2\x82\xac \n\t end.",
        "<|endoftext|>there",
    };
    struct inf_model *a = open_model(DIR), *b = open_model(DIR "/ggml.bin");

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        for (unsigned flags = 0; flags <= INF_ENCODE_PARSE_SPECIAL;
             flags += INF_ENCODE_PARSE_SPECIAL) {
            _cleanup_free_ int32_t *x = NULL, *y = NULL;
            _cleanup_free_ char *text = NULL;
            size_t n = 0, m = 0, len = 0;

            ASSERT_OK(inf_tokenizer_encode(a->tok, texts[i], strlen(texts[i]), flags, 0, &x, &n));
            ASSERT_OK(inf_tokenizer_encode(b->tok, texts[i], strlen(texts[i]), flags, 0, &y, &m));
            assert_int_equal(n, m);
            if (n > 0)
                assert_memory_equal(x, y, n * sizeof(*x));
            ASSERT_OK(inf_tokenizer_decode(b->tok, y, m, true, &text, &len));
            assert_string_equal(text, texts[i]);
        }
    inf_model_unref(a);
    inf_model_unref(b);
}

TEST(files_tell_what_they_are)
{
    struct inf_model *a = open_model(DIR), *b = open_model(DIR "/ggml.bin");

    assert_string_equal(inf_model_info(a)->format, "safetensors");
    assert_string_equal(inf_model_info(b)->format, "ggml");
    assert_string_equal(inf_model_info(a)->arch, "whisper");
    assert_string_equal(inf_model_info(a)->name, "whisper");
    assert_string_equal(inf_model_info(b)->name, "ggml");
    assert_int_equal(inf_model_info(a)->n_params, inf_model_info(b)->n_params);
    assert_non_null(format_file(a->format, 0));
    assert_non_null(format_file(b->format, 0)->data);
    assert_null(format_file(b->format, 1));
    inf_model_unref(a);
    inf_model_unref(b);
}

/* Checks that a configuration with one key changed is refused. */
static void assert_refused(const char *key, const char *value, int error, const char *why)
{
    _cleanup_(json_decrefpp) json_t *config =
        json_load_file(test_golden(DIR "/config.json"), 0, NULL);
    _cleanup_(json_decrefpp) json_t *generation = json_object();
    struct whisper_config c;
    struct arena arena = {0};
    struct inf_err err;
    json_t *to = strstr(key, "heads") && key[0] == 'a' ? generation : config;

    assert_true(whisper_config_is(config));
    ASSERT_OK(json_object_set_new(to, key, json_loads(value, JSON_DECODE_ANY, NULL)));
    if (strstr(key, "suppress"))
        ASSERT_OK(json_object_update(generation, config));
    ASSERT_ERROR(whisper_config_parse(config, generation, &arena, &c, &err), error);
    ASSERT_CONTAINS(err.text, why);
    arena_done(&arena);
}

TEST(inconsistent_configurations_are_refused)
{
    assert_refused("d_model", "0", EBADMSG, "d_model is not a count");
    assert_refused("d_model", "\"32\"", EBADMSG, "d_model is not a count");
    assert_refused("d_model", "33", EBADMSG, "not a multiple of its heads");
    assert_refused("decoder_layers", "1000000", EBADMSG, "layers");
    assert_refused("max_source_positions", "100", EOPNOTSUPP, "100 audio positions");
    assert_refused("num_mel_bins", "200", EOPNOTSUPP, "200 mel bins");
    assert_refused("max_target_positions", "3", EOPNOTSUPP, "too small");
    assert_refused("scale_embedding", "true", EOPNOTSUPP, "scale_embedding");
    assert_refused("activation_function", "\"relu\"", EOPNOTSUPP, "activation_function");
    assert_refused("alignment_heads", "[[0, 4]]", EBADMSG, "alignment_heads");
    assert_refused("alignment_heads", "[[0]]", EBADMSG, "alignment_heads");
    assert_refused("suppress_tokens", "[1, -1]", EBADMSG, "suppress_tokens: item 1");
    assert_refused("begin_suppress_tokens", "[1914]", EBADMSG, "begin_suppress_tokens");
}

RUN_TESTS(cmocka_unit_test(controls_are_found_in_both_files),
          cmocka_unit_test(symbols_are_forbidden), cmocka_unit_test(both_files_encode_alike),
          cmocka_unit_test(files_tell_what_they_are),
          cmocka_unit_test(inconsistent_configurations_are_refused))
