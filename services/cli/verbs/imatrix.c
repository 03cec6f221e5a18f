/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce imatrix: makes an importance matrix for sconce convert
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <infer/convert.h>
#include <infer/tokenizer.h>

#include "cli/cli.h"
#include "core/file.h"

static const char help[] =
    "Usage: sconce imatrix MODEL TEXT -o FILE [OPTION]...\n"
    "Runs a model over a text, and writes how much each column of its matrices matters. `sconce\n"
    "convert --imatrix FILE` makes better files with it. TEXT is a file; `-` reads standard\n"
    "input.\n\n"
    "  -o, --output FILE    the new file, in llama.cpp's GGUF form\n"
    "  -c, --context N      tokens of a chunk (default: 512)\n"
    "  --chunks N           compute only the first N chunks (default: all)\n"
    "  -t, --threads N      compute threads (default: all available CPUs)\n"
    "  --isa ISA            highest instruction set: ref, avx2, avxvnni, avx512, neon…\n"
    "  --head               also measure the head (output.weight)\n"
    "  --force              replace FILE if it exists\n"
    "  -q, --quiet          do not print a line for each chunk\n" CLI_MODELS_HELP;

enum {
    IMATRIX_HELP = -1,
    IMATRIX_MAX_NUMBER = 1 << 20,
};

struct imatrix_verb {
    struct inf_imatrix_params params;
    const char *name, *file;
    bool quiet;
};

static volatile sig_atomic_t imatrix_stopped;

static void imatrix_stop(int signal)
{
    (void)signal;
    imatrix_stopped = 1;
}

/* Parses a number of at least 1; false: invalid, after printing an error. */
static bool imatrix_number(const char *option, const char *text, uint32_t *ret)
{
    uint64_t n;

    if (!cli_number(text, IMATRIX_MAX_NUMBER, &n) || n == 0)
        return cli_usage("imatrix", "%s must be a whole number from 1 to %d, not \"%s\"", option,
                         IMATRIX_MAX_NUMBER, text),
               false;
    *ret = (uint32_t)n;
    return true;
}

static int imatrix_arguments(int argc, char **argv, struct imatrix_verb *v)
{
    const int n = argc - optind;

    if (n < 2)
        return cli_usage("imatrix", n == 1 ? "TEXT is missing" : "MODEL and TEXT are missing");
    if (n > 2)
        return cli_usage("imatrix", "more than one TEXT");
    if (!v->params.out)
        return cli_usage("imatrix", "-o, --output is missing");
    v->name = argv[optind];
    v->file = argv[optind + 1];
    v->params.dataset = path_base(v->file);
    return CLI_OK;
}

/* Parses the command line. Returns CLI_OK, IMATRIX_HELP, or the exit status of an error. */
static int imatrix_parse(int argc, char **argv, struct imatrix_verb *v, struct cli_models *m)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"context", required_argument, NULL, 'c'},
        {"chunks", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"isa", required_argument, NULL, 'i'},
        {"head", no_argument, NULL, 'H'},
        {"force", no_argument, NULL, 'f'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    bool ok = true;
    int c;

    while ((c = getopt_long(argc, argv, "o:c:t:qh", options, NULL)) >= 0) {
        if (c == 'o')
            v->params.out = optarg;
        else if (c == 'c')
            ok &= imatrix_number("-c, --context", optarg, &v->params.n_ctx);
        else if (c == 'n')
            ok &= imatrix_number("--chunks", optarg, &v->params.n_chunks);
        else if (c == 't')
            ok &= imatrix_number("-t, --threads", optarg, &v->params.n_threads);
        else if (c == 'i')
            v->params.isa = optarg;
        else if (c == 'H')
            v->params.head = true;
        else if (c == 'f')
            v->params.replace = true;
        else if (c == 'q')
            v->quiet = true;
        else if (c == 'h')
            return IMATRIX_HELP;
        else if (!cli_models_option(m, c, optarg))
            return cli_usage("imatrix", "wrong option");
    }
    return ok ? imatrix_arguments(argc, argv, v) : CLI_USAGE;
}

static bool imatrix_chunk(void *data, uint32_t n_done, uint32_t n_chunks)
{
    const struct imatrix_verb *v = data;

    if (!v->quiet)
        printf("[%" PRIu32 "/%" PRIu32 "]\n", n_done, n_chunks);
    fflush(stdout);
    return !imatrix_stopped;
}

static int imatrix_make(struct imatrix_verb *v, const int32_t *tokens, size_t n)
{
    const struct sigaction stop = {.sa_handler = imatrix_stop, .sa_flags = (int)SA_RESETHAND};
    struct inf_imatrix_result result;
    struct inf_err err;
    int r;

    v->params.chunk = imatrix_chunk;
    v->params.chunk_data = v;
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    r = inf_imatrix(&v->params, tokens, n, &result, &err);
    if (r == -EEXIST)
        return cli_error("imatrix", "%s; --force replaces it", err.text);
    if (r < 0)
        return cli_error("imatrix", "%s", err.text);
    printf("%" PRIu64 " matrices from %" PRIu64 " tokens\n", result.n_matrices, result.n_tokens);
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

static int imatrix_run(struct imatrix_verb *v, struct inf_model *model)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    _cleanup_free_ int32_t *tokens = NULL;
    _cleanup_free_ char *text = NULL;
    size_t len, n;
    int r;

    if (!tok)
        return cli_error("imatrix", "%s has no tokenizer", v->name);
    r = cli_read("imatrix", v->file, &text, &len);
    if (r != CLI_OK)
        return r;
    r = inf_tokenizer_encode(tok, text, len, INF_ENCODE_ADD_SPECIAL, 0, &tokens, &n);
    if (r < 0)
        return cli_error("imatrix", "%s", strerror(-r));
    v->params.model = model;
    return imatrix_make(v, tokens, n);
}

int verb_imatrix(int argc, char **argv)
{
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    struct imatrix_verb v = {0};
    struct cli_models m = {0};
    int r;

    r = imatrix_parse(argc, argv, &v, &m);
    if (r == IMATRIX_HELP)
        return cli_help(help);
    if (r == CLI_OK)
        r = cli_open_model("imatrix", &m, v.name, false, &model);
    return r == CLI_OK ? imatrix_run(&v, model) : r;
}
