/* SPDX-License-Identifier: Apache-2.0 */
/* Shares the computation of masks between the threads that sample and the mask thread. */
#include "sched/masks.h"

#include <errno.h>

int mask_init(struct mask *mask, struct inf_grammar *grammar, uint32_t n_vocab)
{
    int r;

    *mask = (struct mask){.n_vocab = n_vocab};
    if (!grammar)
        return 0;
    mask->bits = NEW(uint32_t, DIV_UP(n_vocab, 32u));
    if (!mask->bits)
        return -ENOMEM;
    r = grammar_matcher_new(grammar, &mask->matcher);
    if (r < 0)
        free(STEAL(mask->bits));
    return r;
}

void mask_done(struct mask *mask)
{
    grammar_matcher_free(mask->matcher);
    free(mask->bits);
    *mask = (struct mask){0};
}

int mask_take(struct mask *mask, int32_t token)
{
    mask->state = MASK_STALE;
    return grammar_matcher_accept(mask->matcher, token);
}

int mask_fork(const struct mask *mask, int32_t token, struct mask *fork)
{
    int r;

    fork->matcher = grammar_matcher_free(fork->matcher);
    fork->state = MASK_STALE;
    if (!fork->bits)
        fork->bits = NEW(uint32_t, DIV_UP(mask->n_vocab, 32u));
    if (!fork->bits)
        return -ENOMEM;
    fork->n_vocab = mask->n_vocab;
    r = grammar_matcher_clone(mask->matcher, &fork->matcher);
    r = r < 0 ? r : grammar_matcher_accept(fork->matcher, token);
    if (r != 0)
        fork->matcher = grammar_matcher_free(fork->matcher);
    return r;
}

int mask_make(struct mask *mask)
{
    if (mask->state != MASK_READY) {
        mask->error = grammar_matcher_mask(mask->matcher, mask->bits);
        mask->state = MASK_READY;
    }
    return mask->error;
}

/* Computes a mask. The caller holds the lock, which is released during the computation. */
static void make_mask(struct masks *m, struct mask *mask)
{
    int r;

    mask->state = MASK_TAKEN;
    loop_thread_unlock(&m->thread);
    r = grammar_matcher_mask(mask->matcher, mask->bits);
    loop_thread_lock(&m->thread);
    mask->error = r;
    mask->state = MASK_READY;
    pthread_cond_broadcast(&m->done);
}

static void run_masks(void *arg)
{
    struct masks *m = arg;

    loop_thread_lock(&m->thread);
    while (!m->thread.stop) {
        if (m->i_next == m->n_jobs) {
            loop_thread_wait(&m->thread);
            continue;
        }
        struct mask *mask = m->jobs[m->i_next++];

        if (mask->state == MASK_QUEUED)
            make_mask(m, mask);
    }
    loop_thread_unlock(&m->thread);
}

int masks_init(struct masks *m, uint32_t max_masks)
{
    *m = (struct masks){.jobs = NEW(struct mask *, max_masks)};
    if (!m->jobs)
        return -ENOMEM;
    loop_thread_init(&m->thread);
    pthread_cond_init(&m->done, NULL);
    return 0;
}

void masks_done(struct masks *m)
{
    if (!m->jobs)
        return;
    loop_thread_stop(&m->thread);
    pthread_cond_destroy(&m->done);
    loop_thread_done(&m->thread);
    free(STEAL(m->jobs));
}

int masks_start(struct masks *m)
{
    return loop_thread_start(&m->thread, "infer-grammar", run_masks, m);
}

void masks_add(struct masks *m, struct mask *mask)
{
    if (mask->state == MASK_READY)
        return;
    loop_thread_lock(&m->thread);
    mask->state = MASK_QUEUED;
    m->jobs[m->n_jobs++] = mask;
    loop_thread_unlock(&m->thread);
}

void masks_begin(struct masks *m)
{
    if (m->n_jobs == 0)
        return;
    loop_thread_lock(&m->thread);
    loop_thread_wake(&m->thread);
    loop_thread_unlock(&m->thread);
}

void masks_await(struct masks *m, struct mask *mask)
{
    loop_thread_lock(&m->thread);
    if (mask->state == MASK_QUEUED)
        make_mask(m, mask);
    while (mask->state == MASK_TAKEN)
        pthread_cond_wait(&m->done, &m->thread.lock);
    loop_thread_unlock(&m->thread);
}

void masks_end(struct masks *m)
{
    if (m->n_jobs == 0)
        return;
    loop_thread_lock(&m->thread);
    for (uint32_t i = 0; i < m->n_jobs; i++) {
        while (m->jobs[i]->state == MASK_TAKEN)
            pthread_cond_wait(&m->done, &m->thread.lock);
        if (m->jobs[i]->state == MASK_QUEUED)
            m->jobs[i]->state = MASK_STALE;
    }
    m->n_jobs = m->i_next = 0;
    loop_thread_unlock(&m->thread);
}
