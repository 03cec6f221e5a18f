/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options of `sconce run` (see run.h). */
#include <getopt.h>
#include <string.h>

#include "cli/verbs/run.h"
#include "common/config/draft-kind.h"

const char run_help[] =
    "Usage: sconce run MODEL [PROMPT]\n"
    "       sconce run --resume [NAME [PROMPT]]\n"
    "       sconce run --sessions [--json]\n"
    "Prints one answer to PROMPT (`-`: from standard input), or starts a conversation.\n"
    "`sconce info MODEL` shows the sampling parameters that replace the defaults below.\n\n"
    "  -s, --system TEXT    the system message (default: that of the model's manifest)\n"
    "  -n, --max-tokens N   longest answer in tokens (default: until the context is full)\n"
    "  --temperature X      0 always takes the most likely token (default: 0.7)\n"
    "  --top-p X            keep the most likely tokens up to this sum of\n"
    "                       probabilities (default: 0.95)\n"
    "  --top-k N            keep the N most likely tokens (default: 40)\n"
    "  --min-p X            drop tokens below this share of the most likely one (default: 0.05)\n"
    "  --repetition-penalty X\n"
    "                       above 1 makes repetitions less likely (default: 1)\n"
    "  --seed N             give the same answer each time\n"
    "  -c, --context N      size of the context in tokens\n"
    "  -t, --threads N      compute threads (default: all available CPUs)\n" CLI_DEVICE_HELP
    "  --isa ISA            highest instruction set: ref, avx2, avxvnni, avx512, neon…\n"
    "  --kv-type TYPE       number format of the KV cache: f32, f16, bf16, q8_0, q4_0, q3_0,\n"
    "                       fp8 or others (sconce-info(1)), K:V, K:V+recent, or with types of\n"
    "                       some layers as in K:V/3-5=K:V\n"
    "                       (default: auto)\n"
    "  --draft MODEL        a smaller model with the same vocabulary that guesses tokens, which\n"
    "                       MODEL verifies together: faster, and the answer is the same\n"
    "  --draft-kind KIND    how tokens are guessed: none, auto, ngram, suffix, model,\n"
    "                       mtp, eagle3, dflash or gemma4-assistant\n"
    "                       (default: model with --draft, else none)\n"
    "  --template NAME      chat template: a file, or one of alpaca, chatml, gemma, llama2,\n"
    "                       llama3, mistral, phi3, vicuna, zephyr (default: the model's own)\n"
    "  --session NAME       save the conversation under this name, after each answer\n"
    "  --resume             continue the conversation NAME, or the last one\n"
    "  --sessions           list the saved conversations\n"
    "  -y, --yes            fetch a model OWNER/REPO or ollama:NAME that is not installed\n"
    "  --json               with --sessions: print JSON\n"
    "  --raw                continue PROMPT without the chat template\n"
    "  -v, --verbose        print tokens and speed after each answer\n" CLI_MODELS_HELP
    "\nIn a conversation: /help, /clear, /system TEXT, /exit. A line that ends with a\n"
    "backslash continues in the next one.\n";

static bool set_real(const char *text, double min, double max, float *ret)
{
    double x;

    if (!cli_real(text, min, max, &x))
        return false;
    *ret = (float)x;
    return true;
}

static bool set_u32(const char *text, uint32_t max, uint32_t *ret)
{
    uint64_t n;

    if (!cli_number(text, max, &n))
        return false;
    *ret = (uint32_t)n;
    return true;
}

/* Handles one option; false if it is unknown or its value is invalid. */
static bool take_option(struct run *run, int c, const char *arg)
{
    struct inf_sampling *s = &run->params.sampling;

    switch (c) {
    case 's':
        run->params.system = arg;
        return true;
    case 'n':
        return set_u32(arg, 1u << 24, &run->params.max_tokens);
    case 'T':
        return set_real(arg, 0, 100, &s->temperature);
    case 'p':
        return set_real(arg, 0, 1, &s->top_p);
    case 'k':
        return set_u32(arg, 1u << 24, &s->top_k);
    case 'P':
        return set_real(arg, 0, 1, &s->min_p);
    case 'R':
        return set_real(arg, 0.01, 100, &s->repetition_penalty);
    case 'S':
        s->has_seed = true;
        return cli_number(arg, UINT64_MAX, &s->seed);
    case 'c':
        return set_u32(arg, 1u << 24, &run->params.engine.n_ctx);
    case 't':
        return set_u32(arg, 1024, &run->params.engine.n_threads);
    case 'D':
        run->device_name = arg;
        return true;
    case 'i':
        run->params.engine.isa = arg;
        return true;
    case 'K':
        run->params.engine.kv_type = arg;
        return true;
    case 'G':
        run->params.engine.draft_kind = arg;
        return draft_kind_valid(arg);
    case 'f':
        run->draft = arg;
        return true;
    case 'F':
        run->template = arg;
        return true;
    case 'N':
        free(run->saved.name);
        run->saved.name = saved_name_is_good(arg) ? strdup(arg) : NULL;
        return run->saved.name;
    case 'u':
        return run->resume = true;
    case 'l':
        return run->list = true;
    case 'y':
        return run->yes = true;
    case 'j':
        return run->json = true;
    case 'r':
        run->params.raw = true;
        return true;
    case 'v':
        run->verbose = true;
        return true;
    default:
        return cli_models_option(&run->models, c, arg);
    }
}

static const struct option options[] = {
    {"system", required_argument, NULL, 's'},
    {"max-tokens", required_argument, NULL, 'n'},
    {"temperature", required_argument, NULL, 'T'},
    {"top-p", required_argument, NULL, 'p'},
    {"top-k", required_argument, NULL, 'k'},
    {"min-p", required_argument, NULL, 'P'},
    {"repetition-penalty", required_argument, NULL, 'R'},
    {"seed", required_argument, NULL, 'S'},
    {"context", required_argument, NULL, 'c'},
    {"threads", required_argument, NULL, 't'},
    CLI_DEVICE_OPTION,
    {"isa", required_argument, NULL, 'i'},
    {"kv-type", required_argument, NULL, 'K'},
    {"draft", required_argument, NULL, 'f'},
    {"draft-kind", required_argument, NULL, 'G'},
    {"template", required_argument, NULL, 'F'},
    {"session", required_argument, NULL, 'N'},
    {"resume", no_argument, NULL, 'u'},
    {"sessions", no_argument, NULL, 'l'},
    {"yes", no_argument, NULL, 'y'},
    {"json", no_argument, NULL, 'j'},
    {"raw", no_argument, NULL, 'r'},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    CLI_MODELS_OPTIONS,
    {0},
};

int run_options(struct run *run, int argc, char **argv)
{
    int c, i_option = -1;

    optind = 0; /* starts again: for a resumed conversation the options are read twice */
    while ((c = getopt_long(argc, argv, "s:n:c:t:vyh", options, &i_option)) >= 0) {
        if (c == 'h')
            return 'h';
        if (c == '?')
            return cli_usage("run", "wrong option");
        if (!take_option(run, c, optarg))
            return cli_usage("run", "\"%s\" is not a valid value for %s%s", optarg,
                             i_option >= 0 ? "--" : "-",
                             i_option >= 0 ? options[i_option].name : (char[]){(char)c, 0});
        i_option = -1;
    }
    return CLI_OK;
}
