/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce run: prints one answer, or holds a conversation at the terminal
 *
 * libedit provides line editing, with a history in $XDG_STATE_HOME/sconce/history. Control-C stops
 * an answer; outside a conversation, the program then ends with the status 130, as shells expect.
 * Control-D ends the conversation.
 */
#include <errno.h>
#include <histedit.h>
#include <signal.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/conversation/conversation.h"
#include "cli/conversation/saved.h"
#include "cli/sampling.h"
#include "cli/verbs/run-pull.h"
#include "cli/verbs/run.h"
#include "common/config/config.h"
#include "common/config/draft-kind.h"
#include "common/models/settings.h"
#include "common/models/templates.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

static const char conversation_help[] =
    "  /clear          forget all messages\n"
    "  /system TEXT    start a new conversation with this system message\n"
    "  /exit           end the conversation (also control-D)\n"
    "  Control-C stops an answer.\n";

enum {
    LEAST_SPEED_TOKENS = 8,
    CLI_INTERRUPTED = 128 + SIGINT,
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

/* Computes the decoding speed in tokens per second; 0 if the tokens are too few, or the time is too
 * short, for a meaningful figure. */
static double run_speed(const struct conversation_stats *s)
{
    const double rest = s->total_sec - s->first_sec;
    const uint32_t n = s->n_generated - s->n_first;

    return n >= LEAST_SPEED_TOKENS && rest > 0 ? n / rest : 0;
}

static void tell_stats(const struct conversation_stats *s)
{
    fprintf(stderr,
            "[%u tokens read, %u of them cached, first text after %.2f s; %u tokens written",
            s->n_prompt, s->n_cached, s->first_sec, s->n_generated);
    if (run_speed(s) > 0)
        fprintf(stderr, ", %.1f tokens/s", run_speed(s));
    if (s->n_accepted + s->n_rejected > 0)
        fprintf(stderr, "; %u of %u drafted tokens accepted", s->n_accepted,
                s->n_accepted + s->n_rejected);
    fputs("]\n", stderr);
}

static void tell_context(const struct conversation_stats *s)
{
    if (s->n_forgotten)
        fprintf(
            stderr,
            "(The context of %u tokens was full: the oldest %zu messages are no longer part of the "
            "prompt.)\n",
            s->n_ctx, s->n_forgotten);
    if (s->is_full)
        fprintf(stderr,
                "(The context of %u tokens is full, so the answer ends here; --context makes it "
                "larger.)\n",
                s->n_ctx);
}

static int run_save(struct run *run, struct conversation *c)
{
    struct inf_err err;

    if (!run->saved.name)
        return CLI_OK;
    json_decref(run->saved.messages);
    run->saved.messages = json_incref(conversation_messages(c));
    return saved_write(&run->saved, &err) < 0 ? cli_error("run", "%s", err.text) : CLI_OK;
}

static int run_say(struct run *run, struct conversation *c, const char *text)
{
    struct conversation_stats stats;
    struct inf_err err;

    if (conversation_say(c, text, stdout, &stats, &err) < 0)
        return cli_error("run", "%s", err.text);
    putchar('\n');
    fflush(stdout);
    tell_context(&stats);
    if (run->verbose)
        tell_stats(&stats);
    return run_save(run, c);
}

/* Returns the path $XDG_STATE_HOME/sconce/history; NULL: there is no directory for a history. */
static char *history_path(void)
{
    _cleanup_free_ char *dir = saved_state_dir();

    return dir ? path_join(dir, "history") : NULL;
}

static char *run_prompt(EditLine *el)
{
    void *more = NULL;
    static char first[] = "> ", next[] = "… ";

    el_get(el, EL_CLIENTDATA, &more);
    return more && *(bool *)more ? next : first;
}

/* Returns whether @line is a command. A command is a slash and a word of letters, so most paths are
 * not commands. */
static bool is_command(const char *line)
{
    const size_t n = line[0] == '/' ? strspn(line + 1, "abcdefghijklmnopqrstuvwxyz") : 0;

    return line[0] == '/' && (line[n + 1] == 0 || line[n + 1] == ' ');
}

/* Runs a command; true if the line was one. *ret_end: whether the command ends the conversation. */
static bool run_command(struct conversation *c, const char *line, bool *ret_end)
{
    if (!is_command(line))
        return false;
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0 || strcmp(line, "/bye") == 0) {
        *ret_end = true;
    } else if (strcmp(line, "/clear") == 0) {
        if (conversation_reset(c, NULL) == 0)
            fputs("(forgotten)\n", stderr);
    } else if (text_starts_with(line, "/system ")) {
        if (conversation_reset(c, line + 8) == 0)
            fputs("(a new conversation)\n", stderr);
    } else if (strcmp(line, "/help") == 0) {
        fputs(conversation_help, stderr);
    } else if (strcmp(line, "/system") == 0) {
        fputs("/system needs a text: /system TEXT\n", stderr);
    } else {
        fprintf(stderr, "There is no command \"%s\". The commands are:\n%s", line,
                conversation_help);
    }
    return true;
}

/* Reads one input, joining lines that end with a backslash; false at the end of input. */
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

