/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures transcription, part by part.
 *
 * bench-whisper MODEL [--threads N] [--isa NAME] [--exact] [--windows N] [--tokens N]
 *
 * Prints the median and the best time of each part: a window in the encoder, alone and together
 * with three others; the keys and values of the encoder's output; a prompt of 256 tokens; and one
 * token, for one text and for five texts together. MODEL is any Whisper file; make_whisper.py makes
 * some.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include <infer/model.h>

#include "api/handle.h"
#include "core/clock.h"
#include "transcribe/decode-texts.h"
#include "transcribe/encode-window.h"

enum { MAX_WINDOWS = 4, MAX_TEXTS = 5, PROMPT = 256, MAX_LAPS = 512 };

struct bench {
    const struct whisper_model *model;
    struct backend *backend;
    struct encode *encode;
    struct reformat weights;
    struct decode decode;
    float *mel, *rows, *logits;
    uint64_t begin;
    double laps[MAX_LAPS];
    unsigned n_laps;
};

static void die(const struct inf_err *err)
{
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void check(int r)
{
    if (r < 0) {
        fprintf(stderr, "a step failed: %d\n", r);
        exit(1);
    }
}

static void begin(struct bench *b)
{
    b->n_laps = 0;
    b->begin = clock_nsec();
}

static void lap(struct bench *b)
{
    const uint64_t now = clock_nsec();

    if (b->n_laps < MAX_LAPS)
        b->laps[b->n_laps++] = (double)(now - b->begin) * 1e-6;
    b->begin = clock_nsec();
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Prints the median and also the best time, because other load makes times longer, never
 * shorter. */
static void report(struct bench *b, const char *what)
{
    qsort(b->laps, b->n_laps, sizeof(b->laps[0]), by_value);
    printf("%-28s %9.2f ms, at best %9.2f ms\n", what, b->laps[b->n_laps / 2], b->laps[0]);
}

static void open_parts(struct bench *b, const struct backend_params *on, bool exact)
{
    const struct whisper_config *c = b->model->config;
    const size_t n_mel = (size_t)MAX_WINDOWS * 2 * c->n_audio_ctx * c->n_mels;
    struct decode_params p = {
        .decoder = b->model->decoder,
        .n_audio = c->n_audio_ctx,
        .max_memories = 1,
        .max_texts = MAX_TEXTS,
        .max_rows = PROMPT,
        .max_logits = MAX_TEXTS,
        .codec = exact ? CODEC_F32 : CODEC_F16,
        .weights = exact ? NULL : &b->weights,
    };
    struct inf_err err;

    if (backend_new(on, &b->backend, &err) < 0)
        die(&err);
    p.backend = b->backend;
    if (encode_new(b->backend, b->model->encoder, exact ? NULL : &b->weights, MAX_WINDOWS,
                   &b->encode, &err) < 0 ||
        decode_init(&b->decode, &p, &err) < 0)
        die(&err);
    b->mel = NEW(float, n_mel);
    b->rows = NEW(float, (size_t)MAX_WINDOWS * c->n_audio_ctx * c->n_embd);
    b->logits = NEW(float, (size_t)MAX_TEXTS * c->n_vocab);
    for (size_t i = 0; i < n_mel; i++)
        b->mel[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
}

/* Times @n_tokens steps of @n texts that begin with a prompt. */
static void write_texts(struct bench *b, struct kv_table *memory, uint32_t n, unsigned n_tokens)
{
    struct kv_table texts[MAX_TEXTS];
    struct decode_item items[MAX_TEXTS];
    int32_t prompt[PROMPT];
    char what[64];

    for (int32_t i = 0; i < PROMPT; i++)
        prompt[i] = i * 97 % 50000;
    for (uint32_t i = 0; i < n; i++) {
        check(decode_text_init(&b->decode, &texts[i]));
        items[i] = (struct decode_item){&texts[i], memory, prompt, 4, 1, -1};
        check(decode_run(&b->decode, &items[i], 1, b->logits, NULL));
        items[i].n_tokens = 1;
    }
    begin(b);
    for (unsigned i = 0; i < n_tokens; i++) {
        check(decode_run(&b->decode, items, n, b->logits, NULL));
        lap(b);
    }
    snprintf(what, sizeof(what), "a token of %u text%s", n, n > 1 ? "s" : "");
    report(b, what);
    begin(b);
    for (unsigned i = 0; n == 1 && i < 5; i++) {
        kv_table_truncate(&texts[0], 0);
        items[0].n_tokens = PROMPT;
        check(decode_run(&b->decode, items, 1, b->logits, NULL));
        lap(b);
    }
    if (n == 1)
        report(b, "a prompt of 256 tokens");
    for (uint32_t i = 0; i < n; i++)
        kv_table_done(&texts[i]);
}

/* Times the encoder with @n windows at once; the time is that of one window. */
static void encode_windows(struct bench *b, uint32_t n, unsigned n_times)
{
    check(encode_run(b->encode, b->mel, n, b->rows));
    begin(b);
    for (unsigned i = 0; i < n_times; i++) {
        check(encode_run(b->encode, b->mel, n, b->rows));
        lap(b);
    }
    for (unsigned i = 0; i < b->n_laps; i++)
        b->laps[i] /= n;
    report(b, n > 1 ? "one of several windows in the encoder" : "a window in the encoder");
}

static void measure(struct bench *b, unsigned n_windows, unsigned n_tokens)
{
    struct kv_table memory;

    encode_windows(b, MAX_WINDOWS, n_windows);
    encode_windows(b, 1, n_windows);
    check(decode_memory_init(&b->decode, &memory));
    check(decode_remember(&b->decode, &memory, b->rows));
    begin(b);
    for (unsigned i = 0; i < n_windows; i++) {
        check(decode_remember(&b->decode, &memory, b->rows));
        lap(b);
    }
    report(b, "its memory");
    write_texts(b, &memory, 1, n_tokens);
    write_texts(b, &memory, MAX_TEXTS, n_tokens);
    kv_table_done(&memory);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"threads", required_argument, NULL, 't'}, {"isa", required_argument, NULL, 'i'},
        {"windows", required_argument, NULL, 'w'}, {"tokens", required_argument, NULL, 'n'},
        {"exact", no_argument, NULL, 'e'},         {0}};
    struct backend_params on = {.device = "cpu"};
    struct inf_model_params params = {0};
    unsigned n_windows = 5, n_tokens = 100;
    struct inf_model *model;
    struct bench b = {0};
    bool exact = false;
    struct inf_err err;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (c) {
        case 't':
            on.n_threads = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'i':
            on.isa = optarg;
            break;
        case 'w':
            n_windows = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            n_tokens = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'e':
            exact = true;
            break;
        default:
            return 2;
        }
    }
    if (optind + 1 != argc || n_windows == 0 || n_tokens == 0 || n_tokens > 400) {
        fprintf(stderr, "usage: bench-whisper MODEL [--threads N] [--isa NAME] [--exact] "
                        "[--windows N] [--tokens N]\n");
        return 2;
    }
    params.path = argv[optind];
    begin(&b);
    if (inf_model_open(&params, &model, &err) < 0)
        die(&err);
    if (!model->whisper) {
        fprintf(stderr, "%s is not a Whisper model\n", argv[optind]);
        return 1;
    }
    lap(&b);
    report(&b, "to open");
    b.model = model->whisper;
    open_parts(&b, &on, exact);
    measure(&b, n_windows, n_tokens);
    free(b.mel);
    free(b.rows);
    free(b.logits);
    decode_done(&b.decode);
    encode_free(b.encode);
    reformat_done(&b.weights);
    backend_free(b.backend);
    inf_model_unref(model);
    return 0;
}
