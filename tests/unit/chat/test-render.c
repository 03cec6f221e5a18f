/* SPDX-License-Identifier: Apache-2.0 */
#include <infer/chat.h>

#include <errno.h>
#include <time.h>

#include "lib/test.h"

static struct inf_chat_template *template_of(const char *text)
{
    struct inf_chat_template *tmpl = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(inf_chat_template_new(text, strlen(text), &tmpl, &err), err);
    return tmpl;
}

static int render(const char *template, const struct inf_chat_input *input, char **ret,
                  struct inf_err *err)
{
    struct inf_chat_template *tmpl = template_of(template);
    size_t len;
    const int r = inf_chat_render(tmpl, input, ret, &len, err);

    if (r == 0)
        assert_int_equal(len, strlen(*ret));
    inf_chat_template_free(tmpl);
    return r;
}

static void assert_renders(const char *template, const struct inf_chat_input *input,
                           const char *want)
{
    struct inf_err err;
    char *text = NULL;

    ASSERT_OK_ERR(render(template, input, &text, &err), err);
    ASSERT_STREQ(text, want);
    free(text);
}

static void assert_fails(const char *template, const struct inf_chat_input *input, int code,
                         const char *words)
{
    struct inf_err err = {.text = ""};
    char *text = NULL;

    ASSERT_ERROR(render(template, input, &text, &err), code);
    ASSERT_CONTAINS(err.text, words);
}

TEST(variables_are_those_that_transformers_passes)
{
    const struct inf_chat_input in = {
        .messages = "[{\"role\":\"user\"}]", .bos_token = "<s>", .add_generation_prompt = true};

    assert_renders("{{ bos_token }}{{ eos_token }}{{ messages[0].role }}{{ tools }}{{ documents }}"
                   "{{ unk_token is defined }}{{ add_generation_prompt }}",
                   &in, "<s>userNoneNoneFalseTrue");
}

TEST(arguments_override_all_but_the_messages)
{
    const struct inf_chat_input in = {
        .messages = "[]",
        .kwargs = "{\"enable_thinking\":false,\"bos_token\":\"B\",\"messages\":1,\"tools\":[2]}"};

    assert_renders("{{ bos_token }}{{ messages }}{{ tools }}{{ enable_thinking }}", &in,
                   "B[][2]False");
}

TEST(reasoning_is_found_under_its_other_names)
{
    struct inf_chat_input in = {.messages = "[{\"role\":\"assistant\",\"reasoning\":\"hm\"}]"};

    assert_renders("{{ messages[0]|tojson }}", &in,
                   "{\"thinking\": \"hm\", \"role\": \"assistant\", \"reasoning\": \"hm\", "
                   "\"reasoning_content\": \"hm\"}");
    in.messages = "[{\"reasoning_content\":\"a\",\"thinking\":null},{\"thinking\":null}]";
    assert_renders("{{ messages|tojson }}", &in,
                   "[{\"thinking\": null, \"reasoning_content\": \"a\"}, {\"thinking\": null}]");
}

TEST(keys_keep_their_order)
{
    const struct inf_chat_input in = {.messages = "[{\"z\":1,\"a\":{\"y\":2,\"b\":3},\"m\":[]}]"};

    assert_renders("{{ messages[0]|tojson }}", &in,
                   "{\"z\": 1, \"a\": {\"y\": 2, \"b\": 3}, \"m\": []}");
}

TEST(an_exception_carries_the_words_of_the_template)
{
    const struct inf_chat_input in = {.messages = "[]"};

    assert_fails("\n\n{{ raise_exception('No ' ~ 'luck') }}", &in, EPROTO, "No luck");
    assert_fails("\n\n{{ nothing.at_all }}", &in, EPROTO, "line 3: 'nothing' is undefined");
}

