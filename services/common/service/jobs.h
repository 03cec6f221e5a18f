/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Jobs: work on threads beside the loop, with completions on the loop
 *
 * Jobs wait in lanes. Jobs of one lane run one after the other, in order; lanes take turns. A lane
 * with slow jobs therefore keeps only one thread busy, and with as many threads as lanes it delays
 * no other lane.
 *
 * Between jobs_queue() and `done`, a job belongs to the thread; nothing else may access it.
 */

#include "core/macros.h"

struct jobs;
struct loop;

struct job {
    void (*run)(struct job *job);  /* called on a thread */
    void (*done)(struct job *job); /* called on the loop */
    struct job *next;
};

/* A zeroed lane is empty. It must outlive its jobs. */
struct job_lane {
    struct job *first, *last;
    bool busy; /* a job is running, or the lane waits for its turn */
    struct job_lane *next;
};

/* @name is static, with at most 15 characters. */
int jobs_new(struct loop *loop, const char *name, unsigned n_threads, struct jobs **ret_jobs);
/* Waits for running jobs. Waiting jobs are dropped without `done`. */
struct jobs *jobs_free(struct jobs *jobs);
/* @lane NULL: a common lane. */
void jobs_queue(struct jobs *jobs, struct job_lane *lane, struct job *job);
