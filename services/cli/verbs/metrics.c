/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce metrics: shows the history of requests, and compares saved benchmark runs
 *
 * The history comes from the gateway; the benchmark runs are in a file of the user.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/metrics/compare.h"
#include "cli/metrics/usage.h"
#include "cli/suite/http-get.h"
#include "common/config/config.h"
#include "core/str.h"

static const char help[] =
    "Usage: sconce metrics [--since TIME] [--by LIST] [--json | --plot FILE]\n"
    "       sconce metrics compare [--by WHAT] [--base NAME] [--model MODEL] [--json]\n"
    "Shows how many requests there were, by model and API key, and how fast the\n"
    "answers were.\n\n"
    "  --since TIME         how far back, such as 90min, 24h or 7d (default: 24h)\n"
    "  --by LIST            one line for each of these, separated by commas: hour or\n"
    "                       day, service, model, key (default: model)\n"
    "  --plot FILE          draw requests, speeds and times as an SVG image; - is\n"
    "                       standard output\n"
    "  --address WHERE      use the gateway at " HTTP_ADDRESS_FORMS "\n"
    "                       (default: the user's, else the system's)\n"
    "  --key KEY            API key that may manage (default: $SCONCE_API_KEY)\n"
    "  --json               print a JSON object\n\n"
    "The second form compares the runs of `sconce bench --save`. The exit status is 3\n"
    "if a newer version is slower by more than the threshold and more than the noise.\n\n"
    "  --by WHAT            compare by version, model or machine (default: version)\n"
    "  --base NAME          the version, model or machine to compare with (default:\n"
    "                       the one that was measured before the newest)\n"
    "  --model MODEL        only runs of this model\n"
    "  --threshold PERCENT  ignore smaller changes (default: 3)\n";

enum {
    METRICS_SLOWER = 3,
    METRICS_MAX_DAYS = 3660,
    METRICS_MAX_NAMES = 3,
};

struct metrics {
    const char *address, *key, *plot;
    char *found; /* the address, if it was not given */
    uint64_t since_usec;
    enum usage_step step;
    const char *by[METRICS_MAX_NAMES + 1]; /* NULL-terminated names */
    bool json;
};

/* Reads the list of --by. */
static bool metrics_read_by(struct metrics *m, char *list)
{
    static const char *const names[] = {"service", "model", "key"};
    size_t n = 0;
    char *word;

    m->step = USAGE_TOTAL;
    while ((word = strsep(&list, ","))) {
        size_t i = 0;

        while (i < ARRAY_SIZE(names) && strcmp(word, names[i]) != 0)
            i++;
        if (strcmp(word, "hour") == 0)
            m->step = USAGE_HOUR;
        else if (strcmp(word, "day") == 0)
            m->step = USAGE_DAY;
        else if (i == ARRAY_SIZE(names) || n == METRICS_MAX_NAMES)
            return false;
        else
            m->by[n++] = names[i];
    }
    m->by[n] = NULL;
    return true;
}

/* Parses the options. Returns CLI_OK with *ret_help, or the exit status of an error. */
static int metrics_parse(struct metrics *m, int argc, char **argv, bool *ret_help)
{
    static const struct option options[] = {
        {"since", required_argument, NULL, 's'}, {"by", required_argument, NULL, 'b'},
        {"plot", required_argument, NULL, 'p'},  {"address", required_argument, NULL, 'a'},
        {"key", required_argument, NULL, 'k'},   {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 's' && (!config_time(optarg, &m->since_usec) || m->since_usec < 60000000 ||
                         m->since_usec > (uint64_t)METRICS_MAX_DAYS * USAGE_DAY * 1000000))
            return cli_usage("metrics", "--since must be a time such as 24h or 7d");
        else if (c == 'b' && !metrics_read_by(m, optarg))
            return cli_usage("metrics", "--by lists hour or day, service, model and key");
        else if (c == 'p')
            m->plot = optarg;
        else if (c == 'a' && !http_address_is_good(optarg))
            return cli_usage("metrics", "--address must be " HTTP_ADDRESS_FORMS);
        else if (c == 'a')
            m->address = optarg;
        else if (c == 'k')
            m->key = optarg;
        else if (c == 'j')
            m->json = true;
        else if (c == 'h')
            *ret_help = true;
        else if (c == '?')
            return cli_usage("metrics", "wrong option");
    }
    if (optind < argc)
        return cli_usage("metrics", "unexpected argument \"%s\"", argv[optind]);
    return m->plot && m->json ? cli_usage("metrics", "--plot and --json exclude each other")
                              : CLI_OK;
}

/* Returns the seconds by which local time is ahead of UTC now. */
static int64_t local_offset(int64_t now)
{
    const time_t sec = (time_t)now;
    struct tm tm;

    localtime_r(&sec, &tm);
    return tm.tm_gmtoff;
}

