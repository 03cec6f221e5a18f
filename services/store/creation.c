/* SPDX-License-Identifier: Apache-2.0 */
/* Makes models (see creation.h). */
#include "store/creation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/models/manifest.h"
#include "common/models/models.h"
#include "common/models/templates.h"
#include "common/pull/pull.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"
#include "core/text.h"
#include "store/creation-inner.h"
#include "store/store-service.h"

/* The state of one run. */
struct making {
    const struct store_creation *c;
    const char *dir; /* the store */
    char *job;       /* the directory in which the model is put together */
    struct pull_plan plan;
    struct str settings;
};

/* --- settings --- */

/* Writes the value of a parameter so that sampling_set() reads the same one. */
static int put_sampling(struct str *out, const struct inf_sampling *s)
{
    bool any = false;
    int r = 0;

    for (enum sampling_key key = 0; key < N_SAMPLING_KEYS && r == 0; key++) {
        double value = sampling_value(s, key);
        char text[40];

        if (!sampling_is_set(s, key))
            continue;
        if (key == SAMPLING_DRY_PENALTY_LAST_N && value == 0)
            value = -1;
        r = any ? 0 : str_puts(out, "sampling:\n");
        /* Six digits are what people write; some values need more. */
        snprintf(text, sizeof(text), "%.6g", value);
        if ((float)strtod(text, NULL) != (float)value)
            snprintf(text, sizeof(text), "%.10g", value);
        r = r < 0 ? r : str_printf(out, "  %s: %s\n", sampling_rows[key].name, text);
        any = true;
    }
    return r;
}

static int put_stops(struct str *out, const char *const *stops, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = str_puts(out, i ? ", " : "stop: [");
        r = r < 0 ? r : store_put_quoted(out, stops[i]);
    }
    return r < 0 || n == 0 ? r : str_puts(out, "]\n");
}

static int put_text(struct str *out, const char *key, const char *value)
{
    int r = value ? str_printf(out, "%s: ", key) : 0;

    if (r == 0 && value)
        r = store_put_quoted(out, value);
    return r < 0 || !value ? r : str_putc(out, '\n');
}

/* Writes the settings of the request, and those of the other model that the request does not
 * change. @e may be NULL. */
static int put_settings(struct making *m, const struct models_entry *e)
{
    const struct store_creation *c = m->c;
    struct inf_sampling sampling = c->sampling;
    const char *const *stops = c->stops;
    const char *template = c->template;
    uint32_t context = c->context;
    size_t n_stops = c->n_stops;
    struct str *out = &m->settings;
    int r;

    if (e) {
        sampling_fill(&sampling, &e->sampling, SAMPLING_OF_MANIFEST, NULL);
        template = template ? template : e->settings.template;
        context = context ? context : e->settings.context;
        if (!n_stops && (stops = e->settings.stops))
            while (stops[n_stops])
                n_stops++;
    }
    r = put_sampling(out, &sampling);
    r = r < 0 ? r : put_stops(out, stops, n_stops);
    if (r == 0 && context)
        r = str_printf(out, "context: %u\n", context);
    r = r < 0 ? r : put_text(out, "template", template);
    r = r < 0 ? r : put_text(out, "kv_type", e ? e->settings.kv_type : NULL);
    if (r == 0 && e && e->settings.keep_usec != MODEL_KEEP_USUAL)
        r = str_printf(out, "keep_alive: %llus\n",
                       (unsigned long long)(e->settings.keep_usec / 1000000));
    return r < 0 || !e || !e->matryoshka ? r : str_puts(out, "matryoshka: true\n");
}

/* --- files --- */

/* Adds the file @path to the plan, with a link in the directory of the job. */
static int add_file(struct making *m, const char *name, const char *path, const char *sha256,
                    struct inf_err *reterr)
{
    _cleanup_free_ char *local = path_join(m->job, sha256);
    int r;

