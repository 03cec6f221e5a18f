/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Saves conversations in $XDG_STATE_HOME/sconce/sessions/NAME.json, readable only by their owner.
 *
 * A file is replaced atomically after each answer, so it always holds a complete conversation.
 */

#include <infer/engine.h>
#include <jansson.h>

#include "core/macros.h"

struct saved {
    char *name, *model;   /* the model as the user named it */
    char *arch, *kv_type; /* kv_type NULL: the model's own */
    uint64_t n_params, n_bytes;
    struct inf_sampling sampling;
    uint32_t max_tokens, n_ctx;
    json_t *messages;
};

/* Returns $XDG_STATE_HOME/sconce, and creates this directory and its parents; the caller frees the
 * path. NULL: there is no home directory. */
char *saved_state_dir(void);
/* Returns whether @name can be the name of a conversation, and so of its file. */
bool saved_name_is_good(const char *name);
bool saved_exists(const char *name);
int saved_write(const struct saved *s, struct inf_err *reterr);
/* Reads the conversation @name, or the conversation that was saved last if @name is NULL. -ENOENT:
 * there is none; the error text says which command helps. */
int saved_read(const char *name, struct saved *ret_saved, struct inf_err *reterr);
void saved_done(struct saved *s);
/* Prints all conversations, newest first, as lines or as JSON. */
int saved_print(bool json, struct inf_err *reterr);
