/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce cache: inspects and cleans the KV cache on disk
 *
 * Only the cache service accesses its files, so this command sends requests to the service. A
 * request starts the service if it does not run.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "common/config/config.h"
#include "common/wire/cache-conn.h"
#include "core/file.h"

/* Timeout of a request. Each request reads some blocks, from a disk that may be slow. */
#define CACHE_TIMEOUT_USEC (60 * 1000000u)

static const char help[] =
    "Usage: sconce cache status [--json]\n"
    "       sconce cache ls [--tenants | --sessions] [--json]\n"
    "       sconce cache verify [--json]\n"
    "       sconce cache purge [--model NAME] [--tenant NAME] [--session ID]\n"
    "                          [--older-than TIME] [--all] [--json]\n"
    "Inspects, verifies and cleans the KV blocks of prompts that are stored on disk.\n\n"
    "  --tenants            ls: by tenant (API key or user) instead of by model\n"
    "  --sessions           ls: by session instead of by model\n"
    "  --model NAME         purge: only blocks of this model\n"
    "  --tenant NAME        purge: only blocks of this tenant, as `ls --tenants` names it\n"
    "  --session ID         purge: only blocks of this session\n"
    "  --older-than TIME    purge: only blocks that were not used for this time, such as 12h or "
    "7d\n"
    "  --all                purge: everything\n"
    "  --socket PATH        socket of the service (default: the user's, else the system's)\n"
    "  --json               print JSON\n";

struct request {
    struct cache_conn conn;
    bool json, all;
    enum cache_kind kind;
    struct cache_filter filter;
    const char *socket;
};

/* Returns the path of the user's socket, or of the system's if the user has none. */
static char *find_socket(void)
{
    char *path = NULL;

    if (config_socket_path("cache", &path) == 0 && path_exists(path))
        return path;
    free(path);
    return strdup("/run/sconce/cache.sock");
}

static int connect_to(struct request *q)
{
    _cleanup_free_ char *path = q->socket ? strdup(q->socket) : find_socket();
    int r = path ? cache_conn_open(&q->conn, path, "sconce cache", CACHE_TIMEOUT_USEC) : -ENOMEM;

    if (r == 0)
        return CLI_OK;
    if (r == -EACCES)
        return cli_error(
            "cache",
            "you have no permission to use %s: it belongs to root; try `sudo sconce cache ...`",
            path);
    if (r == -ENOENT || r == -ECONNREFUSED)
        return cli_error(
            "cache", "no service listens at %s; `sconce serve` or `sconce setup` opens this socket",
            path);
    if (r == -EPROTONOSUPPORT)
        return cli_error("cache", "the service at %s has another version; restart it", path);
    return cli_error("cache", "%s: %s", path ? path : "memory", strerror(-r));
}

/* Sends the request in the packet, with @fd (-1: none); prints errors itself. */
static int ask_with(struct request *q, int fd)
{
    const int r = cache_conn_call(&q->conn, fd);

    if (r < 0)
        return cli_error("cache", "the service does not answer: %s", strerror(-r));
    if (q->conn.head.status == -ENODEV)
        return cli_error("cache", "the service stores nothing; `sconce cache status` shows why");
    if (q->conn.head.status < 0)
        return cli_error("cache", "the service answered: %s", strerror(-q->conn.head.status));
    return CLI_OK;
}

static int cache_ask(struct request *q)
{
    return ask_with(q, -1);
}

static int bad_answer(void)
{
    return cli_error("cache", "the service sent an invalid answer; restart it");
}