TEST(a_bad_template_is_reported_with_its_position)
{
    struct inf_chat_template *tmpl;
    struct inf_err err;
    const char *text = "a\n{% if x %}\n{{ 1 +* 2 }}{% endif %}";

    ASSERT_ERROR(inf_chat_template_new(text, strlen(text), &tmpl, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "line 3");
    ASSERT_ERROR(inf_chat_template_new("\xff", 1, &tmpl, &err), EBADMSG);
    ASSERT_ERROR(inf_chat_template_new("{% include 'x' %}", 17, &tmpl, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "include");
}

TEST(bad_json_is_refused)
{
    assert_fails("x", &(struct inf_chat_input){.messages = "[{]"}, EINVAL, "messages");
    assert_fails("x", &(struct inf_chat_input){.messages = "{}"}, EINVAL, "array");
    assert_fails("x", &(struct inf_chat_input){.messages = "[{},3]"}, EINVAL, "element 1");
    assert_fails("x", &(struct inf_chat_input){.messages = "[]", .tools = "1"}, EINVAL, "tools");
    assert_fails("x", &(struct inf_chat_input){.messages = "[]", .kwargs = "[]"}, EINVAL, "object");
}

TEST(work_and_output_are_bounded)
{
    struct inf_chat_input in = {.messages = "[]"};

    assert_fails("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                 &in, E2BIG, "steps");
    assert_fails("{{ 'x' * 99999999999 }}", &in, E2BIG, "larger");
    assert_fails("{{ [1] * 99999999999 }}", &in, E2BIG, "large");
    assert_fails("{% for a in range(99999) %}{% for b in range(99) %}xxxxxxxxxxxxxxxxxxxxxxx"
                 "{% endfor %}{% endfor %}",
                 &in, E2BIG, "");
    assert_fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", &in, EPROTO, "recursion");
    in.limits.max_output = 10;
    assert_fails("{% for a in range(9) %}0123456789{% endfor %}", &in, E2BIG, "10 bytes");
    in.limits.max_steps = 10;
    assert_fails("{% for a in range(99) %}{{ a }}{% endfor %}", &in, E2BIG, "steps");
}

TEST(deep_nesting_is_refused_not_followed)
{
    enum { DEPTH = 100000 };
    struct inf_chat_template *tmpl;
    struct inf_err err;
    char *text = malloc(DEPTH * 2 + 16);

    assert_non_null(text);
    memcpy(text, "{{ ", 3);
    for (size_t kind = 0; kind < 4; kind++) {
        memset(text + 3, "([-{"[kind], DEPTH);
        ASSERT_ERROR(inf_chat_template_new(text, DEPTH + 3, &tmpl, &err), EBADMSG);
    }
    for (size_t i = 0; i < DEPTH; i++)
        memcpy(text + 4 + 2 * i, "+1", 2);
    text[3] = '1';
    memcpy(text + 4 + 2 * DEPTH, "}}", 2);
    ASSERT_ERROR(inf_chat_template_new(text, DEPTH * 2 + 6, &tmpl, &err), EBADMSG);
    free(text);
}

TEST(deep_values_are_refused_not_followed)
{
    static const char nested[] =
        "{% set ns = namespace(t=()) %}{% for a in range(10) %}{% for b in range(90000) %}"
        "{% set ns.t = (ns.t,) %}{% endfor %}{% endfor %}{{ ";
    static const char *const uses[] = {"{}[ns.t]", "ns.t is filter", "ns.t == (ns.t,)",
                                       "ns.t < (ns.t,)", "ns.t|string"};
    const struct inf_chat_input in = {.messages = "[]", .limits = {.max_steps = 100000000}};
    char text[512];

    for (size_t i = 0; i < sizeof(uses) / sizeof(*uses); i++) {
        snprintf(text, sizeof(text), "%s%s }}", nested, uses[i]);
        assert_fails(text, &in, E2BIG, "deeply");
    }
}

TEST(time_is_bounded_when_asked)
{
    const struct inf_chat_input in = {.messages = "[]",
                                      .limits = {.max_steps = UINT64_MAX, .max_usec = 20000}};

    assert_fails("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                 &in, ETIME, "exceeded its time limit");
    assert_renders("x", &in, "x");
}

/* Each of these names is looked up among all others. */
TEST(parsing_is_bounded)
{
    static const char *const parts[][3] = {
        {"", "{%% set n%d = 0 %%}", ""},
        {"", "{%% block b%d %%}{%% endblock %%}", ""},
        {"{{ f(", "a%d=1, ", ") }}"},
        {"{% macro m(", "a%d, ", ") %}{% endmacro %}"},
    };
    enum { N = 40000 };
    char *text = malloc(N * 40), *p;
    struct inf_chat_template *tmpl;
    struct inf_err err;
    clock_t start;

    assert_non_null(text);
    for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++) {
        p = stpcpy(text, parts[k][0]);
        for (int i = 0; i < N; i++)
            p += sprintf(p, parts[k][1], i);
        strcpy(p, parts[k][2]);
        start = clock();
        ASSERT_ERROR(inf_chat_template_new(text, strlen(text), &tmpl, &err), EBADMSG);
        ASSERT_CONTAINS(err.text, "steps");
        assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    }
    free(text);
}

/* Each branch starts with a copy of the names that are defined there. */
TEST(many_names_and_many_branches_are_bounded)
{
    enum { N = 3000 };
    char *text = malloc(N * 80), *p = text;
    struct inf_chat_template *tmpl;
    struct inf_err err;

    assert_non_null(text);
    for (int i = 0; i < N; i++)
        p += sprintf(p, "{%% set n%d = 0 %%}", i);
    for (int i = 0; i < N; i++)
        p += sprintf(p, "{%% if n1 %%}{%% endif %%}");
    ASSERT_ERROR(inf_chat_template_new(text, strlen(text), &tmpl, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "steps");
    free(text);
}

static char *conversation(size_t n)
{
    char *text = malloc(n * 200 + 3), *p = text;

    assert_non_null(text);
    *p++ = '[';
    for (size_t i = 0; i < n; i++)
        p += sprintf(p,
                     "%s{\"role\":\"%s\",\"content\":\"message number %zu with some words in it,"
                     " as people write them to each other\"}",
                     i ? "," : "", i % 2 ? "assistant" : "user", i);
    memcpy(p, "]", 2);
    return text;
}

TEST(long_conversations_take_linear_time)
{
    static const char template[] =
        "{% set ns = namespace(text='', seen=[]) %}{% for m in messages %}"
        "{% set ns.text = ns.text ~ '<' + m.role + '>' ~ m['content']|trim ~ '\\n' %}"
        "{% set ns.seen = ns.seen + [m] %}"
        "{% if not loop.last %}{{ '<' + m.role + '>' + m.content + '\\n' }}{% endif %}"
        "{% endfor %}{{ ns.text|length }} {{ ns.seen|length }}";
    struct inf_chat_input in = {.messages = NULL};
    char *messages = conversation(10000), *text = NULL;
    struct inf_err err;
    clock_t start;

    in.messages = messages;
    start = clock();
    ASSERT_OK_ERR(render(template, &in, &text, &err), err);
    /* The limit is ten times what a slow machine needs, and a hundredth of what a quadratic
     * algorithm would need. */
    assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
    assert_non_null(strstr(text, " 10000"));
    free(text);
    free(messages);
}

RUN_TESTS(cmocka_unit_test(variables_are_those_that_transformers_passes),
          cmocka_unit_test(arguments_override_all_but_the_messages),
          cmocka_unit_test(reasoning_is_found_under_its_other_names),
          cmocka_unit_test(keys_keep_their_order),
          cmocka_unit_test(an_exception_carries_the_words_of_the_template),
          cmocka_unit_test(a_bad_template_is_reported_with_its_position),
          cmocka_unit_test(bad_json_is_refused), cmocka_unit_test(work_and_output_are_bounded),
          cmocka_unit_test(deep_nesting_is_refused_not_followed),
          cmocka_unit_test(deep_values_are_refused_not_followed),
          cmocka_unit_test(time_is_bounded_when_asked), cmocka_unit_test(parsing_is_bounded),
          cmocka_unit_test(many_names_and_many_branches_are_bounded),
          cmocka_unit_test(long_conversations_take_linear_time))
