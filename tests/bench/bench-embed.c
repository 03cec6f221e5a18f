/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the speed of an embedder.
 *
 * bench-embed MODEL LINES [--batch N] [--seconds S] [--threads N] [--isa NAME] [--pool KIND]
 *             [--kind vectors|rows|scores] [--bulk] [--exact] [--out FILE] [--tokens FILE]
 *
 * Computes vectors of the lines of a file, in requests of N lines, one after another, and prints
 * the speed. --out writes the vectors of the first pass as floats. --tokens writes the token ids of
 * that pass as int32: for each text its length, then its ids. --bulk keeps a large request running
 * at the same time, and prints the times of the small requests with and without the large one.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infer/embed.h>
#include <infer/tokenizer.h>

#define MAX_LINES 65536

static struct inf_embed_text texts[MAX_LINES];
static size_t n_texts, n_tokens;
static double waits[1 << 20];

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const struct inf_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err ? err->text : "failed");
    exit(1);
}

static void read_texts(const char *path, const struct inf_tokenizer *tok, uint32_t max)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    if (!f)
        die(path, NULL);
    while (n_texts < MAX_LINES && (len = getline(&line, &cap, f)) > 0) {
        struct inf_encode_text text = {.text = line, .len = (size_t)len};
        struct inf_encoding e;

        if (line[len - 1] == '\n')
            text.len--;
        if (inf_tokenizer_encode_texts(tok, &text, NULL,
                                       INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL,
                                       INF_CUT_END, max, &e) < 0)
            die("tokenizer", NULL);
        texts[n_texts++] = (struct inf_embed_text){e.ids, e.types, e.n};
        n_tokens += e.n;
    }
    free(line);
    fclose(f);
}

static uint64_t submit(struct inf_embedder *e, size_t first, size_t n, bool bulk)
{
    const struct inf_embed_request q = {.texts = texts + first, .n_texts = n, .bulk = bulk};
    struct inf_err err = {0};
    uint64_t id;

    if (inf_embedder_submit(e, &q, &id, &err) != 0)
        die("submit", &err);
    return id;
}

/* Waits for the result of @id. When the bulk job ends meanwhile, a new one is submitted. */
static struct inf_embed_result *wait_for(struct inf_embedder *e, uint64_t id, uint64_t *bulk)
{
    struct inf_embed_result *r;

    while ((r = inf_embedder_wait_result(e, -1)) && r->request != id) {
        if (bulk && r->request == *bulk)
            *bulk = submit(e, 0, n_texts, true);
        inf_embed_result_free(r);
    }
    if (r->error < 0)
        die("result", NULL);
    return r;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void measure(struct inf_embedder *e, size_t batch, double seconds, FILE *out, bool bulk)
{
    const double begin = now();
    size_t done = 0, tokens = 0, n = 0;
    uint64_t job = bulk ? submit(e, 0, n_texts, true) : 0;
    struct inf_embed_result *r;
    double total;

    for (size_t i = 0; now() - begin < seconds || (out && done < n_texts); i += batch) {
        const double start = now();

        if (i >= n_texts)
            i = 0;
        r = wait_for(e, submit(e, i, batch < n_texts - i ? batch : n_texts - i, false),
                     bulk ? &job : NULL);
        if (n < sizeof(waits) / sizeof(waits[0]))
            waits[n++] = now() - start;
        if (out && done < n_texts)
            fwrite(r->vectors, sizeof(float) * r->width, r->n_vectors, out);
        done += r->n_texts;
        tokens += r->n_tokens;
        inf_embed_result_free(r);
    }
    total = now() - begin;
    qsort(waits, n, sizeof(waits[0]), by_value);
    printf("batch %4zu%s: %9.1f texts/s %9.0f tokens/s, p50 %.2f ms, p99 %.2f ms\n", batch,
           bulk ? " with bulk" : "", (double)done / total, (double)tokens / total,
           waits[n / 2] * 1e3, waits[n * 99 / 100] * 1e3);
    if (bulk) {
        inf_embedder_cancel(e, job);
        while ((r = inf_embedder_wait_result(e, -1)) && r->request != job)
            inf_embed_result_free(r);
        inf_embed_result_free(r);
    }
}

static void write_tokens(const char *path)
{
    FILE *f = fopen(path, "w");

    if (!f)
        die(path, NULL);
    for (size_t i = 0; i < n_texts; i++) {
        const int32_t n = (int32_t)texts[i].n_tokens;

        fwrite(&n, sizeof(n), 1, f);
        fwrite(texts[i].tokens, sizeof(int32_t), texts[i].n_tokens, f);
    }
    fclose(f);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"batch", required_argument, NULL, 'b'},   {"seconds", required_argument, NULL, 's'},
        {"threads", required_argument, NULL, 't'}, {"isa", required_argument, NULL, 'i'},
        {"pool", required_argument, NULL, 'p'},    {"kind", required_argument, NULL, 'k'},
        {"out", required_argument, NULL, 'o'},     {"tokens", required_argument, NULL, 'T'},
        {"bulk", no_argument, NULL, 'B'},          {"step", required_argument, NULL, 'r'},
        {"exact", no_argument, NULL, 'e'},         {0}};
    struct inf_embedder_params p = {0};
    struct inf_model_params m = {0};
    struct inf_embedder *e;
    struct inf_err err = {0};
    const char *tokens = NULL;
    double seconds = 2;
    size_t batch = 64;
    FILE *out = NULL;
    bool bulk = false;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (c) {
        case 'b':
            batch = strtoul(optarg, NULL, 10);
            break;
        case 's':
            seconds = strtod(optarg, NULL);
            break;
        case 't':
            p.n_threads = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            p.batch_tokens = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'i':
            p.isa = optarg;
            break;
        case 'p':
            p.pooling = *optarg == 'm'   ? INF_POOLING_MEAN
                        : *optarg == 'c' ? INF_POOLING_CLS
                                         : INF_POOLING_LAST;
            break;
        case 'k':
            p.kind = *optarg == 'r'   ? INF_EMBED_ROWS
                     : *optarg == 's' ? INF_EMBED_SCORES
                                      : INF_EMBED_VECTORS;
            break;
        case 'o':
            out = fopen(optarg, "w");
            break;
        case 'T':
            tokens = optarg;
            break;
        case 'e':
            p.exact = true;
            break;
        case 'B':
            bulk = true;
            break;
        default:
            return 2;
        }
    }
    if (argc - optind != 2 || batch == 0) {
        fprintf(stderr, "usage: bench-embed MODEL LINES [options]\n");
        return 2;
    }
    m.path = argv[optind];
    p.device = "cpu";
    if (inf_model_open(&m, &p.model, &err) < 0)
        die(m.path, &err);
    if (inf_embedder_new(&p, &e, &err) < 0)
        die("embedder", &err);
    read_texts(argv[optind + 1], inf_model_tokenizer(p.model), inf_embedder_max_tokens(e));
    if (tokens)
        write_tokens(tokens);
    measure(e, batch, seconds, out, false);
    if (out)
        fclose(out);
    if (bulk)
        measure(e, batch, seconds, NULL, true);
    for (size_t i = 0; i < n_texts; i++)
        free((void *)texts[i].tokens);
    inf_embedder_free(e);
    inf_model_unref(p.model);
    return 0;
}