    if (!local)
        return err_set(reterr, ENOMEM, "out of memory");
    r = pull_plan_add(
        &m->plan, &(struct pull_file){.name = name, .size = UINT64_MAX, .sha256 = sha256}, reterr);
    if (r == 0 && link(path, local) < 0 && errno != EEXIST)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    return r == -EBADMSG ? err_set(reterr, EINVAL, "%s", reterr->text) : r;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that the files are a model, and finds its format. */
static int check_files(struct making *m, const char *first_path, struct inf_err *reterr)
{
    bool has_weights = false, has_config = false, all_gguf = true;

    for (size_t i = 0; i < m->plan.n; i++) {
        const char *name = m->plan.files[i].name;

        has_weights |= text_ends_with_nocase(name, ".safetensors");
        has_config |= strcmp(name, "config.json") == 0;
        all_gguf &= text_ends_with_nocase(name, ".gguf");
    }
    if (all_gguf && file_begins_with(first_path, "GGUF")) {
        m->plan.is_gguf = true;
        return 0;
    }
    if (all_gguf)
        return err_set(reterr, EINVAL, "%s is not a GGUF file", m->plan.files[0].name);
    if (has_weights && has_config)
        return 0;
    return err_set(reterr, EINVAL,
                   "the files are no model: it needs .gguf files, or config.json and .safetensors "
                   "files");
}

static int add_uploads(struct making *m, struct inf_err *reterr)
{
    const size_t n = json_object_size(m->c->files);
    _cleanup_free_ const char **names = calloc(n, sizeof(*names));
    _cleanup_free_ char *first = NULL;
    const char *name;
    const json_t *value;
    size_t k = 0;
    int r = names ? 0 : err_set(reterr, ENOMEM, "out of memory");

    json_object_foreach((json_t *)m->c->files, name, value)
    {
        if (names)
            names[k++] = name;
    }
    if (r == 0)
        qsort(names, n, sizeof(*names), compare_names);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const char *digest =
            text_after(json_string_value(json_object_get(m->c->files, names[i])), "sha256:");
        _cleanup_free_ char *path = uploads_find(m->dir, digest);
        const bool is_bare = n == 1 && path && file_begins_with(path, "GGUF") &&
                             !text_ends_with_nocase(names[i], ".gguf");

        if (!path)
            return err_set(reterr, ENOENT, "%s has not been uploaded: there is no sha256:%s",
                           names[i], digest);
        r = add_file(m, is_bare ? "model.gguf" : names[i], path, digest, reterr);
        if (i == 0)
            first = STEAL(path);
    }
    return r < 0 ? r : check_files(m, first, reterr);
}

/* Copies where the other model came from. */
static void copy_origin(struct making *m, const struct models_entry *e)
{
    struct model_manifest manifest;

    if (e->manifest && model_manifest_read(&m->plan.arena, e->manifest, &manifest, NULL) == 0) {
        m->plan.source = manifest.source;
        m->plan.revision = manifest.revision;
        m->plan.licence = manifest.licence;
    }
}

/* Adds the files of the model @e, that of its path first. */
static int add_model_files(struct making *m, const struct models_entry *e,
                           const struct store_files *files, struct inf_err *reterr)
{
    int r = 0;

    for (unsigned pass = 0; pass < 2; pass++)
        for (size_t i = 0; r == 0 && i < files->n; i++) {
            const struct store_file *f = &files->files[i];
            char digest[STORE_DIGEST + 1];
            uint64_t size;

            if ((pass == 0) != (strcmp(f->path, e->path) == 0) ||
                strcmp(path_base(f->name), MODEL_MANIFEST) == 0)
                continue;
            if (f->sha256)
                snprintf(digest, sizeof(digest), "%s", f->sha256);
            else
                r = store_digest(f->path, NULL, NULL, digest, &size, reterr);
            r = r < 0 ? r : add_file(m, f->name, f->path, digest, reterr);
        }
    return r;
}

