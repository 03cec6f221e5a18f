/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce convert: writes a model in other number formats
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include <infer/convert.h>

#include "cli/cli.h"
#include "core/clock.h"

static const char help[] =
    "Usage: sconce convert MODEL OUT --type TYPE [OPTION]...\n"
    "       sconce convert MODEL --type TYPE --dry-run [OPTION]...\n"
    "Writes a model with other number formats: as a GGUF file, or as a directory for MLX, GPTQ or\n"
    "AWQ. An interrupted conversion leaves OUT.part; the same command continues it.\n\n"
    "  --type TYPE          Q4_K_M, Q8_0, F16 and others; `--type list` prints all. COPY keeps\n"
    "                       the formats. MLX4, MLX_MXFP4 and others write a directory; MLX, GPTQ\n"
    "                       and AWQ keep the codes of a quantized model without loss\n"
    "  --imatrix FILE       weight the columns of matrices with this importance matrix\n"
    "  --tensor-type PATTERN=TYPE\n"
    "                       number format of the tensors whose names match (repeatable); for\n"
    "                       MLX, TYPE may be FLOAT\n"
    "  --output-type TYPE   number format of the head (output.weight)\n"
    "  --embedding-type TYPE  number format of the embedding (token_embd.weight)\n"
    "  --pure               give all matrices the same number format\n"
    "  --shard-size N       largest size in MiB of a file in a directory (default: 5120)\n"
    "  -t, --threads N      compute threads (default: all available CPUs)\n"
    "  --dry-run            print the formats and sizes, but write nothing\n"
    "  --force              replace OUT if it exists\n"
    "  -q, --quiet          do not print a line for each tensor\n"
    "  --json               print one line of JSON for each tensor, and one for the "
    "result\n" CLI_MODELS_HELP;

enum {
    CONVERT_HELP = -1,
    CONVERT_MAX_THREADS = 1024,
    CONVERT_MAX_PATTERNS = 256,
    CONVERT_MAX_SHARD = 1 << 20, /* MiB */
};

struct convert {
    struct inf_convert_params params;
    const char *patterns[CONVERT_MAX_PATTERNS];
    const char *model;
    bool json, quiet;
    double worst; /* the largest error of a tensor */
    char worst_name[96];
};

static volatile sig_atomic_t convert_stopped;

static void convert_stop(int signal)
{
    (void)signal;
    convert_stopped = 1;
}

