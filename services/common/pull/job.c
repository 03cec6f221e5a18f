/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one pull (see pull.h).
 *
 * The directory of a job has a lock, the files that have arrived, and a directory for sconce-fetch
 * (`arrivals` in the code). sconce-fetch writes to this directory, and can open no file outside of
 * it. A sconce-fetch that was started for a connection also has the descriptor of the lock, so that
 * the next pull of the same source begins only when that sconce-fetch has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include "common/config/config.h"
#include "common/models/manifest.h"
#include "common/models/safe-path.h"
#include "common/pull/pull.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/sha256.h"
#include "core/text.h"

#define PULL_LIMIT  ((uint64_t)1 << 42)  /* bytes of one file */
#define PULL_MARGIN ((uint64_t)64 << 20) /* bytes of the disk that stay free */

/* --- secrets --- */

int pull_secrets_read(const struct config *config, struct pull_secrets *ret, struct inf_err *reterr)
{
    const char *given = getenv("HF_TOKEN"), *file = config->pull.token_file;
    const char *home = getenv("HOME");
    _cleanup_free_ char *usual = home ? path_join(home, ".cache/huggingface/token") : NULL;
    struct pull_secrets out = {0};
    size_t len;
    int r = 0;

    if (given && given[0])
        out.token = strdup(given);
    else if (file)
        r = file_read(file, 4096, &out.token, &len, reterr);
    else if (usual && path_exists(usual) && file_read(usual, 4096, &out.token, &len, NULL) < 0)
        out.token = NULL;
    if (out.token)
        out.token[strcspn(out.token, "\r\n")] = 0;
    if (r == 0 && config->pull.certificates)
        r = file_read(config->pull.certificates, PULL_MAX_METADATA / 8, &out.certificates, &len,
                      reterr);
    if (r < 0) {
        pull_secrets_done(&out);
        return r;
    }
    *ret = out;
    return 0;
}

void pull_secrets_done(struct pull_secrets *secrets)
{
    if (secrets->token)
        explicit_bzero(secrets->token, strlen(secrets->token));
    free(secrets->token);
    free(secrets->certificates);
    *secrets = (struct pull_secrets){0};
}

/* --- preparation --- */

/* Writes "HOST:PORT" of an https URL. */
static void host_of(const char *url, char *ret, size_t size)
{
    const char *host = text_after(url, "https://");
    const size_t n = strcspn(host, "/?#");
    const bool has_port = memchr(host, ':', n) != NULL;

    snprintf(ret, size, "%.*s%s", (int)n, host, has_port ? "" : ":443");
}

static int make_directory(struct pull_job *job, struct inf_err *reterr)
{
    char source[PULL_SOURCE_SIZE];
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;

    pull_source_put(&job->source, source, sizeof(source));
    sha256_init(&hash);
    sha256_add_part(&hash, source, strlen(source));
    sha256_add_part(&hash, job->plan.name, strlen(job->plan.name));
    sha256_end(&hash, digest);
    if (asprintf(&job->dir, "%s/" STORE_INCOMING "/%02x%02x%02x%02x%02x%02x%02x%02x", job->store,
                 digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6],
                 digest[7]) < 0) {
        job->dir = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    job->arrivals = path_join(job->dir, "fetch");
    return job->arrivals ? store_make_dirs(job->arrivals, reterr)
                         : err_set(reterr, ENOMEM, "out of memory");
}

