/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the items and the events that pieces of an answer become. */
#include "chat/api/responses-output.h"
#include "common/wire/json.h"
#include "lib/test.h"

static const struct piece thought = {.kind = PIECE_REASONING, .text = "Hm.", .len = 3};
static const struct piece word = {.kind = PIECE_TEXT, .text = "Yes", .len = 3};
static const struct piece call = {.kind = PIECE_CALL, .text = "ns__look", .len = 8, .id = "call_1"};
static const struct piece arguments = {.kind = PIECE_ARGUMENTS, .text = "{\"a\"", .len = 4};
static const struct piece rest = {.kind = PIECE_ARGUMENTS, .text = ":1}", .len = 3};
static const struct piece custom = {
    .kind = PIECE_CALL, .text = "patch", .len = 5, .id = "call_2", .is_custom = true};
static const struct piece input = {.kind = PIECE_INPUT, .text = "*** Begin", .len = 9};

static struct output output_new(bool streams)
{
    return (struct output){.id = "resp_1", .model = "m", .created = 1, .streams = streams};
}

/* Feeds pieces. Appends the names of the events to @names, and sets *ret_last to the data of the
 * last event. */
static void feed(struct output *o, const struct piece *const *pieces, bool is_cut,
                 struct str *names, json_t **ret_last)
{
    _cleanup_str_ struct str out = {};
    struct inf_err err = {};
    uint64_t number = 0;
    json_t *data = NULL;

    ASSERT_OK(output_begin(o, &out));
    for (; *pieces; pieces++)
        ASSERT_OK(output_piece(o, *pieces, &out));
    ASSERT_OK(output_finish(o, is_cut, &out));
    ASSERT_OK(output_end(o, &out));
    for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n")) {
        const char *type = line + strlen("event: response.");

        assert_int_equal(strncmp(line, "event: response.", strlen("event: response.")), 0);
        ASSERT_OK(str_printf(names, "%s%s", names->len ? " " : "", type));
        line = strtok(NULL, "\n");
        json_decref(data);
        ASSERT_OK_ERR(json_parse(line + 6, strlen(line + 6), &data, &err), err);
        ASSERT_STREQ(json_string_value(json_object_get(data, "type")) + strlen("response."), type);
        assert_int_equal(json_integer_value(json_object_get(data, "sequence_number")), number++);
    }
    *ret_last = data;
}

static void check_events(struct output *o, const struct piece *const *pieces, const char *expected)
{
    _cleanup_str_ struct str names = {};
    _cleanup_json_ json_t *last = NULL;

    feed(o, pieces, false, &names, &last);
    ASSERT_STREQ(names.data, expected);
    output_done(o);
}

TEST(the_events_of_a_message)
{
    struct output o = output_new(true);

    check_events(&o, (const struct piece *const[]){&word, &word, NULL},
                 "created in_progress output_item.added content_part.added output_text.delta "
                 "output_text.delta output_text.done content_part.done output_item.done completed");
}

TEST(an_answer_without_text_is_an_empty_message)
{
    struct output o = output_new(true);

    check_events(&o, (const struct piece *const[]){NULL},
                 "created in_progress output_item.added content_part.added output_text.done "
                 "content_part.done output_item.done completed");
}

TEST(the_events_of_reasoning)
{
    struct output o = output_new(true);

    check_events(&o, (const struct piece *const[]){&thought, NULL},
                 "created in_progress output_item.added content_part.added reasoning_text.delta "
                 "reasoning_text.done content_part.done output_item.done completed");
    o = output_new(true);
    o.summarizes = true;
    check_events(&o, (const struct piece *const[]){&thought, NULL},
                 "created in_progress output_item.added reasoning_summary_part.added "
                 "reasoning_summary_text.delta reasoning_summary_text.done "
                 "reasoning_summary_part.done output_item.done completed");
}

