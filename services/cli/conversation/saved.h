/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Conversations on disk: $XDG_STATE_HOME/sconce/sessions/NAME.json, for their owner alone
 *
 * A file is replaced as a whole after each answer, so that it always holds a whole conversation.
 */

#include <infer/engine.h>
#include <jansson.h>

#include "core/macros.h"

struct saved {
    char *name, *model;   /* the model as it was named */
    char *arch, *kv_type; /* kv_type NULL: the model's own */
    uint64_t n_params, n_bytes;
    struct inf_sampling sampling;
    uint32_t max_tokens, n_ctx;
    json_t *messages;
};

/* $XDG_STATE_HOME/sconce, directories made; the caller frees it. NULL: there is no home. */
char *saved_state_dir(void);
/* Whether @name can be one of a conversation; it is that of a file, too. */
bool saved_name_is_good(const char *name);
bool saved_exists(const char *name);
int saved_write(const struct saved *s, struct inf_err *reterr);
/* @name NULL: the one that was saved last. -ENOENT with what to do. */
int saved_read(const char *name, struct saved *ret_saved, struct inf_err *reterr);
void saved_done(struct saved *s);
/* All of them, the last one first, as lines or as JSON. */
int saved_print(bool json, struct inf_err *reterr);
