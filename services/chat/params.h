/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parameters of a request for text, in the same form for all APIs: the model, lengths,
 * sampling, stop strings, streaming and the cache
 */

#include <infer/engine.h>
#include <jansson.h>

#include "common/http/problem.h"
#include "common/models/sampling.h"

#define PARAMS_MAX_STOPS   16
#define PARAMS_MAX_CHOICES 128
#define PARAMS_MAX_BIAS    1024

/* Tells which tools the model may or must call. */
enum tool_choice {
    TOOLS_AUTO,
    TOOLS_NONE,
    TOOLS_REQUIRED, /* the answer has at least one call */
    TOOLS_NAMED,    /* the one tool of tool_rules.name */
};

struct tool_rules {
    enum tool_choice choice;
    json_t *name;    /* TOOLS_NAMED: string */
    json_t *allowed; /* array of the names of the tools that may be called; NULL: all tools */
    bool single;     /* the answer has at most one call */
};

enum constraint_kind {
    CONSTRAINT_NONE,
    CONSTRAINT_JSON,   /* the answer is any JSON object */
    CONSTRAINT_SCHEMA, /* constraint.value: a JSON Schema */
    CONSTRAINT_GBNF,   /* constraint.value: a string, here and for the next two kinds */
    CONSTRAINT_REGEX,
    CONSTRAINT_LARK,
    CONSTRAINT_CHOICE, /* constraint.value: array of strings; the answer is one of them */
};

/* The form that an answer must have. */
struct constraint {
    enum constraint_kind kind;
    json_t *value;     /* owned reference; CONSTRAINT_JSON: NULL */
    const char *field; /* path of the field in the body, for errors; static */
};

/* Tells how much the model thinks before it answers. */
struct reasoning_rules {
    int enabled;    /* 1: on; 0: off; -1: not set, the template decides */
    json_t *effort; /* string for the template, for example "high"; NULL: not set */
    int64_t budget; /* maximum tokens of reasoning; -1: no limit. If a request has several budgets,
                       the smallest one counts. */
    bool beside_length; /* tokens of reasoning do not count towards max_tokens */
    const char *field;  /* if the model does not reason, a request for reasoning is refused with an
                           error that names this field; static; NULL: the request is not refused */
};

struct params {
    const char *model; /* borrowed from the body; NULL: the default model */
    /* sampling.logit_bias points to `bias`. Until params_resolve(), parameters that the request
     * does not give are "not set" (common/models/sampling.h). */
    struct inf_sampling sampling;
    enum sampling_source sources[N_SAMPLING_KEYS];
    struct inf_logit_bias *bias;
    struct inf_stop stops[PARAMS_MAX_STOPS]; /* their texts belong to stop_texts */
    json_t *stop_texts[PARAMS_MAX_STOPS];
    size_t n_stops, n_given_stops; /* the first n_given_stops are those of the request; those of
                                      the model's manifest follow */
    uint32_t n;                    /* choices per prompt */
    uint32_t max_tokens; /* limit of tokens of a choice; 0: the default of the configuration */
    int n_logprobs;      /* as in struct inf_request */
    bool prompt_logprobs,
        score_only; /* score_only: the prompt is computed, and no text is generated */
    bool stream, include_usage, ignore_eos, show_special, no_cache;
    bool with_timings, with_progress, /* the answer has these extras of llama-server */
        with_prompt;                  /* the answer contains the prompt (`verbose`) */
    bool shows_stop;                  /* the text includes the stop string that ended it */
    uint32_t min_tokens;
    int32_t stop_tokens[PARAMS_MAX_STOPS];
    size_t n_stop_tokens;
    uint32_t truncate_prompt;  /* longer prompts lose their first tokens, until this many tokens are
                                  left; 0: never */
    uint32_t n_indent;         /* the text ends before a line that begins with fewer spaces and
                                  tabs; 0: off */
    uint64_t max_predict_usec; /* a text with a line break ends when more than this time has passed
                                  since its first token; 0: no limit */
    uint32_t n_draft, min_draft; /* as in struct inf_request */
    double draft_p_min;
    bool post_logprobs;                            /* as in struct inf_request */
    bool has_order;                                /* the request sets `order` */
    uint8_t order[INF_N_STAGES];                   /* [sampling.n_order] enum inf_stage */
    struct inf_breaker breakers[PARAMS_MAX_STOPS]; /* their texts belong to breaker_texts */
    json_t *breaker_texts;                         /* array of strings; NULL: the defaults */
    json_t *bias_texts;      /* array of [text, bias]; each token of the text gets the bias; NULL:
                                none */
    struct tool_rules tools; /* the tools themselves belong to the conversation */
    struct constraint constraint;
    struct reasoning_rules reasoning;
    bool has_keep, unloads; /* unloads: the request only removes the model from memory */
    bool by_command;        /* with unloads: also a pinned model */
    bool in_use;            /* set for unloads: other requests still use the model */
    uint64_t keep_usec;     /* set if has_keep is: how long the model stays after its last use;
                               UINT64_MAX: for ever */
    json_t *cache_salt;     /* string; NULL: none */
    const char *kv_type;    /* type of the KV cache; borrowed from the body; NULL: chat.kv_type */
};

/* Sets the defaults. */
void params_init(struct params *params);
/* Reads a field with a sampling parameter: a number within the limits of @row. The results are
 * those of the functions in fields.h. */
int params_number(json_t *object, const char *name, const struct sampling_row *row,
                  double *ret_value, struct problem *problem);
struct config;

/* Sets each sampling parameter that the request does not give. The sources are, in this order, the
 * manifest, the model, the configuration and the API's defaults; the first source that has a value
 * counts. @api NULL: OpenAI's defaults. */
void params_resolve(struct params *params, const struct inf_sampling *manifest,
                    const struct inf_sampling *model, const struct config *config,
                    const struct inf_sampling *api);
/* Adds a stop string, and keeps a reference to @text. Returns false if there is no room, or if
 * @text is empty. */
bool params_add_stop(struct params *params, json_t *text);
/* Adds the stop strings of the model's manifest to those of the request, as far as there is room.
 * @stops is NULL-terminated; NULL: none. */
void params_add_own_stops(struct params *params, const char *const *stops);
/* Checks that the token ids in logit_bias and stop_tokens are in the model's vocabulary. */
int params_check_vocab(const struct params *params, uint32_t n_vocab, struct problem *problem);
void params_done(struct params *params);
