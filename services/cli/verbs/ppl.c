/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce ppl: measures how well a model predicts a text, also compared with a base model
 */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include <infer/bench.h>
#include <infer/tokenizer.h>

#include "cli/cli.h"
#include "core/clock.h"

static const char help[] =
    "Usage: sconce ppl [OPTION]... MODEL FILE\n"
    "Measures the perplexity of a text: how well the model predicts each token from those before\n"
    "it. A lower value is better. FILE is a text; `-` reads standard input. With --base or\n"
    "--base-kv-type, also compares the predictions with those of a base model.\n\n"
    "  -m, --model MODEL    the model; the only argument is then FILE\n"
    "  -c, --context N      tokens of a chunk; the second half is predicted (default: 512)\n"
    "  --chunks N           compute only the first N chunks (default: all)\n"
    "  -t, --threads N      compute threads (default: all available CPUs)\n"
    "  -b, --batch N        maximum tokens of one step (default: 512)\n" CLI_DEVICE_HELP
    "  --isa ISA            highest instruction set: ref, avx2, avxvnni, avx512, neon…\n"
    "  --kv-type TYPE       number format of the KV cache: f32, f16, bf16, q8_0, q4_0, q3_0,\n"
    "                       fp8 or others (sconce-info(1)), K:V, K:V+recent, or with types of\n"
    "                       some layers as in K:V/3-5=K:V\n"
    "                       (default: f16)\n"
    "  --base MODEL         compare with this model, for example in F16 (default with\n"
    "                       --base-kv-type: the same model)\n"
    "  --base-kv-type TYPE  number format of the KV cache of the base model\n"
    "  --json               print one line of JSON\n" CLI_MODELS_HELP;

enum {
    PPL_HELP = -1,
    PPL_MAX_NUMBER = 1 << 20,
};

struct ppl {
    struct inf_perplexity_params params;
    const char *name, *file;
    const char *base_name;   /* NULL: the model itself, if base_kv_type is given */
    const char *device_name; /* NULL: not given */
    struct cli_device device;
    bool json;
};

/* Parses a number of at least 1; false: invalid, after printing an error. */
static bool ppl_number(const char *option, const char *text, uint32_t *ret)
{
    uint64_t n;

    if (!cli_number(text, PPL_MAX_NUMBER, &n) || n == 0)
        return cli_usage("ppl", "%s must be a whole number from 1 to %d, not \"%s\"", option,
                         PPL_MAX_NUMBER, text),
               false;
    *ret = (uint32_t)n;
    return true;
}

/* Sets the model and the file from the arguments that are not options. */
static int ppl_arguments(int argc, char **argv, struct ppl *p)
{
    if (!p->name && optind < argc)
        p->name = argv[optind++];
    if (!p->name)
        return cli_usage("ppl", "MODEL and FILE are missing");
    if (optind + 1 != argc)
        return cli_usage("ppl", optind == argc ? "FILE is missing" : "more than one FILE");
    p->file = argv[optind];
    return CLI_OK;
}

/* Parses the command line into @p and the model options @m. Returns CLI_OK, PPL_HELP, or the exit
 * status of an error. */
static int ppl_parse(int argc, char **argv, struct ppl *p, struct cli_models *m)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"context", required_argument, NULL, 'c'},
        {"chunks", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"batch", required_argument, NULL, 'b'},
        CLI_DEVICE_OPTION,
        {"isa", required_argument, NULL, 'i'},
        {"kv-type", required_argument, NULL, 'K'},
        {"base", required_argument, NULL, 'B'},
        {"base-kv-type", required_argument, NULL, 'T'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    bool ok = true;
    int c;

    while ((c = getopt_long(argc, argv, "m:c:t:b:h", options, NULL)) >= 0) {
        if (c == 'm')
            p->name = optarg;
        else if (c == 'c')
            ok &= ppl_number("-c, --context", optarg, &p->params.n_ctx);
        else if (c == 'n')
            ok &= ppl_number("--chunks", optarg, &p->params.n_chunks);
        else if (c == 't')
            ok &= ppl_number("-t, --threads", optarg, &p->params.n_threads);
        else if (c == 'b')
            ok &= ppl_number("-b, --batch", optarg, &p->params.n_batch);
        else if (c == 'D')
            p->device_name = optarg;
        else if (c == 'i')
            p->params.isa = optarg;
        else if (c == 'K')
            p->params.kv_type = optarg;
        else if (c == 'B')
            p->base_name = optarg;
        else if (c == 'T')
            p->params.base_kv_type = optarg;
        else if (c == 'j')
            p->json = true;
        else if (c == 'h')
            return PPL_HELP;
        else if (!cli_models_option(m, c, optarg))
            return cli_usage("ppl", "wrong option");
    }
    return ok ? ppl_arguments(argc, argv, p) : CLI_USAGE;
}

