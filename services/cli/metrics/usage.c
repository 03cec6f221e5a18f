/* SPDX-License-Identifier: Apache-2.0 */
/* Prints and draws the history of requests (see usage.h). */
#include "cli/metrics/usage.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/metrics/plot.h"

/* The most columns of the terminal that a name takes. */
#define USAGE_NAME_MAX 48

static double row_number(const json_t *row, const char *name)
{
    return json_number_value(json_object_get(row, name));
}

/* Returns the mean speed at which one answer was written, in tokens per second; NAN: unknown. */
static double row_speed(const json_t *row)
{
    const double usec = row_number(row, "generate_usec"), n = row_number(row, "next_tokens");

    return n > 0 && usec > 0 ? n / usec * 1e6 : NAN;
}

/* Returns the mean time to the first token in seconds; NAN: no answer had a token. */
static double row_first(const json_t *row)
{
    const double n = row_number(row, "first_tokens");

    return n > 0 ? row_number(row, "first_usec") / n / 1e6 : NAN;
}

/* A percentile that the history service has computed; NAN: there is none. */
static double row_percentile(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double row_failed(const json_t *row)
{
    return row_number(row, "errors") + row_number(row, "refused");
}

int usage_add_speeds(json_t *data)
{
    json_t *row;
    size_t i;
    int r = 0;

    json_array_foreach(data, i, row)
    {
        const double speed = row_speed(row), first = row_first(row);

        r |= json_object_set_new(row, "tokens_per_second",
                                 isnan(speed) ? json_null() : json_real(speed));
        r |= json_object_set_new(row, "first_token_seconds",
                                 isnan(first) ? json_null() : json_real(first));
    }
    return r ? -ENOMEM : 0;
}

/* --- the table --- */

static const char *name_text(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text && text[0] ? text : "-";
}

static void print_number(double value, int width, int digits)
{
    if (isnan(value))
        printf("  %*s", width, "-");
    else
        printf("  %*.*f", width, digits, value);
}

/* Prints a time in seconds as milliseconds. */
static void print_time(double seconds)
{
    if (isnan(seconds))
        printf("  %9s", "-");
    else
        printf("  %6.0f ms", seconds * 1000);
}

static void print_period(int64_t when, enum usage_step step)
{
    const time_t sec = (time_t)when;
    char text[32];
    struct tm tm;

    if (!step)
        return;
    localtime_r(&sec, &tm);
    strftime(text, sizeof(text), step == USAGE_DAY ? "%Y-%m-%d" : "%Y-%m-%d %H:%M", &tm);
    printf("%-*s  ", step == USAGE_DAY ? 10 : 16, text);
}

static int name_width(const json_t *data, const char *name)
{
    int width = (int)strlen(name);
    const json_t *row;
    size_t i;

    json_array_foreach(data, i, row)
    {
        width = MAX(width, cli_columns(name_text(row, name)));
    }
    return MIN(width, USAGE_NAME_MAX);
}

static void print_head(const json_t *data, enum usage_step step, const char *const *by)
{
    if (step)
        printf("%-*s  ", step == USAGE_DAY ? 10 : 16, step == USAGE_DAY ? "DAY" : "HOUR");
    for (; *by; by++) {
        char head[16];
        size_t n = 0;

        for (; (*by)[n] && n + 1 < sizeof(head); n++)
            head[n] = (char)((*by)[n] - 'a' + 'A');
        head[n] = 0;
        printf("%-*s  ", name_width(data, *by), head);
    }
    printf("%8s  %6s  %9s  %7s  %9s  %8s  %8s  %8s  %9s  %9s  %9s  %9s\n", "REQUESTS", "FAILED",
           "PROMPT", "CACHED", "ANSWER", "TOKENS/S", "P50", "P95", "FIRST", "P50", "P95",
           "LONGEST");
}

static void print_row(const json_t *data, const json_t *row, enum usage_step step,
                      const char *const *by)
{
    const double prompt = row_number(row, "prompt_tokens");

    print_period((int64_t)row_number(row, "time"), step);
    for (; *by; by++)
        cli_print_column(name_text(row, *by), name_width(data, *by));
    printf("%8.0f  %6.0f  %9.0f", row_number(row, "requests"), row_failed(row), prompt);
    if (prompt > 0)
        printf("  %5.1f %%", row_number(row, "cached_tokens") / prompt * 100);
    else
        printf("  %7s", "-");
    printf("  %9.0f", row_number(row, "generated_tokens"));
    print_number(row_speed(row), 8, 1);
    print_number(row_percentile(row, "tokens_per_second_p50"), 8, 1);
    print_number(row_percentile(row, "tokens_per_second_p95"), 8, 1);
    print_time(row_first(row));
    print_time(row_percentile(row, "first_token_seconds_p50"));
    print_time(row_percentile(row, "first_token_seconds_p95"));
    print_time(isnan(row_first(row)) ? NAN : row_number(row, "first_max_usec") / 1e6);
    putchar('\n');
}

void usage_print(const json_t *data, enum usage_step step, const char *const *by)
{
    const json_t *row;
    size_t i;

    if (json_array_size(data) == 0) {
        fputs("There was no request in this time.\n", stderr);
        return;
    }
    print_head(data, step, by);
    json_array_foreach(data, i, row)
    {
        print_row(data, row, step, by);
    }
}

/* --- the image --- */

/* The panels of the image: requests, tokens per second, time to the first token. */
enum { DRAWN_REQUESTS, DRAWN_SPEED, DRAWN_FIRST, DRAWN_PANELS };

struct drawing {
    size_t n; /* periods */
    int64_t from, step;
    const char *names[PLOT_SERIES]; /* the models with the most requests; the last name may be
                                       "others" */
    size_t n_names;
    /* [n_names][n] sums: requests, and numerators and denominators of the other panels */
    double *requests, *next, *usec, *first, *firsts;
    char (*labels)[16];
    const char **label_list;
};

static void drawing_done(struct drawing *d)
{
    free(d->requests);
    free(d->next);
    free(d->usec);
    free(d->first);
    free(d->firsts);
    free(d->labels);
    free(d->label_list);
}

static int drawing_init(struct drawing *d)
{
    const size_t n = d->n * PLOT_SERIES;

    d->requests = NEW(double, n);
    d->next = NEW(double, n);
    d->usec = NEW(double, n);
    d->first = NEW(double, n);
    d->firsts = NEW(double, n);
    d->labels = calloc(d->n, sizeof(*d->labels));
    d->label_list = NEW(const char *, d->n);
    return d->requests && d->next && d->usec && d->first && d->firsts && d->labels && d->label_list
               ? 0
               : -ENOMEM;
}

static const char *row_model(const json_t *row)
{
    const char *model = json_string_value(json_object_get(row, "model"));

    return model && model[0] ? model : "no model";
}

static double requests_of(const json_t *data, const char *model)
{
    const json_t *row;
    double sum = 0;
    size_t i;

    json_array_foreach(data, i, row)
    {
        if (strcmp(row_model(row), model) == 0)
            sum += row_number(row, "requests");
    }
    return sum;
}

static bool drawing_has(const struct drawing *d, const char *model)
{
    for (size_t i = 0; i < d->n_names; i++)
        if (strcmp(d->names[i], model) == 0)
            return true;
    return false;
}

/* Returns the model with the most requests that has no color yet; NULL: all models have one. */
static const char *drawing_next(const struct drawing *d, const json_t *data)
{
    const char *best = NULL;
    const json_t *row;
    double most = 0;
    size_t i;

    json_array_foreach(data, i, row)
    {
        const char *model = row_model(row);
        const double n = drawing_has(d, model) ? 0 : requests_of(data, model);

        if (n > most) {
            most = n;
            best = model;
        }
    }
    return best;
}

/* Chooses the models that get a color of their own: those with the most requests. If more models
 * are left than colors, the last color is for all of these. */
static void drawing_choose(struct drawing *d, const json_t *data)
{
    const char *next;

    while (d->n_names < PLOT_SERIES && (next = drawing_next(d, data)))
        d->names[d->n_names++] = next;
    if (d->n_names == PLOT_SERIES && drawing_next(d, data))
        d->names[PLOT_SERIES - 1] = "(other models)";
}

static size_t drawing_series(const struct drawing *d, const char *model)
{
    size_t i = 0;

    while (i + 1 < d->n_names && strcmp(d->names[i], model) != 0)
        i++;
    return i;
}

static void drawing_fill(struct drawing *d, const json_t *data)
{
    const json_t *row;
    size_t i;

    json_array_foreach(data, i, row)
    {
        const int64_t period = ((int64_t)row_number(row, "time") - d->from) / d->step;
        const size_t at = drawing_series(d, row_model(row)) * d->n + (size_t)MAX(period, 0);

        if (period < 0 || (size_t)period >= d->n)
            continue;
        d->requests[at] += row_number(row, "requests");
        d->next[at] += row_number(row, "next_tokens");
        d->usec[at] += row_number(row, "generate_usec");
        d->first[at] += row_number(row, "first_usec");
        d->firsts[at] += row_number(row, "first_tokens");
    }
    for (i = 0; i < d->n * d->n_names; i++) {
        d->next[i] = d->usec[i] > 0 ? d->next[i] / d->usec[i] * 1e6 : NAN;
        d->first[i] = d->firsts[i] > 0 ? d->first[i] / d->firsts[i] / 1000 : NAN;
    }
}

static void drawing_label(struct drawing *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const time_t sec = (time_t)(d->from + (int64_t)i * d->step);
        struct tm tm;

        localtime_r(&sec, &tm);
        strftime(d->labels[i], sizeof(d->labels[i]), d->step < USAGE_DAY ? "%d %b %H:%M" : "%d %b",
                 &tm);
        d->label_list[i] = d->labels[i];
    }
}

