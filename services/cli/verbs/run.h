/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares what the files of `sconce run` share. */

#include "cli/cli.h"
#include "cli/conversation/conversation.h"
#include "cli/conversation/saved.h"
#include "common/models/settings.h"

/* The settings of the command line, and what belongs to them. */
struct run {
    struct cli_models models;
    struct conversation_params params;
    const char *device_name;        /* NULL: not given */
    const char *draft;              /* name of the draft model; NULL: not given */
    const char *template;           /* a built-in chat template or a file; NULL: not given */
    struct arena arena;             /* owns the texts of `settings` */
    struct model_settings settings; /* of the model's manifest */
    struct cli_device device;
    bool verbose, resume, list, json, yes;
    struct saved saved; /* name NULL: the conversation is not saved */
};

extern const char run_help[];
/* Handles all options; run->saved gets the name of a conversation. Prints errors itself. Returns
 * 'h' for --help, else an exit status. */
int run_options(struct run *run, int argc, char **argv);
