/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the readers of paths and queries. */
#include "keep/path.h"

#include "lib/test.h"

static bool read_path(const char *text, struct path *path)
{
    return path_read((struct http_text){text, strlen(text)}, 3, path);
}

TEST(paths_have_up_to_three_parts)
{
    struct path path;

    assert_true(read_path("/x/resp_1", &path));
    ASSERT_STREQ(path.id, "resp_1");
    ASSERT_STREQ(path.action, "");
    assert_true(read_path("/x/conv_1/items/msg-2", &path));
    ASSERT_STREQ(path.action, "items");
    ASSERT_STREQ(path.item, "msg-2");
}

TEST(other_paths_are_refused)
{
    static const char *const texts[] = {
        "/x/",      "/x//items",   "/x/a/",   "/x/a/b/c/d", "/x/a.b",
        "/x/a%2fb", "/x/a/items/", "/x/../y", "/x/a\x01b",  "/x/a/an-action-that-is-too-long"};
    char text[200];
    struct path path;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_false(read_path(texts[i], &path));
    snprintf(text, sizeof(text), "/x/%0100d", 1);
    assert_false(read_path(text, &path));
}

static int read_page(const char *text, struct page *page, struct problem *problem)
{
    return page_read((struct http_text){text, strlen(text)}, page, problem);
}

TEST(queries_of_lists_have_defaults)
{
    struct problem problem = {};
    struct page page;

    ASSERT_OK(read_page("", &page, &problem));
    assert_true(page.page.descending && page.page.limit == 20 && !page.page.after);
    ASSERT_OK(
        read_page("order=asc&limit=100&after=msg_1&include[]=x&include%5B%5D=y&", &page, &problem));
    assert_true(!page.page.descending && page.page.limit == 100);
    ASSERT_STREQ(page.page.after, "msg_1");
}

TEST(wrong_queries_are_refused_by_name)
{
    static const struct {
        const char *query, *param;
    } rows[] = {{"limit=", "limit"},   {"limit=0", "limit"},     {"limit=101", "limit"},
                {"limit=1x", "limit"}, {"limit", "limit"},       {"order=", "order"},
                {"after=", "after"},   {"after=a%20b", "after"}, {"before=x", "before"}};
    struct page page;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct problem problem = {};

        ASSERT_ERROR(read_page(rows[i].query, &page, &problem), EINVAL);
        ASSERT_STREQ(problem.param, rows[i].param);
    }
}

TEST(a_kept_response_is_not_streamed)
{
    static const char wrong[] = "stream=true", right[] = "stream=false&include=x";
    struct problem problem = {};

    ASSERT_OK(query_check((struct http_text){right, strlen(right)}, &problem));
    ASSERT_ERROR(query_check((struct http_text){wrong, strlen(wrong)}, &problem), EINVAL);
    ASSERT_STREQ(problem.param, "stream");
}

RUN_TESTS(cmocka_unit_test(paths_have_up_to_three_parts), cmocka_unit_test(other_paths_are_refused),
          cmocka_unit_test(queries_of_lists_have_defaults),
          cmocka_unit_test(wrong_queries_are_refused_by_name),
          cmocka_unit_test(a_kept_response_is_not_streamed))
