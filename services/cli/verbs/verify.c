/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce verify: compares the files of models with their digests
 *
 * A digest comes from the model's manifest. The blobs of other programs are named by their digests.
 */
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/cli.h"
#include "common/store/store.h"

static const char help[] =
    "Usage: sconce verify [--json] [MODEL]...\n"
    "Compares the files of the given models, or of all models, with their SHA-256.\n\n"
    "  --json               print a JSON array\n" CLI_MODELS_HELP;

/* The result of the comparison of one file. */
enum verify_state { VERIFY_GOOD, VERIFY_UNKNOWN, VERIFY_BAD };

/* One run of the verb. */
struct verify {
    json_t *list; /* NULL: text is printed */
    struct cli_progress progress;
    uint64_t n_bytes, n_all; /* read so far, and in all */
    size_t n_good, n_unknown, n_bad;
};

static void verify_step(void *data, uint64_t bytes)
{
    struct verify *v = data;

    v->n_bytes += bytes;
    if (v->n_all > 0)
        cli_progress(&v->progress, (double)v->n_bytes / (double)v->n_all);
}

/* Checks a file. *ret_why gets the reason if it is bad. */
static enum verify_state verify_file(struct verify *v, const struct store_file *f,
                                     struct inf_err *ret_why)
{
    char digest[STORE_DIGEST + 1];
    uint64_t size;

    if (!f->sha256)
        return VERIFY_UNKNOWN;
    if (store_digest(f->path, verify_step, v, digest, &size, ret_why) < 0)
        return VERIFY_BAD;
    if (strcmp(digest, f->sha256) == 0)
        return VERIFY_GOOD;
    snprintf(ret_why->text, sizeof(ret_why->text), "%s has %llu bytes with the SHA-256 %s, not %s",
             f->path, (unsigned long long)size, digest, f->sha256);
    return VERIFY_BAD;
}

static void verify_tell(struct verify *v, const struct models_entry *e, const struct store_file *f,
                        enum verify_state state, const char *why)
{
    static const char *const names[] = {"good", "unknown", "bad"};

    cli_progress_done(&v->progress);
    if (v->list)
        json_array_append_new(v->list, json_pack("{s:s, s:s, s:s, s:s?}", "model", e->name, "file",
                                                 f->name, "state", names[state], "why",
                                                 state == VERIFY_BAD ? why : NULL));
    else if (state == VERIFY_BAD)
        printf("bad      %s: %s\n", e->name, why);
    else
        printf("%-7s  %s: %s\n", names[state], e->name, f->name);
    v->n_good += state == VERIFY_GOOD;
    v->n_unknown += state == VERIFY_UNKNOWN;
    v->n_bad += state == VERIFY_BAD;
}

static int verify_model(struct verify *v, const struct models_entry *e)
{
    _cleanup_(store_files_done) struct store_files files = {0};
    struct inf_err err = {0};

    if (store_files_list(e, &files, &err) < 0)
        return cli_error("verify", "%s", err.text);
    v->n_bytes = v->n_all = 0;
    v->progress = (struct cli_progress){.label = e->name};
    for (size_t i = 0; i < files.n; i++)
        if (files.files[i].sha256 && files.files[i].size != UINT64_MAX)
            v->n_all += files.files[i].size;
    for (size_t i = 0; i < files.n; i++) {
        const enum verify_state state = verify_file(v, &files.files[i], &err);

        verify_tell(v, e, &files.files[i], state, err.text);
    }
    return CLI_OK;
}

/* A model that cannot be used counts as bad. */
static void verify_broken(struct verify *v, const struct models *models)
{
    for (size_t i = 0; i < models_n_broken(models); i++) {
        const struct models_broken *b = models_broken_at(models, i);

        v->n_bad++;
        if (v->list)
            json_array_append_new(v->list, json_pack("{s:s, s:n, s:s, s:s}", "model", b->name,
                                                     "file", "state", "bad", "why", b->why));
        else
            printf("bad      %s: %s\n", b->name, b->why);
    }
}

static int verify_all(const struct cli_catalog *catalog, int n, char **names, bool json)
{
    struct verify v = {.list = json ? json_array() : NULL};
    int status = CLI_OK;

    for (int i = 0; i < n; i++) {
        const struct models_entry *e = cli_catalog_find("verify", catalog, names[i]);

        if (!e || verify_model(&v, e) != CLI_OK)
            status = CLI_FAILED;
    }
    for (size_t i = 0; n == 0 && i < models_count(catalog->models); i++)
        if (verify_model(&v, models_at(catalog->models, i)) != CLI_OK)
            status = CLI_FAILED;
    if (n == 0)
        verify_broken(&v, catalog->models);
    if (v.list) {
        json_dumpf(v.list, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(v.list);
    } else {
        printf("%zu good, %zu bad, %zu without a known digest\n", v.n_good, v.n_bad, v.n_unknown);
    }
    return v.n_bad > 0 ? CLI_FAILED : status;
}

int verb_verify(int argc, char **argv)
{
    _cleanup_(cli_catalog_done) struct cli_catalog catalog = {0};
    struct cli_models m = {0};
    bool json = false;
    int r;

    if (!cli_catalog_options("verify", help, argc, argv, &m, &json, &r))
        return r;
    r = cli_catalog_open("verify", &m, &catalog);
    return r == CLI_OK ? verify_all(&catalog, argc - optind, argv + optind, json) : r;
}
