/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A pool of threads that run one function at the same time
 *
 * workers_run() calls fn(arg, i, n) on n threads, where the caller is thread 0, and returns when
 * all threads are done. Between runs the other threads spin briefly, then sleep. Inside fn,
 * workers_barrier() synchronizes all threads. Only one thread at a time may call workers_run().
 */

#include "core/macros.h"

struct workers;

typedef void (*workers_fn)(void *arg, unsigned i_thread, unsigned n_threads);

/* Starts a pool. @n_threads ≥ 1 includes the caller. -ENOMEM, -EAGAIN. */
int workers_new(unsigned n_threads, struct workers **ret_workers);
struct workers *workers_free(struct workers *w);
unsigned workers_count(const struct workers *w);
void workers_run(struct workers *w, workers_fn fn, void *arg);
/* Waits until all threads have called this function; only fn may call it. After the call, a thread
 * sees what all threads wrote before their calls. */
void workers_barrier(struct workers *w);
/* Like workers_barrier(), but calls idle(@arg) again and again while it waits, until idle() returns
 * false. idle() does small, optional pieces of work. */
void workers_barrier_idle(struct workers *w, bool (*idle)(void *arg), void *arg);
