/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the progress of a pull (see show.h). */
#include "cli/pull/show.h"

#include <stdio.h>
#include <time.h>

#include "cli/cli.h"

enum {
    SHOW_TERMINAL_USEC = 200000,
    SHOW_LINES_USEC = 2000000,
};

static uint64_t show_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void show_line(struct pull_show *s, uint64_t now)
{
    const uint64_t bytes = s->before + s->now;
    const double seconds = (double)(now - s->start_usec) / 1e6;
    const double rate = seconds > 0 ? (double)(bytes - s->start_bytes) / seconds : 0;

    fprintf(stderr, "%s%s: %s", s->is_terminal ? "\r" : "", s->what, cli_size(bytes));
    if (s->all != UINT64_MAX && s->all > 0)
        fprintf(stderr, " of %s, %.0f %%", cli_size(s->all), 100 * (double)bytes / (double)s->all);
    fprintf(stderr, ", %s/s", cli_size((uint64_t)rate));
    if (s->all != UINT64_MAX && rate > 0 && s->all >= bytes) {
        const uint64_t left = (uint64_t)((double)(s->all - bytes) / rate);

        fprintf(stderr, ", %llu:%02llu left", (unsigned long long)left / 60,
                (unsigned long long)left % 60);
    }
    fputs(s->is_terminal ? "\033[K" : "\n", stderr);
    fflush(stderr);
    s->is_drawn = true;
}

static void show_update(struct pull_show *s)
{
    const uint64_t now = show_now(), gap = s->is_terminal ? SHOW_TERMINAL_USEC : SHOW_LINES_USEC;

    if (s->start_usec == 0) {
        s->start_usec = s->shown_usec = now;
        s->start_bytes = s->before + s->now;
    }
    if (s->quiet || now - s->shown_usec < gap)
        return;
    s->shown_usec = now;
    show_line(s, now);
}

void pull_show_bytes(void *data, uint64_t bytes, uint64_t size)
{
    struct pull_show *s = data;

    if (s->all == UINT64_MAX && size != UINT64_MAX)
        s->all = size;
    s->now = bytes;
    show_update(s);
}

void pull_show_file(struct pull_show *s, uint64_t bytes)
{
    s->before += bytes;
    s->now = 0;
    show_update(s);
}

void pull_show_verified(void *data, uint64_t bytes)
{
    struct pull_show *s = data;

    s->now += bytes;
    show_update(s);
}

void pull_show_restart(struct pull_show *s, const char *what)
{
    pull_show_done(s);
    s->what = what;
    s->before = s->now = 0;
    s->start_usec = 0;
}

void pull_show_done(struct pull_show *s)
{
    if (s->is_drawn && s->is_terminal)
        fputs("\r\033[K", stderr);
    s->is_drawn = false;
}
