/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers GET /v1/history.
 *
 * The parameters of the query are `from` and `to` (Unix seconds), `step` (seconds, or absent: one
 * sum), `offset` (seconds by which local time is ahead of UTC) and `by` (a list of service, model
 * and key, separated by commas).
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "common/config/config.h"
#include "common/http/problem.h"
#include "common/http/query.h"
#include "common/service/service.h"
#include "common/wire/json.h"
#include "core/str.h"
#include "history/histogram.h"
#include "history/history.h"

/* The most sums of one answer, so that the answer stays below the limits of clients. */
#define REPORT_ROWS 20000
#define REPORT_DAY  86400
#define REPORT_MAX  ((int64_t)1 << 40)

struct report {
    struct str out;
    size_t n;
};

/* Reads a whole number from @min to @max. If the parameter is absent, *value stays as it is. */
static int report_number(struct http_text query, const char *name, int64_t min, int64_t max,
                         int64_t *value, struct problem *problem)
{
    _cleanup_free_ char *text = query_find(query, name);
    char *end = NULL;
    long long number;

    if (!text)
        return 0;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < min || number > max)
        return problem_set(problem, 400, "invalid_value", name,
                           "Invalid value for '%s': it must be a whole number from %" PRId64
                           " to %" PRId64 ".",
                           name, min, max);
    *value = number;
    return 0;
}

static int report_by(struct http_text query, unsigned *ret_by, struct problem *problem)
{
    static const char *const names[] = {"service", "model", "key"};
    _cleanup_free_ char *text = query_find(query, "by");
    char *rest = text, *word;
    unsigned by = 0, bit;

    while (rest && (word = strsep(&rest, ","))) {
        bit = 0;
        for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
            bit |= strcmp(word, names[i]) == 0 ? 1u << i : 0;
        if (!bit)
            return problem_set(problem, 400, "invalid_value", "by",
                               "Invalid value for 'by': it lists service, model and key, separated "
                               "by commas.");
        by |= bit;
    }
    *ret_by = by;
    return 0;
}

static int report_query(struct http_text query, struct ledger_query *q, struct problem *problem)
{
    *q = (struct ledger_query){.to = time(NULL) + 1};
    if (report_number(query, "to", 0, REPORT_MAX, &q->to, problem) < 0)
        return -EINVAL;
    q->from = MAX(q->to - REPORT_DAY, 0);
    if (report_number(query, "from", 0, REPORT_MAX, &q->from, problem) < 0 ||
        report_number(query, "step", 60, 366 * REPORT_DAY, &q->step, problem) < 0 ||
        report_number(query, "offset", -REPORT_DAY, REPORT_DAY, &q->offset, problem) < 0)
        return -EINVAL;
    return report_by(query, &q->by, problem);
}

/* Writes the percentiles of a row: the values below which 50 % and 95 % of the values lie. */
static int report_percentiles(struct str *out, const struct history_row *row)
{
    static const struct {
        const char *name;
        double least;
    } spreads[HISTORY_SPREADS] = {
        [HISTORY_SPREAD_FIRST] = {"first_token_seconds", HISTORY_FIRST_LEAST},
        [HISTORY_SPREAD_SPEED] = {"tokens_per_second", HISTORY_SPEED_LEAST},
    };
    static const int shares[] = {50, 95};
    int r = 0;

    for (size_t i = 0; i < HISTORY_SPREADS; i++)
        for (size_t k = 0; k < ARRAY_SIZE(shares) && r == 0; k++) {
            const double value =
                histogram_percentile(&row->spreads[i], spreads[i].least, shares[k] / 100.0);

            r = str_printf(out, ",\"%s_p%d\":", spreads[i].name, shares[k]);
            if (r == 0)
                r = isnan(value) ? str_puts(out, "null") : str_printf(out, "%.4g", value);
        }
    return r;
}

static int report_row(void *data, const struct history_row *row)
{
    static const char *const names[HISTORY_NUMBERS] = {
        [HISTORY_REQUESTS] = "requests",
        [HISTORY_ERRORS] = "errors",
        [HISTORY_REFUSED] = "refused",
        [HISTORY_CANCELLED] = "cancelled",
        [HISTORY_PROMPT] = "prompt_tokens",
        [HISTORY_CACHED] = "cached_tokens",
        [HISTORY_GENERATED] = "generated_tokens",
        [HISTORY_NEXT] = "next_tokens",
        [HISTORY_GENERATE_USEC] = "generate_usec",
        [HISTORY_FIRSTS] = "first_tokens",
        [HISTORY_FIRST_USEC] = "first_usec",
        [HISTORY_FIRST_MAX] = "first_max_usec",
        [HISTORY_DURATION_USEC] = "duration_usec",
        [HISTORY_AUDIO_MSEC] = "audio_msec",
    };
    struct report *report = data;
    struct str *out = &report->out;
    int r;

    if (report->n++ == REPORT_ROWS)
        return -E2BIG;
    r = str_printf(out, "%s{\"time\":%" PRId64 ",\"service\":", report->n > 1 ? "," : "",
                   row->minute);
    r = r < 0 ? r : json_put_text(out, row->service);
    r = r < 0 ? r : str_puts(out, ",\"model\":");
    r = r < 0 ? r : json_put_text(out, row->model);
    r = r < 0 ? r : str_puts(out, ",\"key\":");
    r = r < 0 ? r : json_put_text(out, row->key);
    for (size_t i = 0; i < HISTORY_NUMBERS && r == 0; i++)
        r = str_printf(out, ",\"%s\":%" PRIu64, names[i], row->numbers[i]);
    r = r < 0 ? r : report_percentiles(out, row);
    return r < 0 ? r : str_putc(out, '}');
}

static int report_read(struct history *history, const struct ledger_query *q, struct report *report,
                       struct problem *problem)
{
    int r = str_printf(&report->out,
                       "{\"from\":%" PRId64 ",\"to\":%" PRId64 ",\"step\":%" PRId64 ",\"data\":[",
                       q->from, q->to, q->step);

    r = r < 0 ? r : ledger_read(history->ledger, q, report_row, report);
    r = r < 0 ? r : str_puts(&report->out, "]}");
    if (r == -E2BIG)
        return problem_set(problem, 400, "too_many_rows", "step",
                           "The answer would have more than %d rows: ask for a shorter time, or "
                           "for longer steps.",
                           REPORT_ROWS);
    if (r == -ENOMEM)
        return problem_no_memory(problem);
    return r < 0 ? problem_set(problem, 500, "history_unreadable", NULL,
                               "The history cannot be read: %s.", strerror(-r))
                 : 0;
}

void history_report(struct history *history, struct http_request *request)
{
    struct report report = {};
    struct ledger_query query;
    struct problem problem;
    int r = 0;

    service_touch(history->service);
    if (history->problem[0])
        r = problem_set(&problem, 503, "history_unavailable", NULL, "There is no history: %s.",
                        history->problem);
    else if (!history->ledger)
        r = problem_set(&problem, 404, "history_disabled", NULL,
                        "The history is switched off: history.enabled is false in the "
                        "configuration.");
    r = r < 0 ? r : report_query(http_request_query(request), &query, &problem);
    r = r < 0 ? r : report_read(history, &query, &report, &problem);
    if (r < 0)
        problem_send(&problem, request);
    else
        http_respond(request, 200, "application/json", report.out.data, report.out.len);
    str_done(&report.out);
}