static int print_json(json_t *j)
{
    const int bad = j ? json_dumpf(j, stdout, JSON_INDENT(2)) : -1;

    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

static int status_json(struct cache_status *s)
{
    json_t *j = json_pack("{s:s, s:s?}", "directory", s->directory, "problem",
                          s->problem[0] ? s->problem : NULL);

    for (size_t i = 0; i < cache_n_counters; i++)
        json_object_set_new(j, cache_counters[i].name,
                            json_integer((json_int_t)*cache_counter_at(s, i)));
    return print_json(j);
}

static void status_text(const struct cache_status *s)
{
    const uint64_t asked = s->found_blocks_total + s->missed_blocks_total;

    printf("directory  %s\n", s->directory[0] ? s->directory : "none");
    if (s->problem[0])
        printf("problem    %s\n", s->problem);
    printf("kept       %" PRIu64 " blocks, %s", s->blocks, cli_size(s->bytes));
    if (s->max_bytes)
        printf(" of %s", cli_size(s->max_bytes));
    printf(", in %" PRIu64 " segments; index %s\n", s->segments, cli_size(s->index_bytes));
    printf("disk       %s free\n", cli_size(s->free_bytes));
    /* The following lines count what happened since the service started. */
    if (asked > 0)
        printf("found      %" PRIu64 " of %" PRIu64 " blocks (%.0f %%), %s\n",
               s->found_blocks_total, asked, 100.0 * (double)s->found_blocks_total / (double)asked,
               cli_size(s->found_bytes_total));
    if (s->written_blocks_total + s->pending_blocks > 0)
        printf("written    %" PRIu64 " blocks, %s; %" PRIu64 " wait\n", s->written_blocks_total,
               cli_size(s->written_bytes_total), s->pending_blocks);
    if (s->evicted_blocks_total > 0)
        printf("evicted    %" PRIu64 " blocks, %s\n", s->evicted_blocks_total,
               cli_size(s->evicted_bytes_total));
    if (s->rejected_blocks_total + s->failed_blocks_total > 0)
        printf("bad        %" PRIu64 " blocks were damaged; %" PRIu64 " could not be written\n",
               s->rejected_blocks_total, s->failed_blocks_total);
}

static int ask_status(struct request *q, struct cache_status *ret_status)
{
    int r;

    cache_conn_ask(&q->conn, CACHE_STATUS, 0);
    r = cache_ask(q);
    if (r == CLI_OK && cache_read_status(&q->conn.body, q->conn.head.n, ret_status) < 0)
        return bad_answer();
    return r;
}

/* Proves to the service that this process may open the service's files. The service requires this
 * proof before it lists or removes blocks. */
static int cache_manage(struct request *q)
{
    _cleanup_free_ char *path = NULL;
    _cleanup_close_ int fd = -1;
    struct cache_status status;
    int r = ask_status(q, &status);

    if (r != CLI_OK)
        return r;
    path = path_join(status.directory, "lock");
    fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0 && status.problem[0])
        return cli_error("cache", "the service stores nothing: %s", status.problem);
    if (fd < 0)
        return cli_error(
            "cache",
            "you have no permission to open %s (%s), so you cannot list or remove what is "
            "stored there",
            path ? path : "the cache", strerror(errno));
    cache_conn_ask(&q->conn, CACHE_MANAGE, 0);
    return ask_with(q, fd);
}

static int run_status(struct request *q)
{
    struct cache_status status;
    const int r = ask_status(q, &status);

    if (r != CLI_OK)
        return r;
    if (q->json)
        return status_json(&status);
    status_text(&status);
    return CLI_OK;
}

/* Formats seconds in one unit: "3 h". */
static const char *age_text(uint64_t seconds)
{
    static char text[32];

    if (seconds < 120)
        snprintf(text, sizeof(text), "%" PRIu64 " s", seconds);
    else if (seconds < 7200)
        snprintf(text, sizeof(text), "%" PRIu64 " min", seconds / 60);
    else if (seconds < 2 * 86400)
        snprintf(text, sizeof(text), "%" PRIu64 " h", seconds / 3600);
    else
        snprintf(text, sizeof(text), "%" PRIu64 " d", seconds / 86400);
    return text;
}