/* Prints the names that --type takes. */
static int convert_list(void)
{
    const char *name;

    for (size_t i = 0; (name = inf_convert_type(i)); i++)
        puts(name);
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

/* Handles an option; false: it is not an option of this verb. Sets *@ok to false if its argument is
 * wrong. */
static bool convert_option(struct convert *c, int option, const char *arg, bool *ok)
{
    struct inf_convert_params *p = &c->params;
    uint64_t n = 0;

    if (option == 'T')
        p->type = arg;
    else if (option == 'I')
        p->imatrix = arg;
    else if (option == 'O')
        p->output_type = arg;
    else if (option == 'E')
        p->embedding_type = arg;
    else if (option == 'p')
        p->pure = true;
    else if (option == 'n')
        p->dry_run = true;
    else if (option == 'f')
        p->replace = true;
    else if (option == 'q')
        c->quiet = true;
    else if (option == 'j')
        c->json = true;
    else if (option == 'P' && p->n_tensor_types < CONVERT_MAX_PATTERNS)
        c->patterns[p->n_tensor_types++] = arg;
    else if (option == 't' && cli_number(arg, CONVERT_MAX_THREADS, &n) && n > 0)
        p->n_threads = (uint32_t)n;
    else if (option == 'S' && cli_number(arg, CONVERT_MAX_SHARD, &n) && n > 0)
        p->shard_bytes = n << 20;
    else if (option == 'P' || option == 't' || option == 'S')
        *ok = false;
    else
        return false;
    return true;
}

/* Sets the model and the new file from the arguments that are not options. */
static int convert_arguments(int argc, char **argv, struct convert *c)
{
    const int n = argc - optind;

    if (!c->params.type)
        return cli_usage("convert", "--type is missing");
    if (n < 1)
        return cli_usage("convert", "MODEL is missing");
    if (n > 2)
        return cli_usage("convert", "more than one OUT");
    if (n < 2 && !c->params.dry_run)
        return cli_usage("convert", "OUT is missing");
    c->model = argv[optind];
    c->params.out = n == 2 ? argv[optind + 1] : NULL;
    c->params.tensor_types = c->patterns;
    return CLI_OK;
}

/* Parses the command line. Returns CLI_OK, CONVERT_HELP, or the exit status of an error. */
static int convert_parse(int argc, char **argv, struct convert *c, struct cli_models *m)
{
    static const struct option options[] = {
        {"type", required_argument, NULL, 'T'},
        {"imatrix", required_argument, NULL, 'I'},
        {"tensor-type", required_argument, NULL, 'P'},
        {"output-type", required_argument, NULL, 'O'},
        {"embedding-type", required_argument, NULL, 'E'},
        {"pure", no_argument, NULL, 'p'},
        {"shard-size", required_argument, NULL, 'S'},
        {"threads", required_argument, NULL, 't'},
        {"dry-run", no_argument, NULL, 'n'},
        {"force", no_argument, NULL, 'f'},
        {"quiet", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    bool ok = true;
    int o;

    while ((o = getopt_long(argc, argv, "t:qh", options, NULL)) >= 0) {
        if (o == 'h')
            return CONVERT_HELP;
        if (!convert_option(c, o, optarg, &ok) && !cli_models_option(m, o, optarg))
            return cli_usage("convert", "wrong option");
    }
    if (!ok)
        return cli_usage(
            "convert",
            "--tensor-type may be given at most %d times, --threads must be a whole "
            "number from 1 to %d, and --shard-size must be a whole number from 1 to %d",
            CONVERT_MAX_PATTERNS, CONVERT_MAX_THREADS, CONVERT_MAX_SHARD);
    return CLI_OK;
}

static json_t *convert_json(const struct inf_convert_tensor *t)
{
    json_t *dims = json_array();

    for (uint32_t i = 0; dims && i < t->n_dims; i++)
        json_array_append_new(dims, json_integer((json_int_t)t->dims[i]));
    return json_pack("{s:s, s:o, s:s, s:s, s:I, s:I, s:f, s:b, s:b, s:b}", "tensor", t->name,
                     "shape", dims, "from", t->from, "to", t->to, "bytes_from",
                     (json_int_t)t->bytes_from, "bytes_to", (json_int_t)t->bytes_to, "error",
                     t->error, "copied", t->copied, "resumed", t->resumed, "importance",
                     t->importance);
}

static bool convert_print_json(json_t *j)
{
    const bool ok = j && json_dumpf(j, stdout, JSON_REAL_PRECISION(6)) == 0 && putchar('\n') >= 0;

    json_decref(j);
    return ok;
}

static void convert_print(const struct inf_convert_tensor *t, bool dry_run)
{
    char shape[96];
    size_t n = 0;

    for (uint32_t i = 0; i < t->n_dims; i++)
        n += (size_t)snprintf(shape + n, sizeof(shape) - n, "%s%" PRIu64, i > 0 ? " x " : "",
                              t->dims[i]);
    printf("[%*zu/%zu] %-32s %-18s %-6s -> %-6s %s", t->n > 999 ? 4 : 3, t->i + 1, t->n, t->name,
           shape, t->from, t->to, cli_size(t->bytes_to));
    if (t->resumed)
        printf(", kept");
    else if (!t->copied && !dry_run)
        printf(", error %.4f%s", t->error, t->importance ? ", weighted" : "");
    putchar('\n');
}

/* Tells the user about a tensor. Returns false if the user wants to stop. */
static bool convert_tensor(void *data, const struct inf_convert_tensor *t)
{
    struct convert *c = data;

    if (t->error > c->worst) {
        c->worst = t->error;
        snprintf(c->worst_name, sizeof(c->worst_name), "%s", t->name);
    }
    if (c->json)
        convert_print_json(convert_json(t));
    else if (!c->quiet)
        convert_print(t, c->params.dry_run);
    fflush(stdout);
    return !convert_stopped;
}

static int convert_print_result(const struct convert *c, const struct inf_convert_result *r,
                                double seconds)
{
    const double bits = r->n_elems > 0 ? 8.0 * (double)r->bytes_to / (double)r->n_elems : 0;

    if (c->json)
        return convert_print_json(
                   json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:b, s:f}", "type",
                             c->params.type, "tensors", (json_int_t)r->n_tensors, "bytes_from",
                             (json_int_t)r->bytes_from, "bytes_to", (json_int_t)r->bytes_to,
                             "file_bytes", (json_int_t)r->file_bytes, "bits_per_weight", bits,
                             "largest_error", c->worst, "requantized", (json_int_t)r->n_requantized,
                             "fallback", (json_int_t)r->n_fallback, "needs_imatrix",
                             r->needs_importance, "seconds", seconds))
                   ? CLI_OK
                   : CLI_FAILED;
    printf("%s -> %s, %.2f bits for each weight", cli_size(r->bytes_from), cli_size(r->bytes_to),
           bits);
    if (!c->params.dry_run)
        printf(", %.1f s", seconds);
    if (c->worst > 0)
        printf(", largest error %.4f (%s)", c->worst, c->worst_name);
    putchar('\n');
    if (r->n_fallback > 0)
        printf("%" PRIu64 " tensors got other formats, because their rows are not whole blocks\n",
               r->n_fallback);
    if (r->n_requantized > 0)
        printf("%" PRIu64 " tensors were quantized before, so they are less exact than those that "
               "are made from the original weights\n",
               r->n_requantized);
    if (r->needs_importance)
        printf("The conversion needs an importance matrix (--imatrix).\n");
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

static int convert_run(struct convert *c)
{
    const struct sigaction stop = {.sa_handler = convert_stop, .sa_flags = (int)SA_RESETHAND};
    const uint64_t begin = clock_nsec();
    struct inf_convert_result result;
    struct inf_err err;
    int r;

    c->params.tensor = convert_tensor;
    c->params.tensor_data = c;
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    r = inf_convert(&c->params, &result, &err);
    if (r == -EEXIST)
        return cli_error("convert", "%s; --force replaces it", err.text);
    if (r == -ECANCELED)
        return cli_error("convert", "%s; the same command continues it", err.text);
    if (r < 0)
        return cli_error("convert", "%s", err.text);
    return convert_print_result(c, &result, (double)(clock_nsec() - begin) * 1e-9);
}

int verb_convert(int argc, char **argv)
{
    _cleanup_free_ char *path = NULL;
    struct cli_models m = {0};
    struct convert c = {0};
    int r;

    r = convert_parse(argc, argv, &c, &m);
    if (r == CONVERT_HELP)
        return cli_help(help);
    if (r == CLI_OK && c.params.type && strcmp(c.params.type, "list") == 0)
        return convert_list();
    if (r == CLI_OK)
        r = convert_arguments(argc, argv, &c);
    if (r == CLI_OK)
        r = cli_find_model("convert", &m, c.model, &path);
    if (r != CLI_OK)
        return r;
    c.params.path = path;
    return convert_run(&c);
}
