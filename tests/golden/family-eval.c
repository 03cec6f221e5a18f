/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares models of make_families.py with transformers.
 *
 *     family-eval [--engine] DIR…
 *
 * Each DIR has a model as a Hugging Face directory (hf) and mostly as a GGUF file (model.gguf), the
 * tokens of a text (tokens.json), and the logits of transformers in double precision
 * (logits.f64.npy). The program computes the model's graph in double precision, or with --engine
 * lets the engine run the model on the CPU, and prints the normalized mean squared error. It exits
 * with 1 if an error is above the bound, or a model cannot be opened.
 */
#include <infer/bench.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "lib/graph_eval.h"
#include "model/model.h"

#define FILE_MAX ((size_t)1 << 30)

struct family {
    const char *dir;
    int32_t *tokens;
    size_t n_tokens;
    char *file;           /* the .npy file */
    const double *logits; /* in file, [n_tokens, n_vocab] */
    size_t n_vocab;
};

static int family_tokens(struct family *f, struct inf_err *err)
{
    _cleanup_free_ char *path = path_join(f->dir, "tokens.json"), *text = NULL;
    size_t len;
    int r;

    r = path ? file_read(path, FILE_MAX, &text, &len, err) : -ENOMEM;
    if (r < 0)
        return r;
    f->tokens = NEW(int32_t, len);
    if (!f->tokens)
        return err_set(err, ENOMEM, "out of memory");
    for (char *s = text, *end; *s; s = end) {
        const long x = strtol(s, &end, 10);

        if (end == s)
            end++;
        else
            f->tokens[f->n_tokens++] = (int32_t)x;
    }
    return 0;
}

/* Reads a file of NumPy (format 1.0): a header with its length in bytes 8 and 9, then numbers. */
static int family_logits(struct family *f, struct inf_err *err)
{
    _cleanup_free_ char *path = path_join(f->dir, "logits.f64.npy");
    size_t len, head;
    int r;

    r = path ? file_read(path, FILE_MAX, &f->file, &len, err) : -ENOMEM;
    if (r < 0)
        return r;
    if (len < 10 || memcmp(f->file, "\x93NUMPY\1\0", 8) != 0)
        return err_set(err, EBADMSG, "%s is not a file of NumPy", path);
    head = 10 + (size_t)(unsigned char)f->file[8] + ((size_t)(unsigned char)f->file[9] << 8);
    if (head > len || !memmem(f->file, head, "'<f8'", 5) || f->n_tokens == 0)
        return err_set(err, EBADMSG, "%s has no numbers of 64 bits", path);
    f->logits = (const double *)(const void *)(f->file + head);
    f->n_vocab = (len - head) / sizeof(double) / f->n_tokens;
    return 0;
}

static int graph_logits(const char *path, const struct family *f, double **ret_logits,
                        struct inf_err *err)
{
    _cleanup_(format_closep) struct format *format = NULL;
    _cleanup_(model_closep) struct model *m = NULL;
    _cleanup_(graph_freep) struct graph *g = NULL;
    int r;

    r = format_open(path, 0, model_archs(), &format, err);
    if (r == 0)
        r = model_open(format, &m, err);
    if (r == 0)
        r = model_build(m, &g, err);
    if (r == 0 && model_hparams(m)->n_vocab != f->n_vocab)
        r = err_set(err, EBADMSG, "the vocabulary has %u tokens, not %zu",
                    model_hparams(m)->n_vocab, f->n_vocab);
    return r == 0 ? graph_eval(g, f->tokens, f->n_tokens, ret_logits) : r;
}

static int engine_logits(const char *path, const struct family *f, double **ret_logits,
                         struct inf_err *err)
{
    const struct inf_model_params params = {.path = path};
    const size_t n = f->n_tokens * f->n_vocab;
    _cleanup_free_ float *logits = NULL;
    struct inf_logits_params how = {.device = "cpu", .n_threads = 2};
    int r;

    r = inf_model_open(&params, &how.model, err);
    if (r < 0)
        return r;
    r = inf_logits(&how, f->tokens, f->n_tokens, &logits, err);
    inf_model_unref(how.model);
    *ret_logits = r == 0 ? NEW(double, n) : NULL;
    for (size_t i = 0; *ret_logits && i < n; i++)
        (*ret_logits)[i] = (double)logits[i];
    return r == 0 && !*ret_logits ? -ENOMEM : r;
}

/* Compares one file. Returns whether it is close enough. */
static bool compare(const struct family *f, const char *name, bool engine)
{
    _cleanup_free_ char *path = path_join(f->dir, name);
    _cleanup_free_ double *logits = NULL;
    struct inf_err err = {0};
    double e = 0, sum = 0;
    int r;

    if (!path || (strcmp(name, "hf") != 0 && !path_exists(path)))
        return true;
    r = (engine ? engine_logits : graph_logits)(path, f, &logits, &err);
    if (r < 0) {
        printf("%-40s %-10s error %d: %s\n", f->dir, name, r, err.text);
        return false;
    }
    for (size_t i = 0; i < f->n_tokens * f->n_vocab; i++) {
        e += (logits[i] - f->logits[i]) * (logits[i] - f->logits[i]);
        sum += f->logits[i] * f->logits[i];
    }
    printf("%-40s %-10s NMSE %.2g\n", f->dir, name, e / sum);
    return e / sum < 1e-9;
}

int main(int argc, char **argv)
{
    const bool engine = argc > 1 && strcmp(argv[1], "--engine") == 0;
    bool good = true;

    for (int i = 1 + engine; i < argc; i++) {
        struct family f = {.dir = argv[i]};
        struct inf_err err = {0};

        if (family_tokens(&f, &err) < 0 || family_logits(&f, &err) < 0) {
            printf("%s: %s\n", f.dir, err.text);
            good = false;
        } else {
            good &= compare(&f, "hf", engine);
            good &= compare(&f, "model.gguf", engine);
        }
        free(f.tokens);
        free(f.file);
    }
    return good ? 0 : 1;
}