static void list_row(const struct request *q, const struct cache_row *row, json_t *list)
{
    const struct cache_origin *o = &row->origin;

    if (q->json) {
        json_t *j = json_pack("{s:I, s:I, s:I}", "blocks", (json_int_t)row->blocks, "bytes",
                              (json_int_t)row->bytes, "unused_seconds", (json_int_t)row->age);

        if (q->kind == CACHE_MODELS) {
            json_object_set_new(j, "model", json_string(o->model));
            json_object_set_new(j, "codec", json_string(o->codec));
        } else {
            json_object_set_new(j, q->kind == CACHE_TENANTS ? "tenant" : "session",
                                json_string(q->kind == CACHE_TENANTS ? o->tenant : o->session));
        }
        json_array_append_new(list, j);
        return;
    }
    printf("%10" PRIu64 "  %10s  %8s  ", row->blocks, cli_size(row->bytes), age_text(row->age));
    if (q->kind == CACHE_MODELS)
        printf("%s (%s)\n", o->model, o->codec);
    else if (q->kind == CACHE_TENANTS)
        puts(o->tenant[0] ? o->tenant : "(no key)");
    else
        puts(o->session);
}

static int list_page(struct request *q, struct cache_step *step, json_t *list)
{
    struct cache_row rows[CACHE_MAX_ROWS];
    int r;

    cache_conn_ask(&q->conn, CACHE_LIST, 0);
    cache_put_kind(&q->conn.packet, q->kind);
    cache_put_step(&q->conn.packet, step);
    r = cache_ask(q);
    if (r != CLI_OK)
        return r;
    if (cache_read_step(&q->conn.body, step) < 0 ||
        cache_read_rows(&q->conn.body, q->conn.head.n, rows) < 0)
        return bad_answer();
    for (uint32_t i = 0; i < q->conn.head.n; i++)
        list_row(q, &rows[i], list);
    return CLI_OK;
}

static int run_ls(struct request *q)
{
    static const char *const heads[] = {"MODEL", "API KEY", "SESSION"};
    struct cache_step step = {0};
    json_t *list = json_array();
    int r;

    if (!q->json)
        printf("%10s  %10s  %8s  %s\n", "BLOCKS", "SIZE", "UNUSED", heads[q->kind]);
    do
        r = list_page(q, &step, list);
    while (r == CLI_OK && step.cursor);
    if (r == CLI_OK && q->json)
        return print_json(list);
    json_decref(list);
    return r;
}

/* Repeats the request @type, PURGE or VERIFY, until the service has handled all blocks. */
static int run_steps(struct request *q, enum cache_type type, struct cache_step *step)
{
    struct cli_progress bar = {.label = type == CACHE_VERIFY ? "Reading" : "Removing"};
    int r;

    do {
        cache_conn_ask(&q->conn, type, 0);
        if (type == CACHE_PURGE)
            cache_put_filter(&q->conn.packet, &q->filter);
        cache_put_step(&q->conn.packet, step);
        r = cache_ask(q);
        if (r == CLI_OK && cache_read_step(&q->conn.body, step) < 0)
            r = bad_answer();
        if (step->total > 0)
            cli_progress(&bar, MIN(1.0, (double)step->seen / (double)step->total));
    } while (r == CLI_OK && step->cursor);
    cli_progress_done(&bar);
    return r;
}

static int run_verify(struct request *q)
{
    struct cache_step step = {0};
    const int r = run_steps(q, CACHE_VERIFY, &step);

    if (r != CLI_OK)
        return r;
    if (q->json)
        return print_json(json_pack("{s:I, s:I, s:I}", "blocks", (json_int_t)step.seen,
                                    "bad_blocks", (json_int_t)step.blocks, "bad_bytes",
                                    (json_int_t)step.bytes));
    if (step.blocks > 0)
        printf("%" PRIu64 " of %" PRIu64 " blocks were damaged, and were removed.\n", step.blocks,
               step.seen);
    else
        printf("All %" PRIu64 " blocks are intact.\n", step.seen);
    return CLI_OK;
}

