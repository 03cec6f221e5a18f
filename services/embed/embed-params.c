/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the fields that requests of several kinds share. */
#include "embed/embed-params.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/wire/fields.h"

/* Returns the index of the string @field in @words, ignoring case; -1: it is not in @words. */
static int params_word(const json_t *field, const char *const *words)
{
    const char *text = json_string_value(field);

    if (!text || strlen(text) != json_string_length(field))
        return -1;
    for (int i = 0; words[i]; i++)
        if (strcasecmp(words[i], text) == 0)
            return i;
    return -1;
}

int params_read_model(struct params *p, json_t *body, struct problem *problem)
{
    const int r = field_text(body, "model", &p->model, problem);

    return MIN(r, 0);
}

int params_read_task(struct params *p, json_t *body, struct problem *problem)
{
    const int r = field_text(body, "task", &p->task, problem);

    return MIN(r, 0);
}

int params_read_cut(struct params *p, json_t *body, struct problem *problem)
{
    static const char *const sides[] = {"none", "end", "start", NULL};
    static const char *const directions[] = {"right", "left", NULL};
    static const enum inf_cut cuts[] = {INF_CUT_NONE, INF_CUT_END, INF_CUT_START};
    const json_t *truncate = field_find(body, "truncate");
    const json_t *direction = field_find(body, "truncation_direction");
    int i;

    if (json_is_boolean(truncate)) {
        p->cut = json_is_true(truncate) ? INF_CUT_END : INF_CUT_NONE;
    } else if (truncate) {
        i = params_word(truncate, sides);
        if (i < 0 && !json_is_string(truncate))
            return field_wrong_type("truncate", "a boolean or a string", truncate, problem);
        if (i < 0)
            return problem_set(problem, 400, "invalid_value", "truncate",
                               "Invalid value for 'truncate': it must be true, false, \"none\", "
                               "\"start\" or \"end\".");
        p->cut = cuts[i];
    }
    if (!direction)
        return 0;
    i = params_word(direction, directions);
    if (i < 0)
        return problem_set(problem, 400, "invalid_value", "truncation_direction",
                           "Invalid value for 'truncation_direction': it must be \"left\" or "
                           "\"right\".");
    if (p->cut != INF_CUT_NONE)
        p->cut = i == 1 ? INF_CUT_START : INF_CUT_END;
    return 0;
}

int params_read_prompt(struct params *p, json_t *body, struct problem *problem)
{
    const struct {
        const char *name;
        const char **value;
    } rows[] = {
        {"prompt_name", &p->prompt.name},
        {"prompt", &p->prompt.text},
        {"instruction", &p->prompt.instruction},
    };
    const char *first = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const int r = field_text(body, rows[i].name, rows[i].value, problem);

        if (r < 0)
            return r;
        if (r > 0 && first)
            return problem_set(problem, 400, "invalid_value", rows[i].name,
                               "'%s' and '%s' cannot be combined.", first, rows[i].name);
        if (r > 0)
            first = rows[i].name;
    }
    return 0;
}

int params_read_normalize(struct params *p, json_t *body, struct problem *problem)
{
    static const char *const names[] = {"normalize", "normalized"};
    bool yes;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const int r = field_bool(body, names[i], &yes, problem);

        if (r < 0)
            return r;
        if (r > 0)
            p->normalize = yes ? INF_NORMALIZE_YES : INF_NORMALIZE_NO;
    }
    return 0;
}

int params_read_dimensions(struct params *p, json_t *body, struct problem *problem)
{
    int64_t n = 0;
    const int r = field_int(body, "dimensions", 1, 1 << 20, &n, problem);

    if (r > 0)
        p->dimensions = (uint32_t)n;
    return MIN(r, 0);
}
