/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that steps of a real model on the CPU allocate nothing, and make no system calls except for
 * sleeping and waking. The linker routes malloc and related functions through a counter. A seccomp
 * filter on all threads of a child kills the child at any other system call. A step includes
 * sampling, text, log-probabilities and events.
 */
#include "lib/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "api/handle.h"
#include "core/cpu.h"

#define MODEL   "models/stories260K/stories260K.gguf"
#define N_SEQS  9
#define N_WARM  40
#define N_STEPS 150
#define N_CTX   512

static _Atomic unsigned long n_allocations;

#define COUNT(type, name, params, args)                                                            \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        n_allocations++;                                                                           \
        return __real_##name args;                                                                 \
    }

COUNT(void *, malloc, (size_t size), (size))
COUNT(void *, calloc, (size_t n, size_t size), (n, size))
COUNT(void *, realloc, (void *p, size_t size), (p, size))
COUNT(void *, aligned_alloc, (size_t align, size_t size), (align, size))

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    n_allocations += p != NULL;
    __real_free(p);
}

/* From now on forbids all system calls except futex(), reads of the clock, reads and writes of the
 * eventfd, and process exit. */
static void allow_nothing(int event_fd)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 6, 0),
        /* Reading the clock is a system call on machines without a clock in the vDSO. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)event_fd, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {ARRAY_SIZE(code), (struct sock_filter *)code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(77);
}

/* Makes the scheduler of an engine without a thread: the calling thread runs the ticks of the
 * scheduler. */
static struct sched *new_sched(struct inf_model *model, uint32_t n_threads)
{
    const struct setup setup = {
        .n_threads = n_threads,
        .n_ctx = N_CTX,
        .n_blocks = N_SEQS * N_CTX / 64,
        .max_rows = 64,
        .max_logits = N_SEQS + 4,
        .max_seqs = N_SEQS,
    };
    const struct sched_limits limits = {N_CTX, N_SEQS, N_SEQS};
    struct runner *runner;
    struct sched *sched;
    struct inf_err err;

    if (setup_runner(model, &setup, &runner, &err) < 0 ||
        sched_new(&runner, model->tok, &limits, &sched) < 0)
        _exit(3);
    return sched;
}

static void submit_all(struct sched *sched)
{
    static const struct inf_stop stop = {"a string that never comes", 25};
    static const int32_t prompt[] = {1, 403, 407, 261, 378};
    static const struct inf_sampling kinds[N_SEQS] = {
        {.temperature = 0},
        {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 1,
         .repetition_penalty = 1.1f,
         .penalty_last_n = 64,
         .presence_penalty = 0.2f},
        {.temperature = 1, .typical_p = 0.9f},
        {.temperature = 0, .frequency_penalty = 0.1f},
        {.temperature = 1, .dry_multiplier = 1, .dry_base = 1.75f, .dry_allowed_length = 2},
        {.temperature = 1, .top_n_sigma = 1, .xtc_probability = 0.5f, .xtc_threshold = 0.1f},
        {.temperature = 1, .mirostat = 2, .mirostat_tau = 5, .mirostat_eta = 0.1f},
    };
    static const struct inf_channel channel = {
        .close = prompt, .n_close = 2, .is_open = true, .budget = 60};

    for (size_t i = 0; i < N_SEQS; i++) {
        struct inf_request q = {
            .tokens = prompt,
            .n_tokens = ARRAY_SIZE(prompt),
            .sampling = kinds[i],
            .stops = &stop,
            .n_stops = i % 2,
            .ignore_eos = true,
            .n_logprobs = i < 3 ? -1 : 5,
            .post_logprobs = i == 7,
            .channel = i % 4 == 0 ? channel : (struct inf_channel){0},
        };
        uint64_t id;

        q.sampling.has_seed = true;
        q.sampling.seed = i;
        if (sched_submit(sched, &q, &id) != 0)
            _exit(4);
    }
}

/* Runs one step, and reads its events as a service does. */
static void step(struct sched *sched)
{
    struct inf_event event;
    unsigned n = 0;

    sched_tick(sched);
    while (events_next(&sched->events, &event))
        n++;
    if (n == 0 || sched->n_running != N_SEQS)
        _exit(5);
}

static void child(struct inf_model *model, uint32_t n_threads)
{
    struct sched *sched = new_sched(model, n_threads);
    unsigned long before;

    submit_all(sched);
    for (unsigned i = 0; i < N_WARM; i++)
        step(sched);
    before = n_allocations;
    allow_nothing(sched->events.fd);
    for (unsigned i = 0; i < N_STEPS; i++)
        step(sched);
    _exit(n_allocations == before ? 0 : 6);
}

static void check(uint32_t n_threads)
{
    const char *path = test_data(MODEL);
    const struct inf_model_params params = {.path = path};
    struct inf_model *model;
    struct inf_err err;
    int status;
    pid_t pid;

    if (!path)
        skip();
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(model, n_threads);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    inf_model_unref(model);
    if (WIFSIGNALED(status))
        fail_msg("a step called the kernel: signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == 77)
        skip(); /* seccomp filters are not available */
    if (WEXITSTATUS(status) == 6)
        fail_msg("a step allocated or freed memory");
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(steps_on_one_thread_make_no_system_calls)
{
    check(1);
}

TEST(steps_on_three_threads_only_synchronize)
{
    check(3);
}

RUN_TESTS(cmocka_unit_test(steps_on_one_thread_make_no_system_calls),
          cmocka_unit_test(steps_on_three_threads_only_synchronize))
