/* SPDX-License-Identifier: Apache-2.0 */
/* Groups benchmark runs, and compares their speeds (see compare.h). */
#include "cli/metrics/compare.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The noise is this many standard errors of the difference. If the speeds are distributed normally,
 * chance alone exceeds 3 standard errors in 0.3 % of the comparisons. */
#define COMPARE_ERRORS 3.0
/* The largest number of runs of a side that count. Older runs are left out, because the machine may
 * have changed. */
#define COMPARE_RUNS 10u
/* The speed of a machine drifts by about this share between two runs. The spread within one run
 * does not show this drift, so the error of a side that has a single run is at least this. */
#define COMPARE_DRIFT 0.01

const char *compare_side(const struct run *run, enum compare_by by)
{
    return by == COMPARE_VERSIONS ? run->version : by == COMPARE_MODELS ? run->model : run->machine;
}

/* Returns whether two runs measured the same thing. The runs may differ in what @by compares. */
static bool run_is_alike(const struct run *a, const struct run *b, enum compare_by by)
{
    if (a->n_prompt != b->n_prompt || a->n_generate != b->n_generate || a->depth != b->depth ||
        a->streams != b->streams || a->batch != b->batch || strcmp(a->kv_type, b->kv_type) != 0)
        return false;
    if (by != COMPARE_MODELS && (strcmp(a->model, b->model) != 0 || a->bytes != b->bytes ||
                                 strcmp(a->weights, b->weights) != 0))
        return false;
    return by == COMPARE_MACHINES || (strcmp(a->machine, b->machine) == 0 &&
                                      strcmp(a->isa, b->isa) == 0 && a->threads == b->threads);
}

static double run_speed(const struct run *run, bool is_prefill)
{
    return is_prefill ? run->pp : run->tg;
}

/* The standard error of the mean of the rounds of one run. */
static double run_error(const struct run *run, bool is_prefill)
{
    const double stddev = is_prefill ? run->pp_stddev : run->tg_stddev;

    return stddev / sqrt(run->repeat > 0 ? run->repeat : 1);
}

/* Returns the mean speed of @of and of the runs before it that measured the same thing for the same
 * side and version, and the error of this mean. With several runs, the error comes from the spread
 * between the runs, or from the spread within each run if that is larger. */
static struct compare_speed side_speed(const struct run *runs, const struct run *of,
                                       enum compare_by by, bool is_prefill)
{
    struct compare_speed speed = {};
    double sum = 0, squares = 0, within = 0, between;

    for (const struct run *run = of; run >= runs && speed.n < COMPARE_RUNS; run--) {
        const double value = run_speed(run, is_prefill);

        if (!(value > 0) || !run_is_alike(run, of, by) || strcmp(run->version, of->version) != 0 ||
            strcmp(compare_side(run, by), compare_side(of, by)) != 0)
            continue;
        speed.n++;
        sum += value;
        squares += value * value;
        within += run_error(run, is_prefill) * run_error(run, is_prefill);
    }
    if (!speed.n)
        return speed;
    speed.mean = sum / (double)speed.n;
    within = sqrt(within) / (double)speed.n;
    if (speed.n == 1) {
        between = COMPARE_DRIFT * speed.mean;
    } else {
        const double n = (double)speed.n;

        between = sqrt(fmax(squares - n * speed.mean * speed.mean, 0) / (n - 1) / n);
    }
    speed.error = fmax(within, between);
    return speed;
}

/* Returns the run with which @newest is compared: the newest run of the same thing that has another
 * side, or the side @base if that is not NULL. If versions are compared and only one version was
 * measured, returns the run before @newest, so that two builds of this version can be compared.
 * NULL: there is no such run. */
static const struct run *find_before(const struct run *runs, size_t n, const struct run *newest,
                                     enum compare_by by, const char *base)
{
    const struct run *same = NULL;

    for (size_t i = n; i-- > 0;) {
        const struct run *run = &runs[i];
        const bool is_other = strcmp(compare_side(run, by), compare_side(newest, by)) != 0;

        if (run == newest || !run_is_alike(run, newest, by))
            continue;
        if (is_other && (!base || strcmp(compare_side(run, by), base) == 0))
            return run;
        if (!is_other && run < newest && !same)
            same = run;
    }
    return by == COMPARE_VERSIONS && !base ? same : NULL;
}

static void compare_add(const struct run *runs, const struct run *before, const struct run *after,
                        enum compare_by by, bool is_prefill, struct compare_line *lines, size_t *n)
{
    const bool same = strcmp(compare_side(before, by), compare_side(after, by)) == 0;
    struct compare_line line = {.before = before, .after = after, .is_prefill = is_prefill};

    line.old = side_speed(runs, before, by, is_prefill);
    /* A side is the mean of its runs. If both sides are the same version, the second side is only
     * the newest run. */
    line.now =
        same ? side_speed(after, after, by, is_prefill) : side_speed(runs, after, by, is_prefill);
    if (!(line.old.mean > 0) || !(line.now.mean > 0))
        return;
    line.change = line.now.mean / line.old.mean - 1;
    line.noise = COMPARE_ERRORS * hypot(line.old.error, line.now.error) / line.old.mean;
    lines[(*n)++] = line;
}

/* Returns whether there is a newer run of the same thing, which then makes the line. */
static bool is_superseded(const struct run *runs, size_t n, const struct run *run,
                          enum compare_by by)
{
    for (const struct run *other = run + 1; other < runs + n; other++)
        if (run_is_alike(run, other, by))
            return true;
    return false;
}

int compare_runs(const struct run *runs, size_t n, enum compare_by by, const char *base,
                 struct compare_line **ret_lines, size_t *ret_n)
{
    struct compare_line *lines = NEW(struct compare_line, 2 * n + 1);
    size_t n_lines = 0;

    if (!lines)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct run *before;

        if (is_superseded(runs, n, &runs[i], by))
            continue;
        before = find_before(runs, n, &runs[i], by, base);
        for (int part = 0; before && part < 2; part++)
            compare_add(runs, before, &runs[i], by, part == 0, lines, &n_lines);
    }
    *ret_lines = lines;
    *ret_n = n_lines;
    return 0;
}

int compare_verdict(const struct compare_line *line, double threshold)
{
    const double limit = fmax(threshold, line->noise);

    return line->change < -limit ? -1 : line->change > limit ? 1 : 0;
}
