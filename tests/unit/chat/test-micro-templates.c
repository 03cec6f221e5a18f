/* SPDX-License-Identifier: Apache-2.0 */
/* Replays golden/templates/micro.json, which golden/make_templates.py made with jinja2. */
#include <infer/chat.h>
#include <jansson.h>

#include "lib/test.h"

struct golden {
    json_t *doc;
    char *vars;
    int64_t now;
};

static int load(void **state)
{
    static struct golden g;

    setenv("TZ", "UTC", 1);
    g.doc = json_load_file(test_golden("templates/micro.json"), JSON_ALLOW_NUL, NULL);
    if (!g.doc)
        return -1;
    g.vars = json_dumps(json_object_get(g.doc, "vars"), 0);
    g.now = json_integer_value(json_object_get(g.doc, "now"));
    *state = &g;
    return 0;
}

static int unload(void **state)
{
    struct golden *g = *state;

    free(g->vars);
    json_decref(g->doc);
    return 0;
}

static bool replay(const struct golden *g, const json_t *c)
{
    const json_t *template = json_object_get(c, "template"), *want = json_object_get(c, "text");
    struct inf_chat_template *tmpl = NULL;
    struct inf_err err = {.text = ""};
    char *text = NULL;
    size_t len = 0;
    bool same;
    int r;

    r = inf_chat_template_new(json_string_value(template), json_string_length(template), &tmpl,
                              &err);
    if (r == 0)
        r = inf_chat_render_vars(tmpl, g->vars, g->now, NULL, &text, &len, &err);
    if (want)
        same = r == 0 && len == json_string_length(want) &&
               memcmp(text, json_string_value(want), len) == 0;
    else
        same = r < 0 && err.code == -r && err.text[0];
    if (!same)
        print_message("%s\n  want %s\n  got  %s %s\n", json_string_value(template),
                      want ? json_string_value(want) : "an error",
                      text ? text : "an error:", err.text);
    free(text);
    inf_chat_template_free(tmpl);
    return same;
}

static void small_templates_render_as_jinja2_does(void **state)
{
    const struct golden *g = *state;
    size_t i, n_bad = 0;
    const json_t *c;

    json_array_foreach(json_object_get(g->doc, "cases"), i, c) n_bad += !replay(g, c);
    assert_true(i >= 400);
    assert_int_equal(n_bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_templates_render_as_jinja2_does),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
