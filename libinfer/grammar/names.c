/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the table of the names of rules in one grammar. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "grammar/names.h"

void names_done(struct names *names)
{
    map_done(&names->map);
    arena_done(&names->arena);
    free(names->list);
    *names = (struct names){0};
}

int names_get(struct names *names, struct grammar_builder *b, const char *text, size_t len,
              unsigned line, struct name **ret_name)
{
    struct name name = {.line = line};
    uint64_t found;
    int r;

    if (map_find(&names->map, text, len, &found)) {
        *ret_name = &names->list[found];
        return 0;
    }
    name.text = arena_strndup(&names->arena, text, len);
    if (!name.text)
        return -ENOMEM;
    name.rule = grammar_rule_new(b, name.text);
    if (name.rule == BUILDER_NONE)
        return grammar_builder_error(b);
    r = ARRAY_GROW(names->list, names->cap, names->n + 1);
    if (r == 0)
        r = map_put(&names->map, name.text, len, names->n);
    if (r < 0)
        return r;
    names->list[names->n] = name;
    *ret_name = &names->list[names->n++];
    return 0;
}

struct name *names_find(const struct names *names, const char *text)
{
    uint64_t found;

    return map_find(&names->map, text, strlen(text), &found) ? &names->list[found] : NULL;
}

int names_check(const struct names *names, struct inf_err *reterr)
{
    for (size_t i = 0; i < names->n; i++)
        if (!names->list[i].is_defined)
            return err_set(reterr, EINVAL, "line %u: \"%.60s\" is not defined", names->list[i].line,
                           names->list[i].text);
    return 0;
}
