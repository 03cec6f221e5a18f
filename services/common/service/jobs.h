/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Work beside the loop: threads, queues, and completions that come back to the loop
 *
 * Jobs wait in lanes. Those of one lane run one after the other, in their order; lanes take turns.
 * So a lane whose jobs are slow keeps one thread busy, and with as many threads as lanes it delays
 * no other.
 *
 * A job belongs to the thread between queueing and `done`; nobody else may touch it meanwhile.
 */

#include "core/macros.h"

struct jobs;
struct loop;

struct job {
    void (*run)(struct job *job);  /* on a thread */
    void (*done)(struct job *job); /* on the loop */
    struct job *next;
};

/* Zeroed memory is an empty lane. It must outlive its jobs. */
struct job_lane {
    struct job *first, *last;
    bool busy; /* runs a job, or waits for its turn */
    struct job_lane *next;
};

/* @name is static; at most 15 characters. */
int jobs_new(struct loop *loop, const char *name, unsigned n_threads, struct jobs **ret_jobs);
/* Waits for the running jobs; those that wait are dropped without `done`. */
struct jobs *jobs_free(struct jobs *jobs);
/* @lane NULL: that of all who name none. */
void jobs_queue(struct jobs *jobs, struct job_lane *lane, struct job *job);
