/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares models of make_families.py with transformers.
 *
 *     family-eval [OPTIONS] DIR…
 *
 * Each DIR has a model as a Hugging Face directory (hf) and usually as a GGUF file (model.gguf),
 * the tokens of a text (tokens.json), and the logits of transformers in double precision
 * (logits.f64.npy). The program computes the model's graph in double precision, or with one of
 * these options lets a device run the model in one step, and prints the normalized mean squared
 * error:
 *
 *     --engine        the CPU, with its best instruction set
 *     --device NAME   this device: "vulkan", "vulkan:1"
 *     --isa NAME      the CPU with this instruction set; "all": with each that it has
 *     --threads N     number of threads; 2 if the option is missing
 *     --chunks        also computes the text in steps of several sizes, and with one thread
 *     --borders       also computes the text in two steps, cut at every position
 *     --snapshots     also continues the text from a snapshot at the end of each block
 *     --rounded       also compares the device with graph_eval_rounded()
 *
 * --chunks, --borders and --snapshots print in how many ways the text was computed, and the first
 * way whose logits are not bit for bit those of one step. The program exits with 1 if there is such
 * a way, if an error is above the bound, or if a model cannot be opened. Errors of quantized
 * weights are above the bound on the CPU, because products with them round their inputs to 8 bits.
 * With --rounded, the program therefore also prints the error relative to a computation in double
 * precision that rounds in the same way, and the error of the rows before the first one with an
 * error of 1e-9. In that row the device rounded a value that is nearly in the middle between two
 * integers to the other integer; later rows depend on this row.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "core/cpu.h"
#include "core/err.h"
#include "core/file.h"
#include "golden/family-run.h"
#include "lib/graph_eval.h"

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

static int graph_logits(const char *path, const struct family *f, bool rounds, double **ret_logits,
                        struct inf_err *err)
{
    _cleanup_(format_closep) struct format *format = NULL;
    _cleanup_(model_closep) struct model *m = NULL;
    _cleanup_(graph_freep) struct graph *g = NULL;
    double **values;
    int r;

    r = format_open(path, 0, model_archs(), &format, err);
    if (r == 0)
        r = model_open(format, &m, err);
    if (r == 0)
        r = model_build(m, &g, err);
    if (r == 0 && model_hparams(m)->n_vocab != f->n_vocab)
        r = err_set(err, EBADMSG, "the vocabulary has %u tokens, not %zu",
                    model_hparams(m)->n_vocab, f->n_vocab);
    if (r == 0)
        r = rounds ? graph_eval_rounded(g, f->tokens, f->n_tokens, &values)
                   : graph_eval_values(g, f->tokens, f->n_tokens, NULL, &values);
    if (r < 0)
        return r;
    *ret_logits = STEAL(values[graph_n_nodes(g) - 1]);
    graph_values_free(g, values);
    return 0;
}

struct options {
    bool device; /* run the model on a device */
    bool chunks, borders, snapshots, rounded;
    bool all_isas;
    struct backend_params on;
};

/* Says which ways of cutting a text were computed. */
struct ways {
    struct family_run *run;
    const float *whole; /* the logits of one step */
    float *logits;
    uint32_t n_done;
    bool differs;
};

/* Notes that the text was cut in the way @how at @at, with the result @r. */
static int ways_add(struct ways *w, int r, const char *how, uint32_t at)
{
    const uint32_t n_vocab = w->run->n_vocab;
    const size_t row = n_vocab * sizeof(*w->logits);
    uint32_t i = 0;

    w->n_done++;
    if (r < 0)
        return r;
    while (i < w->run->n_tokens &&
           memcmp(w->logits + (size_t)i * n_vocab, w->whole + (size_t)i * n_vocab, row) == 0)
        i++;
    if (i < w->run->n_tokens && !w->differs)
        printf("    %s %u: row %u differs\n", how, at, i);
    w->differs |= i < w->run->n_tokens;
    memset(w->logits, 0xff, w->run->n_tokens * row);
    return 0;
}