static void ppl_print_chunk(void *data, const struct inf_perplexity_result *result)
{
    const struct inf_divergence *d = &result->divergence;
    const struct ppl *p = data;

    printf("[%" PRIu32 "/%" PRIu32 "] %.4f", result->n_chunks_done, result->n_chunks, result->ppl);
    if (p->params.base)
        printf("  base %.4f  divergence %.6f  same top token %.2f %%", d->base_ppl.value,
               d->kld.value, 100 * d->same_top.value);
    putchar('\n');
    fflush(stdout);
}

static const double ppl_percents[INF_N_QUANTILES] = INF_QUANTILES;

static void ppl_print_estimate(const char *name, struct inf_estimate e, double factor,
                               const char *unit)
{
    printf("%-38s %11.6f ± %.6f%s\n", name, factor * e.value, factor * e.error, unit);
}

static void ppl_print_divergence(const struct inf_divergence *d)
{
    putchar('\n');
    ppl_print_estimate("Perplexity of the base model", d->base_ppl, 1, "");
    ppl_print_estimate("Perplexity ÷ that of the base model", d->ratio, 1, "");
    ppl_print_estimate("Perplexity - that of the base model", d->difference, 1, "");
    ppl_print_estimate("Logarithm of the ratio", d->log_ratio, 1, "");
    printf("%-38s %11.6f\n", "Correlation of the logarithms", d->correlation);
    ppl_print_estimate("Mean divergence (KLD) in nats", d->kld, 1, "");
    ppl_print_estimate("Mean change of the token's probability", d->p_diff, 100, " %");
    ppl_print_estimate("Root of its mean square", d->p_diff_rms, 100, " %");
    ppl_print_estimate("Same most probable token", d->same_top, 100, " %");
    printf("\n%-10s %14s %14s\n", "Quantile", "divergence", "change");
    for (unsigned i = INF_N_QUANTILES; i-- > 0;)
        printf("%8.1f %% %14.6f %12.4f %%\n", ppl_percents[i], d->kld_quantiles[i],
               100 * d->p_diff_quantiles[i]);
}

static json_t *ppl_estimate_json(struct inf_estimate e)
{
    return json_pack("{s:f, s:f}", "value", e.value, "error", e.error);
}

static json_t *ppl_quantiles_json(const double values[INF_N_QUANTILES])
{
    json_t *out = json_object();
    char name[16];

    for (unsigned i = 0; i < INF_N_QUANTILES; i++) {
        snprintf(name, sizeof(name), "%g", ppl_percents[i]);
        json_object_set_new(out, name, json_real(values[i]));
    }
    return out;
}

static json_t *ppl_divergence_json(const struct ppl *p, const struct inf_divergence *d)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "model",
                     p->base_name ? p->base_name : p->name, "ppl", ppl_estimate_json(d->base_ppl),
                     "ratio", ppl_estimate_json(d->ratio), "difference",
                     ppl_estimate_json(d->difference), "log_ratio", ppl_estimate_json(d->log_ratio),
                     "correlation", d->correlation, "kld", ppl_estimate_json(d->kld), "p_diff",
                     ppl_estimate_json(d->p_diff), "p_diff_rms", ppl_estimate_json(d->p_diff_rms),
                     "same_top", ppl_estimate_json(d->same_top), "kld_quantiles",
                     ppl_quantiles_json(d->kld_quantiles), "p_diff_quantiles",
                     ppl_quantiles_json(d->p_diff_quantiles));
}

