/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which texts the grammars of JSON Schemas permit, and the messages of errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "schema-cases.h"
#include "text-grammar.h"

static bool permits(struct text_grammar *g, const char *text)
{
    bool complete;

    text_grammar_follow(g, text, strlen(text), &complete);
    return complete;
}

static void compile(struct text_grammar *g, const char *schema, bool loose)
{
    struct inf_err err = {.text = ""};

    if (text_grammar_init(g, schema, strlen(schema), loose, &err) < 0)
        fail_msg("%s: %s", schema, err.text);
}

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_text_cases; i++) {
        const struct text_case *c = &text_cases[i];
        struct text_grammar g;

        compile(&g, c->schema, false);
        for (size_t k = 0; c->yes[k]; k++)
            if (!permits(&g, c->yes[k]))
                fail_msg("%s does not permit %s", c->schema, c->yes[k]);
        for (size_t k = 0; c->no[k]; k++)
            if (permits(&g, c->no[k]))
                fail_msg("%s permits %s", c->schema, c->no[k]);
        text_grammar_done(&g);
    }
}

static void test_walks_are_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_text_cases; i++) {
        struct text_grammar g;

        compile(&g, text_cases[i].schema, false);
        for (uint64_t seed = 0; seed < 5; seed++) {
            _cleanup_str_ struct str text = {0};
            json_error_t error;
            json_t *value;

            assert_true(text_grammar_walk(&g, seed, 100, &text));
            value = json_loadb(text.data, text.len,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
            if (!value && json_error_code(&error) != json_error_numeric_overflow)
                fail_msg("%s: %.*s", error.text, (int)text.len, text.data);
            json_decref(value);
        }
        text_grammar_done(&g);
    }
}

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_error_cases; i++) {
        const struct error_case *c = &error_cases[i];
        struct inf_err err = {.text = ""};
        struct text_grammar g;

        assert_true(text_grammar_init(&g, c->schema, strlen(c->schema), false, &err) < 0);
        if (!strstr(err.text, c->message))
            fail_msg("%s: %s", c->schema, err.text);
    }
}

static void test_loose(void **state)
{
    static const char *const schemas[] = {
        "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}",
        "{\"not\":{\"uniqueItems\":true}}",
        "{\"type\":\"integer\",\"multipleOf\":0.1234567}",
        "{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}",
    };
    static const char *const texts[] = {"[\"a\", \"a\"]", "[1]", "7", "\"aa\""};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++) {
        struct inf_err err;
        struct text_grammar g;

        assert_int_equal(text_grammar_init(&g, schemas[i], strlen(schemas[i]), false, &err), -22);
        compile(&g, schemas[i], true);
        assert_true(permits(&g, texts[i]));
        text_grammar_done(&g);
    }
}

/* The amount of white space is limited, and the white space that JSON writers produce is
 * permitted. */
static void test_blanks(void **state)
{
    static const char schema[] =
        "{\"properties\":{\"a\":{\"items\":{\"type\":\"integer\"}}},\"required\":[\"a\"]}";
    static const char *const yes[] = {"{\"a\":[1,2]}",
                                      "{\"a\": [1, 2]}",
                                      "{ \"a\": [ 1, 2 ] }",
                                      "{\n  \"a\": [\n    1,\n    2\n  ]\n}",
                                      "{\n\t\"a\": [\n\t\t1,\n\t\t2\n\t]\n}",
                                      "{\"a\": []}",
                                      "{\"a\": [\n]}"};
    static const char *const no[] = {" {\"a\":[1]}",    "{  \"a\":[1]}",  "{\"a\" :[1]}",
                                     "{\n\n\"a\":[1]}", "{\"a\":[1 ,2]}", "{\"a\":[1]} "};
    char long_line[128] = "{\n";
    struct text_grammar g;

    (void)state;
    compile(&g, schema, false);
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
        if (!permits(&g, yes[i]))
            fail_msg("not permitted: %s", yes[i]);
    for (size_t i = 0; i < ARRAY_SIZE(no); i++)
        if (permits(&g, no[i]))
            fail_msg("permitted: %s", no[i]);
    memset(long_line + 2, ' ', 65);
    strcpy(long_line + 67, "\"a\":[]}");
    assert_false(permits(&g, long_line));
    text_grammar_done(&g);
}

/* Wide, deep and hostile schemas are compiled or refused within the time limit. */
static void test_limits(void **state)
{
    _cleanup_str_ struct str text = {0};
    struct inf_err err = {.text = ""};
    struct text_grammar g;

    (void)state;
    for (int i = 0; i < 1000; i++)
        str_puts(&text, "{\"items\":");
    assert_int_equal(text_grammar_init(&g, text.data, text.len, false, &err), -7);
    assert_non_null(strstr(err.text, "nested deeper"));
    str_clear(&text);
    str_puts(&text, "{\"allOf\":[");
    for (int i = 0; i < 40; i++)
        str_printf(&text, "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}",
                   i ? "," : "", i, i);
    str_puts(&text, "]}");
    assert_int_equal(text_grammar_init(&g, text.data, text.len, false, &err), -7);
    assert_non_null(strstr(err.text, "'#"));
    str_clear(&text);
    str_puts(&text, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 200; i++)
        str_printf(&text, "%s\"name %d\":{\"type\":\"string\",\"maxLength\":%d}", i ? "," : "", i,
                   i);
    str_puts(&text, "}}");
    compile(&g, text.data, false);
    assert_true(permits(&g, "{\"name 3\": \"ab\", \"name 199\": \"\", \"other\": [1]}"));
    assert_false(permits(&g, "{\"name 3\": \"abcd\"}"));
    text_grammar_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),  cmocka_unit_test(test_walks_are_json),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_loose),
        cmocka_unit_test(test_blanks), cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
