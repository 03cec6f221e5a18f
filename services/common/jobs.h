/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Work beside the loop: one thread, a queue, and completions that come back to the loop
 *
 * A job belongs to the thread between queueing and `done`; nobody else may touch it meanwhile.
 */

#include "core/macros.h"

struct jobs;
struct loop;

struct job {
    void (*run)(struct job *job);  /* on the thread */
    void (*done)(struct job *job); /* on the loop */
    struct job *next;
};

/* @name is static; at most 15 characters. */
int jobs_new(struct loop *loop, const char *name, struct jobs **ret_jobs);
/* Waits for the running job; those that wait are dropped without `done`. */
struct jobs *jobs_free(struct jobs *jobs);
void jobs_queue(struct jobs *jobs, struct job *job);
