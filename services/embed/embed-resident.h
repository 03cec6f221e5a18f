/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Models in memory
 *
 * At most max_models are resident; one model that makes vectors and ranks counts as two. A model
 * that is wanted and absent is loaded on the loader thread, in the place of the one that was used
 * longest ago and has no users; while all have, it waits. Users hold a resident from `ready` to
 * resident_release().
 */

#include <infer/embed.h>
#include <jansson.h>

#include "common/jobs.h"
#include "common/loop.h"
#include "common/problem.h"

struct embed;
struct models_entry;

enum resident_state {
    RESIDENT_QUEUED, /* wanted, waits for a place */
    RESIDENT_LOADING,
    RESIDENT_READY,
};

struct resident {
    struct embed *embed;
    enum resident_state state;
    char *name, *path;
    enum inf_embed_kind kind;
    int64_t mtime;
    struct inf_model *model;
    struct inf_embedder *embedder;
    json_t *prompts; /* config_sentence_transformers.json; NULL: the model has none */
    struct loop_watch *watch;
    uint32_t n_users;
    uint64_t used_usec;
    struct resident_waiter *waiters;
    struct job job;
    struct inf_model *victim_model; /* freed by the loader, before it loads */
    struct inf_embedder *victim_embedder;
    struct inf_err err;
    int load_status;
    struct inf_embedder_stats before; /* when speed was told last */
    double tok_s;
    struct resident *next;
};

struct resident_waiter {
    /* @resident is held; NULL: @problem says why there is none. */
    void (*ready)(struct resident_waiter *waiter, struct resident *resident,
                  const struct problem *problem);
    struct resident *resident; /* that it waits for; NULL: it does not wait */
    struct resident_waiter *next;
};

/* Calls waiter->ready, possibly before it returns. */
void resident_want(struct embed *embed, const struct models_entry *entry, enum inf_embed_kind kind,
                   struct resident_waiter *waiter);
/* Waits no longer. */
void resident_forget(struct resident_waiter *waiter);
void resident_release(struct resident *resident);
/* Whether it ranks by vectors of single tokens, as models for late interaction do. Of one whose
 * model is open. */
bool resident_ranks_by_rows(const struct resident *resident);
/* "vectors", "token_vectors", "scores" */
const char *resident_makes(const struct resident *resident);
/* Tokens of a second over the last moments of work. */
double resident_speed(struct resident *resident);
/* For embed->schedule. */
void resident_schedule(struct loop_task *task);
/* At the end of the service; the loader thread is gone already. */
void resident_free_all(struct embed *embed);