static int add_model(struct making *m, const struct models_entry *e, struct inf_err *reterr)
{
    _cleanup_(store_files_done) struct store_files files = {0};
    int r;

    copy_origin(m, e);
    if (!store_has(m->dir, e)) {
        m->plan.path = arena_strndup(&m->plan.arena, e->path, strlen(e->path));
        return m->plan.path ? 0 : err_set(reterr, ENOMEM, "out of memory");
    }
    r = store_files_list(e, &files, reterr);
    m->plan.is_gguf = !path_is_dir(e->path);
    return r < 0 ? r : add_model_files(m, e, &files, reterr);
}

/* --- the run --- */

static int open_job(struct making *m, struct inf_err *reterr)
{
    _cleanup_free_ char *incoming = path_join(m->dir, STORE_INCOMING);
    int r = incoming ? store_make_dirs(incoming, reterr) : err_set(reterr, ENOMEM, "out of memory");

    if (r < 0)
        return r;
    m->job = path_join(incoming, "create-XXXXXX");
    if (!m->job)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!mkdtemp(m->job)) {
        r = err_set(reterr, errno, "%s cannot be written: %s", incoming, strerror(errno));
        free(STEAL(m->job));
        return r;
    }
    return 0;
}

/* Refuses a name that a model outside of its own directory of the store has. */
static int check_name(const struct making *m, const struct models *models, struct inf_err *reterr)
{
    const struct models_entry *taken = models_find(models, m->c->name);
    _cleanup_free_ char *path = path_join(m->dir, m->c->name);

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!taken || (taken->manifest_dir && strcmp(taken->manifest_dir, path) == 0))
        return 0;
    return err_set(reterr, EEXIST, "\"%.100s\" is a name of %s already", m->c->name, taken->path);
}

static int make_model(struct making *m, const struct models *models, struct inf_err *reterr)
{
    const struct models_entry *e = m->c->from ? models_find(models, m->c->from) : NULL;
    int r;

    if (m->c->from && !e)
        return err_set(reterr, ENOENT, "model '%.200s' not found", m->c->from);
    r = check_name(m, models, reterr);
    if (r == 0)
        r = e ? add_model(m, e, reterr) : add_uploads(m, reterr);
    if (r < 0)
        return r;
    if (put_settings(m, e) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    m->plan.settings = m->settings.data;
    if (m->c->licence[0])
        m->plan.licence = m->c->licence;
    return pull_install(m->dir, m->job, m->job, &m->plan, NULL, NULL, reterr);
}

/* Removes the names of uploaded files, which are files of the new model now. */
static void drop_uploads(const struct making *m)
{
    for (size_t i = 0; i < m->plan.n; i++) {
        char *path = NULL;

        if (asprintf(&path, "%s/" STORE_UPLOADS "/sha256-%s", m->dir, m->plan.files[i].sha256) >= 0)
            unlink(path);
        free(path);
    }
}

/* Removes the directory of the job. */
static void close_job(const struct making *m)
{
    _cleanup_close_ int lock = -1;

    if (store_lock(m->dir, &lock, NULL) == 0)
        store_discard(m->dir, m->job, NULL);
}

int creation_run(const struct store_creation *c, const struct config *config, const char *dir,
                 struct inf_err *reterr)
{
    _cleanup_(models_freep) struct models *models = NULL;
    struct making m = {.c = c, .dir = dir};
    int r = models_scan(config, &models) < 0 ? err_set(reterr, ENOMEM, "out of memory") : 0;

    snprintf(m.plan.name, sizeof(m.plan.name), "%s", c->name);
    if (r == 0)
        r = open_job(&m, reterr);
    if (r == 0) {
        r = make_model(&m, models, reterr);
        if (r == 0)
            drop_uploads(&m);
        close_job(&m);
    }
    free(m.job);
    str_done(&m.settings);
    pull_plan_done(&m.plan);
    return r;
}
