/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce bench: measures the prefill and decoding speed of a model on this machine, and the upper
 * bounds that the machine sets
 */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include <infer/bench.h>

#include "cli/cli.h"
#include "cli/metrics/runs.h"
#include "cli/verbs/bench-draft.h"
#include "cli/verbs/bench-kv.h"
#include "cli/verbs/bench-mix.h"
#include "common/config/draft-kind.h"

static const char help[] =
    "Usage: sconce bench [-m MODEL] [-p N] [-n N] [-t THREADS] [-r N] [--membw] [--peak] [--json]\n"
    "Measures how many tokens per second a model reads (pp) and writes (tg), and the upper bounds\n"
    "of this machine.\n\n"
    "  -m, --model MODEL    the model to measure\n"
    "  -p N                 prompt tokens (default: 512; 0: skip)\n"
    "  -n N                 tokens to generate (default: 128; 0: skip)\n"
    "  -d, --depth N        tokens in the context before the measured ones (default: 0)\n"
    "  -t, --threads N      compute threads (default: all available CPUs)\n"
    "  -r, --repeat N       runs of each measurement, after a warm-up run (default: 5)\n"
    "  -b, --batch N        maximum tokens of one step (default: 512)\n"
    "  --draft-kind KIND    compare texts with drafts (auto, ngram, suffix, model, mtp,\n"
    "                       eagle3, dflash, gemma4-assistant) and without\n"
    "  --draft MODEL        the same with a smaller model, which drafts (kind: model)\n"
    "  --kv-table           compare number formats of the KV cache: size, precision and speed\n"
    "  --kv-mix BITS        find the best number formats of each layer for a KV cache of this\n"
    "                       many bits a number, in a text of -d plus -p tokens\n"
    "  --chunks N           with --kv-table and --kv-mix: parts of the text that are predicted\n"
    "                       (default: 2)\n"
    "  --text FILE          the text for --kv-table and --kv-mix; with drafts: its parts are the\n"
    "                       prompts\n"
    "  --temperature X      with drafts: as in `sconce run` (default: 0)\n"
    "  --max-draft N        drafted tokens in one step (default: 16)\n"
    "  --accept X           decode with --max-draft drafted tokens in each step, each of which\n"
    "                       is accepted with this probability\n"
    "  --streams N          answers generated at the same time (default: 1)\n" CLI_DEVICE_HELP
    "  --isa ISA            highest instruction set: ref, avx2, avxvnni, avx512, neon…\n"
    "  --kv-type TYPE       number format of the KV cache: f32, f16, bf16, q8_0, q4_0, q3_0,\n"
    "                       fp8 or others (sconce-info(1)), K:V, K:V+recent, or with types of\n"
    "                       some layers as in K:V/3-5=K:V\n"
    "                       (default: f16); with --kv-table several of\n"
    "                       them, with commas between\n"
    "  --membw              measure memory bandwidth, and the share of it that decoding reaches\n"
    "  --peak               measure peak int8 speed, and the share of it that prefill reaches\n"
    "  --save               also keep the result, for `sconce metrics compare`\n"
    "  --json               print one line of JSON\n" CLI_MODELS_HELP;

enum {
    BENCH_HELP = -1,
    BENCH_MAX_NUMBER = 1 << 20,
    BENCH_REPEAT = 5, /* the default of inf_bench_params.n_repeat */
};

struct bench {
    struct inf_bench_params params;
    struct inf_bench_result result;
    const char *name;        /* name of the model; NULL: none */
    const char *device_name; /* NULL: not given */
    struct cli_device device;
    const char *draft_name; /* name of the draft model; NULL: none */
    struct draft_bench_params draft;
    uint32_t n_chunks; /* for the table of KV formats; 0: the default */
    double mix_bits;   /* of a mix of KV formats; 0: none is wanted */
    bool json, saves, kv_table;
};

