/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whisper-eval MODEL FRAMES TOKENS N OUT [--exact] [--isa NAME] [--threads N]
 *
 * Runs a model of Whisper on a window, for check_whisper_shapes.py. It writes the logits of each of
 * TOKENS to OUT. It prints two lines with the next N tokens of the text. In the first line each
 * token is the most likely of all tokens. In the second line each token is the most likely of the
 * tokens that the rules for times allow. FRAMES: float32, [2 × rows of the encoder, mel bins];
 * TOKENS: int32; OUT: float32, [tokens, vocabulary].
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infer/model.h>

#include "api/handle.h"
#include "core/file.h"
#include "transcribe/decode-texts.h"
#include "transcribe/encode-window.h"
#include "transcribe/rules.h"
#include "transcribe/tokens.h"

enum { MAX_TOKENS = 64, MAX_SAID = 128 };

struct subject {
    struct inf_model *file;
    const struct whisper_model *model;
    struct backend *backend;
    struct encode *encode;
    struct reformat weights;
    struct decode decode;
    struct speech_tokens special;
    struct kv_table memory;
    float *logits; /* [MAX_TOKENS, n_vocab] */
};

static void check(int r, const struct inf_err *err)
{
    if (r >= 0)
        return;
    fprintf(stderr, "%s\n", err ? err->text : strerror(-r));
    exit(1);
}

static void *read_all(const char *path, size_t *ret_size)
{
    struct inf_err err = {0};
    char *data;

    check(file_read(path, 16 << 20, &data, ret_size, &err), &err);
    return data;
}

static void open_parts(struct subject *s, const struct backend_params *on, bool exact)
{
    const struct whisper_config *c = s->model->config;
    const struct decode_params p = {
        .decoder = s->model->decoder,
        .n_audio = c->n_audio_ctx,
        .max_memories = 1,
        .max_texts = 2,
        .max_rows = MAX_TOKENS,
        .max_logits = MAX_TOKENS,
        /* The codec that a transcriber uses. */
        .codec = whisper_model_dtype(s->model) == INF_DTYPE_F32 ? CODEC_F32 : CODEC_F16,
    };
    struct decode_params with = p;
    struct inf_err err = {0};

    check(backend_new(on, &s->backend, &err), &err);
    with.backend = s->backend;
    check(
        encode_new(s->backend, s->model->encoder, exact ? NULL : &s->weights, 1, &s->encode, &err),
        &err);
    check(decode_init(&s->decode, &with, &err), &err);
    check(speech_tokens_init(&s->special, s->file->tok, c, &err), &err);
    s->logits = calloc((size_t)MAX_TOKENS * c->n_vocab, sizeof(float));
    check(s->logits ? 0 : -ENOMEM, NULL);
}

static void remember(struct subject *s, const char *path)
{
    const struct whisper_config *c = s->model->config;
    _cleanup_free_ float *rows = calloc((size_t)c->n_audio_ctx * c->n_embd, sizeof(float));
    size_t size;
    _cleanup_free_ float *frames = read_all(path, &size);

    check(rows ? 0 : -ENOMEM, NULL);
    check(size == (size_t)2 * c->n_audio_ctx * c->n_mels * sizeof(float) ? 0 : -EINVAL, NULL);
    check(encode_run(s->encode, frames, 1, rows), NULL);
    check(decode_memory_init(&s->decode, &s->memory), NULL);
    check(decode_remember(&s->decode, &s->memory, rows), NULL);
}

static int32_t likeliest(const float *row, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return (int32_t)best;
}

/* Continues the text by @n tokens, each of which is the most likely one, and prints them. @rules
 * may be NULL. */
static void go_on(struct subject *s, const int32_t *tokens, uint32_t n_tokens, unsigned n,
                  const struct rules *rules)
{
    const uint32_t n_vocab = s->model->config->n_vocab;
    int32_t said[MAX_SAID];
    struct kv_table text;
    struct decode_item item = {&text, &s->memory, tokens, n_tokens, 1, -1};

    check(decode_text_init(&s->decode, &text), NULL);
    printf(rules ? "timed" : "greedy");
    for (unsigned i = 0; i < n; i++) {
        check(decode_run(&s->decode, &item, 1, s->logits, NULL), NULL);
        if (rules)
            rules_apply(rules, said, i, s->logits);
        said[i] = likeliest(s->logits, n_vocab);
        printf(" %d", said[i]);
        item.tokens = &said[i];
        item.n_tokens = 1;
    }
    printf("\n");
    kv_table_done(&text);
}

static void write_logits(struct subject *s, const int32_t *tokens, uint32_t n, const char *path)
{
    const size_t size = (size_t)n * s->model->config->n_vocab;
    struct kv_table text;
    const struct decode_item item = {&text, &s->memory, tokens, n, n, -1};
    FILE *f = fopen(path, "wb");

    check(f ? 0 : -errno, NULL);
    check(decode_text_init(&s->decode, &text), NULL);
    check(decode_run(&s->decode, &item, 1, s->logits, NULL), NULL);
    check(fwrite(s->logits, sizeof(float), size, f) == size && fclose(f) == 0 ? 0 : -EIO, NULL);
    kv_table_done(&text);
}

static void evaluate(struct subject *s, char **args)
{
    const struct speech_tokens *special = &s->special;
    const struct rules rules = {
        .n_vocab = special->n_vocab,
        .end_of_text = special->end,
        .no_timestamps = special->no_timestamps,
        .timestamp_begin = special->timestamp_begin,
        .forbidden = special->forbidden,
        .n_forbidden = special->n_forbidden,
        .not_first = special->not_first,
        .n_not_first = special->n_not_first,
        .timestamps = true,
        .max_first_at = 50,
    };
    const unsigned long n = strtoul(args[3], NULL, 10);
    size_t size;
    _cleanup_free_ int32_t *tokens = read_all(args[2], &size);
    const uint32_t n_tokens = (uint32_t)(size / sizeof(*tokens));

    check(n_tokens > 0 && n_tokens <= MAX_TOKENS && n <= MAX_SAID ? 0 : -EINVAL, NULL);
    remember(s, args[1]);
    write_logits(s, tokens, n_tokens, args[4]);
    go_on(s, tokens, n_tokens, (unsigned)n, NULL);
    go_on(s, tokens, n_tokens, (unsigned)n, &rules);
    kv_table_done(&s->memory);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"threads", required_argument, NULL, 't'},
                                            {"isa", required_argument, NULL, 'i'},
                                            {"exact", no_argument, NULL, 'e'},
                                            {0}};
    struct backend_params on = {.device = "cpu"};
    struct inf_model_params params = {0};
    struct subject s = {0};
    bool exact = false, usage = false;
    struct inf_err err = {0};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (c == 't')
            on.n_threads = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 'i')
            on.isa = optarg;
        else if (c == 'e')
            exact = true;
        else
            usage = true;
    }
    if (usage || optind + 5 != argc) {
        fprintf(stderr, "usage: whisper-eval MODEL FRAMES TOKENS N OUT [--exact] [--isa NAME] "
                        "[--threads N]\n");
        return 2;
    }
    params.path = argv[optind];
    check(inf_model_open(&params, &s.file, &err), &err);
    check(s.file->whisper ? 0 : -EINVAL, NULL);
    s.model = s.file->whisper;
    open_parts(&s, &on, exact);
    evaluate(&s, argv + optind);
    free(s.logits);
    speech_tokens_done(&s.special);
    decode_done(&s.decode);
    encode_free(s.encode);
    reformat_done(&s.weights);
    backend_free(s.backend);
    inf_model_unref(s.file);
    return 0;
}
