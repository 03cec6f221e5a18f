/* SPDX-License-Identifier: Apache-2.0 */
/* Shares the computation of masks between the threads that sample and one thread of its own. */
#include "sched/masks.h"

#include <errno.h>

int guide_init(struct guide *g, struct inf_grammar *grammar, uint32_t n_vocab)
{
    int r;

    *g = (struct guide){0};
    if (!grammar)
        return 0;
    g->mask = NEW(uint32_t, DIV_UP(n_vocab, 32u));
    if (!g->mask)
        return -ENOMEM;
    r = grammar_matcher_new(grammar, &g->matcher);
    if (r < 0)
        free(STEAL(g->mask));
    return r;
}

void guide_done(struct guide *g)
{
    grammar_matcher_free(g->matcher);
    free(g->mask);
    *g = (struct guide){0};
}

int guide_take(struct guide *g, int32_t token)
{
    g->state = MASK_STALE;
    return grammar_matcher_accept(g->matcher, token);
}

/* Computes a mask. The lock is held, and released meanwhile. */
static void make_mask(struct masks *m, struct guide *g)
{
    int r;

    g->state = MASK_TAKEN;
    loop_thread_unlock(&m->thread);
    r = grammar_matcher_mask(g->matcher, g->mask);
    loop_thread_lock(&m->thread);
    g->error = r;
    g->state = MASK_READY;
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
        struct guide *g = m->jobs[m->i_next++];

        if (g->state == MASK_QUEUED)
            make_mask(m, g);
    }
    loop_thread_unlock(&m->thread);
}

int masks_init(struct masks *m, uint32_t max_seqs)
{
    *m = (struct masks){.jobs = NEW(struct guide *, max_seqs)};
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

void masks_add(struct masks *m, struct guide *g)
{
    if (g->state == MASK_READY)
        return;
    loop_thread_lock(&m->thread);
    g->state = MASK_QUEUED;
    m->jobs[m->n_jobs++] = g;
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

void masks_await(struct masks *m, struct guide *g)
{
    loop_thread_lock(&m->thread);
    if (g->state == MASK_QUEUED)
        make_mask(m, g);
    while (g->state == MASK_TAKEN)
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
