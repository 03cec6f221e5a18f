/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures how much precision each number format of the KV cache loses.
 *
 * bench-kv MODEL TEXT [N_TOKENS [TYPE…]]
 *
 * The program computes the text in pieces of N_TOKENS with each type of the KV cache, and compares
 * the logits of all rows with those of F32. It prints the mean squared error divided by the mean
 * square (NMSE), the mean Kullback-Leibler divergence in nats, and the number of rows whose most
 * likely token differs.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infer/bench.h>
#include <infer/model.h>
#include <infer/tokenizer.h>

#include "core/file.h"
#include "core/macros.h"
#include "quant/codec.h"

struct sums {
    double error, square, divergence;
    uint64_t n_rows, n_other;
};

static _Noreturn void fail(const char *what, const struct inf_err *err)
{
    fprintf(stderr, "bench-kv: %s: %s\n", what, err->text);
    exit(1);
}

static float *logits_of(struct inf_model *model, const char *kv_type, const int32_t *tokens,
                        size_t n)
{
    const struct inf_logits_params params = {.model = model, .device = "cpu", .kv_type = kv_type};
    struct inf_err err;
    float *logits;

    if (inf_logits(&params, tokens, n, &logits, &err) < 0)
        fail(kv_type, &err);
    return logits;
}

/* Returns log Σ exp(x); *ret_top is the index of the largest x. */
static double log_sum(const float *x, uint32_t n, uint32_t *ret_top)
{
    double sum = 0;

    *ret_top = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[*ret_top])
            *ret_top = i;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)x[*ret_top]);
    return (double)x[*ret_top] + log(sum);
}

static void add_row(struct sums *s, const float *expected, const float *got, uint32_t n)
{
    uint32_t top, other;
    const double p_sum = log_sum(expected, n, &top), q_sum = log_sum(got, n, &other);

    for (uint32_t i = 0; i < n; i++) {
        const double p = (double)expected[i], q = (double)got[i];

        s->error += (p - q) * (p - q);
        s->square += p * p;
        s->divergence += exp(p - p_sum) * ((p - p_sum) - (q - q_sum));
    }
    s->n_rows++;
    s->n_other += top != other;
}

static void one_type(struct inf_model *model, const char *type, const int32_t *tokens, size_t n,
                     size_t piece)
{
    const uint32_t n_vocab = inf_model_info(model)->n_vocab;
    const char *colon = strchr(type, ':'), *v = colon ? colon + 1 : type;
    const uint32_t hd = inf_model_info(model)->head_dim;
    struct sums s = {0};
    enum codec k_codec, v_codec;

    if (!codec_find(type, colon ? (size_t)(colon - type) : strlen(type), &k_codec) ||
        !codec_find(v, strlen(v), &v_codec))
        fail(type, &(struct inf_err){.text = "unknown type"});
    if (hd % codec_info(k_codec)->head_unit != 0 || hd % codec_info(v_codec)->head_unit != 0)
        return;
    for (size_t at = 0; at < n; at += piece) {
        const size_t rows = MIN(piece, n - at);
        float *expected = logits_of(model, "f32", tokens + at, rows);
        float *got = logits_of(model, type, tokens + at, rows);

        for (size_t i = 0; i < rows; i++)
            add_row(&s, expected + i * n_vocab, got + i * n_vocab, n_vocab);
        free(expected);
        free(got);
    }
    printf("%-11s %6.2f %10.2g %10.2g %8.2f %%\n", type,
           4.0 * (double)(codec_head_bytes(k_codec, hd) + codec_head_bytes(v_codec, hd)) / hd,
           s.error / s.square, s.divergence / (double)s.n_rows,
           100.0 * (double)s.n_other / (double)s.n_rows);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"f16",      "bf16",      "q8_0",      "fp8",
                                      "q4_0",     "q8_0:q4_0", "q4_0:q8_0", "f16:q4_0",
                                      "q4_0:f16", "q4_0:q3_0", "q3_0"};
    const size_t piece = argc > 3 ? strtoul(argv[3], NULL, 10) : 512;
    struct inf_model *model;
    struct inf_err err = {.text = "failed"};
    char *text;
    size_t size;
    int32_t *tokens;
    size_t n;

    if (argc < 3 || piece == 0) {
        fprintf(stderr, "bench-kv MODEL TEXT [N_TOKENS [TYPE…]]\n");
        return 2;
    }
    if (inf_model_open(&(struct inf_model_params){.path = argv[1]}, &model, &err) < 0)
        fail(argv[1], &err);
    if (file_read(argv[2], 64 << 20, &text, &size, &err) < 0 ||
        inf_tokenizer_encode(inf_model_tokenizer(model), text, size, INF_ENCODE_PARSE_SPECIAL, 0,
                             &tokens, &n) < 0)
        fail(argv[2], &err);
    printf("%zu tokens, heads of %u\n%-11s %6s %10s %10s %10s\n", n,
           inf_model_info(model)->head_dim, "kv_type", "bits", "NMSE", "KL", "other");
    for (int i = 4; i < argc; i++)
        one_type(model, argv[i], tokens, n, piece);
    for (size_t i = 0; argc <= 4 && i < ARRAY_SIZE(all); i++)
        one_type(model, all[i], tokens, n, piece);
    return 0;
}
