/* SPDX-License-Identifier: Apache-2.0 */

/*
 * checkkern [--seed N] [--test NAME] [--rung NAME] [--threads N] [--bench] [--list]
 *
 * Prints its seed; the same seed repeats a failure. A crash inside a kernel is told with the
 * names of the check and the rung.
 */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "harness.h"

static const struct entry {
    const char *name;
    void (*check)(struct check *c);
    void (*bench)(struct check *c);
} entries[] = {
#define X(name) {#name, check_##name, bench_##name},
    CHECKS(X)
#undef X
};

static struct check current;

static void crashed(int sig)
{
    char line[160];
    const int n = snprintf(line, sizeof(line), "checkkern: signal %d in %s, %s\n", sig,
                           current.test, current.rung);

    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        _exit(3);
    _exit(2);
}

static int run(const char *test, const char *rung, uint64_t seed, bool bench)
{
    unsigned n_failed = 0, n_run = 0;

    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        if (test && strcmp(test, entries[i].name) != 0)
            continue;
        for (size_t r = 0; cpu_rung_at(r); r++) {
            const uint64_t start = clock_usec();

            if (rung && strcmp(rung, cpu_rung_at(r)) != 0)
                continue;
            current = (struct check){
                .test = entries[i].name, .rung = cpu_rung_at(r), .n_threads = current.n_threads};
            rng_seed(&current.rng, seed + i);
            if (cpu_rung_flags(current.rung, &current.flags) < 0)
                continue;
            n_run++;
            if (bench) {
                entries[i].bench(&current);
                continue;
            }
            entries[i].check(&current);
            n_failed += current.n_failed;
            printf("%s %-20s %-8s %5u cases, %u failed, %.2f s\n",
                   current.n_failed ? "not ok" : "ok", current.test, current.rung, current.n_cases,
                   current.n_failed, (double)(clock_usec() - start) * 1e-6);
        }
    }
    if (n_run == 0)
        fprintf(stderr, "checkkern: nothing to do\n");
    return n_failed > 0 || n_run == 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"test", required_argument, NULL, 't'},
        {"rung", required_argument, NULL, 'r'},
        {"threads", required_argument, NULL, 'j'},
        {"bench", no_argument, NULL, 'b'},
        {"list", no_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    const char *test = NULL, *rung = NULL;
    uint64_t seed = clock_nsec();
    bool bench = false;
    int opt;

    current.n_threads = cpu_count();
    while ((opt = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (opt) {
        case 's':
            seed = strtoull(optarg, NULL, 0);
            break;
        case 't':
            test = optarg;
            break;
        case 'r':
            rung = optarg;
            break;
        case 'j':
            current.n_threads = MAX((unsigned)strtoul(optarg, NULL, 0), 1u);
            break;
        case 'b':
            bench = true;
            break;
        case 'l':
            for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
                puts(entries[i].name);
            return 0;
        default:
            return 2;
        }
    }
    current.test = current.rung = "start";
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGILL, crashed);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu\n", (unsigned long long)seed);
    return run(test, rung, seed, bench);
}
