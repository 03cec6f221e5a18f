/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This is the main function of the command line: it finds the verb and runs it.
 */
#include <locale.h>
#include <signal.h>
#include <string.h>

#include <infer/model.h>

#include "cli/cli.h"

static const struct cli_verb verbs[] = {
    {"run", verb_run, "talk to a model, or get one answer"},
    {"embed", verb_embed, "convert texts, or the lines of a file, to vectors"},
    {"transcribe", verb_transcribe, "convert speech from files or a microphone to text"},
    {"list", verb_list, "list the installed models"},
    {"pull", verb_pull, "fetch a model and install it"},
    {"show", verb_show, "show where a model came from, and its files"},
    {"rm", verb_rm, "remove models"},
    {"alias", verb_alias, "give a model another name"},
    {"verify", verb_verify, "compare the files of models with their digests"},
    {"info", verb_info, "show a model or the compute devices"},
    {"serve", verb_serve, "run the services in the foreground, without systemd"},
    {"status", verb_status, "show what runs, and how fast"},
    {"ps", verb_ps, "list the models in memory"},
    {"stop", verb_stop, "unload models from memory"},
    {"metrics", verb_metrics, "show the history of requests, and compare benchmarks"},
    {"cache", verb_cache, "inspect and clean the KV cache on disk"},
    {"doctor", verb_doctor, "find out why sconce does not work, and how to repair it"},
    {"setup", verb_setup, "set up sockets, TCP, API keys, GPUs and models under systemd"},
    {"tokenize", verb_tokenize, "convert text to token ids"},
    {"render", verb_render, "print the prompt that a chat template makes"},
    {"policy", verb_policy, "show what each service may do"},
    {"bench", verb_bench, "measure how fast a model runs on this machine"},
    {"ppl", verb_ppl, "measure how well a model predicts a text"},
    {"convert", verb_convert, "write a model in other number formats"},
    {"imatrix", verb_imatrix, "measure which columns of matrices matter, for convert"},
};

static int sconce_help(FILE *f)
{
    fputs("Usage: sconce VERB [OPTION]...\n"
          "Local AI for Linux: chat with models, and serve them to OpenAI clients.\n\n",
          f);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        fprintf(f, "  %-11s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\nMODEL is a name that `sconce list` shows, or a path of a .gguf file or a model\n"
          "directory. `sconce VERB --help` prints the options of a verb.\n",
          f);
    return ferror(f) ? CLI_FAILED : CLI_OK;
}

/* Verbs of other programs that people try here, each with the verb of sconce that does the same. */
static const struct {
    const char *word, *verb;
} hints[] = {
    {"chat", "run MODEL"},        {"ask", "run MODEL PROMPT"},    {"generate", "run MODEL PROMPT"},
    {"download", "pull SOURCE"},  {"get", "pull SOURCE"},         {"install", "pull SOURCE"},
    {"search", "pull --suggest"}, {"update", "pull SOURCE"},      {"ls", "list"},
    {"models", "list"},           {"inspect", "show MODEL"},      {"remove", "rm MODEL"},
    {"delete", "rm MODEL"},       {"uninstall", "rm MODEL"},      {"cp", "alias MODEL NAME"},
    {"copy", "alias MODEL NAME"}, {"create", "alias MODEL NAME"}, {"server", "serve"},
    {"start", "serve"},           {"unload", "stop MODEL"},       {"benchmark", "bench MODEL"},
    {"stats", "metrics"},         {"history", "metrics"},         {"usage", "metrics"},
    {"perplexity", "ppl"},        {"quantize", "convert"},        {"config", "setup"},
    {"logs", "doctor"},           {"version", "--version"},
};

static int sconce_no_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (strcmp(name, hints[i].word) == 0) {
            fprintf(stderr, "sconce: there is no verb \"%s\"; `sconce %s` does this\n", name,
                    hints[i].verb);
            return CLI_USAGE;
        }
    fprintf(stderr, "sconce: there is no verb \"%s\"; see `sconce --help`\n", name);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    inf_files_guard();
    if (!name) {
        sconce_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return sconce_help(stdout);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return printf("sconce %s\n", SCONCE_VERSION) < 0 ? CLI_FAILED : CLI_OK;
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(name, verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    return sconce_no_verb(name);
}