static json_t *bench_speed(uint32_t tokens, double tok_s, double stddev)
{
    return json_pack("{s:i, s:f, s:f}", "tokens", (int)tokens, "tok_s", tok_s, "stddev", stddev);
}

static void add_model(const struct bench *b, json_t *j)
{
    const struct inf_bench_params *p = &b->params;
    const struct inf_bench_result *r = &b->result;
    const struct inf_model_info *info = inf_model_info(p->model);
    json_t *pp = bench_speed(p->n_prompt, r->pp_tok_s, r->pp_stddev);
    json_t *tg = bench_speed(p->n_generate, r->tg_tok_s, r->tg_stddev);

    if (p->n_prompt > 0 && p->peak)
        json_object_set_new(pp, "of_peak", json_real(r->pp_of_peak));
    if (p->n_generate > 0 && p->membw)
        json_object_set_new(tg, "of_membw", json_real(r->tg_of_bound));
    json_object_set_new(j, "pp", pp);
    if (p->n_streams > 1)
        json_object_set_new(tg, "streams", json_integer(p->n_streams));
    json_object_set_new(j, "tg", tg);
    if (p->n_draft > 0 && p->n_generate > 0)
        json_object_set_new(j, "draft",
                            json_pack("{s:i, s:f, s:f, s:f, s:f}", "tokens", (int)p->n_draft,
                                      "accept", p->accept, "tok_s", r->draft_tok_s, "stddev",
                                      r->draft_stddev, "ratio", r->draft_tok_s / r->tg_tok_s));
    if (p->n_depth > 0)
        json_object_set_new(j, "depth", bench_speed(p->n_depth, r->fill_tok_s, 0));
    json_object_set_new(j, "model", json_string(b->name));
    json_object_set_new(j, "bytes", json_integer((json_int_t)info->n_bytes));
    json_object_set_new(j, "bytes_per_token", json_integer((json_int_t)info->n_bytes_token));
    json_object_set_new(j, "madds_per_token", json_integer((json_int_t)info->n_madds_token));
    json_object_set_new(j, "madds_of_head", json_integer((json_int_t)info->n_madds_head));
    json_object_set_new(j, "weights", json_string(info->dtype_text));
}

