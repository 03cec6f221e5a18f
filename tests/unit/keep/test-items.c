/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that valid items are completed as OpenAI's servers complete them, and that invalid items
 * are refused. */
#include "keep/items.h"

#include "common/wire/json.h"
#include "lib/test.h"

static json_t *parse(const char *text)
{
    struct inf_err err = {};
    json_t *json;

    ASSERT_OK_ERR(json_parse(text, strlen(text), &json, &err), err);
    return json;
}

static const char *text_at(json_t *item, const char *name)
{
    return json_string_value(json_object_get(item, name));
}

TEST(a_short_message_gets_type_id_status_and_parts)
{
    _cleanup_json_ json_t *item = parse("{\"role\":\"assistant\",\"content\":\"hello\"}");
    struct problem problem = {};
    json_t *part;

    ASSERT_OK(item_complete(item, "items[0]", &problem));
    ASSERT_STREQ(text_at(item, "type"), "message");
    ASSERT_STREQ(text_at(item, "status"), "completed");
    assert_int_equal(strncmp(text_at(item, "id"), "msg_", 4), 0);
    assert_int_equal(strlen(text_at(item, "id")), 28);
    part = json_array_get(json_object_get(item, "content"), 0);
    ASSERT_STREQ(text_at(part, "type"), "output_text");
    ASSERT_STREQ(text_at(part, "text"), "hello");
}

TEST(an_id_is_kept_if_it_is_plain)
{
    _cleanup_json_ json_t *plain = parse("{\"type\":\"reasoning\",\"id\":\"rs_1\"}");
    _cleanup_json_ json_t *other = parse("{\"type\":\"reasoning\",\"id\":\"a/b\"}");
    struct problem problem = {};

    ASSERT_OK(item_complete(plain, "items[0]", &problem));
    ASSERT_OK(item_complete(other, "items[1]", &problem));
    ASSERT_STREQ(text_at(plain, "id"), "rs_1");
    assert_int_equal(strncmp(text_at(other, "id"), "rs_", 3), 0);
    assert_null(strchr(text_at(other, "id"), '/'));
}

TEST(other_items_are_refused_by_name)
{
    static const struct {
        const char *text, *param;
    } rows[] = {{"1", "items[0]"},
                {"{\"type\":1}", "items[0].type"},
                {"{\"type\":\"teleport\"}", "items[0].type"},
                {"{}", "items[0].role"},
                {"{\"role\":\"tool\",\"content\":\"x\"}", "items[0].role"},
                {"{\"role\":\"user\",\"content\":1}", "items[0].content"}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        _cleanup_json_ json_t *item = parse(rows[i].text);
        struct problem problem = {};

        ASSERT_ERROR(item_complete(item, "items[0]", &problem), EINVAL);
        ASSERT_STREQ(problem.param, rows[i].param);
    }
}

RUN_TESTS(cmocka_unit_test(a_short_message_gets_type_id_status_and_parts),
          cmocka_unit_test(an_id_is_kept_if_it_is_plain),
          cmocka_unit_test(other_items_are_refused_by_name))