/* Asks the gateway for the history; NULL after printing an error. */
static json_t *metrics_ask(const struct metrics *m, int64_t from, int64_t to, int64_t offset)
{
    _cleanup_str_ struct str body = {0}, path = {0};
    struct inf_err err = {0};
    json_t *answer, *error;
    int r = str_printf(&path, "/v1/history?from=%" PRId64 "&to=%" PRId64 "&offset=%" PRId64, from,
                       to, offset);

    for (size_t i = 0; m->by[i] && r == 0; i++)
        r = str_printf(&path, "%s%s", i ? "," : "&by=", m->by[i]);
    if (r == 0 && m->step)
        r = str_printf(&path, "&step=%d", (int)m->step);
    if (r < 0) {
        cli_error("metrics", "out of memory");
        return NULL;
    }
    r = http_get(m->address, path.data, m->key, &body, &err);
    if (r < 0) {
        if (!cli_tell_no_gateway("metrics", m->address, r))
            cli_error("metrics", "%s: %s", m->address, err.text[0] ? err.text : strerror(-r));
        return NULL;
    }
    answer = json_loadb(body.data ? body.data : "", body.len, 0, NULL);
    if (r == 200 && json_is_array(json_object_get(answer, "data")))
        return answer;
    error = json_object_get(json_object_get(answer, "error"), "message");
    cli_error("metrics", "%s",
              json_is_string(error) ? json_string_value(error) : "the gateway sent no history");
    json_decref(answer);
    return NULL;
}

static int metrics_draw(const struct metrics *m, const json_t *data, int64_t from, int64_t to,
                        int64_t offset)
{
    _cleanup_str_ struct str image = {0};
    const bool to_stdout = strcmp(m->plot, "-") == 0;
    FILE *file;
    bool ok;

    if (usage_plot(data, from, to, m->step, offset, &image) < 0)
        return cli_error("metrics", "out of memory");
    file = to_stdout ? stdout : fopen(m->plot, "we");
    if (!file)
        return cli_error("metrics", "%s: %s", m->plot, strerror(errno));
    ok = fwrite(image.data, 1, image.len, file) == image.len;
    ok &= (to_stdout ? fflush(file) : fclose(file)) == 0;
    return ok ? CLI_OK : cli_error("metrics", "%s cannot be written", m->plot);
}

static int metrics_print_json(json_t *object)
{
    const int r = object ? json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : -1;

    putchar('\n');
    return r == 0 ? CLI_OK : cli_error("metrics", "the answer cannot be printed");
}

static int metrics_show(struct metrics *m)
{
    const int64_t to = time(NULL) + 1, from = to - (int64_t)(m->since_usec / 1000000);
    const int64_t offset = local_offset(to);
    json_t *answer, *data;
    int r;

    if (m->plot) {
        m->step = m->since_usec > (uint64_t)4 * USAGE_DAY * 1000000 ? USAGE_DAY : USAGE_HOUR;
        m->by[0] = "model";
        m->by[1] = NULL;
    }
    answer = metrics_ask(m, from, to, offset);
    if (!answer)
        return CLI_FAILED;
    data = json_object_get(answer, "data");
    if (m->plot)
        r = metrics_draw(m, data, from, to, offset);
    else if (m->json)
        r = usage_add_speeds(data) < 0 ? cli_error("metrics", "out of memory")
                                       : metrics_print_json(answer);
    else {
        usage_print(data, m->step, m->by);
        r = CLI_OK;
    }
    json_decref(answer);
    return r;
}

/* --- sconce metrics compare --- */

struct comparison {
    enum compare_by by;
    const char *base, *model;
    double threshold;
    bool json;
};