static int ways_chunks(struct ways *w)
{
    static const uint32_t sizes[] = {1,  2,  3,  4,  5,  7,  8,   15,  16,  17,
                                     31, 32, 33, 63, 64, 65, 100, 127, 128, 200};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sizes); i++)
        r = ways_add(w, family_run_steps(w->run, sizes[i], w->logits), "steps of", sizes[i]);
    return r;
}

static int ways_borders(struct ways *w)
{
    int r = 0;

    for (uint32_t i = 1; r == 0 && i < w->run->n_tokens; i++)
        r = ways_add(w, family_run_cut(w->run, i, w->logits), "cut at", i);
    return r;
}

static int ways_snapshots(struct ways *w)
{
    int r = 0;

    for (uint32_t i = 1; r == 0 && i * FAMILY_BLOCK < w->run->n_tokens; i++)
        r = ways_add(w, family_run_resume(w->run, i, w->logits), "continued from block", i);
    return r;
}

/* Computes the text in one step with one thread. */
static int ways_thread(struct ways *w, const char *path, const struct backend_params *on,
                       struct inf_err *err)
{
    struct backend_params one = *on;
    struct family_run run;
    int r;

    one.n_threads = 1;
    r = family_run_open(path, &one, w->run->tokens, w->run->n_tokens, &run, err);
    if (r < 0)
        return r;
    r = ways_add(w, family_run_steps(&run, run.n_tokens, w->logits), "threads", 1);
    family_run_done(&run);
    return r;
}

static int run_ways(struct ways *w, const char *path, const struct options *o, struct inf_err *err)
{
    int r = 0;

    if (o->chunks)
        r = ways_thread(w, path, &o->on, err);
    if (r == 0 && o->chunks)
        r = ways_chunks(w);
    if (r == 0 && o->borders)
        r = ways_borders(w);
    if (r == 0 && o->snapshots)
        r = ways_snapshots(w);
    return r;
}

static int device_logits(const char *path, const struct family *f, const struct options *o,
                         double **ret_logits, struct ways *ret_ways, struct inf_err *err)
{
    const size_t n = f->n_tokens * f->n_vocab;
    _cleanup_free_ float *whole = NEW(float, n), *logits = NEW(float, n);
    struct family_run run;
    int r;

    if (!whole || !logits)
        return err_set(err, ENOMEM, "out of memory");
    r = family_run_open(path, &o->on, f->tokens, (uint32_t)f->n_tokens, &run, err);
    if (r < 0)
        return r;
    *ret_ways = (struct ways){.run = &run, .whole = whole, .logits = logits};
    if (run.n_vocab != f->n_vocab)
        r = err_set(err, EBADMSG, "the vocabulary has %u tokens, not %zu", run.n_vocab, f->n_vocab);
    if (r == 0)
        r = family_run_steps(&run, run.n_tokens, whole);
    if (r == 0)
        r = run_ways(ret_ways, path, o, err);
    family_run_done(&run);
    *ret_logits = r == 0 ? NEW(double, n) : NULL;
    for (size_t i = 0; *ret_logits && i < n; i++)
        (*ret_logits)[i] = (double)whole[i];
    return r == 0 && !*ret_logits ? -ENOMEM : r;
}

static double nmse(const double *x, const double *want, size_t n)
{
    double e = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        e += (x[i] - want[i]) * (x[i] - want[i]);
        sum += want[i] * want[i];
    }
    return e / sum;
}

/* Prints the error of the logits @x relative to a computation with rounded inputs. */
static void print_rounded(const struct family *f, const char *path, const double *x)
{
    _cleanup_free_ double *want = NULL;
    const size_t n = f->n_vocab;
    struct inf_err err = {0};
    size_t n_rows = 0;

    if (graph_logits(path, f, true, &want, &err) < 0) {
        printf(", the rounded computation failed: %s", err.text);
        return;
    }
    while (n_rows < f->n_tokens && nmse(x + n_rows * n, want + n_rows * n, n) < 1e-9)
        n_rows++;
    printf(" (of the rounded computation %.2g), to the rounded computation %.2g",
           nmse(want, f->logits, f->n_tokens * n), nmse(x, want, f->n_tokens * n));
    if (n_rows > 0)
        printf(", %.2g in the first %zu rows", nmse(x, want, n_rows * n), n_rows);
}

