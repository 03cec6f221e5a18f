/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce run: one answer, or a conversation at the terminal
 *
 * Lines are edited by libedit, with a history in $XDG_STATE_HOME/sconce/history. Control-C ends an
 * answer, control-D the conversation.
 */
#include <errno.h>
#include <getopt.h>
#include <histedit.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/conversation.h"
#include "core/err.h"
#include "core/file.h"

static const char help[] =
    "Usage: sconce run MODEL [PROMPT]\n"
    "Talks to a model: one answer to PROMPT (`-`: from standard input), or a conversation.\n\n"
    "  -s, --system TEXT    what the model is told first\n"
    "  -n, --max-tokens N   longest answer (until the context is full)\n"
    "  --temperature X      0 is greedy (0.7)\n"
    "  --top-p X            keep the likeliest tokens up to this probability (0.95)\n"
    "  --top-k N            keep the N likeliest tokens (40)\n"
    "  --min-p X            drop tokens below this share of the likeliest (0.05)\n"
    "  --repetition-penalty X\n"
    "                       above 1 discourages what was just said (1)\n"
    "  --seed N             the same answer each time\n"
    "  -c, --context N      tokens that the conversation may hold\n"
    "  -t, --threads N      threads (all CPUs that we may use)\n"
    "  --isa RUNG           highest instruction set: ref, avx2, avxvnni, avx512, neon…\n"
    "  --kv-type TYPE       numbers of the KV cache: f32, f16, bf16, q8_0 (f16)\n"
    "  --raw                continue PROMPT without the chat template\n"
    "  -v, --verbose        tell tokens and speed after each answer\n" CLI_MODELS_HELP
    "\nIn a conversation: /help, /clear, /system TEXT, /exit. A line that ends with a\n"
    "backslash goes on in the next one.\n";

static const char conversation_help[] =
    "  /clear          forget what was said\n"
    "  /system TEXT    tell the model something first, and start anew\n"
    "  /exit           end (also control-D)\n"
    "  Control-C ends an answer.\n";

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

/* What the command line asked for. */
struct run {
    struct cli_models models;
    struct conversation_params params;
    bool verbose;
};

static void tell_stats(const struct conversation_stats *s)
{
    const double rest = s->total_sec - s->first_sec;

    fprintf(stderr, "[%u tokens read, first text after %.2f s; %u tokens written", s->n_prompt,
            s->first_sec, s->n_generated);
    if (rest > 0 && s->n_generated > 1)
        fprintf(stderr, ", %.1f tokens/s", (s->n_generated - 1) / rest);
    fputs("]\n", stderr);
}

static int say(struct conversation *c, const char *text, bool verbose)
{
    struct conversation_stats stats;
    struct inf_err err;

    if (conversation_say(c, text, stdout, &stats, &err) < 0)
        return cli_error("run", "%s", err.text);
    putchar('\n');
    fflush(stdout);
    if (verbose)
        tell_stats(&stats);
    return CLI_OK;
}

/* $XDG_STATE_HOME/sconce/history, directories made; NULL: no history then. */
static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    _cleanup_free_ char *base = NULL, *dir = NULL;

    if (state && state[0] == '/')
        base = strdup(state);
    else if (home && home[0] == '/')
        base = path_join(home, ".local/state");
    dir = base ? path_join(base, "sconce") : NULL;
    if (!dir)
        return NULL;
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(dir, 0700);
        *p = '/';
    }
    mkdir(dir, 0700);
    return path_join(dir, "history");
}

static char *prompt(EditLine *el)
{
    void *more = NULL;
    static char first[] = "> ", next[] = "… ";

    el_get(el, EL_CLIENTDATA, &more);
    return more && *(bool *)more ? next : first;
}

/* True when the line was a command; *ret_end when it ends the conversation. */
static bool command(struct conversation *c, const char *line, bool *ret_end)
{
    if (line[0] != '/')
        return false;
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0 || strcmp(line, "/bye") == 0) {
        *ret_end = true;
    } else if (strcmp(line, "/clear") == 0) {
        if (conversation_reset(c, NULL) == 0)
            fputs("(forgotten)\n", stderr);
    } else if (strncmp(line, "/system ", 8) == 0) {
        if (conversation_reset(c, line + 8) == 0)
            fputs("(a new conversation)\n", stderr);
    } else {
        fputs(conversation_help, stderr);
    }
    return true;
}