static int print_json(const struct bench *b)
{
    const struct inf_bench_result *r = &b->result;
    json_t *j = json_pack("{s:i, s:s}", "threads", (int)r->n_threads, "isa", r->isa);
    int bad;

    if (!j)
        return cli_error("bench", "out of memory");
    json_object_set_new(j, "device", json_string(b->device.name));
    json_object_set_new(j, "device_name",
                        json_string(inf_device_info(b->device.device)->description));
    if (b->params.model)
        add_model(b, j);
    if (b->params.membw)
        json_object_set_new(
            j, "membw", json_pack("{s:f, s:s}", "bytes_s", r->read_bytes_s, "how", r->read_how));
    if (b->params.peak)
        json_object_set_new(j, "peak",
                            json_pack("{s:f, s:s?}", "ops_s", r->int8_ops_s, "how", r->int8_how));
    bad = json_dumpf(j, stdout, JSON_REAL_PRECISION(6));
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

static bool is_cpu(const struct bench *b)
{
    return inf_device_info(b->device.device)->kind == INF_DEVICE_CPU;
}

static void print_model(const struct bench *b)
{
    const struct inf_bench_params *p = &b->params;
    const struct inf_bench_result *r = &b->result;
    const struct inf_model_info *info = inf_model_info(p->model);

    printf("%s: %s, %s, %s, ", b->name, info->arch, info->dtype_text, cli_size(info->n_bytes));
    if (is_cpu(b))
        printf("%" PRIu32 " threads, %s\n", r->n_threads, r->isa);
    else
        printf("%s\n", cli_device_text(&b->device));
    if (p->n_depth)
        printf("  before it %5" PRIu32 " tokens   %9.2f tokens/s\n", p->n_depth, r->fill_tok_s);
    if (p->n_prompt)
        printf("  prompt of %5" PRIu32 " tokens   %9.2f ± %.2f tokens/s\n", p->n_prompt,
               r->pp_tok_s, r->pp_stddev);
    if (p->n_generate && p->n_streams > 1)
        printf("  %" PRIu32 " × generate %" PRIu32 " tokens   %9.2f ± %.2f tokens/s\n",
               p->n_streams, p->n_generate, r->tg_tok_s, r->tg_stddev);
    else if (p->n_generate)
        printf("  generate  %5" PRIu32 " tokens   %9.2f ± %.2f tokens/s   %s/s of weights\n",
               p->n_generate, r->tg_tok_s, r->tg_stddev,
               cli_size((uint64_t)((double)info->n_bytes_token * r->tg_tok_s)));
}

static void print_drafts(const struct bench *b)
{
    const struct inf_bench_params *p = &b->params;
    const struct inf_bench_result *r = &b->result;

    printf("  %" PRIu32 " drafted, %3.0f %% accepted  %9.2f ± %.2f tokens/s   %.2f ×\n", p->n_draft,
           p->accept * 100, r->draft_tok_s, r->draft_stddev, r->draft_tok_s / r->tg_tok_s);
}

static void print_text(const struct bench *b)
{
    const struct inf_bench_params *p = &b->params;
    const struct inf_bench_result *r = &b->result;

    if (p->model)
        print_model(b);
    else
        printf("this machine: %" PRIu32 " threads, %s\n", r->n_threads, r->isa);
    if (p->n_draft > 0 && p->n_generate > 0)
        print_drafts(b);
    if (p->membw)
        printf("  memory bandwidth         %9.1f GB/s   %s\n", r->read_bytes_s * 1e-9, r->read_how);
    if (p->peak && r->int8_how)
        printf("  int8 products            %9.2f TOPS   %s\n", r->int8_ops_s * 1e-12, r->int8_how);
    else if (p->peak)
        printf("  int8 products            %s has no known instruction\n", r->isa);
    if (p->membw && r->tg_of_bound > 0)
        printf("  decode: %.1f %% of the bandwidth bound\n", r->tg_of_bound * 100);
    if (p->peak && r->pp_of_peak > 0)
        printf("  prefill: %.1f %% of the int8 peak\n", r->pp_of_peak * 100);
}

/* Parses a number; false: invalid, after printing an error. */
static bool bench_number(const char *option, const char *text, uint32_t *ret)
{
    uint64_t n;

    if (!cli_number(text, BENCH_MAX_NUMBER, &n))
        return cli_usage("bench", "%s must be a whole number up to %d, not \"%s\"", option,
                         BENCH_MAX_NUMBER, text),
               false;
    *ret = (uint32_t)n;
    return true;
}

/* Takes an option about drafts; false: its value is invalid, after printing an error. */
static bool bench_draft_option(struct bench *b, int c, const char *arg)
{
    double x;

    if (c == 'M')
        return bench_number("--max-draft", arg, &b->draft.max_draft);
    if (c == 'G')
        b->draft.kind = arg;
    if (c == 'F')
        b->draft_name = arg;
    if (c == 'T')
        b->draft.file = arg;
    if (c == 'G' && !draft_kind_valid(arg))
        return cli_usage("bench", "--draft-kind must be " DRAFT_KIND_RULE ", not \"%s\"", arg),
               false;
    if (c == 'G' || c == 'F' || c == 'T')
        return true;
    if (!cli_real(arg, 0, c == 'A' ? 1 : 100, &x))
        return cli_usage("bench", "%s is out of range", arg), false;
    if (c == 'E')
        b->draft.temperature = (float)x;
    else
        b->params.accept = x;
    return true;
}

/* Parses the budget of a mix of KV formats; false: it is invalid, after printing an error. */
static bool bench_bits(const char *text, double *ret)
{
    if (cli_real(text, 1, 16, ret))
        return true;
    return cli_usage("bench", "--kv-mix must be a number from 1 to 16, not \"%s\"", text), false;
}

/* Checks the options of a table or a mix of KV formats. @n_left arguments are left. */
static int bench_check_table(const struct bench *b, int n_left)
{
    const char *what = b->kv_table ? "--kv-table" : "--kv-mix";

    if (!b->name || n_left > 0 || !b->draft.file)
        return cli_usage("bench", "%s needs one MODEL and --text FILE", what);
    if (b->mix_bits > 0 && (b->kv_table || b->params.kv_type))
        return cli_usage("bench", "--kv-mix chooses the formats itself; leave out --kv-type and "
                                  "--kv-table");
    if (b->draft.kind || b->draft.max_draft || b->params.n_streams || b->saves || b->params.membw ||
        b->params.peak || b->params.accept > 0)
        return cli_usage("bench",
                         "%s measures one sequence without drafts and bounds, and does not save "
                         "its results; leave out the other options",
                         what);
    if (b->params.n_prompt < 4 || b->params.n_generate == 0)
        return cli_usage("bench", "%s needs -p of at least 4 and -n of at least 1", what);
    return CLI_OK;
}

/* Parses the command line into @b and the model options @m. Returns CLI_OK, BENCH_HELP, or the exit
 * status of an error. */
static int bench_parse(int argc, char **argv, struct bench *b, struct cli_models *m)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"depth", required_argument, NULL, 'd'},
        {"threads", required_argument, NULL, 't'},
        {"repeat", required_argument, NULL, 'r'},
        {"batch", required_argument, NULL, 'b'},
        {"streams", required_argument, NULL, 'S'},
        {"draft-kind", required_argument, NULL, 'G'},
        {"draft", required_argument, NULL, 'F'},
        {"text", required_argument, NULL, 'T'},
        {"kv-table", no_argument, NULL, 'V'},
        {"kv-mix", required_argument, NULL, 'X'},
        {"chunks", required_argument, NULL, 'C'},
        {"temperature", required_argument, NULL, 'E'},
        {"max-draft", required_argument, NULL, 'M'},
        {"accept", required_argument, NULL, 'A'},
        CLI_DEVICE_OPTION,
        {"isa", required_argument, NULL, 'i'},
        {"kv-type", required_argument, NULL, 'K'},
        {"membw", no_argument, NULL, 'w'},
        {"peak", no_argument, NULL, 'k'},
        {"save", no_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    struct inf_bench_params *p = &b->params;
    bool ok = true;
    int c;

    while ((c = getopt_long(argc, argv, "m:p:n:d:t:r:b:h", options, NULL)) >= 0) {
        if (c == 'm')
            b->name = optarg;
        else if (c == 'p')
            ok &= bench_number("-p", optarg, &p->n_prompt);
        else if (c == 'n')
            ok &= bench_number("-n", optarg, &p->n_generate);
        else if (c == 'd')
            ok &= bench_number("-d, --depth", optarg, &p->n_depth);
        else if (c == 't')
            ok &= bench_number("-t, --threads", optarg, &p->n_threads);
        else if (c == 'r')
            ok &= bench_number("-r, --repeat", optarg, &p->n_repeat);
        else if (c == 'b')
            ok &= bench_number("-b, --batch", optarg, &p->n_batch);
        else if (c == 'S')
            ok &= bench_number("--streams", optarg, &p->n_streams);
        else if (c == 'G' || c == 'F' || c == 'T' || c == 'E' || c == 'M' || c == 'A')
            ok &= bench_draft_option(b, c, optarg);
        else if (c == 'D')
            b->device_name = optarg;
        else if (c == 'i')
            p->isa = optarg;
        else if (c == 'K')
            p->kv_type = optarg;
        else if (c == 'V')
            b->kv_table = true;
        else if (c == 'X')
            ok &= bench_bits(optarg, &b->mix_bits);
        else if (c == 'C')
            ok &= bench_number("--chunks", optarg, &b->n_chunks);
        else if (c == 'w')
            p->membw = true;
        else if (c == 'k')
            p->peak = true;
        else if (c == 's')
            b->saves = true;
        else if (c == 'j')
            b->json = true;
        else if (c == 'h')
            return BENCH_HELP;
        else if (!cli_models_option(m, c, optarg))
            return cli_usage("bench", "wrong option");
    }
    if (!ok)
        return CLI_USAGE;
    if (!b->name && optind + 1 == argc)
        b->name = argv[optind++];
    if (b->draft_name && !b->draft.kind)
        b->draft.kind = "model";
    if (b->kv_table || b->mix_bits > 0)
        return bench_check_table(b, argc - optind);
    if (b->n_chunks > 0)
        return cli_usage("bench", "--chunks needs --kv-table or --kv-mix");
    if (!b->draft.kind != !b->draft.file)
        return cli_usage("bench", "drafts (--draft, --draft-kind) and --text need each other");
    if (b->params.accept > 0 && !b->draft.max_draft)
        return cli_usage("bench", "--accept needs --max-draft");
    if (b->draft.max_draft > INF_DRAFT_MAX)
        return cli_usage("bench", "--max-draft must not be above %d", INF_DRAFT_MAX);
    if (b->saves && !b->name)
        return cli_usage("bench", "--save needs a model");
    if (b->saves && (b->draft.kind || b->draft.max_draft))
        return cli_usage("bench",
                         "--save stores speeds without drafts; leave out the options of drafts");
    if (optind < argc || (!b->name && !p->membw && !p->peak))
        return cli_usage("bench", "-m MODEL is missing");
    return CLI_OK;
}

