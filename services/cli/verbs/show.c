/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce show: shows where an installed model came from, and its files
 */
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/cli.h"
#include "common/models/foreign.h"
#include "common/models/manifest.h"
#include "common/store/store.h"

static const char help[] =
    "Usage: sconce show [--json] MODEL\n"
    "Shows the manifest of an installed model: names, source, licence, files and digests.\n"
    "`sconce info` shows what is in the files.\n\n"
    "  --json               print a JSON object\n" CLI_MODELS_HELP;

/* A model with its manifest and files. */
struct show {
    const struct models_entry *entry;
    struct arena arena;
    struct model_manifest manifest;
    struct store_files files;
    bool in_store;
};

static json_t *files_json(const struct store_files *files)
{
    json_t *list = json_array();

    for (size_t i = 0; i < files->n; i++) {
        const struct store_file *f = &files->files[i];

        json_array_append_new(
            list, json_pack("{s:s, s:o, s:s?}", "name", f->name, "bytes",
                            f->size == UINT64_MAX ? json_null() : json_integer((json_int_t)f->size),
                            "sha256", f->sha256));
    }
    return list;
}

static json_t *show_sampling(const struct show *s)
{
    json_t *out = json_object();

    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++)
        if (sampling_is_set(&s->manifest.sampling, i))
            json_object_set_new(out, sampling_rows[i].name,
                                json_real(sampling_value(&s->manifest.sampling, i)));
    return out;
}

static json_t *show_list(const char *const *list)
{
    json_t *out = json_array();

    for (; list && *list; list++)
        json_array_append_new(out, json_string(*list));
    return out;
}

static json_t *show_messages(const struct model_settings *m)
{
    json_t *out = json_array();

    for (size_t i = 0; i < m->n_messages; i++)
        json_array_append_new(out, json_pack("{s:s, s:s}", "role",
                                             m->messages[i].of_assistant ? "assistant" : "user",
                                             "content", m->messages[i].text));
    return out;
}

/* Returns the settings that the manifest gives. */
static json_t *show_settings(const struct show *s)
{
    const struct model_settings *m = &s->entry->settings;
    json_t *out = json_object();

    if (m->context)
        json_object_set_new(out, "context", json_integer(m->context));
    if (m->kv_type)
        json_object_set_new(out, "kv_type", json_string(m->kv_type));
    if (m->template)
        json_object_set_new(out, "template", json_string(m->template));
    if (m->system)
        json_object_set_new(out, "system", json_string(m->system));
    if (m->n_messages)
        json_object_set_new(out, "messages", show_messages(m));
    if (m->stops)
        json_object_set_new(out, "stop", show_list(m->stops));
    if (m->keep_usec != MODEL_KEEP_USUAL)
        json_object_set_new(out, "keep_alive", json_real((double)m->keep_usec / 1e6));
    if (m->pinned)
        json_object_set_new(out, "pinned", json_true());
    if (m->drafter)
        json_object_set_new(out, "drafter", json_string(m->drafter));
    if (m->adapters)
        json_object_set_new(out, "adapters", show_list(m->adapters));
    return out;
}

static int show_json(const struct show *s)
{
    const struct models_entry *e = s->entry;
    json_t *aliases = json_array(), *out;
    int r;

    for (const char *const *a = e->aliases; *a; a++)
        json_array_append_new(aliases, json_string(*a));
    out = json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:s?, s:s?, s:s?, s:s?, s:s?, s:b, s:o, s:o, "
                    "s:o}",
                    "name", e->name, "task", models_task_name(e->task), "path", e->path, "format",
                    e->kind, "bytes", (json_int_t)e->size, "aliases", aliases, "manifest",
                    e->manifest, "program", models_layout_program(e->layout), "source",
                    s->manifest.source, "revision", s->manifest.revision, "licence",
                    s->manifest.licence, "in_store", (int)s->in_store, "sampling", show_sampling(s),
                    "settings", show_settings(s), "files", files_json(&s->files));
    if (!out)
        return cli_error("show", "out of memory");
    r = json_dumpf(out, stdout, JSON_INDENT(2));
    json_decref(out);
    putchar('\n');
    return r == 0 ? CLI_OK : CLI_FAILED;
}

static void show_line(const char *label, const char *text)
{
    if (text)
        printf("%-10s  %s\n", label, text);
}

static bool show_has_control(const char *text)
{
    while (*text && (unsigned char)*text >= 0x20 && *text != 0x7f)
        text++;
    return *text != 0;
}

/* Prints a line for each setting that the manifest gives. */
static void show_setting_lines(const struct show *s)
{
    json_t *settings = show_settings(s), *value;
    const char *name;

    json_object_foreach(settings, name, value)
    {
        /* Texts with line ends and other control characters are shown as in JSON. */
        const char *plain = json_string_value(value);
        _cleanup_free_ char *text =
            plain && !show_has_control(plain) ? strdup(plain) : json_dumps(value, JSON_ENCODE_ANY);

        show_line(name, text);
    }
    json_decref(settings);
}

static void show_text(const struct show *s)
{
    const struct models_entry *e = s->entry;
    const char *comma = "aliases     ";

    show_line("name", e->name);
    for (const char *const *a = e->aliases; *a; a++, comma = ", ")
        printf("%s%s", comma, *a);
    if (comma[0] == ',')
        putchar('\n');
    show_line("task", models_task_name(e->task));
    show_line("path", e->path);
    show_line("size", cli_size(e->size));
    show_line("manifest", e->manifest);
    show_line("belongs to", models_layout_program(e->layout));
    show_line("source", s->manifest.source);
    show_line("revision", s->manifest.revision);
    show_line("licence", s->manifest.licence);
    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++)
        if (sampling_is_set(&s->manifest.sampling, i))
            printf("%-10s  %s %g\n", "sampling", sampling_rows[i].name,
                   sampling_value(&s->manifest.sampling, i));
    show_setting_lines(s);
    for (size_t i = 0; i < s->files.n; i++) {
        const struct store_file *f = &s->files.files[i];

        printf("%-10s  %-12s %s %s\n", "file",
               f->size == UINT64_MAX ? "missing" : cli_size(f->size), f->name,
               f->sha256 ? f->sha256 : "(no digest is known)");
    }
}

static int show_model(const struct cli_catalog *catalog, const char *name, bool json)
{
    struct show s = {.entry = cli_catalog_find("show", catalog, name)};
    struct inf_err err;
    int r = 0;

    if (!s.entry)
        return CLI_FAILED;
    s.in_store = store_has(catalog->store, s.entry);
    sampling_clear(&s.manifest.sampling);
    if (s.entry->manifest)
        r = model_manifest_read(&s.arena, s.entry->manifest, &s.manifest, &err);
    if (r == 0)
        r = store_files_list(s.entry, &s.files, &err);
    if (r < 0)
        r = cli_error("show", "%s", err.text);
    else if (json)
        r = show_json(&s);
    else
        show_text(&s);
    store_files_done(&s.files);
    arena_done(&s.arena);
    return r;
}

int verb_show(int argc, char **argv)
{
    _cleanup_(cli_catalog_done) struct cli_catalog catalog = {0};
    struct cli_models m = {0};
    bool json = false;
    int r;

    if (!cli_catalog_options("show", help, argc, argv, &m, &json, &r))
        return r;
    if (optind + 1 != argc)
        return cli_usage("show", "give the name of one model");
    r = cli_catalog_open("show", &m, &catalog);
    return r == CLI_OK ? show_model(&catalog, argv[optind], json) : r;
}
