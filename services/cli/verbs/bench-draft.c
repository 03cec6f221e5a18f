/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce bench --draft, --draft-kind: measures how much faster texts are with drafts
 * (infer/engine.h)
 *
 * Two engines for the same model, one without and one with drafts, continue the same prompts, which
 * are parts of a text. In each round both engines run, one after the other. The engine that runs
 * first changes from round to round, so that other load on the machine affects both engines
 * equally. The printed values are medians of the rounds. Each round has a cache salt of its own, so
 * that no round can reuse what an earlier round computed. On a CPU, both engines must generate the
 * same texts.
 */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "cli/verbs/bench-draft.h"

#include "core/clock.h"

#define MAX_STREAMS 64u

/* One text that an engine writes. */
struct stream {
    int32_t *tokens; /* [n_generate] */
    uint32_t n;
};

struct draft_bench {
    const struct draft_bench_params *params;
    struct inf_engine *engines[2]; /* without and with drafts */
    int32_t *text;
    size_t n_text;
    struct stream streams[2][MAX_STREAMS];
    double *speeds[2], *ratios; /* [n_repeat] */
    double *cpu_ratios;         /* [n_repeat]: the same by processor time */
};

static void draft_bench_done(struct draft_bench *b)
{
    for (unsigned k = 0; k < 2; k++) {
        inf_engine_free(b->engines[k]);
        free(b->speeds[k]);
        for (unsigned i = 0; i < MAX_STREAMS; i++)
            free(b->streams[k][i].tokens);
    }
    free(b->ratios);
    free(b->cpu_ratios);
    free(b->text);
}

static int read_text(struct draft_bench *b)
{
    const struct draft_bench_params *p = b->params;
    const struct inf_tokenizer *tok = inf_model_tokenizer(p->model);
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r;

    if (!tok)
        return cli_error("bench", "the model has no tokenizer");
    r = cli_read("bench", p->file, &text, &len);
    if (r != CLI_OK)
        return r;
    r = inf_tokenizer_encode(tok, text, len, INF_ENCODE_ADD_SPECIAL, 0, &b->text, &b->n_text);
    if (r < 0)
        return cli_error("bench", "%s", strerror(-r));
    if (b->n_text < p->n_prompt)
        return cli_error("bench", "the text has %zu tokens, fewer than the prompt", b->n_text);
    return CLI_OK;
}

static int open_engines(struct draft_bench *b)
{
    const struct draft_bench_params *p = b->params;
    struct inf_err err;

    for (unsigned k = 0; k < 2; k++) {
        const struct inf_engine_params engine = {
            .model = p->model,
            .device = p->device,
            .cache_dir = p->cache_dir,
            .isa = p->isa,
            .kv_type = p->kv_type,
            .n_threads = p->n_threads,
            .n_ctx = p->n_prompt + p->n_generate + 1,
            .max_seqs = p->n_streams,
            .draft_kind = k ? p->kind : "none",
            .max_draft = p->max_draft,
            .draft_model = k ? p->draft_model : NULL,
        };

        if (inf_engine_new(&engine, &b->engines[k], &err) < 0)
            return cli_error("bench", "%s", err.text);
        for (uint32_t i = 0; i < p->n_streams; i++) {
            b->streams[k][i].tokens = calloc(p->n_generate, sizeof(int32_t));
            if (!b->streams[k][i].tokens)
                return cli_error("bench", "out of memory");
        }
    }
    return CLI_OK;
}

/* Submits the prompt of stream @i to engine @k. The prompt is a part of the text; the parts of the
 * streams begin at equal distances. */
static int submit_stream(struct draft_bench *b, unsigned k, uint32_t i, const char *salt)
{
    const struct draft_bench_params *p = b->params;
    struct stream *stream = &b->streams[k][i];
    const size_t room = b->n_text - p->n_prompt;
    const struct inf_request request = {
        .tokens = b->text + (p->n_streams > 1 ? room * i / (p->n_streams - 1) : 0),
        .n_tokens = p->n_prompt,
        .max_tokens = p->n_generate,
        .sampling = {.temperature = p->temperature, .has_seed = true, .seed = i},
        .ignore_eos = true,
        .n_logprobs = -1,
        .cache_salt = salt,
        .cache_salt_len = strlen(salt),
        .user = stream,
    };
    struct inf_err err;
    uint64_t id;

    stream->n = 0;
    if (inf_engine_submit(b->engines[k], &request, &id, &err) != 0)
        return cli_error("bench", "%s", err.text);
    return CLI_OK;
}

/* Returns the processor time of this process in seconds. */
static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Lets engine @k generate its texts. *ret_speed: tokens per second after all prompts were
 * computed; *ret_cpu_speed: tokens per second of processor time. */
static int run_engine(struct draft_bench *b, unsigned k, const char *salt, double *ret_speed,
                      double *ret_cpu_speed)
{
    const uint32_t n_streams = b->params->n_streams;
    uint32_t n_prompted = 0, n_ended = 0, n_tokens = 0, n_before = 0;
    uint64_t begin = 0;
    double cpu_begin = 0;

    for (uint32_t i = 0; i < n_streams; i++)
        if (submit_stream(b, k, i, salt) != CLI_OK)
            return CLI_FAILED;
    while (n_ended < n_streams) {
        struct inf_event e;
        struct stream *stream;
        const int r = inf_engine_wait_event(b->engines[k], -1, &e);

        if (r < 0)
            return cli_error("bench", "%s", strerror(-r));
        if (r == 0)
            continue;
        stream = e.user;
        if (e.kind == INF_EVENT_PROMPT && ++n_prompted == n_streams) {
            begin = clock_nsec();
            cpu_begin = cpu_seconds();
            n_before = n_tokens;
        }
        for (size_t i = 0; e.kind == INF_EVENT_TOKENS && i < e.n_tokens; i++, n_tokens++)
            stream->tokens[stream->n++] = e.tokens[i].token;
        if (e.kind == INF_EVENT_FINISH && e.finish != INF_FINISH_LENGTH)
            return cli_error("bench", "a text ended early: %s", e.error ? e.error : "");
        n_ended += e.kind == INF_EVENT_FINISH;
    }
    *ret_cpu_speed = (n_tokens - n_before) / MAX(cpu_seconds() - cpu_begin, 1e-9);
    *ret_speed = (double)(n_tokens - n_before) * 1e9 / (double)MAX(clock_nsec() - begin, 1u);
    return CLI_OK;
}