/* Measures texts with and without drafts. */
static int bench_measure_drafts(struct bench *b, const struct cli_models *m,
                                struct inf_model *model)
{
    _cleanup_(inf_model_unrefp) struct inf_model *draft = NULL;
    const struct inf_bench_params *p = &b->params;
    struct draft_bench_params *d = &b->draft;

    if (b->draft_name) {
        const int r = cli_open_model("bench", m, b->draft_name, false, &draft);

        if (r != CLI_OK)
            return r;
    }
    d->model = model;
    d->draft_model = draft;
    d->device = b->device.name;
    d->cache_dir = b->device.cache_dir;
    d->isa = p->isa;
    d->kv_type = p->kv_type;
    d->n_threads = p->n_threads;
    d->n_prompt = p->n_prompt;
    d->n_generate = p->n_generate;
    d->n_streams = MAX(p->n_streams, 1u);
    d->n_repeat = p->n_repeat > 0 ? p->n_repeat : 5;
    d->json = b->json;
    return bench_drafts(d);
}

/* Keeps the speeds of the model in the user's file of runs. */
static int bench_save(const struct bench *b)
{
    const struct inf_bench_params *p = &b->params;
    const struct inf_bench_result *res = &b->result;
    const struct inf_model_info *info = inf_model_info(p->model);
    struct run run = {
        .time = time(NULL),
        .bytes = info->n_bytes,
        .threads = res->n_threads,
        .n_prompt = p->n_prompt,
        .n_generate = p->n_generate,
        .depth = p->n_depth,
        .streams = MAX(p->n_streams, 1u),
        .batch = p->n_batch,
        .repeat = p->n_repeat ? p->n_repeat : BENCH_REPEAT,
        .pp = res->pp_tok_s,
        .pp_stddev = res->pp_stddev,
        .tg = res->tg_tok_s,
        .tg_stddev = res->tg_stddev,
    };
    struct inf_err err = {0};

    snprintf(run.version, sizeof(run.version), "%s", SCONCE_VERSION);
    snprintf(run.model, sizeof(run.model), "%s", b->name);
    snprintf(run.weights, sizeof(run.weights), "%s", info->dtype_text);
    snprintf(run.machine, sizeof(run.machine), "%s",
             inf_device_info(b->device.device)->description);
    snprintf(run.isa, sizeof(run.isa), "%s", is_cpu(b) ? res->isa : b->device.name);
    snprintf(run.kv_type, sizeof(run.kv_type), "%s", p->kv_type ? p->kv_type : "");
    return runs_add(&run, &err) < 0 ? cli_error("bench", "%s", err.text) : CLI_OK;
}

