/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the time that confinement takes at the start of a service.
 *
 *   bench-confine SERVICE [ROUNDS]
 *
 * Each round forks a process, because confinement cannot be undone.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/config/config.h"
#include "common/confine/confine.h"
#include "core/clock.h"

enum {
    MAX_ROUNDS = 1000,
};

struct times {
    double start, seal; /* ms */
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void measure(const char *service, const struct config *config, int fd)
{
    const uint64_t a = clock_usec();
    struct inf_err err = {0};
    struct times times;
    uint64_t b, c;

    if (confine_start(service, config, &err) < 0)
        goto failed;
    b = clock_usec();
    if (confine_seal(&err) < 0)
        goto failed;
    c = clock_usec();
    times = (struct times){(double)(b - a) / 1000, (double)(c - b) / 1000};
    if (write(fd, &times, sizeof(times)) == sizeof(times))
        _exit(0);
failed:
    fprintf(stderr, "%s\n", err.text);
    _exit(1);
}

int main(int argc, char **argv)
{
    const size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 100;
    double start[MAX_ROUNDS], seal[MAX_ROUNDS];
    _cleanup_(config_freep) struct config *config = NULL;
    struct times times;
    int fds[2], status;

    if (argc < 2 || n == 0 || n > MAX_ROUNDS || config_new(&config) < 0 || pipe(fds) < 0)
        return 2;
    for (size_t i = 0; i < n; i++) {
        const pid_t pid = fork();

        if (pid == 0)
            measure(argv[1], config, fds[1]);
        if (waitpid(pid, &status, 0) != pid || status != 0 ||
            read(fds[0], &times, sizeof(times)) != sizeof(times))
            return 1;
        start[i] = times.start;
        seal[i] = times.seal;
    }
    qsort(start, n, sizeof(*start), by_value);
    qsort(seal, n, sizeof(*seal), by_value);
    printf("%s: start %.2f ms, seal %.2f ms (medians of %zu); at most %.2f, %.2f\n", argv[1],
           start[n / 2], seal[n / 2], n, start[n - 1], seal[n - 1]);
    return 0;
}
