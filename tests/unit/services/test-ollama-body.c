/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how bodies of Ollama's API are read. */
#include <string.h>

#include "chat/api/ollama-body.h"
#include "common/models/sampling.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"
#include "lib/test.h"

static const char *const none[] = {"messages", "tools", NULL};

static json_t *parse(const char *text)
{
    struct inf_err err;
    json_t *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, &err), 0);
    return json;
}

/* Reads a body that must be valid. */
static struct params read_params(const char *text)
{
    _cleanup_json_ json_t *body = parse(text);
    struct problem problem = {};
    struct params p;

    if (ollama_params_read(&p, body, none, &problem) < 0)
        fail_msg("%s: %s", text, problem.message);
    p.model = NULL;
    return p;
}

/* Reads a body whose field @param must be refused. */
static void check_refused(const char *text, const char *param)
{
    _cleanup_json_ json_t *body = parse(text);
    struct problem problem = {};
    struct params p;

    if (ollama_params_read(&p, body, none, &problem) == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(problem.status, 400);
    assert_non_null(strstr(problem.message, param));
    params_done(&p);
}

static void assert_float_is(float value, float wanted)
{
    assert_true(value > wanted - 1e-6f && value < wanted + 1e-6f);
}

TEST(what_a_request_does_not_set_is_left_open)
{
    struct params p = read_params("{}");

    assert_true(p.stream);
    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++) {
        assert_false(sampling_is_set(&p.sampling, i));
        assert_true(sampling_is_set(&sampling_ollama, i));
    }
    assert_false(p.sampling.has_seed);
    assert_int_equal(p.max_tokens, 0);
    assert_int_equal(p.reasoning.enabled, -1);
    assert_int_equal(p.constraint.kind, CONSTRAINT_NONE);
    assert_false(p.has_keep);
    params_done(&p);
}

TEST(options_are_read)
{
    struct params p = read_params(
        "{\"stream\":false,\"options\":{\"temperature\":0,\"top_k\":0,\"top_p\":0,\"min_p\":0.1,"
        "\"seed\":42,\"num_predict\":7,\"stop\":[\"a\",\"\",\"b\"],\"repeat_last_n\":-1,"
        "\"presence_penalty\":1.5,\"frequency_penalty\":-1,\"typical_p\":0.5,\"num_ctx\":9,"
        "\"num_gpu\":1,\"mirostat\":0}}");

    assert_false(p.stream);
    assert_float_is(p.sampling.temperature, 0);
    assert_int_equal(p.sampling.top_k, 0);
    assert_true(p.sampling.top_p > 0 && p.sampling.top_p < 1e-6f);
    assert_float_is(p.sampling.min_p, 0.1f);
    assert_float_is(p.sampling.typical_p, 0.5f);
    assert_float_is(p.sampling.presence_penalty, 1.5f);
    assert_float_is(p.sampling.frequency_penalty, -1);
    assert_true(p.sampling.penalty_last_n >= INT32_MAX);
    assert_true(p.sampling.has_seed);
    assert_int_equal(p.sampling.seed, 42);
    assert_int_equal(p.max_tokens, 7);
    assert_int_equal(p.n_stops, 2);
    params_done(&p);
    p = read_params("{\"options\":{\"repeat_last_n\":0,\"seed\":-1,\"num_predict\":-2}}");
    assert_true(sampling_is_set(&p.sampling, SAMPLING_REPEAT_LAST_N));
    assert_int_equal(p.sampling.penalty_last_n, 0);
    assert_false(sampling_is_set(&p.sampling, SAMPLING_REPETITION_PENALTY));
    assert_false(p.sampling.has_seed);
    assert_int_equal(p.max_tokens, 0);
    params_done(&p);
}

TEST(formats_and_thinking_are_read)
{
    struct params p = read_params("{\"format\":\"json\",\"think\":false}");

    assert_int_equal(p.constraint.kind, CONSTRAINT_JSON);
    assert_int_equal(p.reasoning.enabled, 0);
    params_done(&p);
    p = read_params("{\"format\":{\"type\":\"object\"},\"think\":\"high\"}");
    assert_int_equal(p.constraint.kind, CONSTRAINT_SCHEMA);
    assert_true(json_is_object(p.constraint.value));
    ASSERT_STREQ(p.constraint.field, "format");
    assert_int_equal(p.reasoning.enabled, 1);
    ASSERT_STREQ(json_string_value(p.reasoning.effort), "high");
    params_done(&p);
    p = read_params("{\"format\":\"\",\"think\":null}");
    assert_int_equal(p.constraint.kind, CONSTRAINT_NONE);
    assert_int_equal(p.reasoning.enabled, -1);
    params_done(&p);
}