/* Prints the result of computing @n_computed tokens in @seconds. */
static int ppl_print(const struct ppl *p, const struct inf_perplexity_result *res,
                     uint64_t n_computed, double seconds)
{
    const double tok_s = (double)n_computed / seconds;
    json_t *j;
    int bad;

    if (!isfinite(res->ppl) || (p->params.base && !isfinite(res->divergence.base_ppl.value)))
        return cli_error("ppl", "the perplexity%s is not a finite number",
                         isfinite(res->ppl) ? " of the base model" : "");
    if (!p->json) {
        printf("Final estimate: PPL = %.4f ± %.4f\n", res->ppl, res->error);
        if (p->params.base)
            ppl_print_divergence(&res->divergence);
        return ferror(stdout) ? CLI_FAILED : CLI_OK;
    }
    j = json_pack("{s:f, s:f, s:f, s:I, s:i, s:i, s:f, s:f, s:s, s:s}", "ppl", res->ppl, "error",
                  res->error, "nll", res->nll, "tokens", (json_int_t)res->n_tokens, "chunks",
                  (int)res->n_chunks, "context", (int)p->params.n_ctx, "seconds", seconds, "tok_s",
                  tok_s, "device", p->device.name, "model", p->name);
    if (!j)
        return cli_error("ppl", "out of memory");
    if (p->params.base)
        json_object_set_new(j, "base", ppl_divergence_json(p, &res->divergence));
    bad = json_dumpf(j, stdout, JSON_REAL_PRECISION(17));
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

static int ppl_measure(struct ppl *p, const int32_t *tokens, size_t n_tokens)
{
    const uint64_t begin = clock_nsec();
    struct inf_perplexity_result result;
    struct inf_err err;
    double seconds;
    int r;

    p->params.device = p->device.name;
    p->params.cache_dir = p->device.cache_dir;
    if (!p->json)
        p->params.chunk = ppl_print_chunk;
    p->params.chunk_data = p;
    r = inf_perplexity(&p->params, tokens, n_tokens, &result, &err);
    if (r < 0)
        return cli_error("ppl", "%s", err.text);
    seconds = (double)MAX(clock_nsec() - begin, 1u) * 1e-9;
    return ppl_print(p, &result, (uint64_t)result.n_chunks * p->params.n_ctx, seconds);
}

/* Checks that the base model cuts the text into the same tokens. */
static int ppl_check_base(const struct ppl *p, const char *text, size_t len, const int32_t *tokens,
                          size_t n_tokens)
{
    const struct inf_tokenizer *tok = p->params.base ? inf_model_tokenizer(p->params.base) : NULL;
    _cleanup_free_ int32_t *base = NULL;
    size_t n;
    int r;

    if (!tok || p->params.base == p->params.model)
        return CLI_OK;
    r = inf_tokenizer_encode(tok, text, len, INF_ENCODE_ADD_SPECIAL, 0, &base, &n);
    if (r < 0)
        return cli_error("ppl", "%s", strerror(-r));
    if (n != n_tokens || memcmp(base, tokens, n * sizeof(*base)) != 0)
        return cli_error("ppl", "%s and %s cannot be compared: their tokenizers differ", p->name,
                         p->base_name);
    return CLI_OK;
}

static int ppl_file(struct ppl *p, struct inf_model *model)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    _cleanup_free_ int32_t *tokens = NULL;
    _cleanup_free_ char *text = NULL;
    struct inf_err err;
    size_t len, n;
    int r;

    if (inf_model_suits(model, INF_USE_GENERATE, &err) < 0)
        return cli_error("ppl", "%s is not a model of text: %s", p->name, err.text);
    if (!tok)
        return cli_error("ppl", "%s has no tokenizer", p->name);
    r = cli_read("ppl", p->file, &text, &len);
    if (r != CLI_OK)
        return r;
    r = inf_tokenizer_encode(tok, text, len, INF_ENCODE_ADD_SPECIAL, 0, &tokens, &n);
    if (r < 0)
        return cli_error("ppl", "%s", strerror(-r));
    p->params.model = model;
    r = ppl_check_base(p, text, len, tokens, n);
    return r == CLI_OK ? ppl_measure(p, tokens, n) : r;
}

int verb_ppl(int argc, char **argv)
{
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL, *base = NULL;
    struct ppl p = {.params = {.n_ctx = 512}};
    struct cli_models m = {0};
    int r;

    r = ppl_parse(argc, argv, &p, &m);
    if (r == PPL_HELP)
        return cli_help(help);
    if (r != CLI_OK)
        return r;
    r = cli_open_device("ppl", p.device_name, &p.device);
    if (r == CLI_OK)
        r = cli_open_model("ppl", &m, p.name, false, &model);
    if (r == CLI_OK && p.base_name)
        r = cli_open_model("ppl", &m, p.base_name, false, &base);
    p.params.base = base || !p.params.base_kv_type ? base : model;
    if (r == CLI_OK)
        r = ppl_file(&p, model);
    cli_device_done(&p.device);
    return r;
}
