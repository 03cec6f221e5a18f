/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovers from a lost device.
 *
 * Only the KV blocks and their names are lost with a device. Tokens, generators, text and
 * log-probabilities are in the engine's memory. Running sequences are preempted, as if the pool
 * were full, and compute their blocks again when they are readmitted. While there is no device, no
 * sequence is admitted, but requests can be submitted and canceled.
 */
#include <errno.h>
#include <stdio.h>

#include "core/clock.h"
#include "sched/sched.h"

#define MAX_TRIES 6
/* Running requests fail after MAX_IN_A_ROW losses of the device without a complete step between
 * them, because then the device is broken or the repeated step crashes it. Running requests also
 * fail after MAX_WITHOUT_TOKEN losses without a new token; otherwise a request with a long prompt
 * could start over forever. */
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
    loop_thread_lock(&s->thread);
    s->stats.n_device_losses++;
    loop_thread_unlock(&s->thread);
    kv_pool_forget(s->runner->pool);
    if (s->speculation && s->speculation->drafter)
        kv_pool_forget(s->speculation->drafter->runner->pool);
    if (l->n_in_a_row < MAX_IN_A_ROW && l->n_without_token < MAX_WITHOUT_TOKEN) {
        sched_preempt_all(s);
        return;
    }
    give_up(l, "it was lost repeatedly");
    sched_fail_running(s, INF_FINISH_ERROR, l->error);
}

/* Sets the time of the next try to open the device. Each pause between tries is twice as long as
 * the pause before it. */
static void loss_schedule_retry(struct loss *l)
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
    /* The device is opened again only when a sequence waits for it. */
    if (s->n_waiting == 0 || clock_usec() < l->retry_usec)
        return false;
    if (b->ops->recover(b, &err) == 0) {
        l->lost = false;
        l->n_tries = 0;
        l->retry_usec = 0;
        return true;
    }
    if (++l->n_tries < MAX_TRIES) {
        loss_schedule_retry(l);
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
