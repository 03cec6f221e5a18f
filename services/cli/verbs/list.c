/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce list: lists the installed models with their tasks, and whether they run on this machine
 *
 * A model runs here if it can be opened: its files are mapped and their headers are read.
 */
#include <getopt.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "common/config/config.h"
#include "common/models/foreign.h"
#include "common/models/models.h"

static const char help[] =
    "Usage: sconce list [--json | --names]\n"
    "Lists the models in the model directories.\n\n"
    "  --json               print a JSON array\n"
    "  --names              print only names and aliases, one per line\n" CLI_MODELS_HELP;

enum {
    LIST_TOKENS = 8192, /* the longest conversation by default */
};

/* Holds what the command learns when it opens a model. */
struct list_use {
    bool runs;
    uint64_t memory;    /* bytes of the weights and of one conversation of the default length */
    struct inf_err err; /* why it does not run */
};

static uint64_t memory_of(struct inf_model *model)
{
    const struct inf_model_info *info = inf_model_info(model);
    const uint64_t n =
        info->n_ctx_train ? MIN(info->n_ctx_train, (uint64_t)LIST_TOKENS) : LIST_TOKENS;
    struct inf_kv_size size;
    struct inf_err err;

    if (inf_model_suits(model, INF_USE_GENERATE, &err) < 0 ||
        inf_model_kv_size(model, NULL, &size, &err) < 0)
        return info->n_bytes;
    return info->n_bytes + size.per_token * n + size.windows + size.recurrent;
}

/* Finds out whether this build can open the model, and how much memory it needs. */
static void list_try(const struct models_entry *e, struct list_use *ret)
{
    const struct inf_model_params params = {.path = e->path};
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;

    *ret = (struct list_use){0};
    ret->runs = inf_model_open(&params, &model, &ret->err) >= 0;
    if (ret->runs)
        ret->memory = memory_of(model);
}

static int print_json(const struct models *models)
{
    json_t *list = json_array();
    int r;

    for (size_t i = 0; i < models_count(models); i++) {
        const struct models_entry *e = models_at(models, i);
        json_t *aliases = json_array();
        struct list_use use;

        list_try(e, &use);
        for (const char *const *a = e->aliases; *a; a++)
            json_array_append_new(aliases, json_string(*a));
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:s, s:b, s:s?, s:I, s:I, s:o, s:o, s:s?}", "name", e->name,
                      "task", models_task_name(e->task), "path", e->path, "format", e->kind, "runs",
                      (int)use.runs, "why", use.runs ? NULL : use.err.text, "bytes",
                      (json_int_t)e->size, "modified", (json_int_t)e->mtime, "aliases", aliases,
                      "memory", use.runs ? json_integer((json_int_t)use.memory) : json_null(),
                      "program", models_layout_program(e->layout)));
    }
    for (size_t i = 0; i < models_n_broken(models); i++) {
        const struct models_broken *b = models_broken_at(models, i);

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s}", "name", b->name, "path", b->path, "error", b->why));
    }
    r = json_dumpf(list, stdout, JSON_INDENT(2));
    json_decref(list);
    putchar('\n');
    return r == 0 ? CLI_OK : CLI_FAILED;
}

static void print_broken(const struct models *models)
{
    if (models_n_broken(models) > 0)
        puts("\nThese entries cannot be used:");
    for (size_t i = 0; i < models_n_broken(models); i++)
        printf("  %s\n", models_broken_at(models, i)->why);
}

/* Prints a row with @name_width columns for the name. */
static void print_row(const struct models_entry *e, const struct list_use *use, int name_width)
{
    const time_t t = (time_t)e->mtime;
    struct tm tm;
    char day[16] = "";

    if (localtime_r(&t, &tm))
        strftime(day, sizeof(day), "%Y-%m-%d", &tm);
    printf("%-*s  %-9s  %-4s  %-11s  %10s  %10s  %-10s  %s\n", name_width, e->name,
           models_task_name(e->task), use->runs ? "yes" : "no", e->kind, cli_size(e->size),
           use->runs ? cli_size(use->memory) : "-", day, e->path);
}

static void print_table(const struct models *models)
{
    int width = (int)strlen("NAME");

    for (size_t i = 0; i < models_count(models); i++)
        width = MAX(width, (int)strlen(models_at(models, i)->name));
    printf("%-*s  %-9s  %-4s  %-11s  %10s  %10s  %-10s  %s\n", width, "NAME", "TASK", "RUNS",
           "FORMAT", "SIZE", "MEMORY", "MODIFIED", "PATH");
    for (size_t i = 0; i < models_count(models); i++) {
        const struct models_entry *e = models_at(models, i);
        struct list_use use;

        list_try(e, &use);
        print_row(e, &use, width);
        fflush(stdout);
        if (!use.runs)
            fprintf(stderr, "%s does not run here: %s\n", e->name, use.err.text);
    }
}

static void print_names(const struct models *models)
{
    for (size_t i = 0; i < models_count(models); i++) {
        const struct models_entry *e = models_at(models, i);

        puts(e->name);
        for (const char *const *a = e->aliases; *a; a++)
            puts(*a);
    }
}

int verb_list(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"names", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    struct cli_models m = {0};
    int form = 0, c, r;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'j' || c == 'n')
            form = c;
        else if (c == 'h')
            return cli_help(help);
        else if (!cli_models_option(&m, c, optarg))
            return cli_usage("list", "wrong option");
    }
    if (optind < argc)
        return cli_usage("list", "unexpected argument \"%s\"", argv[optind]);
    r = cli_config("list", &m, &config);
    if (r != CLI_OK)
        return r;
    if (models_scan(config, &models) < 0)
        return cli_error("list", "out of memory");
    if (form == 'j')
        return print_json(models);
    if (form == 'n') {
        print_names(models);
        return CLI_OK;
    }
    if (models_count(models) == 0) {
        fputs(
            "No model is installed. Fetch one with `sconce pull`, or put a .gguf file or a model\n"
            "directory into one of these:\n",
            stderr);
        for (size_t i = 0; i < config->n_model_dirs; i++)
            fprintf(stderr, "  %s\n", config->model_dirs[i]);
    } else {
        print_table(models);
    }
    print_broken(models);
    return CLI_OK;
}
