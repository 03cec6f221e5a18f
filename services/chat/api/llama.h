/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What llama-server's endpoints POST /completion and POST /infill have in common */

#include "chat/generation.h"

struct llama_own {
    bool return_tokens;
    bool is_many;           /* the answer is an array */
    int64_t id_slot;        /* as in the request; the answer repeats it */
    json_t *fields;         /* array of the names of wanted fields; NULL: all */
    struct str settings;    /* generation_settings, for the answers */
    json_t *stop, *grammar; /* as in the request, for generation_settings; or NULL */
};

/* c->own */
struct llama_choice {
    struct str tokens, probs; /* elements of JSON arrays, not sent yet */
};

/* Reads the fields that both endpoints have. */
int llama_params_read(struct generation *g, struct problem *problem);
/* Refuses unknown fields; @more (NULL-terminated) are known in addition to the shared ones. */
int llama_fields_known(const struct generation *g, const char *const *more,
                       struct problem *problem);
/* Reads `samplers`, which lists the stages of sampling that are used, in their order. */
int llama_samplers_read(json_t *body, struct params *params, struct problem *problem);
/* Turns texts in `logit_bias` into tokens of the loaded model. */
int llama_bias_resolve(struct generation *g, struct problem *problem);
/* Writes own->settings. */
int llama_settings_make(struct generation *g, struct problem *problem);

/* llama-settings.c: returns an object with all parameters of a generation as llama-server names
 * them. @g NULL: the defaults of @resident. */
json_t *llama_settings(const struct params *params, uint32_t n_predict);

/* llama-prompt.c: make g->prompts. */
int llama_completion_prepare(struct generation *g, struct problem *problem);
int llama_infill_read(struct generation *g, struct problem *problem);
int llama_infill_prepare(struct generation *g, struct problem *problem);