/* Compares one file. Returns whether it is close enough. */
static bool compare(const struct family *f, const char *name, const struct options *o)
{
    _cleanup_free_ char *path = path_join(f->dir, name);
    _cleanup_free_ double *logits = NULL;
    struct inf_err err = {0};
    struct ways ways = {0};
    double e;
    int r;

    if (!path || (strcmp(name, "hf") != 0 && !path_exists(path)))
        return true;
    r = o->device ? device_logits(path, f, o, &logits, &ways, &err)
                  : graph_logits(path, f, false, &logits, &err);
    printf("%-36s %-10s %-10s ", f->dir, name, o->on.isa ? o->on.isa : "");
    if (r < 0) {
        printf("error %d: %s\n", r, err.text);
        return false;
    }
    e = nmse(logits, f->logits, f->n_tokens * f->n_vocab);
    printf("NMSE %.2g", e);
    if (o->rounded)
        print_rounded(f, path, logits);
    if (ways.n_done > 0)
        printf(ways.differs ? ", not all of %u ways are equal" : ", %u ways are equal",
               ways.n_done);
    printf("\n");
    fflush(stdout);
    return e < 1e-9 && !ways.differs;
}

/* Compares the files of one directory, on all instruction sets if the options request it. */
static bool compare_all(const char *dir, struct options *o)
{
    struct family f = {.dir = dir};
    struct inf_err err = {0};
    bool good = true;
    const char *isa;

    if (family_tokens(&f, &err) < 0 || family_logits(&f, &err) < 0) {
        printf("%s: %s\n", dir, err.text);
        good = false;
    } else if (o->all_isas) {
        for (size_t i = 0; (isa = cpu_rung_at(i)); i++) {
            o->on.isa = isa;
            good &= compare(&f, "hf", o);
            good &= compare(&f, "model.gguf", o);
        }
    } else {
        good &= compare(&f, "hf", o);
        good &= compare(&f, "model.gguf", o);
    }
    free(f.tokens);
    free(f.file);
    return good;
}

/* Returns whether the options are valid. All of them need a device. */
static bool options_read(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {{"engine", no_argument, NULL, 'e'},
                                            {"device", required_argument, NULL, 'd'},
                                            {"isa", required_argument, NULL, 'i'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"chunks", no_argument, NULL, 'c'},
                                            {"borders", no_argument, NULL, 'b'},
                                            {"snapshots", no_argument, NULL, 's'},
                                            {"rounded", no_argument, NULL, 'r'},
                                            {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        o->device = true;
        if (c == 'd')
            o->on.device = optarg;
        else if (c == 'i')
            o->on.isa = optarg;
        else if (c == 't')
            o->on.n_threads = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == '?')
            return false;
        o->chunks |= c == 'c';
        o->borders |= c == 'b';
        o->snapshots |= c == 's';
        o->rounded |= c == 'r';
    }
    o->all_isas = o->on.isa && strcmp(o->on.isa, "all") == 0;
    return optind < argc;
}

int main(int argc, char **argv)
{
    struct options o = {.on = {.device = "cpu", .n_threads = 2}};
    bool good = true;

    if (!options_read(argc, argv, &o)) {
        fprintf(stderr, "usage: family-eval [--engine] [--device NAME] [--isa NAME] [--threads N] "
                        "[--chunks] [--borders] [--snapshots] [--rounded] DIR…\n");
        return 2;
    }
    for (int i = optind; i < argc; i++)
        good &= compare_all(argv[i], &o);
    return good ? 0 : 1;
}
