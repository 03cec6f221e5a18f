/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders any template with a small conversation and two long equal strings. The step limit must
 * bound the time, whatever the template does.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infer/chat.h>

#include "core/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONG = 1 << 16 };

static const char small[] =
    "\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"na\\u00efve \\ud83d\\ude00\"}]},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a1\",\"function\":"
    "{\"name\":\"f\",\"arguments\":{\"x\":1.5,\"y\":[1,-2,true]}}}]}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}],"
    "\"s\":\"Hello, World\",\"i\":7,\"f\":0.1,\"l\":[3,1,2],\"d\":{\"a\":1,\"b\":\"x\"},"
    "\"n\":null,\"bos_token\":\"<s>\",\"add_generation_prompt\":true}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct inf_chat_limits limits = {.max_steps = 20000, .max_output = 1 << 16};
    static char vars[sizeof(small) + 2 * LONG + 64];
    struct inf_chat_template *tmpl;
    struct inf_err err;
    clock_t start;
    char *text;
    size_t len;
    int r;

    if (size > 1 << 14 || inf_chat_template_new((const char *)data, size, &tmpl, &err) < 0)
        return 0;
    if (!vars[0])
        sprintf(vars, "{\"big\":\"%0*d\",\"too\":\"%0*d\",%s", LONG, 0, LONG, 0, small);
    start = clock();
    r = inf_chat_render_vars(tmpl, vars, 1753185600, &limits, &text, &len, &err);
    /* The limit is a hundred times the time that a build without sanitizers takes. */
    assert(clock() - start < 3 * CLOCKS_PER_SEC);
    if (r == 0) {
        assert(utf8_valid(text, len));
        assert(text[len] == 0 && len <= limits.max_output);
        free(text);
    }
    inf_chat_template_free(tmpl);
    return 0;
}
