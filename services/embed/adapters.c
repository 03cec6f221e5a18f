/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the task whose adapter a request uses.
 *
 * Clients of Jina's API name the task and the prompt together: "retrieval.query" is the task
 * "retrieval" with the prompt "query".
 */
#include <string.h>

#include "core/text.h"
#include "embed/embed-request.h"

/* Sets c->i_task if the first @len bytes of @name are the name of a task of the model. False: there
 * is no such task. */
static bool adapter_find(struct call *c, const char *name, size_t len)
{
    const char *task;

    for (uint32_t i = 0; (task = inf_embedder_task(c->resident->embedder, i)); i++)
        if (strlen(task) == len && memcmp(task, name, len) == 0) {
            c->i_task = i;
            return true;
        }
    return false;
}

static int adapter_unknown(const struct call *c, struct problem *problem)
{
    char names[256] = "";
    const char *task;

    for (uint32_t i = 0; (task = inf_embedder_task(c->resident->embedder, i)); i++)
        text_list_add(names, sizeof(names), task);
    return problem_set(problem, 400, "unknown_task", "task",
                       "This model has no task '%.64s'. It has: %s.", c->params.task,
                       names[0] ? names : "none");
}

static int take_prompt(struct call *c, const char *name, struct problem *problem)
{
    struct inputs_prompt *prompt = &c->params.prompt;

    if (prompt->name || prompt->text || prompt->instruction)
        return problem_set(problem, 400, "invalid_value", "task",
                           "Invalid value for 'task': '.%.64s' names a prompt, but the request "
                           "also gives another prompt.",
                           name);
    for (size_t i = 0; i < c->inputs.n; i++)
        if (c->inputs.items[i].tokens)
            return problem_set(problem, 400, "invalid_value", "task",
                               "Token ids are taken as they are: the prompt '.%.64s' cannot be put "
                               "before them.",
                               name);
    prompt->name = name;
    return 0;
}

int adapter_find_task(struct call *c, struct problem *problem)
{
    const char *name = c->params.task, *dot = name ? strrchr(name, '.') : NULL;

    if (!name || adapter_find(c, name, strlen(name)))
        return 0;
    /* A ranking chooses the prompts of query and documents itself. */
    if (dot && dot[1] && c->kind != INF_EMBED_SCORES && adapter_find(c, name, (size_t)(dot - name)))
        return take_prompt(c, dot + 1, problem);
    return adapter_unknown(c, problem);
}
