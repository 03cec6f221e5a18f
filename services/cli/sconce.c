/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: finds the verb and hands over
 */
#include <locale.h>
#include <signal.h>
#include <string.h>

#include <infer/model.h>

#include "cli/cli.h"

static const struct cli_verb verbs[] = {
    {"run", verb_run, "talk to a model, or answer one prompt"},
    {"embed", verb_embed, "vectors of texts, or of the lines of a file"},
    {"transcribe", verb_transcribe, "the text of speech, of files or of a microphone"},
    {"list", verb_list, "the models that are installed"},
    {"info", verb_info, "what a model is, or what computes here"},
    {"serve", verb_serve, "start the services here, without systemd"},
    {"status", verb_status, "what runs, and how fast"},
    {"cache", verb_cache, "what is kept on disk of prompts that were computed"},
    {"doctor", verb_doctor, "why it does not work, and the command that mends it"},
    {"setup", verb_setup, "open the doors under systemd: sockets, TCP, keys, GPUs"},
    {"tokenize", verb_tokenize, "the token ids of a text"},
    {"render", verb_render, "the prompt that a chat template makes"},
    {"policy", verb_policy, "what each service may do"},
    {"bench", verb_bench, "how fast a model runs on this machine"},
};

static int help(FILE *f)
{
    fputs("Usage: sconce VERB [OPTION]...\n"
          "Local AI for Linux: chat with models, and serve them to OpenAI clients.\n\n",
          f);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        fprintf(f, "  %-11s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\nMODEL is a name that `sconce list` shows, or a path of a .gguf file or a model\n"
          "directory. `sconce VERB --help` tells the options of a verb.\n",
          f);
    return ferror(f) ? CLI_FAILED : CLI_OK;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    inf_files_guard();
    if (!name) {
        help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return help(stdout);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return printf("sconce %s\n", SCONCE_VERSION) < 0 ? CLI_FAILED : CLI_OK;
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(name, verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "sconce: there is no verb \"%s\"; see `sconce --help`\n", name);
    return CLI_USAGE;
}