TEST(the_events_of_calls)
{
    struct output o = output_new(true);

    check_events(
        &o, (const struct piece *const[]){&call, &arguments, &rest, &call, &custom, &input, NULL},
        "created in_progress "
        "output_item.added function_call_arguments.delta function_call_arguments.delta "
        "function_call_arguments.done output_item.done "
        "output_item.added function_call_arguments.done output_item.done "
        "output_item.added custom_tool_call_input.delta custom_tool_call_input.done "
        "output_item.done completed");
}

TEST(all_items_are_in_the_response)
{
    const struct piece *const pieces[] = {&thought, &word,   &call,  &arguments,
                                          &rest,    &custom, &input, NULL};
    _cleanup_json_ json_t *last = NULL,
                          *namespaces = json_pack("{s:[s,s]}", "ns__look", "ns", "look");
    _cleanup_str_ struct str names = {};
    struct output o = output_new(true);
    json_t *items, *item;

    o.namespaces = namespaces;
    feed(&o, pieces, true, &names, &last);
    items = json_object_get(json_object_get(last, "response"), "output");
    assert_int_equal(json_array_size(items), 4);
    item = json_array_get(items, 2);
    ASSERT_STREQ(json_string_value(json_object_get(item, "type")), "function_call");
    ASSERT_STREQ(json_string_value(json_object_get(item, "name")), "look");
    ASSERT_STREQ(json_string_value(json_object_get(item, "namespace")), "ns");
    ASSERT_STREQ(json_string_value(json_object_get(item, "arguments")), "{\"a\":1}");
    ASSERT_STREQ(json_string_value(json_object_get(item, "call_id")), "call_1");
    ASSERT_STREQ(json_string_value(json_object_get(item, "status")), "completed");
    item = json_array_get(items, 3);
    ASSERT_STREQ(json_string_value(json_object_get(item, "input")), "*** Begin");
    ASSERT_STREQ(json_string_value(json_object_get(item, "status")), "incomplete");
    ASSERT_CONTAINS(names.data, "output_item.done incomplete");
    output_done(&o);
}

TEST(an_answer_in_one_piece_has_the_same_items_and_no_events)
{
    _cleanup_str_ struct str none = {}, out = {};
    _cleanup_json_ json_t *json = NULL;
    struct output o = output_new(false);
    struct inf_err err = {};

    ASSERT_OK(output_piece(&o, &thought, &none));
    ASSERT_OK(output_piece(&o, &word, &none));
    ASSERT_OK(output_finish(&o, false, &none));
    assert_int_equal(none.len, 0);
    ASSERT_OK(output_end(&o, &out));
    ASSERT_OK_ERR(json_parse(out.data, out.len, &json, &err), err);
    ASSERT_STREQ(json_string_value(json_object_get(json, "status")), "completed");
    assert_int_equal(json_array_size(json_object_get(json, "output")), 2);
    output_done(&o);
}

TEST(a_response_that_fails_says_why)
{
    _cleanup_str_ struct str out = {};
    struct output o = output_new(true);

    ASSERT_OK(output_piece(&o, &word, &out));
    str_clear(&out);
    o.error_code = "engine_failed";
    o.error = "It broke.";
    ASSERT_OK(output_fail(&o, &out));
    ASSERT_CONTAINS(out.data, "event: response.failed\n");
    ASSERT_CONTAINS(out.data, "\"status\":\"failed\",\"error\":{\"code\":\"engine_failed\"");
    output_done(&o);
}

RUN_TESTS(cmocka_unit_test(the_events_of_a_message),
          cmocka_unit_test(an_answer_without_text_is_an_empty_message),
          cmocka_unit_test(the_events_of_reasoning), cmocka_unit_test(the_events_of_calls),
          cmocka_unit_test(all_items_are_in_the_response),
          cmocka_unit_test(an_answer_in_one_piece_has_the_same_items_and_no_events),
          cmocka_unit_test(a_response_that_fails_says_why))
