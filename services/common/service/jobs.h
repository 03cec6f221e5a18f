/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs jobs on separate threads, and reports on the event loop when a job has ended.
 *
 * Jobs wait in queues, called lanes. Jobs of one lane run one after the other, in order; lanes take
 * turns. A lane with slow jobs therefore keeps only one thread busy. If there are as many threads
 * as lanes, such a lane delays no other lane.
 *
 * From jobs_queue() until `done`, a job belongs to the threads; the loop must not access it.
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

/* @name names the threads. It is static and has at most 15 characters. */
int jobs_new(struct loop *loop, const char *name, unsigned n_threads, struct jobs **ret_jobs);
/* Waits until running jobs end. Drops waiting jobs without calling `done`. */
struct jobs *jobs_free(struct jobs *jobs);
/* Appends @job to @lane; NULL: to a lane that all callers without a lane share. */
void jobs_queue(struct jobs *jobs, struct job_lane *lane, struct job *job);
