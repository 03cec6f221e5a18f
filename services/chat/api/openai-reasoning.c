/* SPDX-License-Identifier: Apache-2.0 */
/* Reads how much a model is to think before it answers. */
#include "chat/api/openai-body.h"
#include "common/wire/fields.h"

const char *const openai_reasoning_names[] = {
    "enable_thinking",  "reasoning_effort",       "thinking_budget",
    "reasoning_budget", "thinking_budget_tokens", NULL,
};

static int effort_read(json_t *body, struct reasoning_rules *rules, struct problem *problem)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    json_t *effort = field_find(body, "reasoning_effort");

    if (!effort)
        return 0;
    if (!json_is_string(effort))
        return field_wrong_type("reasoning_effort", "a string", effort, problem);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (field_is(effort, words[i])) {
            rules->effort = json_incref(effort);
            rules->field = "reasoning_effort";
            return 0;
        }
    return problem_set(problem, 400, "invalid_value", "reasoning_effort",
                       "Invalid value for 'reasoning_effort': it must be \"none\", \"minimal\", "
                       "\"low\", \"medium\", \"high\", \"xhigh\" or \"max\".");
}

/* Reads one field with a budget. If a request has several budgets, the smallest one counts. The
 * value -1 means no limit. */
static int budget_read(json_t *body, const char *name, struct reasoning_rules *rules,
                       struct problem *problem)
{
    int64_t budget = -1;
    const int r = field_int(body, name, -1, INT32_MAX, &budget, problem);

    if (r > 0 && budget >= 0 && (rules->budget < 0 || budget < rules->budget))
        rules->budget = budget;
    return r < 0 ? r : 0;
}

int openai_reasoning_read(json_t *body, struct reasoning_rules *rules, struct problem *problem)
{
    static const char *const budgets[] = {"thinking_budget", "reasoning_budget",
                                          "thinking_budget_tokens"};
    bool enabled = false;
    int r = effort_read(body, rules, problem);

    for (size_t i = 0; i < ARRAY_SIZE(budgets) && r == 0; i++)
        r = budget_read(body, budgets[i], rules, problem);
    if (r < 0)
        return r;
    r = field_bool(body, "enable_thinking", &enabled, problem);
    if (r > 0) {
        rules->enabled = enabled;
        rules->field = "enable_thinking";
    }
    return r < 0 ? r : 0;
}