static int run_converse(struct run *run, struct conversation *c)
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
    el_set(el, EL_PROMPT, run_prompt);
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_HIST, history, past);
    el_set(el, EL_SIGNAL, 0);
    el_source(el, NULL);

    fputs("Control-D or /exit ends the conversation, /help shows the commands.\n", stderr);
    while (!end && read_input(el, &more, &input)) {
        if (input.len == 0)
            continue;
        history(past, &ev, H_ENTER, input.data);
        if (file)
            history(past, &ev, H_SAVE, file);
        if (!run_command(c, input.data, &end))
            run_say(run, c, input.data);
    }
    fputc('\n', stderr);
    str_done(&input);
    history_end(past);
    el_end(el);
    return CLI_OK;
}

/* Fills the description of the saved conversation; @model is its model. */
static int run_describe(struct run *run, const char *model_name, const struct inf_model *model)
{
    const struct inf_model_info *info = inf_model_info(model);
    struct saved *s = &run->saved;

    if (!s->name)
        return CLI_OK;
    if (run->resume && (strcmp(s->arch, info->arch) != 0 || s->n_params != info->n_params ||
                        s->n_bytes != info->n_bytes))
        return cli_error("run", "the model %s is not the one that the conversation \"%s\" used",
                         s->model, s->name);
    if (!run->resume) {
        s->model = strchr(model_name, '/') ? realpath(model_name, NULL) : strdup(model_name);
        s->arch = strdup(info->arch);
    }
    s->n_params = info->n_params;
    s->n_bytes = info->n_bytes;
    s->sampling = run->params.sampling;
    s->max_tokens = run->params.max_tokens;
    s->n_ctx = run->params.engine.n_ctx;
    if (run->params.engine.kv_type != s->kv_type) {
        free(s->kv_type);
        s->kv_type = run->params.engine.kv_type ? strdup(run->params.engine.kv_type) : NULL;
        run->params.engine.kv_type = s->kv_type;
    }
    run->params.session = s->name;
    run->params.messages = s->messages;
    return s->model && s->arch ? CLI_OK : cli_error("run", "out of memory");
}

static int check_template(struct run *run, const char *model_name, const struct inf_model *model)
{
    if (!inf_model_tokenizer(model))
        return cli_error("run", "%s has no tokenizer", model_name);
    if (run->params.raw)
        return CLI_OK;
    if (inf_model_info(model)->template_error)
        return cli_error("run",
                         "the chat template of %s cannot be used (%s); --raw works without one",
                         model_name, inf_model_info(model)->template_error);
    if (inf_model_chat_template(model))
        return CLI_OK;
    if (run->saved.name)
        return cli_error("run", "%s has no chat template, so there is no conversation to save",
                         model_name);
    if (isatty(STDERR_FILENO))
        fputs("This model has no chat template: it continues your text (--raw).\n", stderr);
    run->params.raw = true;
    return CLI_OK;
}

static void tell_device(const struct run *run)
{
    const char *why = inf_device_why(run->device.device);

    fprintf(stderr, "[%s%s%s]\n", cli_device_text(&run->device), why ? ": " : "", why ? why : "");
}

/* Sets the sampling parameters that the command line does not give. */
static int run_set_sampling(struct run *run, const char *model_name, const struct inf_model *model)
{
    struct inf_sampling defaults = sampling_openai;
    struct inf_sampling *s = &run->params.sampling;
    const int r = cli_sampling("run", &run->models, model_name, model, s, NULL);

    defaults.temperature = 0.7f;
    defaults.top_p = 0.95f;
    defaults.top_k = 40;
    defaults.min_p = 0.05f;
    sampling_fill(s, &defaults, SAMPLING_OF_API, NULL);
    return r;
}

/* Takes settings from the manifest if the command line does not give them, and opens the model. */
static int run_open(struct run *run, const char *model_name, struct inf_model **ret_model)
{
    struct inf_engine_params *engine = &run->params.engine;
    _cleanup_free_ char *text = NULL;
    const char *template;
    struct inf_err err;
    const int r = cli_settings("run", &run->models, model_name, &run->arena, &run->settings);

    if (r != CLI_OK)
        return r;
    template = run->template ? run->template : run->settings.template;
    engine->n_ctx = engine->n_ctx ? engine->n_ctx : run->settings.context;
    engine->kv_type = engine->kv_type ? engine->kv_type : run->settings.kv_type;
    run->params.stops = run->settings.stops;
    run->params.first = run->settings.messages;
    run->params.n_first = run->settings.n_messages;
    if (!run->params.system)
        run->params.system = run->settings.system;
    if (template && template_load(template, &text, &err) < 0)
        return cli_error("run", "%s", err.text);
    return cli_open_chat_model("run", &run->models, model_name, text, ret_model);
}

/* Opens the draft model that the command line names, or else the one that the manifest names. The
 * latter is used only if the kind of drafts can use a draft model. */