static bool texts_are_equal(const struct draft_bench *b)
{
    for (uint32_t i = 0; i < b->params->n_streams; i++) {
        const struct stream *x = &b->streams[0][i], *y = &b->streams[1][i];

        if (x->n != y->n || memcmp(x->tokens, y->tokens, x->n * sizeof(*x->tokens)) != 0)
            return false;
    }
    return true;
}

/* Returns whether texts with and without drafts must be equal on @device; NULL: the CPU. */
static bool draft_is_exact(const char *device)
{
    return !device || strcmp(device, "cpu") == 0;
}

/* Measures one round. Round 0 is a warm-up, whose speeds are dropped. */
static int run_round(struct draft_bench *b, uint32_t i_round)
{
    double speeds[2], cpu[2];
    char salt[16];

    snprintf(salt, sizeof(salt), "%" PRIu32, i_round);
    for (unsigned k = 0; k < 2; k++) {
        const unsigned i = (k + i_round) % 2;

        if (run_engine(b, i, salt, &speeds[i], &cpu[i]) != CLI_OK)
            return CLI_FAILED;
    }
    /* On a GPU texts may differ: the last bits of a row depend on the number of rows of a step. */
    if (!texts_are_equal(b) && draft_is_exact(b->params->device))
        return cli_error("bench", "the texts with and without drafts differ");
    if (i_round == 0)
        return CLI_OK;
    for (unsigned k = 0; k < 2; k++)
        b->speeds[k][i_round - 1] = speeds[k];
    b->ratios[i_round - 1] = speeds[1] / speeds[0];
    b->cpu_ratios[i_round - 1] = cpu[1] / cpu[0];
    return CLI_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *x, uint32_t n)
{
    qsort(x, n, sizeof(*x), compare_doubles);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static int print_result(const struct draft_bench *b)
{
    const struct draft_bench_params *p = b->params;
    const double plain = bench_median(b->speeds[0], p->n_repeat);
    const double fast = bench_median(b->speeds[1], p->n_repeat);
    const double ratio = bench_median(b->ratios, p->n_repeat);
    const double cpu_ratio = bench_median(b->cpu_ratios, p->n_repeat);
    struct inf_engine_stats s;
    json_t *positions = json_array();
    int bad = 0;

    inf_engine_stats(b->engines[1], &s);
    if (!p->json)
        printf("%" PRIu32 " × generate %" PRIu32 " tokens\n"
               "  without drafts   %9.2f tokens/s\n"
               "  with drafts      %9.2f tokens/s   %.2f ×, by processor time %.2f ×\n"
               "  %" PRIu64 " of %" PRIu64 " drafted tokens were accepted; by position:",
               p->n_streams, p->n_generate, plain, fast, ratio, cpu_ratio, s.n_draft_accepted,
               s.n_drafted);
    for (unsigned i = 0; i < INF_DRAFT_MAX && s.draft_tried[i] > 0; i++) {
        const double rate = (double)s.draft_accepted[i] / (double)s.draft_tried[i];

        if (!p->json)
            printf(" %.2f", rate);
        json_array_append_new(positions, json_real(rate));
    }
    if (p->json) {
        json_t *j = json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:O}", "plain_tok_s", plain,
                              "draft_tok_s", fast, "ratio", ratio, "cpu_ratio", cpu_ratio,
                              "drafted", (json_int_t)s.n_drafted, "accepted",
                              (json_int_t)s.n_draft_accepted, "by_position", positions);

        bad = !j || json_dumpf(j, stdout, JSON_REAL_PRECISION(6));
        json_decref(j);
    }
    json_decref(positions);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

int bench_drafts(const struct draft_bench_params *params)
{
    struct draft_bench b = {.params = params};
    int r;

    if (params->n_streams > MAX_STREAMS)
        return cli_usage("bench", "more than %u streams", MAX_STREAMS);
    if (params->n_prompt == 0 || params->n_generate < 2)
        return cli_usage("bench", "drafts need -p of at least 1 and -n of at least 2");
    b.ratios = calloc(params->n_repeat, sizeof(double));
    b.cpu_ratios = calloc(params->n_repeat, sizeof(double));
    for (unsigned k = 0; k < 2; k++)
        b.speeds[k] = calloc(params->n_repeat, sizeof(double));
    r = b.ratios && b.cpu_ratios && b.speeds[0] && b.speeds[1]
            ? read_text(&b)
            : cli_error("bench", "out of memory");
    if (r == CLI_OK)
        r = open_engines(&b);
    for (uint32_t i = 0; r == CLI_OK && i <= params->n_repeat; i++)
        r = run_round(&b, i);
    if (r == CLI_OK)
        r = print_result(&b);
    draft_bench_done(&b);
    return r;
}