static int run_purge(struct request *q)
{
    const struct cache_filter *f = &q->filter;
    struct cache_step step = {0};
    int r;

    if (!q->all && !f->model[0] && !f->tenant[0] && !f->session[0] && !f->older_than)
        return cli_usage("cache",
                         "purge needs one of the options --all, --model, --tenant, --session "
                         "and --older-than");
    r = run_steps(q, CACHE_PURGE, &step);
    if (r != CLI_OK)
        return r;
    if (q->json)
        return print_json(json_pack("{s:I, s:I}", "blocks", (json_int_t)step.blocks, "bytes",
                                    (json_int_t)step.bytes));
    printf("%" PRIu64 " blocks were removed, %s.\n", step.blocks, cli_size(step.bytes));
    return CLI_OK;
}

/* Converts "90", "12h", "7d" to seconds. */
static bool parse_time(const char *text, uint64_t *ret_seconds)
{
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400}};
    _cleanup_free_ char *digits = strdup(text);
    const size_t n = strlen(text);
    uint64_t factor = 1, count;

    for (size_t i = 0; digits && n > 0 && i < ARRAY_SIZE(units); i++)
        if (digits[n - 1] == units[i].unit) {
            factor = units[i].seconds;
            digits[n - 1] = 0;
            break;
        }
    return digits && cli_number(digits, UINT32_MAX, &count) && count > 0 &&
           size_mul(count, factor, ret_seconds);
}

static int take_text(char *field, size_t size, const char *option, const char *text)
{
    if (!text[0] || strlen(text) >= size)
        return cli_usage("cache", "%s: \"%s\" is not a name", option, text);
    cache_text_set(field, size, text);
    return CLI_OK;
}

static int take_option(struct request *q, int c)
{
    struct cache_filter *f = &q->filter;

    switch (c) {
    case 'j':
        q->json = true;
        return CLI_OK;
    case 'a':
        q->all = true;
        return CLI_OK;
    case 'S':
        q->kind = CACHE_SESSIONS;
        return CLI_OK;
    case 'T':
        q->kind = CACHE_TENANTS;
        return CLI_OK;
    case 'k':
        q->socket = optarg;
        return CLI_OK;
    case 'm':
        return take_text(f->model, sizeof(f->model), "--model", optarg);
    case 't':
        return take_text(f->tenant, sizeof(f->tenant), "--tenant", optarg);
    case 's':
        return take_text(f->session, sizeof(f->session), "--session", optarg);
    case 'o':
        if (!parse_time(optarg, &f->older_than))
            return cli_usage("cache", "--older-than: \"%s\" is not a time such as 12h or 7d",
                             optarg);
        return CLI_OK;
    default:
        return cli_usage("cache", "wrong option");
    }
}

int verb_cache(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"all", no_argument, NULL, 'a'},
        {"sessions", no_argument, NULL, 'S'},
        {"tenants", no_argument, NULL, 'T'},
        {"socket", required_argument, NULL, 'k'},
        {"model", required_argument, NULL, 'm'},
        {"tenant", required_argument, NULL, 't'},
        {"session", required_argument, NULL, 's'},
        {"older-than", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    static const struct {
        const char *name;
        int (*run)(struct request *q);
        bool manages;
    } words[] = {{"status", run_status, false},
                 {"ls", run_ls, true},
                 {"verify", run_verify, true},
                 {"purge", run_purge, true}};
    struct request q = {.conn = CACHE_CONN_INIT};
    int c, r = CLI_USAGE;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'h')
            return cli_help(help);
        r = take_option(&q, c);
        if (r != CLI_OK)
            return r;
    }
    if (optind + 1 != argc)
        return cli_usage("cache", "one of status, ls, verify and purge is required");
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(argv[optind], words[i].name) == 0) {
            r = connect_to(&q);
            if (r == CLI_OK && words[i].manages)
                r = cache_manage(&q);
            if (r == CLI_OK)
                r = words[i].run(&q);
            cache_conn_close(&q.conn);
            return r;
        }
    return cli_usage("cache", "\"%s\" is not one of status, ls, verify and purge", argv[optind]);
}