TEST(bad_parameters_are_named)
{
    check_refused("{\"options\":{\"seed\":\"x\"}}", "options.seed");
    check_refused("{\"options\":{\"min_p\":-1}}", "options.min_p");
    check_refused("{\"options\":{\"num_predict\":-3}}", "options.num_predict");
    check_refused("{\"options\":{\"stop\":[1]}}", "options.stop");
    check_refused("{\"options\":{\"mirostat\":3}}", "options.mirostat");
    check_refused("{\"options\":{\"new_option\":1}}", "options.new_option");
    check_refused("{\"options\":\"x\"}", "options");
    check_refused("{\"format\":1}", "format");
    check_refused("{\"think\":1}", "think");
    check_refused("{\"model\":1}", "model");
    check_refused("{\"n\":1}", "n");
    check_refused("{\"keep_alive\":\"\"}", "keep_alive");
}

static uint64_t keep_alive(const char *value)
{
    _cleanup_str_ struct str text = {};
    _cleanup_json_ json_t *body = NULL;
    struct problem problem;
    uint64_t usec = 12345;
    int r;

    assert_int_equal(str_printf(&text, "{\"keep_alive\":%s}", value), 0);
    body = parse(text.data);
    r = ollama_read_keep_alive(body, &usec, &problem);
    return r < 0 ? 54321 : usec;
}

TEST(keep_alive_is_a_number_or_a_text)
{
    assert_int_equal(keep_alive("null"), 12345);
    assert_int_equal(keep_alive("0"), 0);
    assert_int_equal(keep_alive("300"), 300000000);
    assert_int_equal(keep_alive("0.5"), 500000);
    assert_int_equal(keep_alive("-1"), OLLAMA_FOREVER);
    assert_int_equal(keep_alive("1e300"), OLLAMA_FOREVER);
    assert_int_equal(keep_alive("\"0\""), 0);
    assert_int_equal(keep_alive("\"-1\""), OLLAMA_FOREVER);
    assert_int_equal(keep_alive("\"60\""), 60000000);
    assert_int_equal(keep_alive("\"5m\""), 300000000);
    assert_int_equal(keep_alive("\"1h30m\""), 5400000000);
    assert_int_equal(keep_alive("\"1.5s\""), 1500000);
    assert_int_equal(keep_alive("\"100ms\""), 100000);
    assert_int_equal(keep_alive("\"-5m\""), OLLAMA_FOREVER);
    assert_int_equal(keep_alive("-0.5"), OLLAMA_FOREVER);
    assert_int_equal(keep_alive("1e-9"), 1);
}

/* The values that time.ParseDuration() of Go gives for these texts, in microseconds. A time above 0
 * does not become 0, because 0 unloads the model at once. */
