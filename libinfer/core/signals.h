/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sets the signal masks of threads that the library starts. */

#include <pthread.h>
#include <signal.h>

#include "core/macros.h"

/* Blocks all signals except those for faults of the thread itself, until signals_restore(). Threads
 * that are started meanwhile inherit the mask, so that other signals go to the program's
 * threads. */
static inline void signals_block(sigset_t *ret_old)
{
    static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
    sigset_t set;

    sigfillset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        sigdelset(&set, faults[i]);
    pthread_sigmask(SIG_SETMASK, &set, ret_old);
}

static inline void signals_restore(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}
