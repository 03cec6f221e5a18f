/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the verbs of `sconce` share
 *
 * A verb is a function that gets its own argv (argv[0] is the verb) and returns an exit status:
 * 0, 1 when the work failed, 2 when the command line was wrong.
 */

#include <stdio.h>

#include <infer/device.h>
#include <infer/model.h>

#include "core/macros.h"

struct config;

enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
};

struct cli_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* one line of `sconce --help` */
};

int verb_run(int argc, char **argv);
int verb_list(int argc, char **argv);
int verb_info(int argc, char **argv);
int verb_serve(int argc, char **argv);
int verb_status(int argc, char **argv);
int verb_setup(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_tokenize(int argc, char **argv);
int verb_render(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_policy(int argc, char **argv);
int verb_cache(int argc, char **argv);
int verb_embed(int argc, char **argv);
int verb_transcribe(int argc, char **argv);

/* "sconce VERB: text" on standard error; returns CLI_FAILED. */
int cli_error(const char *verb, const char *format, ...) PRINTF(2, 3);
/* The same with where to find help; returns CLI_USAGE. */
int cli_usage(const char *verb, const char *format, ...) PRINTF(2, 3);
/* The text that `--help` shows. */
int cli_help(const char *text);
/* Parses a whole decimal number up to @max; false for anything else. */
bool cli_number(const char *text, uint64_t max, uint64_t *ret);
/* The same for a finite decimal fraction. */
bool cli_real(const char *text, double min, double max, double *ret);
/* "1.5 GiB" into a static ring of buffers. */
const char *cli_size(uint64_t bytes);
/* Whole of standard input or of a file ("-"), at most 64 MiB; the caller frees it. */
int cli_read(const char *verb, const char *file, char **ret_text, size_t *ret_len);

/* The path of a service's program, such as "gateway", "sconce-gateway": beside us in a build tree
 * or an installation, else where we were configured to be installed. The caller frees it; NULL. */
char *serve_program(const char *folder, const char *name);
/* The package of a service ("audio") that need not be installed; NULL: it is always there. Static.
 */
const char *serve_package(const char *service);

/* Options that choose models: --config FILE, --models DIR (may stand several times). */
struct cli_models {
    const char *config;
    const char *dirs[64];
    size_t n_dirs;
};

#define CLI_MODELS_OPTIONS                                                                         \
    {"config", required_argument, NULL, 'C'},                                                      \
    {                                                                                              \
        "models", required_argument, NULL, 'M'                                                     \
    }
#define CLI_MODELS_HELP                                                                            \
    "  --models DIR         look for models here first (may be given several times)\n"             \
    "  --config FILE        read this configuration file alone\n"

/* Takes 'C' and 'M' of getopt; false for other options. */
bool cli_models_option(struct cli_models *m, int option, const char *arg);
/* The configuration with the options on top; tells errors itself. */
int cli_config(const char *verb, const struct cli_models *m, struct config **ret_config);
/* The path of @model, a name or a path; the caller frees it; tells errors itself. */
int cli_find_model(const char *verb, const struct cli_models *m, const char *model,
                   char **ret_path);
/* Finds and opens, with a progress bar when it takes long; tells errors itself. */
int cli_open_model(const char *verb, const struct cli_models *m, const char *model, bool vocab_only,
                   struct inf_model **ret_model);

/* "unix:PATH" of the user's gateway, or of the machine's when the user has none. The caller frees
 * it; NULL: out of memory. */
char *cli_find_gateway(void);
/* What a user may do whom the machine's gateway does not let in: words that end a sentence. */
#define CLI_WAYS_IN                                                                                \
    "join its group by `sudo usermod -aG sconce $USER` and log in anew, or have services of your " \
    "own by `sconce setup`"
/* Why nothing came of a connection to the gateway at @address: -ECONNREFUSED, -ENOENT and -EACCES
 * as http_connect() says them; false for anything else, which is not told. */
bool cli_tell_no_gateway(const char *verb, const char *address, int error);

DEFINE_CLEANUP(struct inf_model *, inf_model_unref);

struct inf_tier;
/* Where KV blocks outlive this process; NULL: nowhere. Freed after the engine. */
struct inf_tier *cli_tier_new(const struct config *config);
struct inf_tier *cli_tier_free(struct inf_tier *tier);
DEFINE_CLEANUP(struct inf_tier *, cli_tier_free);

/* What computes: --device NAME. */
struct cli_device {
    struct inf_device *device;
    const char *name; /* what "auto" became; lives as long as the device */
    char *cache_dir;  /* for compiled kernels; NULL: there is no home */
};

#define CLI_DEVICE_OPTION                                                                          \
    {                                                                                              \
        "device", required_argument, NULL, 'D'                                                     \
    }
#define CLI_DEVICE_HELP                                                                            \
    "  --device NAME        cpu, vulkan or vulkan:N of `sconce info --devices`; auto is the "      \
    "best\n"                                                                                       \
    "                       GPU, else the CPU (auto)\n"

/* Before anything that takes long; tells errors itself. NULL is "auto". */
int cli_open_device(const char *verb, const char *name, struct cli_device *ret_device);
/* After the engines. Zeroed memory is fine. */
void cli_device_done(struct cli_device *device);
/* "vulkan:0 (NAME, DRIVER)", or "cpu"; in a static buffer. */
const char *cli_device_text(const struct cli_device *device);
/* The list of `sconce info --devices`. */
int cli_print_devices(const char *verb, bool json);

/* A progress bar on standard error, drawn only when that is a terminal and the work takes over
 * half a second. Zeroed memory with a label is a bar. */
struct cli_progress {
    const char *label;
    uint64_t start_usec, drawn_usec;
    bool drawn;
};

void cli_progress(void *progress, double fraction);
void cli_progress_done(struct cli_progress *p);