static int comparison_parse(struct comparison *c, int argc, char **argv, bool *ret_help)
{
    static const struct option options[] = {
        {"by", required_argument, NULL, 'b'},
        {"base", required_argument, NULL, 'B'},
        {"model", required_argument, NULL, 'm'},
        {"json", no_argument, NULL, 'j'},
        {"threshold", required_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    static const char *const sides[] = {"version", "model", "machine"};
    double percent;
    int o;

    while ((o = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        size_t i = 0;

        while (o == 'b' && i < ARRAY_SIZE(sides) && strcmp(optarg, sides[i]) != 0)
            i++;
        if (i == ARRAY_SIZE(sides))
            return cli_usage("metrics", "--by is version, model or machine");
        if (o == 't' && !cli_real(optarg, 0, 100, &percent))
            return cli_usage("metrics", "--threshold must be a number from 0 to 100");
        if (o == 'b')
            c->by = (enum compare_by)i;
        else if (o == 'B')
            c->base = optarg;
        else if (o == 'm')
            c->model = optarg;
        else if (o == 't')
            c->threshold = percent / 100;
        else if (o == 'j')
            c->json = true;
        else if (o == 'h')
            *ret_help = true;
        else
            return cli_usage("metrics", "wrong option");
    }
    return optind < argc ? cli_usage("metrics", "unexpected argument \"%s\"", argv[optind])
                         : CLI_OK;
}

static const char *const verdicts[] = {"slower", "same", "faster"};

static json_t *comparison_object(const struct comparison *c, const struct compare_line *line)
{
    const struct run *a = line->after;

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:s}", "model", a->model,
        "weights", a->weights, "machine", a->machine, "isa", a->isa, "threads", (int)a->threads,
        "tokens", (int)(line->is_prefill ? a->n_prompt : a->n_generate), "what",
        line->is_prefill ? "prefill" : "decode", "before", compare_side(line->before, c->by),
        "after", compare_side(a, c->by), "before_tok_s", line->old.mean, "after_tok_s",
        line->now.mean, "change", line->change, "noise", line->noise, "verdict",
        verdicts[compare_verdict(line, c->threshold) + 1]);
}

static void comparison_print(const struct comparison *c, const struct compare_line *line,
                             const struct run **last)
{
    const struct run *a = line->after;

    if (*last != a)
        printf("%s%s, %s; %s, %s, %" PRIu32 " threads: %s → %s\n", *last ? "\n" : "", a->model,
               a->weights, a->machine, a->isa, a->threads, compare_side(line->before, c->by),
               compare_side(a, c->by));
    *last = a;
    printf("  %s %5" PRIu32 "  %9.2f → %9.2f tokens/s  %+6.1f %%  noise %.1f %%  %s\n",
           line->is_prefill ? "prompt of" : "generate ",
           line->is_prefill ? a->n_prompt : a->n_generate, line->old.mean, line->now.mean,
           line->change * 100, line->noise * 100,
           verdicts[compare_verdict(line, c->threshold) + 1]);
}

/* Prints the lines. Returns the exit status. */
static int comparison_show(const struct comparison *c, const struct compare_line *lines, size_t n)
{
    json_t *list = c->json ? json_array() : NULL, *out;
    const struct run *last = NULL;
    int r = CLI_OK;

    for (size_t i = 0; i < n; i++) {
        if (c->by == COMPARE_VERSIONS && compare_verdict(&lines[i], c->threshold) < 0)
            r = METRICS_SLOWER;
        if (c->json)
            json_array_append_new(list, comparison_object(c, &lines[i]));
        else
            comparison_print(c, &lines[i], &last);
    }
    if (!c->json && n == 0)
        fputs("There are no two runs to compare; `sconce bench MODEL --save` saves one.\n", stderr);
    if (!c->json)
        return r;
    out = json_pack("{s:O}", "comparisons", list);
    if (metrics_print_json(out) != CLI_OK)
        r = CLI_FAILED;
    json_decref(out);
    json_decref(list);
    return r;
}

/* Moves the runs of @model to the front. Returns their number. */
static size_t comparison_select(struct run *runs, size_t n, const char *model)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (!model || strcmp(runs[i].model, model) == 0)
            runs[kept++] = runs[i];
    return kept;
}

static int metrics_compare(int argc, char **argv)
{
    struct comparison c = {.threshold = 0.03};
    _cleanup_free_ struct compare_line *lines = NULL;
    _cleanup_free_ struct run *runs = NULL;
    struct inf_err err = {0};
    bool wants_help = false;
    size_t n, n_lines;
    int r = comparison_parse(&c, argc, argv, &wants_help);

    if (r != CLI_OK)
        return r;
    if (wants_help)
        return cli_help(help);
    if (runs_read(&runs, &n, &err) < 0)
        return cli_error("metrics", "%s", err.text);
    n = comparison_select(runs, n, c.model);
    if (compare_runs(runs, n, c.by, c.base, &lines, &n_lines) < 0)
        return cli_error("metrics", "out of memory");
    return comparison_show(&c, lines, n_lines);
}

int verb_metrics(int argc, char **argv)
{
    struct metrics m = {.since_usec = (uint64_t)USAGE_DAY * 1000000, .by = {"model"}};
    bool wants_help = false;
    int r;

    if (argc > 1 && strcmp(argv[1], "compare") == 0)
        return metrics_compare(argc - 1, argv + 1);
    r = metrics_parse(&m, argc, argv, &wants_help);
    if (r != CLI_OK)
        return r;
    if (wants_help)
        return cli_help(help);
    if (!m.key)
        m.key = getenv("SCONCE_API_KEY");
    if (!m.address)
        m.address = m.found = cli_find_gateway();
    r = m.address ? metrics_show(&m) : cli_error("metrics", "out of memory");
    free(m.found);
    return r;
}