static int run_open_draft(struct run *run, struct inf_model **ret_draft)
{
    const char *kind = run->params.engine.draft_kind;
    const bool is_wanted = kind && draft_kind_uses_model(kind);
    const char *name = run->draft ? run->draft : is_wanted ? run->settings.drafter : NULL;

    *ret_draft = NULL;
    return name ? cli_open_model("run", &run->models, name, false, ret_draft) : CLI_OK;
}

static int run_start(struct run *run, const char *model_name, const char *prompt_arg)
{
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    _cleanup_(inf_model_unrefp) struct inf_model *draft = NULL;
    _cleanup_(cli_tier_freep) struct inf_tier *tier = NULL;
    _cleanup_(conversation_freep) struct conversation *c = NULL;
    _cleanup_free_ char *text = NULL;
    const bool from_stdin = prompt_arg ? strcmp(prompt_arg, "-") == 0 : !isatty(STDIN_FILENO);
    const struct sigaction act = {.sa_handler = on_interrupt};
    struct inf_err err;
    size_t len;
    int r;

    if ((r = cli_open_device("run", run->device_name, &run->device)) != CLI_OK ||
        (r = cli_config("run", &run->models, &config)) != CLI_OK ||
        (r = run_open(run, model_name, &model)) != CLI_OK ||
        (r = run_open_draft(run, &draft)) != CLI_OK ||
        (r = check_template(run, model_name, model)) != CLI_OK ||
        (r = run_set_sampling(run, model_name, model)) != CLI_OK ||
        (r = run_describe(run, model_name, model)) != CLI_OK)
        return r;
    tier = cli_tier_new(config);
    run->params.model = model;
    run->params.engine.draft_model = draft;
    run->params.engine.device = run->device.name;
    run->params.engine.cache_dir = run->device.cache_dir;
    run->params.engine.tier = tier;
    run->params.engine.tier_model = model_name;
    if (run->verbose)
        tell_device(run);
    run->params.interrupt = &interrupted;
    if (conversation_new(&run->params, &c, &err) < 0)
        return cli_error("run", "%s", err.text);
    if (from_stdin && (r = cli_read("run", "-", &text, &len)) != CLI_OK)
        return r;
    sigaction(SIGINT, &act, NULL);
    if (!from_stdin && !prompt_arg)
        return run_converse(run, c);
    r = run_say(run, c, from_stdin ? text : prompt_arg);
    return interrupted ? CLI_INTERRUPTED : r;
}

/* Loads a saved conversation with its options, which the command line overrides. */
static int run_resume(struct run *run, const char *name, int argc, char **argv)
{
    struct saved saved;
    struct inf_err err;

    if (run->saved.name || run->params.system || run->params.raw)
        return cli_usage("run", "--session, --system and --raw are only for new conversations");
    if (name && !saved_name_is_good(name))
        return cli_usage("run", "\"%s\" cannot be the name of a conversation", name);
    if (saved_read(name, &saved, &err) < 0)
        return cli_error("run", "%s", err.text);
    *run = (struct run){
        .params =
            {
                .sampling = saved.sampling,
                .max_tokens = saved.max_tokens,
                .engine = {.n_ctx = saved.n_ctx, .kv_type = saved.kv_type},
            },
        .saved = saved,
    };
    run_options(run, argc, argv);
    if (run->verbose)
        fprintf(stderr, "[%s, %zu messages]\n", saved.name, json_array_size(saved.messages));
    return CLI_OK;
}

static int run_begin(struct run *run, int argc, char **argv)
{
    char *const *args = argv + optind;
    _cleanup_free_ char *name = NULL;
    const int n_args = argc - optind;
    struct inf_err err;
    int r;

    if (run->list)
        return saved_print(run->json, &err) < 0 ? cli_error("run", "%s", err.text) : CLI_OK;
    if (run->json)
        return cli_usage("run", "--json is only for --sessions");
    if (n_args > 2)
        return cli_usage("run", "unexpected argument \"%s\"; put the prompt in quotes", args[2]);
    if (run->resume) {
        r = run_resume(run, n_args > 0 ? args[0] : NULL, argc, argv);
        return r == CLI_OK ? run_start(run, run->saved.model, n_args > 1 ? args[1] : NULL) : r;
    }
    if (n_args == 0)
        return cli_usage(
            "run",
            "give the name or the path of a model; `sconce list` shows the installed models");
    if (run->saved.name && run->params.raw)
        return cli_usage("run", "--raw uses no messages, so there is nothing to save");
    if (run->saved.name && saved_exists(run->saved.name))
        return cli_error(
            "run",
            "the conversation \"%s\" already exists; `sconce run --resume %s` continues "
            "it",
            run->saved.name, run->saved.name);
    r = cli_find_or_pull("run", &run->models, args[0], run->yes, &name);
    return r == CLI_OK ? run_start(run, name, n_args > 1 ? args[1] : NULL) : r;
}

int verb_run(int argc, char **argv)
{
    struct run run = {0};
    int r;

    sampling_clear(&run.params.sampling);
    r = run_options(&run, argc, argv);
    if (r == 'h')
        return cli_help(run_help);
    if (r == CLI_OK)
        r = run_begin(&run, argc, argv);
    cli_device_done(&run.device);
    arena_done(&run.arena);
    saved_done(&run.saved);
    return r;
}
