/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures grammars: the processor time of compiling them, and of computing the masks along
 * documents.
 *
 *   bench-grammar [--masks] TOKENIZER KIND GRAMMAR DOCUMENT…
 *
 * TOKENIZER is a directory or file; KIND is schema, gbnf, regex, lark or json. GRAMMAR and
 * DOCUMENTS are files. Each document is measured with a new matcher. All matchers share one
 * automaton, as in a service. Therefore only the first document shows how long it takes to build
 * the automaton. With --masks the program prints, for each step, the number of tokens that are
 * permitted, the sum of their hashes, the token that follows, and the time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/array.h"
#include "core/file.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

struct times {
    double *us;
    size_t n, cap;
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static char *read_all(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t len = 0, cap = 0, n;

    if (!f) {
        perror(path);
        exit(2);
    }
    do {
        if (ARRAY_GROW(text, cap, len + 65536) < 0)
            exit(2);
        n = fread(text + len, 1, cap - len, f);
        len += n;
    } while (n > 0);
    fclose(f);
    *ret_len = len;
    return text;
}

static struct inf_tokenizer *open_tokenizer(const char *path)
{
    struct inf_tokenizer *tok;
    struct inf_err err = {0};
    const int r = path_is_dir(path) ? tokenizer_open_dir(path, &tok, &err)
                                    : tokenizer_open_file(path, &tok, &err);

    if (r < 0) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        exit(2);
    }
    return tok;
}

static enum inf_grammar_kind kind_of(const char *name)
{
    static const char *const names[] = {"json", "schema", "gbnf", "regex", "lark"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum inf_grammar_kind)i;
    fprintf(stderr, "%s: no such kind\n", name);
    exit(2);
}

static int compare_times(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

static void print_times(const char *what, struct times *t)
{
    double sum = 0;

    if (t->n == 0)
        return;
    qsort(t->us, t->n, sizeof(*t->us), compare_times);
    for (size_t i = 0; i < t->n; i++)
        sum += t->us[i];
    printf("%s: %zu, median %.1f us, p99 %.1f us, max %.1f us, mean %.1f us\n", what, t->n,
           t->us[t->n / 2], t->us[t->n * 99 / 100], t->us[t->n - 1], sum / (double)t->n);
}

static void add_time(struct times *t, double us)
{
    if (ARRAY_GROW(t->us, t->cap, t->n + 1) < 0)
        exit(2);
    t->us[t->n++] = us;
}

static void print_mask(const uint32_t *mask, uint32_t n_vocab, int32_t next, double us)
{
    uint64_t sum = 0;
    uint32_t n = 0;

    for (uint32_t t = 0; t < n_vocab; t++)
        if (mask[t / 32] >> (t % 32) & 1) {
            sum += t * UINT64_C(0x9e3779b97f4a7c15);
            n++;
        }
    printf("mask %u %016llx %d %.1f us\n", n, (unsigned long long)sum, next, us);
}

/* Follows one document. Returns false if the grammar refuses it. */
static bool follow(struct inf_grammar *grammar, const struct inf_tokenizer *tok, const char *path,
                   bool print, struct times *masks, struct times *accepts)
{
    const uint32_t n_vocab = inf_tokenizer_n_vocab(tok);
    _cleanup_free_ uint32_t *mask = NEW(uint32_t, DIV_UP(n_vocab, 32));
    _cleanup_free_ char *text = NULL;
    _cleanup_free_ int32_t *ids = NULL;
    _cleanup_(grammar_matcher_freep) struct grammar_matcher *m = NULL;
    size_t len, n;
    bool complete;

    text = read_all(path, &len);
    if (!mask || inf_tokenizer_encode(tok, text, len, 0, 0, &ids, &n) < 0 ||
        grammar_matcher_new(grammar, &m) < 0)
        exit(2);
    for (size_t i = 0; i <= n; i++) {
        const int32_t next = i < n ? ids[i] : -1;
        double start = now_us(), us;
        bool permitted;
        int r;

        r = grammar_matcher_mask(m, mask);
        us = now_us() - start;
        add_time(masks, us);
        if (r < 0) {
            printf("%s: token %zu: mask: %s\n", path, i, strerror(-r));
            return false;
        }
        if (print)
            print_mask(mask, n_vocab, next, us);
        if (i == n)
            break;
        permitted = mask[next / 32] >> (next % 32) & 1;
        start = now_us();
        r = grammar_matcher_accept(m, next);
        add_time(accepts, now_us() - start);
        if ((r == 0) != permitted)
            printf("%s: token %zu: mask and accept differ\n", path, i);
        if (r != 0) {
            printf("%s: token %zu of %zu is refused\n", path, i, n);
            return false;
        }
    }
    complete = grammar_matcher_is_complete(m);
    if (!complete)
        printf("%s: not complete\n", path);
    return complete;
}

int main(int argc, char **argv)
{
    const bool print = argc > 1 && strcmp(argv[1], "--masks") == 0;
    struct inf_grammar_vocab *vocab;
    struct inf_grammar *grammar;
    struct times masks = {0}, accepts = {0};
    struct inf_err err = {0};
    struct inf_tokenizer *tok;
    bool ok = true;
    double start;
    size_t len;
    char *text;

    argv += print;
    argc -= print;
    if (argc < 4) {
        fprintf(stderr, "usage: bench-grammar [--masks] TOKENIZER KIND GRAMMAR DOCUMENT...\n");
        return 2;
    }
    tok = open_tokenizer(argv[1]);
    start = now_us();
    if (inf_grammar_vocab_new(tok, &vocab) < 0)
        return 2;
    printf("vocabulary: %u tokens, %.1f ms\n", inf_tokenizer_n_vocab(tok),
           (now_us() - start) / 1e3);
    text = read_all(argv[3], &len);
    start = now_us();
    if (inf_grammar_new(vocab, kind_of(argv[2]), text, len, &grammar, &err) < 0) {
        printf("%s: %s (%.2f ms)\n", argv[3], err.text, (now_us() - start) / 1e3);
        return 1;
    }
    printf("compile: %.2f ms\n", (now_us() - start) / 1e3);
    for (int i = 4; i < argc; i++)
        ok &= follow(grammar, tok, argv[i], print, &masks, &accepts);
    print_times("masks", &masks);
    print_times("accepts", &accepts);
    inf_grammar_unref(grammar);
    inf_grammar_vocab_unref(vocab);
    tokenizer_free(tok);
    free(masks.us);
    free(accepts.us);
    free(text);
    return ok ? 0 : 1;
}