static int take_lock(struct pull_job *job, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(job->dir, ".lock");
    struct stat mine, named;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    job->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (job->lock < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    /* The process that had the lock before may have removed the directory. */
    if (flock(job->lock, LOCK_EX | LOCK_NB) == 0 && fstat(job->lock, &mine) == 0 &&
        stat(path, &named) == 0 && mine.st_ino == named.st_ino)
        return 0;
    return err_set(reterr, EBUSY, "another command is pulling %s", job->source.text);
}

int pull_job_open(struct pull_job *job, struct inf_err *reterr)
{
    const struct config *config = job->config;
    int r;

    job->lock = -1;
    host_of(config->pull.mirror, job->hub_host, sizeof(job->hub_host));
    host_of(config->pull.ollama_mirror, job->registry_host, sizeof(job->registry_host));
    snprintf(job->token_host, sizeof(job->token_host), "%s%s", config->pull.token_host,
             strchr(config->pull.token_host, ':') ? "" : ":443");
    r = make_directory(job, reterr);
    return r < 0 ? r : take_lock(job, reterr);
}

int pull_job_start(struct pull_job *job, const char *socket, struct inf_err *reterr)
{
    const struct config *config = job->config;
    const struct fetcher_settings settings = {
        .token = job->secrets->token,
        .token_host = job->token_host,
        .proxy = config->pull.proxy,
        .certificates = job->secrets->certificates,
        .private_hosts = {strcmp(config->pull.mirror, CONFIG_PULL_MIRROR) != 0 ? job->hub_host
                                                                               : NULL,
                          strcmp(config->pull.ollama_mirror, CONFIG_PULL_OLLAMA) != 0
                              ? job->registry_host
                              : NULL},
        .landlock_optional = config->confinement.landlock == CONFIG_LANDLOCK_OPTIONAL,
    };

    return socket
               ? fetcher_connect(socket, job->arrivals, job->lock, &settings, &job->fetcher, reterr)
               : fetcher_start(job->arrivals, &settings, &job->fetcher, reterr);
}

/* --- plans --- */

/* Fetches a small file of metadata; the caller frees *ret_text. */
static int get_metadata(struct pull_job *job, const char *url, const char *accept, char **ret_text,
                        size_t *ret_len, struct inf_err *reterr)
{
    const struct pull_file file = {
        .name = "metadata", .url = url, .local = "metadata", .size = UINT64_MAX};
    _cleanup_free_ char *path = path_join(job->arrivals, "metadata");
    uint64_t size;
    int r = path ? fetcher_get(job->fetcher, &file, accept, PULL_MAX_METADATA, 0, NULL, NULL, &size,
                               reterr)
                 : err_set(reterr, ENOMEM, "out of memory");

    return r < 0 ? r : file_read(path, PULL_MAX_METADATA, ret_text, ret_len, reterr);
}

static uint64_t machine_memory(void)
{
    struct sysinfo info;

    return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : UINT64_MAX;
}

static int plan_hub(struct pull_job *job, struct inf_err *reterr)
{
    _cleanup_free_ char *url = NULL, *text = NULL;
    size_t len;
    int r;

    if (asprintf(&url, "%s/api/models/%s/revision/main?blobs=true", job->config->pull.mirror,
                 job->source.repo) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    r = get_metadata(job, url, "application/json", &text, &len, reterr);
    return r < 0 ? r
                 : hub_read(text, len, job->config->pull.mirror, &job->source, machine_memory(),
                            &job->plan, reterr);
}

static int plan_ollama(struct pull_job *job, struct inf_err *reterr)
{
    _cleanup_free_ char *url = NULL, *text = NULL;
    const char *tag = job->source.selector[0] ? job->source.selector : "latest";
    size_t len;
    int r;

    if (asprintf(&url, "%s/v2/%s%s/manifests/%s", job->config->pull.ollama_mirror,
                 strchr(job->source.repo, '/') ? "" : "library/", job->source.repo, tag) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    r = get_metadata(job, url, "application/vnd.docker.distribution.manifest.v2+json", &text, &len,
                     reterr);
    return r < 0 ? r
                 : registry_read(text, len, job->config->pull.ollama_mirror, &job->source,
                                 &job->plan, reterr);
}

static int plan_url(struct pull_job *job, struct inf_err *reterr)
{
    const size_t n = strcspn(job->source.text, "?#");
    _cleanup_free_ char *bare = strndup(job->source.text, n);
    const char *base = bare ? path_base(bare) : "";

    if (!bare)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!text_ends_with_nocase(base, ".gguf") || strlen(base) == strlen(".gguf"))
        return err_set(reterr, EINVAL, "the URL must end with the name of a .gguf file");
    if (!job->plan.name[0])
        snprintf(job->plan.name, sizeof(job->plan.name), "%.*s",
                 (int)(strlen(base) - strlen(".gguf")), base);
    /* The text after a question mark may be a secret, so it is not stored. */
    job->plan.source = arena_strndup(&job->plan.arena, bare, n);
    job->plan.is_gguf = true;
    return pull_plan_add(
        &job->plan, &(struct pull_file){.name = base, .url = job->source.text, .size = UINT64_MAX},
        reterr);
}

static int make_plan(struct pull_job *job, struct inf_err *reterr)
{
    int r = job->source.kind == PULL_HUB      ? plan_hub(job, reterr)
            : job->source.kind == PULL_OLLAMA ? plan_ollama(job, reterr)
                                              : plan_url(job, reterr);

    if (r == 0 && job->source.kind != PULL_URL) {
        char text[PULL_SOURCE_SIZE];

        pull_source_put(&job->source, text, sizeof(text));
        job->plan.source = arena_strndup(&job->plan.arena, text, strlen(text));
    }
    if (r == 0 && !model_name_is_safe(job->plan.name))
        r = err_set(reterr, EINVAL, "\"%s\" cannot be the name of a model; choose one with --name",
                    job->plan.name);
    return r;
}

/* --- fetching --- */

/* Returns whether the store has the same files already. */
static bool is_there(const struct pull_job *job)
{
    _cleanup_free_ char *path = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    struct model_manifest m;

    if (asprintf(&path, "%s/%s/" MODEL_MANIFEST, job->store, job->plan.name) < 0 ||
        model_manifest_read(&arena, path, &m, NULL) < 0 || m.n_files != job->plan.n)
        return false;
    for (size_t i = 0; i < m.n_files; i++) {
        _cleanup_free_ char *file = NULL;
        struct stat st;

        if (!job->plan.files[i].sha256 || !m.files[i].sha256 ||
            strcmp(job->plan.files[i].sha256, m.files[i].sha256) != 0 ||
            asprintf(&file, "%s/%s/%s", job->store, job->plan.name, m.files[i].name) < 0 ||
            stat(file, &st) < 0 || (uint64_t)st.st_size != m.files[i].size)
            return false;
    }
    return true;
}

/* Returns whether another model has the file @f already. */
static bool has_blob(const struct pull_job *job, const struct pull_file *f)
{
    _cleanup_free_ char *blob =
        f->sha256 ? store_digest_path(job->store, STORE_BLOBS, f->sha256) : NULL;
    struct stat st;

    return blob && stat(blob, &st) == 0 && (uint64_t)st.st_size == f->size;
}

/* Returns whether an earlier, interrupted pull has moved the complete file @f to the job's
 * directory. */
static bool has_arrived(const struct pull_job *job, const struct pull_file *f)
{
    _cleanup_free_ char *path = path_join(job->dir, f->local);

    return path && path_exists(path);
}

/* Checks that the files fit on the disk. Bytes that have arrived need no more space. */
static int check_space(const struct pull_job *job, struct inf_err *reterr)
{
    uint64_t needed = pull_plan_bytes(&job->plan), have;
    struct statvfs fs;

    if (statvfs(job->store, &fs) < 0)
        return err_set(reterr, errno, "%s: %s", job->store, strerror(errno));
    for (size_t i = 0; i < job->plan.n; i++) {
        _cleanup_free_ char *part = NULL;
        struct stat st;

        if (has_blob(job, &job->plan.files[i]) || has_arrived(job, &job->plan.files[i]))
            needed -= MIN(needed, job->plan.files[i].size);
        else if (asprintf(&part, "%s/%s.part", job->arrivals, job->plan.files[i].local) >= 0 &&
                 stat(part, &st) == 0)
            needed -= MIN(needed, (uint64_t)st.st_blocks * 512);
    }
    have = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (have < needed || have - needed < PULL_MARGIN)
        return err_set(reterr, ENOSPC, "%s has %.1f GiB free, but the model needs %.1f GiB more",
                       job->store, (double)have / (1u << 30), (double)needed / (1u << 30));
    return 0;
}

/* Struct file_progress is the data of the callback that fetcher_get() calls for one file. */
struct file_progress {
    const struct pull_watch *watch;
    size_t i; /* of the file in the plan */
};

static void on_progress(void *data, uint64_t bytes, uint64_t size)
{
    const struct file_progress *progress = data;

    if (progress->watch->fetched)
        progress->watch->fetched(progress->watch->data, progress->i, bytes, size);
}

/* Prepares the digest that is computed while the file arrives. NULL: it is computed later. */
static struct store_growing *growing_digest(const struct pull_job *job, const struct pull_file *f)
{
    _cleanup_free_ char *part = NULL;

    return asprintf(&part, "%s/%s.part", job->arrivals, f->local) < 0 ? NULL
                                                                      : store_growing_new(part);
}

static int fetch_all(struct pull_job *job, struct inf_err *reterr)
{
    const struct pull_watch *watch = job->watch;
    int r = check_space(job, reterr);

    for (size_t i = 0; r == 0 && i < job->plan.n; i++) {
        struct pull_file *f = &job->plan.files[i];
        struct file_progress progress = {watch, i};
        uint64_t size = f->size;

        if (!has_blob(job, f) && !has_arrived(job, f)) {
            f->growing = growing_digest(job, f);
            r = fetcher_get(job->fetcher, f, NULL, f->size == UINT64_MAX ? PULL_LIMIT : f->size,
                            MAX(job->config->pull.connections, 1u), on_progress, &progress, &size,
                            reterr);
        }
        if (r == 0 && watch->complete)
            watch->complete(watch->data, i, size);
    }
    return r;
}

int pull_job_fetch(struct pull_job *job, struct inf_err *reterr)
{
    int r = make_plan(job, reterr);

    if (r < 0)
        return r;
    job->was_there = is_there(job);
    if (job->was_there)
        return 0;
    if (job->watch->planned)
        job->watch->planned(job->watch->data, &job->plan);
    return fetch_all(job, reterr);
}

int pull_job_finish(struct pull_job *job, struct inf_err *reterr)
{
    _cleanup_close_ int lock = -1;
    int r = 0;

    job->fetcher = fetcher_stop(job->fetcher);
    if (!job->was_there)
        r = pull_install(job->store, job->dir, job->arrivals, &job->plan, job->watch->verified,
                         job->watch->data, reterr);
    if (r == 0)
        r = store_lock(job->store, &lock, reterr);
    return r < 0 ? r : store_discard(job->store, job->dir, reterr);
}

void pull_job_close(struct pull_job *job)
{
    job->fetcher = fetcher_stop(job->fetcher);
    free(job->arrivals);
    free(job->dir);
    job->arrivals = job->dir = NULL;
    if (job->lock >= 0)
        close(job->lock);
    job->lock = -1;
}

void pull_job_done(struct pull_job *job)
{
    pull_job_close(job);
    pull_plan_done(&job->plan);
}