/* Measures the number formats of keys and values. */
static int bench_measure_kv(const struct bench *b, struct inf_model *model)
{
    const struct inf_bench_params *p = &b->params;
    const struct kv_bench_params params = {
        .model = model,
        .name = b->name,
        .device = b->device.name,
        .cache_dir = b->device.cache_dir,
        .isa = p->isa,
        .types = p->kv_type,
        .file = b->draft.file,
        .n_threads = p->n_threads,
        .n_batch = p->n_batch,
        .n_depth = p->n_depth,
        .n_prompt = p->n_prompt,
        .n_generate = p->n_generate,
        .n_chunks = b->n_chunks > 0 ? b->n_chunks : 2,
        .n_repeat = p->n_repeat > 0 ? p->n_repeat : 3,
        .json = b->json,
    };

    return bench_kv(&params);
}

/* Finds the best mix of number formats of keys and values. */
static int bench_measure_mix(const struct bench *b, struct inf_model *model)
{
    const struct inf_bench_params *p = &b->params;
    const struct mix_bench_params params = {
        .model = model,
        .name = b->name,
        .device = b->device.name,
        .cache_dir = b->device.cache_dir,
        .isa = p->isa,
        .file = b->draft.file,
        .bits = b->mix_bits,
        .n_threads = p->n_threads,
        .n_batch = p->n_batch,
        .n_prompt = p->n_prompt,
        .n_size = p->n_depth + p->n_prompt,
        .n_chunks = b->n_chunks > 0 ? b->n_chunks : 2,
        .json = b->json,
    };

    return bench_mix(&params);
}

