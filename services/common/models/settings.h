/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the settings that a manifest (manifest.h) gives its model, besides sampling parameters.
 *
 * A setting of a request or of the command line overrides that of the manifest, and a setting of
 * the manifest overrides that of the configuration.
 */

#include <infer/types.h>

#include "core/arena.h"
#include "core/macros.h"

#define MODEL_KEEP_USUAL UINT64_MAX

enum {
    MODEL_MAX_STOPS = 16,
    MODEL_MAX_ADAPTERS = 32,
    MODEL_MAX_CONTEXT = 1 << 24, /* in tokens */
    MODEL_MAX_SYSTEM = 64 << 10, /* in bytes */
    MODEL_MAX_MESSAGES = 64,
    MODEL_MAX_MESSAGES_TEXT = 64 << 10, /* of all messages together, in bytes */
};

/* A message with which each conversation of a model begins. */
struct model_message {
    bool of_assistant; /* false: it is the user's */
    const char *text;
};

struct model_settings {
    uint32_t context;       /* tokens of a conversation or of a text; 0: not given */
    const char *kv_type;    /* number format of keys and values; NULL: not given */
    const char *template;   /* name of a built-in chat template (templates.h), or the path of a file
                               that has one; NULL: not given */
    int64_t template_mtime; /* modification time of that file in Unix seconds; 0: no file */
    const char *const *stops; /* NULL-terminated texts that end an answer; NULL: none */
    bool stops_of_template;   /* the stops are those of the built-in template, so another template
                                 replaces them */
    const char *system;       /* the system message of conversations that have none; NULL: none */
    const struct model_message *messages; /* [n_messages]: each conversation begins with them */
    size_t n_messages;
    const char *const *adapters; /* NULL-terminated names; NULL: none */
    const char *drafter;         /* name of a model; NULL: none */
    uint64_t keep_usec;          /* how long the model stays in memory after its last use;
                                    MODEL_KEEP_USUAL: not given */
    bool pinned;                 /* the model stays in memory until it is unloaded by command */
};

/* Makes all settings "not given". */
void model_settings_clear(struct model_settings *s);
/* Copies @from to *ret; @arena owns the copies of the texts. -ENOMEM. */
int model_settings_copy(struct arena *arena, const struct model_settings *from,
                        struct model_settings *ret);
bool model_settings_equal(const struct model_settings *a, const struct model_settings *b);
