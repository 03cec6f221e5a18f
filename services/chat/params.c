/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the defaults of a request, and checks what only the loaded model can decide. */
#include "chat/params.h"

#include <stdlib.h>

void params_init(struct params *p)
{
    *p = (struct params){.sampling = {.temperature = 1.0f, .top_p = 1.0f},
                         .n = 1,
                         .n_logprobs = -1,
                         .reasoning = {.enabled = -1, .budget = -1}};
}

bool params_add_stop(struct params *p, json_t *text)
{
    if (p->n_stops == PARAMS_MAX_STOPS || json_string_length(text) == 0)
        return false;
    p->stop_texts[p->n_stops] = json_incref(text);
    p->stops[p->n_stops++] = (struct inf_stop){json_string_value(text), json_string_length(text)};
    return true;
}

int params_check_vocab(const struct params *p, uint32_t n_vocab, struct problem *problem)
{
    for (size_t i = 0; i < p->sampling.n_logit_bias; i++)
        if ((uint32_t)p->bias[i].token >= n_vocab)
            return problem_set(problem, 400, "invalid_value", "logit_bias",
                               "Invalid key in 'logit_bias': %d is not a token id of this model "
                               "(0 to %u).",
                               p->bias[i].token, n_vocab - 1);
    return 0;
}

void params_done(struct params *p)
{
    for (size_t i = 0; i < p->n_stops; i++)
        json_decref(p->stop_texts[i]);
    json_decref(p->cache_salt);
    json_decref(p->tools.name);
    json_decref(p->tools.allowed);
    json_decref(p->constraint.value);
    json_decref(p->reasoning.effort);
    free(p->bias);
    p->tools = (struct tool_rules){0};
    p->constraint = (struct constraint){0};
    p->reasoning = (struct reasoning_rules){0};
    p->n_stops = 0;
    p->cache_salt = NULL;
    p->bias = NULL;
}