static int bench_measure(struct bench *b, struct inf_model *model)
{
    struct cli_progress progress = {.label = "measuring"};
    struct inf_err err;
    int r;

    b->params.n_draft = b->params.accept > 0 ? b->draft.max_draft : 0;
    b->params.device = b->device.name;
    b->params.cache_dir = b->device.cache_dir;
    b->params.model = model;
    b->params.progress = cli_progress;
    b->params.progress_data = &progress;
    if (!model)
        b->params.n_prompt = b->params.n_generate = b->params.n_depth = 0;
    r = inf_bench(&b->params, &b->result, &err);
    cli_progress_done(&progress);
    if (r < 0)
        return cli_error("bench", "%s", err.text);
    r = CLI_OK;
    if (b->json)
        r = print_json(b);
    else
        print_text(b);
    return b->saves && r == CLI_OK ? bench_save(b) : r;
}

int verb_bench(int argc, char **argv)
{
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    struct bench b = {.params = {.n_prompt = 512, .n_generate = 128}};
    struct cli_models m = {0};
    int r;

    r = bench_parse(argc, argv, &b, &m);
    if (r == BENCH_HELP)
        return cli_help(help);
    if (r != CLI_OK)
        return r;
    r = cli_open_device("bench", b.device_name, &b.device);
    if (r == CLI_OK && b.name)
        r = cli_open_model("bench", &m, b.name, false, &model);
    if (r == CLI_OK && b.kv_table)
        r = bench_measure_kv(&b, model);
    else if (r == CLI_OK && b.mix_bits > 0)
        r = bench_measure_mix(&b, model);
    else if (r == CLI_OK)
        r = b.draft.kind && model ? bench_measure_drafts(&b, &m, model) : bench_measure(&b, model);
    cli_device_done(&b.device);
    return r;
}
