/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders templates for the comparisons in tests/golden. Each line of standard input is a JSON
 * object with "template", "vars" and optionally "now". Each line of the output is a JSON object
 * with "text" or "error".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infer/chat.h>
#include <jansson.h>

static json_t *answer(const char *template, size_t len, const char *vars, int64_t now)
{
    struct inf_chat_template *tmpl = NULL;
    struct inf_err err = {.text = "out of memory"};
    json_t *out;
    char *text;
    size_t n;
    int r;

    r = inf_chat_template_new(template, len, &tmpl, &err);
    if (r == 0)
        r = inf_chat_render_vars(tmpl, vars, now, NULL, &text, &n, &err);
    inf_chat_template_free(tmpl);
    if (r < 0)
        return json_pack("{s:s}", "error", err.text);
    out = json_pack("{s:s%}", "text", text, n);
    free(text);
    return out;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;

    while (getline(&line, &cap, stdin) > 0) {
        json_t *in = json_loads(line, JSON_ALLOW_NUL, NULL), *out;
        const json_t *template = json_object_get(in, "template");
        char *vars = json_dumps(json_object_get(in, "vars"), JSON_REAL_PRECISION(17));

        out = vars && json_is_string(template)
                  ? answer(json_string_value(template), json_string_length(template), vars,
                           json_integer_value(json_object_get(in, "now")))
                  : json_pack("{s:s}", "error", "bad request");
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        free(vars);
        json_decref(out);
        json_decref(in);
    }
    free(line);
    return 0;
}