static int drawing_write(const struct drawing *d, struct str *out)
{
    const double *const values[DRAWN_PANELS] = {d->requests, d->next, d->first};
    struct plot_series series[DRAWN_PANELS][PLOT_SERIES];
    const struct plot_panel panels[DRAWN_PANELS] = {
        {d->step < USAGE_DAY ? "Requests per hour" : "Requests per day", "", true, series[0],
         d->n_names},
        {"Tokens per second of an answer", "tokens/s", false, series[1], d->n_names},
        {"Time to the first token, mean", "ms", false, series[2], d->n_names},
    };

    for (size_t p = 0; p < DRAWN_PANELS; p++)
        for (size_t k = 0; k < d->n_names; k++)
            series[p][k] = (struct plot_series){d->names[k], values[p] + k * d->n};
    return plot_write(out, &(struct plot){.title = "sconce: requests by model",
                                          .labels = d->label_list,
                                          .n = d->n,
                                          .panels = panels,
                                          .n_panels = DRAWN_PANELS});
}

int usage_plot(const json_t *data, int64_t from, int64_t to, enum usage_step step, int64_t offset,
               struct str *out)
{
    struct drawing d = {.step = step, .from = from - (from + offset) % step};
    int r;

    d.n = (size_t)MAX((to - d.from + step - 1) / step, 1);
    r = drawing_init(&d);
    if (r == 0) {
        drawing_choose(&d, data);
        drawing_fill(&d, data);
        drawing_label(&d);
        r = drawing_write(&d, out);
    }
    drawing_done(&d);
    return r;
}
