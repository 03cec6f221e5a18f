/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a request for text asks for, whichever API it came through: the model, lengths, sampling,
 * stop strings, streaming and the cache
 */

#include <infer/engine.h>
#include <jansson.h>

#include "common/http/problem.h"

#define PARAMS_MAX_STOPS   16
#define PARAMS_MAX_CHOICES 128
#define PARAMS_MAX_BIAS    1024

/* Which tools the model may or must call. */
enum tool_choice {
    TOOLS_AUTO,
    TOOLS_NONE,
    TOOLS_REQUIRED, /* at least one call */
    TOOLS_NAMED,    /* the one tool of tool_rules.name */
};

struct tool_rules {
    enum tool_choice choice;
    json_t *name;    /* TOOLS_NAMED: string */
    json_t *allowed; /* array of names, to which calls are restricted; NULL: all tools */
    bool single;     /* at most one call in an answer */
};

enum constraint_kind {
    CONSTRAINT_NONE,
    CONSTRAINT_JSON,   /* any JSON object */
    CONSTRAINT_SCHEMA, /* a JSON Schema */
    CONSTRAINT_GBNF,   /* the others: string */
    CONSTRAINT_REGEX,
    CONSTRAINT_LARK,
    CONSTRAINT_CHOICE, /* array of strings, of which the answer is one */
};

/* The form that an answer must have. */
struct constraint {
    enum constraint_kind kind;
    json_t *value;     /* owned reference; CONSTRAINT_JSON: NULL */
    const char *field; /* path of the field in the body, for errors; static */
};

/* How much the model thinks before it answers. */
struct reasoning_rules {
    int enabled;        /* 1, 0; -1: as the template does by itself */
    json_t *effort;     /* string for the template, for example "high"; NULL: not set */
    int64_t budget;     /* limit of tokens; -1: none. The smallest budget of a request wins. */
    bool beside_length; /* tokens of reasoning do not count as max_tokens */
    const char *field;  /* a request that wants reasoning is refused, and this field is named, if
                           the model does not reason; static; NULL: it is not refused */
};

struct params {
    const char *model;            /* borrowed from the body; NULL: the default */
    struct inf_sampling sampling; /* logit_bias points to bias */
    struct inf_logit_bias *bias;
    struct inf_stop stops[PARAMS_MAX_STOPS]; /* point into stop_texts */
    json_t *stop_texts[PARAMS_MAX_STOPS];
    size_t n_stops;
    uint32_t n;          /* choices per prompt */
    uint32_t max_tokens; /* per choice; 0: the default of the configuration */
    int n_logprobs;      /* as in struct inf_request */
    bool prompt_logprobs,
        score_only; /* score_only: the prompt is computed, and nothing is written */
    bool stream, include_usage, ignore_eos, show_special, no_cache;
    struct tool_rules tools; /* the tools themselves belong to the conversation */
    struct constraint constraint;
    struct reasoning_rules reasoning;
    json_t *cache_salt;  /* string; NULL: none */
    const char *kv_type; /* type of the KV cache; borrowed from the body; NULL: chat.kv_type */
};

/* Sets the defaults. */
void params_init(struct params *params);
/* Adds a stop string, and keeps a reference to @text. False: there is no room, or it is empty. */
bool params_add_stop(struct params *params, json_t *text);
/* Checks that the token ids in logit_bias are in the model's vocabulary. */
int params_check_vocab(const struct params *params, uint32_t n_vocab, struct problem *problem);
void params_done(struct params *params);
