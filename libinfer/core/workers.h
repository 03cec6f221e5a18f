/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A pool of threads that run one function together
 *
 * workers_run() calls fn(arg, i, n) on n threads, the caller being thread 0, and returns when all
 * are done. Between runs the others spin shortly, then sleep. Inside fn, workers_barrier() meets
 * all threads. One thread at a time may call workers_run().
 */

#include "core/macros.h"

struct workers;

typedef void (*workers_fn)(void *arg, unsigned i_thread, unsigned n_threads);

/* @n_threads ≥ 1, the caller's included. -ENOMEM, -EAGAIN. */
int workers_new(unsigned n_threads, struct workers **ret_workers);
struct workers *workers_free(struct workers *w);
unsigned workers_count(const struct workers *w);
void workers_run(struct workers *w, workers_fn fn, void *arg);
/* Only inside fn. Memory written before it is seen by all after it. */
void workers_barrier(struct workers *w);
/* The same; while it spins, it calls idle(@arg) until that returns false: small pieces of work that
 * somebody may also leave undone. */
void workers_barrier_idle(struct workers *w, bool (*idle)(void *arg), void *arg);
