/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the functions and options that the verbs of `sconce` share.
 *
 * A verb is a function that receives its own argv (argv[0] is the verb) and returns an exit
 * status: 0 on success, 1 on failure, 2 for a wrong command line.
 */

#include <stdio.h>

#include <infer/device.h>
#include <infer/model.h>

#include "core/macros.h"

struct config;
struct models;
struct service_row;

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
int verb_ppl(int argc, char **argv);
int verb_policy(int argc, char **argv);
int verb_cache(int argc, char **argv);
int verb_embed(int argc, char **argv);
int verb_transcribe(int argc, char **argv);
int verb_convert(int argc, char **argv);
int verb_imatrix(int argc, char **argv);
int verb_show(int argc, char **argv);
int verb_rm(int argc, char **argv);
int verb_alias(int argc, char **argv);
int verb_verify(int argc, char **argv);
int verb_pull(int argc, char **argv);
int verb_metrics(int argc, char **argv);
int verb_ps(int argc, char **argv);
int verb_stop(int argc, char **argv);

/* Prints "sconce VERB: text" to standard error; returns CLI_FAILED. */
int cli_error(const char *verb, const char *format, ...) PRINTF(2, 3);
/* Does what cli_error() does, and then refers to `--help`; returns CLI_USAGE. */
int cli_usage(const char *verb, const char *format, ...) PRINTF(2, 3);
/* Prints @text, the answer to `--help`; returns an exit status. */
int cli_help(const char *text);
/* Parses a whole decimal number up to @max; false for anything else. */
bool cli_number(const char *text, uint64_t max, uint64_t *ret);
/* Parses a finite decimal fraction from @min to @max; false for anything else. */
bool cli_real(const char *text, double min, double max, double *ret);
/* Formats a size, such as "1.5 GiB", in a static ring of buffers. */
const char *cli_size(uint64_t bytes);
/* Returns how many columns of a terminal the UTF-8 text @text takes. */
int cli_columns(const char *text);
/* Prints @text, cut to or filled up to @width columns of a terminal, and two spaces. */
void cli_print_column(const char *text, int width);
/* Reads all of a file, or of standard input ("-"), at most 64 MiB; the caller frees the text. */
int cli_read(const char *verb, const char *file, char **ret_text, size_t *ret_len);

/* Finds the program of a service: beside this program in a build tree or an installation, else in
 * the configured installation directory. The caller frees the path; NULL: not found. */
char *serve_program(const struct service_row *row);

/* Struct cli_models holds the options that choose models: --config FILE, and --models DIR, which
 * may be repeated. */
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
    "  --models DIR         search this directory for models first (repeatable)\n"                 \
    "  --config FILE        read only this configuration file\n"

/* Handles the getopt options 'C' and 'M'; false for other options. */
bool cli_models_option(struct cli_models *m, int option, const char *arg);
/* Loads the configuration and applies the options; prints errors itself. */
int cli_config(const char *verb, const struct cli_models *m, struct config **ret_config);
/* Prints that there is no model @model, or why it cannot be used; returns CLI_FAILED. */
int cli_tell_no_model(const char *verb, const char *model, const struct config *config,
                      const struct models *models);
/* Finds the path of @model, a name or a path; the caller frees it. Prints errors itself. */
int cli_find_model(const char *verb, const struct cli_models *m, const char *model,
                   char **ret_path);
/* Finds and opens a model, with a progress bar if opening takes long; prints errors itself. */
int cli_open_model(const char *verb, const struct cli_models *m, const char *model, bool vocab_only,
                   struct inf_model **ret_model);
/* Works like cli_open_model() with all weights. @chat_template is the text of a template that
 * replaces the model's own template; NULL keeps the model's. */
int cli_open_chat_model(const char *verb, const struct cli_models *m, const char *model,
                        const char *chat_template, struct inf_model **ret_model);

struct arena;
struct model_settings;
/* Finds the settings in the manifest of @model, a name or a path, and copies them to *ret; @arena
 * owns the texts. Without a manifest all settings are "not given". Prints errors itself. */
int cli_settings(const char *verb, const struct cli_models *m, const char *model,
                 struct arena *arena, struct model_settings *ret);

/* Returns the address "unix:PATH" of the user's gateway, or of the machine's gateway if the user
 * has none. The caller frees the address; NULL: out of memory. */
char *cli_find_gateway(void);
/* CLI_WAYS_IN is the end of messages for users who may not use the machine's gateway. */
#define CLI_WAYS_IN                                                                                \
    "join its group with `sudo usermod -aG sconce $USER` and log in again, or set up services of " \
    "your own with `sconce setup`"
/* Prints why http_connect() to the gateway at @address failed, if @error is -ECONNREFUSED, -ENOENT
 * or -EACCES. For any other error, prints nothing and returns false. */
bool cli_tell_no_gateway(const char *verb, const char *address, int error);

DEFINE_CLEANUP(struct inf_model *, inf_model_unref);

struct inf_tier;
/* Returns a client of the cache service, which keeps KV blocks (computed keys and values of tokens)
 * after this process ends; NULL: not available. Free the client after the engine. */
struct inf_tier *cli_tier_new(const struct config *config);
struct inf_tier *cli_tier_free(struct inf_tier *tier);
DEFINE_CLEANUP(struct inf_tier *, cli_tier_free);

/* Struct cli_device is the device that computes (--device NAME). */
struct cli_device {
    struct inf_device *device;
    const char *name; /* name of the open device, never "auto"; owned by the device */
    char *cache_dir;  /* directory of compiled kernels; NULL: there is no home directory */
};

#define CLI_DEVICE_OPTION                                                                          \
    {                                                                                              \
        "device", required_argument, NULL, 'D'                                                     \
    }
#define CLI_DEVICE_HELP                                                                            \
    "  --device NAME        cpu, vulkan or vulkan:N of `sconce info --devices`; auto: the "        \
    "best\n"                                                                                       \
    "                       GPU, or the CPU (default: auto)\n"

/* Opens the device @name; NULL is "auto". Call it before any long work, so that an error appears at
 * once. Prints errors itself. */
int cli_open_device(const char *verb, const char *name, struct cli_device *ret_device);
/* Closes the device. Call it after freeing the engines. Zeroed memory is accepted. */
void cli_device_done(struct cli_device *device);
/* Formats "vulkan:0 (NAME, DRIVER)", or "cpu", in a static buffer. */
const char *cli_device_text(const struct cli_device *device);
/* Prints the list of `sconce info --devices`. */
int cli_print_devices(const char *verb, bool json);

/* Struct cli_progress is a progress bar on standard error. It is drawn only if standard error is a
 * terminal and the work takes more than half a second. Initialize it with zeros and a label. */
struct cli_progress {
    const char *label;
    uint64_t start_usec, drawn_usec;
    bool drawn;
};

void cli_progress(void *progress, double fraction);
void cli_progress_done(struct cli_progress *p);
