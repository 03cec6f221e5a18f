/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce bench: prefill and decoding speed of a model on this machine
 */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include <infer/bench.h>

#include "cli/cli.h"

static const char help[] =
    "Usage: sconce bench -m MODEL [-p N] [-n N] [-t THREADS] [-r N] [--json]\n"
    "Measures how many tokens per second a model reads (pp) and writes (tg).\n\n"
    "  -m, --model MODEL    what to measure\n"
    "  -p N                 tokens of the prompt (512; 0: skip)\n"
    "  -n N                 tokens to generate (128; 0: skip)\n"
    "  -t, --threads N      threads (all CPUs that we may use)\n"
    "  -r, --repeat N       runs of each, after one that is not counted (5)\n"
    "  -b, --batch N        rows of one step (512)\n"
    "  --isa RUNG           highest instruction set: ref, avx2, avxvnni, avx512, neon…\n"
    "  --json               as one line of JSON\n" CLI_MODELS_HELP;

static json_t *speed(uint32_t tokens, double tok_s, double stddev)
{
    return json_pack("{s:i, s:f, s:f}", "tokens", (int)tokens, "tok_s", tok_s, "stddev", stddev);
}

static int print_json(const struct inf_bench_params *p, const struct inf_bench_result *r,
                      const char *name)
{
    const struct inf_model_info *info = inf_model_info(p->model);
    json_t *j =
        json_pack("{s:o, s:o, s:i, s:s, s:s, s:I, s:I, s:s}", "pp",
                  speed(p->n_prompt, r->pp_tok_s, r->pp_stddev), "tg",
                  speed(p->n_generate, r->tg_tok_s, r->tg_stddev), "threads", (int)r->n_threads,
                  "isa", r->isa, "model", name, "bytes", (json_int_t)info->n_bytes,
                  "bytes_per_token", (json_int_t)info->n_bytes_token, "weights", info->dtype_text);
    int bad;

    if (!j)
        return cli_error("bench", "out of memory");
    bad = json_dumpf(j, stdout, JSON_REAL_PRECISION(6));
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

static void print_text(const struct inf_bench_params *p, const struct inf_bench_result *r,
                       const char *name)
{
    const struct inf_model_info *info = inf_model_info(p->model);

    printf("%s: %s, %s, %s, %" PRIu32 " threads, %s\n", name, info->arch, info->dtype_text,
           cli_size(info->n_bytes), r->n_threads, r->isa);
    if (p->n_prompt)
        printf("  prompt of %5" PRIu32 " tokens   %9.2f ± %.2f tokens/s\n", p->n_prompt,
               r->pp_tok_s, r->pp_stddev);
    if (p->n_generate)
        printf("  generate  %5" PRIu32 " tokens   %9.2f ± %.2f tokens/s   %s/s of weights\n",
               p->n_generate, r->tg_tok_s, r->tg_stddev,
               cli_size((uint64_t)((double)info->n_bytes_token * r->tg_tok_s)));
}

static bool number(const char *text, uint32_t *ret)
{
    uint64_t n;

    if (!cli_number(text, 1u << 20, &n))
        return false;
    *ret = (uint32_t)n;
    return true;
}

int verb_bench(int argc, char **argv)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"threads", required_argument, NULL, 't'},
        {"repeat", required_argument, NULL, 'r'},
        {"batch", required_argument, NULL, 'b'},
        {"isa", required_argument, NULL, 'i'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    struct cli_progress progress = {.label = "measuring"};
    struct inf_bench_params params = {
        .n_prompt = 512, .n_generate = 128, .progress = cli_progress, .progress_data = &progress};
    struct inf_bench_result result;
    struct cli_models m = {0};
    struct inf_err err;
    const char *name = NULL;
    bool json = false, ok = true;
    int c, r;

    while ((c = getopt_long(argc, argv, "m:p:n:t:r:b:h", options, NULL)) >= 0) {
        if (c == 'm')
            name = optarg;
        else if (c == 'p')
            ok &= number(optarg, &params.n_prompt);
        else if (c == 'n')
            ok &= number(optarg, &params.n_generate);
        else if (c == 't')
            ok &= number(optarg, &params.n_threads);
        else if (c == 'r')
            ok &= number(optarg, &params.n_repeat);
        else if (c == 'b')
            ok &= number(optarg, &params.n_batch);
        else if (c == 'i')
            params.isa = optarg;
        else if (c == 'j')
            json = true;
        else if (c == 'h')
            return cli_help(help);
        else if (!cli_models_option(&m, c, optarg))
            return cli_usage("bench", "wrong option");
    }
    if (!ok)
        return cli_usage("bench", "numbers must be whole and at most %d", 1 << 20);
    if (!name && optind + 1 == argc)
        name = argv[optind++];
    if (!name || optind < argc)
        return cli_usage("bench", "-m MODEL is missing");
    r = cli_open_model("bench", &m, name, false, &model);
    if (r != CLI_OK)
        return r;
    params.model = model;
    r = inf_bench(&params, &result, &err);
    cli_progress_done(&progress);
    if (r < 0)
        return cli_error("bench", "%s", err.text);
    if (json)
        return print_json(&params, &result, name);
    print_text(&params, &result, name);
    return CLI_OK;
}
