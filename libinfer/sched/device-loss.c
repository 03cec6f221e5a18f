/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lost devices: a device is opened again and all go on from their tokens.
 *
 * Only the KV blocks are gone, and their names with them: tokens, generators, text and
 * log-probabilities are ours. What ran is preempted, as if the pool had been full, and computes its
 * blocks anew when it is admitted again. While the device is away nobody is admitted; submitting
 * and cancelling go on.
 */
#include <errno.h>
#include <stdio.h>

#include "core/clock.h"
#include "sched/sched.h"

#define MAX_TRIES 6
/* Losses until what runs is given up: without any step between them, and without any token. The
 * first means that the device is broken or dies of this very step, the second that whoever has a
 * long prompt would begin it for ever. */
#define MAX_IN_A_ROW      3
#define MAX_WITHOUT_TOKEN 24

static void give_up(struct loss *l, const char *reason)
{
    snprintf(l->error, sizeof(l->error), "the device was lost and could not be reopened: %s",
             reason);
    l->n_in_a_row = l->n_without_token = l->n_tries = 0;
    l->retry_usec = 0;
}

void sched_lose_device(struct sched *s)
{
    struct loss *l = &s->loss;

    l->lost = true;
    l->n_in_a_row++;
    l->n_without_token++;
    pthread_mutex_lock(&s->lock);
    s->stats.n_device_losses++;
    pthread_mutex_unlock(&s->lock);
    kv_pool_forget(s->runner->pool);
    if (l->n_in_a_row < MAX_IN_A_ROW && l->n_without_token < MAX_WITHOUT_TOKEN) {
        sched_preempt_all(s);
        return;
    }
    give_up(l, "it is lost again and again");
    sched_fail_running(s, INF_FINISH_ERROR, l->error);
}

/* When the next try is due: each pause is twice the one before. */
static void put_off(struct loss *l)
{
    l->retry_usec = clock_usec() + (l->pause_usec << (l->n_tries - 1));
}

bool sched_has_device(struct sched *s)
{
    struct backend *b = s->runner->backend;
    struct loss *l = &s->loss;
    struct inf_err err = {0};

    if (LIKELY(!l->lost))
        return true;
    /* Without work there is no hurry to hold a device. */
    if (s->n_waiting == 0 || clock_usec() < l->retry_usec)
        return false;
    if (b->ops->recover(b, &err) == 0) {
        l->lost = false;
        l->n_tries = 0;
        l->retry_usec = 0;
        return true;
    }
    if (++l->n_tries < MAX_TRIES) {
        put_off(l);
        return false;
    }
    give_up(l, err.text);
    sched_fail_waiting(s, INF_FINISH_ERROR, l->error);
    return false;
}

void sched_note_step(struct sched *s, uint32_t n_tokens)
{
    s->loss.n_in_a_row = 0;
    if (n_tokens > 0)
        s->loss.n_without_token = 0;
}