TEST(keep_alive_is_read_as_go_reads_durations)
{
    static const struct {
        const char *text;
        uint64_t usec;
    } rows[] = {
        {"\"500ms\"", 500000},
        {"\"1.5h\"", 5400000000},
        {"\"1h30m\"", 5400000000},
        {"\"-1\"", OLLAMA_FOREVER},
        {"\"-1m\"", OLLAMA_FOREVER},
        {"\"-0\"", 0},
        {"\"+0\"", 0},
        {"\"-0s\"", 0},
        {"\"+5s\"", 5000000},
        {"\".5s\"", 500000},
        {"\"5.s\"", 5000000},
        {"\"1h0.25m1ms2us3ns\"", 3615001003},
        {"\"1us\"", 1},
        {"\"1\xc2\xb5s\"", 1},
        {"\"1\xce\xbcs\"", 1},
        {"\"1ns\"", 1},
        {"\"999999999ns\"", 1000000},
        {"\"0.1s0.1s\"", 200000},
        {"\"0.3333333333333333333h\"", 1200000000},
        {"\"2562047h\"", 9223369200000000},
        {"\"9223372036854775807ns\"", 9223372036854776},
    };
    static const char *const bad[] = {
        "\"\"",
        "\"m\"",
        "\"5 m\"",
        "\"5m3\"",
        "\"1..2s\"",
        "\"nans\"",
        "\"5w\"",
        "true",
        "[]",
        "{}",
        "\".s\"",
        "\".\"",
        "\"-\"",
        "\"+\"",
        "\"--1s\"",
        "\"1.5\"",
        "\"1e3s\"",
        "\"0x5s\"",
        "\"5S\"",
        "\"5sec\"",
        "\"5min\"",
        "\"1d\"",
        "\"inf\"",
        "\"5s \"",
        "\" 5s\"",
        "\"5m-3s\"",
        "\"5s\\u0000\"",
        "\"5\xc2\xb5\"",
        "\"2562048h\"",
        "\"9223372036854775808ns\"",
        "\"99999999999999999999s\"",
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (keep_alive(rows[i].text) != rows[i].usec)
            fail_msg("%s: %llu", rows[i].text, (unsigned long long)keep_alive(rows[i].text));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (keep_alive(bad[i]) != 54321)
            fail_msg("accepted: %s", bad[i]);
}

/* Checks the conversation that a body becomes, as JSON text. If the body is refused, @wanted is the
 * field that the error names. */
static void check_conversation(const char *text, const char *wanted)
{
    _cleanup_json_ json_t *body = parse(text);
    struct conversation c = {};
    struct tool_rules rules = {};
    struct problem problem = {};
    _cleanup_str_ struct str out = {};

    if (ollama_conversation_read(body, &rules, &c, &problem) < 0)
        ASSERT_STREQ(problem.param, wanted);
    else if (conversation_put_messages(&c, "thinking", &out) < 0)
        fail();
    else
        ASSERT_STREQ(out.data, wanted);
    conversation_done(&c);
}

TEST(messages_become_a_conversation)
{
    check_conversation("{}", "[]");
    check_conversation("{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"images\":[]}]}",
                       "[{\"role\":\"user\",\"content\":\"a\"}]");
    check_conversation(
        "{\"messages\":[{\"role\":\"assistant\",\"thinking\":\"t\",\"tool_calls\":[{\"function\":"
        "{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},{\"role\":\"tool\",\"content\":\"2\","
        "\"tool_name\":\"f\"}]}",
        "[{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"t\",\"tool_calls\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},{\"role\":\"tool\","
        "\"content\":\"2\",\"name\":\"f\"}]");
    check_conversation("{\"messages\":[{\"role\":\"user\",\"content\":1}]}", "messages[0].content");
    check_conversation("{\"messages\":[{\"role\":\"user\",\"images\":[\"x\"]}]}",
                       "messages[0].images");
    check_conversation("{\"messages\":[{\"role\":\"user\",\"name\":\"x\"}]}", "messages[0].name");
    check_conversation("{\"messages\":[],\"tools\":[{\"function\":{}}]}", "tools[0].function.name");
    check_conversation("{\"messages\":[],\"tools\":[{\"type\":\"custom\"}]}", "tools[0].type");
    check_conversation("{\"messages\":[],\"tools\":[5]}", "tools[0]");
}

TEST(names_and_times_are_written)
{
    _cleanup_str_ struct str out = {};

    assert_int_equal(ollama_put_name(&out, "a"), 0);
    assert_int_equal(ollama_put_name(&out, "a:7b"), 0);
    assert_int_equal(ollama_put_time(&out, 1790000000, 123456789), 0);
    ASSERT_STREQ(out.data, "\"a:latest\"\"a:7b\"\"2026-09-21T14:13:20.123456Z\"");
}

RUN_TESTS(cmocka_unit_test(what_a_request_does_not_set_is_left_open),
          cmocka_unit_test(options_are_read), cmocka_unit_test(formats_and_thinking_are_read),
          cmocka_unit_test(bad_parameters_are_named),
          cmocka_unit_test(keep_alive_is_a_number_or_a_text),
          cmocka_unit_test(keep_alive_is_read_as_go_reads_durations),
          cmocka_unit_test(messages_become_a_conversation),
          cmocka_unit_test(names_and_times_are_written))
