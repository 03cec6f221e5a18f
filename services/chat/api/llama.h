/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the parts that llama-server's endpoints POST /completion and POST /infill share. */

#include "chat/generation.h"

struct llama_own {
    bool return_tokens;
    bool is_many;           /* the answer is an array */
    int64_t id_slot;        /* the field of the request; the answer repeats it */
    json_t *fields;         /* array of the names of wanted fields; NULL: all */
    struct str settings;    /* JSON text of the field generation_settings of the answers */
    json_t *stop, *grammar; /* fields of the request that generation_settings repeats; NULL:
                               absent */
};

/* In requests to these endpoints, `own` of each struct choice points to this structure. */
struct llama_choice {
    struct str tokens, probs; /* elements of JSON arrays that were not sent yet */
};

/* llama-params.c has these implementations of chat_api.read, which checks the body. They use only
 * g->api, g->own, g->body and g->params. */
int llama_completion_read(struct generation *g, struct problem *problem);
int llama_infill_read(struct generation *g, struct problem *problem);
/* Reads the field `samplers`, which lists the stages that are used, in their order. */
int llama_samplers_read(json_t *body, struct params *params, struct problem *problem);
/* Writes own->settings. */
int llama_settings_make(struct generation *g, struct problem *problem);

/* llama-settings.c: returns an object with all parameters of a generation under llama-server's
 * names. @n_predict is the limit of tokens; 0: no limit. */
json_t *llama_settings(const struct params *params, uint32_t n_predict);

/* llama-prompt.c has these implementations of chat_api.prepare, which makes g->prompts. */
int llama_completion_prepare(struct generation *g, struct problem *problem);
int llama_infill_prepare(struct generation *g, struct problem *problem);