/* One input, lines joined at a trailing backslash; false at the end of input. */
static bool read_input(EditLine *el, bool *more, struct str *out)
{
    const char *line;
    int n;

    str_clear(out);
    *more = false;
    for (;;) {
        interrupted = 0;
        line = el_gets(el, &n);
        if (!line || n <= 0) {
            if (interrupted || (n < 0 && errno == EINTR)) {
                fputc('\n', stderr);
                str_clear(out);
                *more = false;
                continue;
            }
            return false;
        }
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        *more = n > 0 && line[n - 1] == '\\';
        if (str_append(out, line, (size_t)(*more ? n - 1 : n)) < 0)
            return false;
        if (!*more)
            return true;
        str_putc(out, '\n');
    }
}

static int converse(struct conversation *c, bool verbose)
{
    _cleanup_free_ char *file = history_path();
    EditLine *el = el_init("sconce", stdin, stderr, stderr);
    History *past = history_init();
    bool more = false, end = false;
    struct str input = {0};
    HistEvent ev;

    if (!el || !past)
        return cli_error("run", "cannot edit lines on this terminal");
    history(past, &ev, H_SETSIZE, 1000);
    history(past, &ev, H_SETUNIQUE, 1);
    if (file)
        history(past, &ev, H_LOAD, file);
    el_set(el, EL_CLIENTDATA, &more);
    el_set(el, EL_PROMPT, prompt);
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_HIST, history, past);
    el_set(el, EL_SIGNAL, 0);
    el_source(el, NULL);

    fputs("Control-D or /exit ends, /help tells more.\n", stderr);
    while (!end && read_input(el, &more, &input)) {
        if (input.len == 0)
            continue;
        history(past, &ev, H_ENTER, input.data);
        if (file)
            history(past, &ev, H_SAVE, file);
        if (!command(c, input.data, &end))
            say(c, input.data, verbose);
    }
    fputc('\n', stderr);
    str_done(&input);
    history_end(past);
    el_end(el);
    return CLI_OK;
}

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

/* One option; false when its value is wrong or it is unknown. */
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
    case 'i':
        run->params.engine.isa = arg;
        return true;
    case 'K':
        run->params.engine.kv_type = arg;
        return true;
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

static int start(struct run *run, const char *model_name, const char *prompt_arg)
{
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    _cleanup_(conversation_freep) struct conversation *c = NULL;
    _cleanup_free_ char *text = NULL;
    const bool from_stdin = prompt_arg ? strcmp(prompt_arg, "-") == 0 : !isatty(STDIN_FILENO);
    const struct sigaction act = {.sa_handler = on_interrupt};
    struct inf_err err;
    size_t len;
    int r;

    r = cli_open_model("run", &run->models, model_name, false, &model);
    if (r != CLI_OK)
        return r;
    if (!inf_model_tokenizer(model))
        return cli_error("run", "%s has no tokenizer", model_name);
    if (!run->params.raw && inf_model_info(model)->template_error)
        return cli_error("run", "the chat template of %s cannot be used (%s); --raw does without",
                         model_name, inf_model_info(model)->template_error);
    if (!run->params.raw && !inf_model_chat_template(model)) {
        if (isatty(STDERR_FILENO))
            fputs("This model has no chat template: it continues your text (--raw).\n", stderr);
        run->params.raw = true;
    }
    run->params.model = model;
    run->params.interrupt = &interrupted;
    if (conversation_new(&run->params, &c, &err) < 0)
        return cli_error("run", "%s", err.text);
    sigaction(SIGINT, &act, NULL);
    if (from_stdin) {
        r = cli_read("run", "-", &text, &len);
        return r == CLI_OK ? say(c, text, run->verbose) : r;
    }
    return prompt_arg ? say(c, prompt_arg, run->verbose) : converse(c, run->verbose);
}

int verb_run(int argc, char **argv)
{
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
        {"isa", required_argument, NULL, 'i'},
        {"kv-type", required_argument, NULL, 'K'},
        {"raw", no_argument, NULL, 'r'},
        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    struct run run = {
        .params.sampling = {.temperature = 0.7f, .top_p = 0.95f, .top_k = 40, .min_p = 0.05f},
    };
    int c, i_option = -1;

    while ((c = getopt_long(argc, argv, "s:n:c:t:vh", options, &i_option)) >= 0) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage("run", "wrong option");
        if (!take_option(&run, c, optarg))
            return cli_usage("run", "\"%s\" is no good value for --%s", optarg,
                             i_option >= 0 ? options[i_option].name : (char[]){(char)c, 0});
        i_option = -1;
    }
    if (optind >= argc)
        return cli_usage("run", "name a model; `sconce list` shows those that are installed");
    if (optind + 2 < argc)
        return cli_usage("run", "\"%s\" is too much; put the prompt into quotes", argv[optind + 2]);
    return start(&run, argv[optind], optind + 1 < argc ? argv[optind + 1] : NULL);
}
