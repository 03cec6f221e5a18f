/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the masks of grammars while steps run.
 *
 * The mask of a sequence says which tokens may come next. It can be computed as soon as the
 * sequence's last token is known. So the mask thread computes it during the step in which the
 * device computes that token's row. A thread that samples a row needs the mask. It waits until the
 * mask is ready, or computes the mask itself if the mask thread has not started to compute it. The
 * mask thread uses sequences only between masks_begin() and masks_end().
 */

#include <pthread.h>

#include "core/loop-thread.h"
#include "grammar/matcher.h"

enum mask_state {
    MASK_STALE, /* belongs to an earlier token */
    MASK_QUEUED,
    MASK_TAKEN, /* a thread is computing it */
    MASK_READY,
};

/* The mask of one sequence, with the matcher that follows its text. */
struct mask {
    struct grammar_matcher *matcher; /* NULL: the sequence has no grammar; the rest is unused */
    uint32_t *bits;                  /* as grammar_matcher_mask() gives them, for n_vocab tokens */
    uint32_t n_vocab;
    enum mask_state state; /* under the lock of struct masks during a step */
    int error;             /* 0, or the error of the matcher */
};

/* Allocates the matcher and a mask for @n_vocab tokens. @grammar may be NULL. -ENOMEM. */
int mask_init(struct mask *mask, struct inf_grammar *grammar, uint32_t n_vocab);
void mask_done(struct mask *mask);
/* Appends a token to the text. Returns the same values as grammar_matcher_accept(). */
int mask_take(struct mask *mask, int32_t token);
/* Makes @fork, which is all zero or was used before, follow the text of @mask and then @token. The
 * caller frees it with mask_done(). Returns 0, -ENOMEM, or a result of grammar_matcher_accept(); if
 * the result is not 0, @fork has no matcher. */
int mask_fork(const struct mask *mask, int32_t token, struct mask *fork);

/* Computes a mask, unless it is ready. May be called only between masks_end() and masks_begin().
 * Returns 0 or the error of the matcher. */
int mask_make(struct mask *mask);

struct masks {
    struct loop_thread thread; /* the lock in it protects the members below */
    pthread_cond_t done;       /* a mask is ready */
    struct mask **jobs;        /* [max_masks] */
    uint32_t n_jobs, i_next;   /* the next job for the thread */
};

/* A step can need @max_masks masks. Returns 0 or -ENOMEM. */
int masks_init(struct masks *m, uint32_t max_masks);
void masks_done(struct masks *m);
/* Starts the thread. Without the thread, the threads that sample compute all masks. */
int masks_start(struct masks *m);

/* Adds a mask that the next step needs. May be called only between masks_end() and
 * masks_begin(). */
void masks_add(struct masks *m, struct mask *mask);
/* Wakes the thread if there are masks to compute. */
void masks_begin(struct masks *m);
/* Makes sure that @mask is ready. Several threads may call this function at once. */
void masks_await(struct masks *m, struct mask *mask);
/* Ends the work on masks. Masks that no thread has begun to compute stay stale. */
void masks_end(struct masks *m);
