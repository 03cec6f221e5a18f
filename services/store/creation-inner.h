/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares what the files creation*.c share. No other file includes this header. */

#include "common/models/sampling.h"
#include "common/models/settings.h"
#include "store/creation.h"
#include "store/store-service.h"

struct store_creation {
    json_t *body; /* owns the texts */
    char name[STORE_NAME_SIZE];
    const char *from;    /* the name of a model; NULL: the model is made of files */
    const json_t *files; /* digests by name */
    struct inf_sampling sampling;
    const char *stops[MODEL_MAX_STOPS];
    size_t n_stops;
    uint32_t context;     /* 0: not given */
    const char *template; /* the name of a built-in one; NULL: not given */
    const char *system;   /* NULL: not given */
    struct model_message messages[MODEL_MAX_MESSAGES];
    size_t n_messages;
    char licence[200]; /* "": not given */
    bool streams;
};
