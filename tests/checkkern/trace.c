/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists the instructions that a function executes, for predictions of its speed (harness.h).
 *
 * On x86-64 the trap flag makes the CPU raise SIGTRAP after each instruction. Linux clears the flag
 * while the handler runs. Other CPUs offer a process no such flag. There the program runs under an
 * emulator that writes the addresses (tests/bench/mca.py), and trace_begin() and trace_end() mark
 * the range.
 */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "harness.h"

#define TRACE_MAX (1u << 22)

static uintptr_t trace_steps[TRACE_MAX];
static size_t trace_n;

/* The bodies of these two functions differ, so that no compiler merges the functions. */
__attribute__((noinline)) static void trace_begin(void)
{
    __asm__ volatile("# begin");
}

__attribute__((noinline)) static void trace_end(void)
{
    __asm__ volatile("# end");
}

#if defined(__x86_64__)
static void trace_step(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    if (trace_n < TRACE_MAX)
        trace_steps[trace_n] = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    trace_n++;
}

static void trace_set(bool on)
{
    const unsigned long long flag = 0x100, old = __builtin_ia32_readeflags_u64();

    __builtin_ia32_writeeflags_u64(on ? old | flag : old & ~flag);
}
#else
static void trace_step(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    (void)context;
}

static void trace_set(bool on)
{
    (void)on;
}
#endif

void trace_run(void (*fn)(void *arg), void *arg)
{
    struct sigaction action = {.sa_sigaction = trace_step, .sa_flags = SA_SIGINFO};

    fn(arg); /* without a trace, because the first calls of library functions look up symbols */
    if (sigaction(SIGTRAP, &action, NULL) < 0) {
        perror("checkkern: sigaction");
        exit(2);
    }
    trace_set(true);
    trace_begin();
    fn(arg);
    trace_end();
    trace_set(false);
    if (trace_n > TRACE_MAX) {
        fprintf(stderr, "checkkern: the trace has %zu instructions, more than %u\n", trace_n,
                TRACE_MAX);
        exit(2);
    }
    printf("symbol trace_begin %#jx\n", (uintmax_t)(uintptr_t)trace_begin);
    for (size_t i = 0; i < trace_n; i++)
        printf("%jx\n", (uintmax_t)trace_steps[i]);
}
