/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce pull: fetches a model and installs it into the store
 *
 * sconce-fetch, a child process, has the network. This process starts it, gives up the network
 * itself (policy `pull`), and then reads metadata, verifies files and installs them.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include "cli/catalog.h"
#include "cli/cli.h"
#include "cli/pull/pull.h"
#include "cli/pull/show.h"
#include "cli/pull/suggest.h"
#include "common/config/config.h"
#include "common/confine/confine.h"
#include "common/models/manifest.h"
#include "common/models/safe-path.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/sha256.h"
#include "core/text.h"

#define PULL_LIMIT  ((uint64_t)1 << 42)  /* bytes of one file */
#define PULL_MARGIN ((uint64_t)64 << 20) /* bytes of the disk that stay free */

static const char help[] =
    "Usage: sconce pull [--name NAME] [--json] SOURCE\n"
    "       sconce pull --suggest [--json] [TASK]\n"
    "Fetches a model and installs it. SOURCE is one of:\n"
    "  OWNER/REPO[:WHAT]    a repository of Hugging Face's hub; WHAT is a quantization such as\n"
    "                       Q4_K_M or the name of a GGUF file. Also hf:OWNER/REPO[:WHAT]\n"
    "  ollama:NAME[:TAG]    a model of Ollama's registry\n"
    "  https://…            a GGUF file\n"
    "  PATH                 a file or directory of this machine, which is copied\n\n"
    "  --name NAME          the name of the model\n"
    "  --suggest            list recommended models: all, or those for chat, code, embedding,\n"
    "                       rerank or speech\n"
    "  --json               print a JSON object\n" CLI_MODELS_HELP;

/* One run of the verb. */
struct pull {
    struct config *config;
    struct pull_source source;
    struct pull_plan plan;
    struct pull_show show;
    char *store, *job, *token, *certificates, *hub, *registry;
    char token_host[300], hub_host[300], registry_host[300];
    struct fetcher *fetcher;
    int lock;
    bool json;
};

static void pull_done(struct pull *p)
{
    fetcher_stop(p->fetcher);
    pull_plan_done(&p->plan);
    config_free(p->config);
    free(p->store);
    free(p->job);
    if (p->token)
        explicit_bzero(p->token, strlen(p->token));
    free(p->token);
    free(p->certificates);
    if (p->lock >= 0)
        close(p->lock);
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

/* Reads the token: HF_TOKEN, or the token file of the configuration, or that of Hugging Face's own
 * programs. No token is no error, except if the configured file cannot be read. */
static int read_token(struct pull *p, struct inf_err *reterr)
{
    const char *given = getenv("HF_TOKEN"), *file = p->config->pull.token_file;
    const char *home = getenv("HOME");
    _cleanup_free_ char *usual = home ? path_join(home, ".cache/huggingface/token") : NULL;
    size_t len;
    int r = 0;

    if (given && given[0]) {
        p->token = strdup(given);
    } else if (file || (usual && path_exists(usual))) {
        r = file_read(file ? file : usual, 4096, &p->token, &len, reterr);
        if (r < 0)
            return file ? r : 0;
    }
    if (p->token)
        p->token[strcspn(p->token, "\r\n")] = 0;
    unsetenv("HF_TOKEN");
    return 0;
}

static int read_settings(struct pull *p, struct inf_err *reterr)
{
    size_t len;

    p->hub = p->config->pull.mirror;
    p->registry = p->config->pull.ollama_mirror;
    host_of(p->hub, p->hub_host, sizeof(p->hub_host));
    host_of(p->registry, p->registry_host, sizeof(p->registry_host));
    snprintf(p->token_host, sizeof(p->token_host), "%s%s", p->config->pull.token_host,
             strchr(p->config->pull.token_host, ':') ? "" : ":443");
    if (p->config->pull.certificates &&
        file_read(p->config->pull.certificates, PULL_MAX_METADATA / 8, &p->certificates, &len,
                  reterr) < 0)
        return -EIO;
    return read_token(p, reterr);
}

/* Makes the directory of the job, whose name depends on the source, so that the same command goes
 * on where it was interrupted. */
static int open_job(struct pull *p, struct inf_err *reterr)
{
    _cleanup_free_ char *lock = NULL;
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    int r;

    sha256_init(&hash);
    sha256_add_part(&hash, p->source.text, strlen(p->source.text));
    sha256_add_part(&hash, p->plan.name, strlen(p->plan.name));
    sha256_end(&hash, digest);
    if (asprintf(&p->job, "%s/" STORE_INCOMING "/%02x%02x%02x%02x%02x%02x%02x%02x", p->store,
                 digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6],
                 digest[7]) < 0 ||
        asprintf(&lock, "%s/.lock", p->job) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    r = store_make_dirs(p->job, reterr);
    if (r < 0)
        return r;
    p->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (p->lock < 0)
        return err_set(reterr, errno, "%s: %s", lock, strerror(errno));
    if (flock(p->lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(reterr, EBUSY, "another command is pulling %s", p->source.text);
    return 0;
}

static int start_fetcher(struct pull *p, struct inf_err *reterr)
{
    const struct fetcher_settings settings = {
        .token = p->token,
        .token_host = p->token_host,
        .proxy = p->config->pull.proxy,
        .certificates = p->certificates,
        .private_hosts = {strcmp(p->hub, CONFIG_PULL_MIRROR) != 0 ? p->hub_host : NULL,
                          strcmp(p->registry, CONFIG_PULL_OLLAMA) != 0 ? p->registry_host : NULL},
        .landlock_optional = p->config->confinement.landlock == CONFIG_LANDLOCK_OPTIONAL,
    };

    return fetcher_start(p->job, &settings, &p->fetcher, reterr);
}

/* Gives up the network, and all files outside of the store. */
static int confine_pull(struct pull *p, struct inf_err *reterr)
{
    int r;

    if (chdir(p->store) < 0)
        return err_set(reterr, errno, "%s: %s", p->store, strerror(errno));
    r = confine_start("pull", p->config, reterr);
    return r < 0 ? r : confine_seal(reterr);
}

/* --- plans --- */

/* Fetches a small file of metadata; the caller frees *ret_text. */
static int get_metadata(struct pull *p, const char *url, const char *accept, char **ret_text,
                        size_t *ret_len, struct inf_err *reterr)
{
    const struct pull_file file = {
        .name = "metadata", .url = url, .local = "metadata", .size = UINT64_MAX};
    _cleanup_free_ char *path = path_join(p->job, "metadata");
    uint64_t size;
    int r = path ? fetcher_get(p->fetcher, &file, accept, PULL_MAX_METADATA, 0, NULL, NULL, &size,
                               reterr)
                 : err_set(reterr, ENOMEM, "out of memory");

    return r < 0 ? r : file_read(path, PULL_MAX_METADATA, ret_text, ret_len, reterr);
}

static uint64_t machine_memory(void)
{
    struct sysinfo info;

    return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : UINT64_MAX;
}

static int plan_hub(struct pull *p, struct inf_err *reterr)
{
    _cleanup_free_ char *url = NULL, *text = NULL;
    size_t len;
    int r;

    if (asprintf(&url, "%s/api/models/%s/revision/main?blobs=true", p->hub, p->source.repo) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    r = get_metadata(p, url, "application/json", &text, &len, reterr);
    return r < 0 ? r : hub_read(text, len, p->hub, &p->source, machine_memory(), &p->plan, reterr);
}

static int plan_ollama(struct pull *p, struct inf_err *reterr)
{
    _cleanup_free_ char *url = NULL, *text = NULL;
    const char *tag = p->source.selector[0] ? p->source.selector : "latest";
    size_t len;
    int r;

    if (asprintf(&url, "%s/v2/%s%s/manifests/%s", p->registry,
                 strchr(p->source.repo, '/') ? "" : "library/", p->source.repo, tag) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    r = get_metadata(p, url, "application/vnd.docker.distribution.manifest.v2+json", &text, &len,
                     reterr);
    return r < 0 ? r : registry_read(text, len, p->registry, &p->source, &p->plan, reterr);
}

static int plan_url(struct pull *p, struct inf_err *reterr)
{
    const size_t n = strcspn(p->source.text, "?#");
    _cleanup_free_ char *bare = strndup(p->source.text, n);
    const char *base = bare ? path_base(bare) : "";

    if (!bare)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!text_ends_with_nocase(base, ".gguf") || strlen(base) == strlen(".gguf"))
        return err_set(reterr, EINVAL, "the URL must end with the name of a .gguf file");
    if (!p->plan.name[0])
        snprintf(p->plan.name, sizeof(p->plan.name), "%.*s", (int)(strlen(base) - strlen(".gguf")),
                 base);
    /* The text after a question mark may be a secret, so it is not stored. */
    p->plan.source = arena_strndup(&p->plan.arena, bare, n);
    p->plan.is_gguf = true;
    return pull_plan_add(
        &p->plan, &(struct pull_file){.name = base, .url = p->source.text, .size = UINT64_MAX},
        reterr);
}

static int copy_file(const char *from, const char *to, struct inf_err *reterr)
{
    _cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
    _cleanup_close_ int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t n = -1;

    if (in < 0 || out < 0)
        return err_set(reterr, errno, "%s cannot be copied: %s", from, strerror(errno));
    while ((n = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0)) > 0)
        ;
    return n < 0 ? err_set(reterr, errno, "%s cannot be copied: %s", from, strerror(errno)) : 0;
}

/* Copies a local model into the directory of the job. */
static int plan_path(struct pull *p, struct inf_err *reterr)
{
    _cleanup_free_ char *real = realpath(p->source.text, NULL);
    _cleanup_(store_files_done) struct store_files files = {0};
    struct models_entry e = {.path = real};
    const char *base = real ? path_base(real) : "";
    int r;

    if (!real)
        return err_set(reterr, errno, "%s: %s", p->source.text, strerror(errno));
    p->plan.is_gguf = !path_is_dir(real);
    if (p->plan.is_gguf && !text_ends_with_nocase(base, ".gguf"))
        return err_set(reterr, EINVAL, "%s is neither a .gguf file nor a directory", real);
    if (!p->plan.name[0])
        snprintf(p->plan.name, sizeof(p->plan.name), "%.*s",
                 (int)(strlen(base) - (p->plan.is_gguf ? strlen(".gguf") : 0)), base);
    p->plan.source = arena_strndup(&p->plan.arena, real, strlen(real));
    r = store_files_list(&e, &files, reterr);
    for (size_t i = 0; r == 0 && i < files.n; i++) {
        _cleanup_free_ char *to = NULL;

        if (strcmp(files.files[i].name, MODEL_MANIFEST) == 0)
            continue;
        r = pull_plan_add(
            &p->plan, &(struct pull_file){.name = files.files[i].name, .size = files.files[i].size},
            reterr);
        if (r == 0 && asprintf(&to, "%s/f%zu", p->job, p->plan.n - 1) < 0)
            r = err_set(reterr, ENOMEM, "out of memory");
        if (r == 0)
            r = copy_file(files.files[i].path, to, reterr);
    }
    return r == 0 && p->plan.n == 0 ? err_set(reterr, ENOENT, "%s has no files", real) : r;
}

static int make_plan(struct pull *p, struct inf_err *reterr)
{
    int r = p->source.kind == PULL_HUB      ? plan_hub(p, reterr)
            : p->source.kind == PULL_OLLAMA ? plan_ollama(p, reterr)
                                            : plan_url(p, reterr);

    if (r == 0 && p->source.kind == PULL_HUB) {
        char text[700];

        snprintf(text, sizeof(text), "hf:%s%s%s", p->source.repo, p->source.selector[0] ? ":" : "",
                 p->source.selector);
        p->plan.source = arena_strndup(&p->plan.arena, text, strlen(text));
    } else if (r == 0 && p->source.kind == PULL_OLLAMA) {
        p->plan.source = arena_strndup(&p->plan.arena, p->source.text, strlen(p->source.text));
    }
    if (r == 0 && !model_name_is_safe(p->plan.name))
        r = err_set(reterr, EINVAL, "\"%s\" cannot be the name of a model; choose one with --name",
                    p->plan.name);
    return r;
}

/* --- fetching --- */

/* Returns whether the store has the same files already. */
static bool is_there(const struct pull *p)
{
    _cleanup_free_ char *path = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    struct model_manifest m;

    if (asprintf(&path, "%s/%s/" MODEL_MANIFEST, p->store, p->plan.name) < 0 ||
        model_manifest_read(&arena, path, &m, NULL) < 0 || m.n_files != p->plan.n)
        return false;
    for (size_t i = 0; i < m.n_files; i++) {
        _cleanup_free_ char *file = NULL;
        struct stat st;

        if (!p->plan.files[i].sha256 || !m.files[i].sha256 ||
            strcmp(p->plan.files[i].sha256, m.files[i].sha256) != 0 ||
            asprintf(&file, "%s/%s/%s", p->store, p->plan.name, m.files[i].name) < 0 ||
            stat(file, &st) < 0 || (uint64_t)st.st_size != m.files[i].size)
            return false;
    }
    return true;
}

/* Returns whether another model has the file @f already. */
static bool has_blob(const struct pull *p, const struct pull_file *f)
{
    _cleanup_free_ char *blob = NULL;
    struct stat st;

    return f->sha256 && asprintf(&blob, "%s/" STORE_BLOBS "/sha256-%s", p->store, f->sha256) >= 0 &&
           stat(blob, &st) == 0 && (uint64_t)st.st_size == f->size;
}

/* Checks that the files fit on the disk. Bytes that have arrived already count as free. */
static int check_space(const struct pull *p, struct inf_err *reterr)
{
    uint64_t needed = pull_plan_bytes(&p->plan), have;
    struct statvfs fs;

    if (statvfs(p->store, &fs) < 0)
        return err_set(reterr, errno, "%s: %s", p->store, strerror(errno));
    for (size_t i = 0; i < p->plan.n; i++) {
        _cleanup_free_ char *part = NULL;
        struct stat st;

        if (has_blob(p, &p->plan.files[i]))
            needed -= MIN(needed, p->plan.files[i].size);
        else if (asprintf(&part, "%s/%s.part", p->job, p->plan.files[i].local) >= 0 &&
                 stat(part, &st) == 0)
            needed -= MIN(needed, (uint64_t)st.st_blocks * 512);
    }
    have = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (have < needed || have - needed < PULL_MARGIN)
        return err_set(reterr, ENOSPC, "%s has %s free, but the model needs %s more", p->store,
                       cli_size(have), cli_size(needed));
    return 0;
}

static int fetch_all(struct pull *p, struct inf_err *reterr)
{
    int r = check_space(p, reterr);

    p->show.all = p->source.kind == PULL_URL ? UINT64_MAX : pull_plan_bytes(&p->plan);
    for (size_t i = 0; r == 0 && i < p->plan.n; i++) {
        const struct pull_file *f = &p->plan.files[i];
        uint64_t size = f->size;

        if (!has_blob(p, f))
            r = fetcher_get(p->fetcher, f, NULL, f->size == UINT64_MAX ? PULL_LIMIT : f->size,
                            MAX(p->config->pull.connections, 1u), pull_show_bytes, &p->show, &size,
                            reterr);
        if (r == 0)
            pull_show_file(&p->show, size);
    }
    return r;
}

/* --- the verb --- */

static int pull_tell(const struct pull *p, bool was_there)
{
    json_t *out;

    if (!p->json) {
        if (p->plan.note[0])
            fprintf(stderr, "%s\n", p->plan.note);
        printf(was_there ? "%s is already installed, in %s\n" : "%s is installed in %s\n",
               p->plan.name, p->store);
        return CLI_OK;
    }
    out = json_pack("{s:s, s:s, s:I, s:b, s:s?, s:s?, s:s?}", "name", p->plan.name, "store",
                    p->store, "bytes", (json_int_t)pull_plan_bytes(&p->plan), "was_there",
                    (int)was_there, "source", p->plan.source, "revision", p->plan.revision, "note",
                    p->plan.note[0] ? p->plan.note : NULL);
    if (!out)
        return cli_error("pull", "out of memory");
    json_dumpf(out, stdout, JSON_INDENT(2));
    json_decref(out);
    putchar('\n');
    return CLI_OK;
}

/* Finds out what to fetch, and fetches it. *ret_there: nothing had to be fetched. */
static int pull_fetch(struct pull *p, bool *ret_there, struct inf_err *reterr)
{
    int r = make_plan(p, reterr);

    if (r < 0)
        return r;
    *ret_there = is_there(p);
    if (*ret_there)
        return 0;
    if (p->plan.why[0] && !p->json)
        fprintf(stderr, "%s\n", p->plan.why);
    return fetch_all(p, reterr);
}

static int pull_run(struct pull *p, bool *ret_there, struct inf_err *reterr)
{
    const bool is_local = p->source.kind == PULL_PATH;
    int r = read_settings(p, reterr);

    if (r == 0)
        r = open_job(p, reterr);
    if (r == 0)
        r = is_local ? plan_path(p, reterr) : start_fetcher(p, reterr);
    if (r == 0)
        r = confine_pull(p, reterr);
    if (r == 0 && !is_local)
        r = pull_fetch(p, ret_there, reterr);
    /* A process that can still write the files must not run while they are verified. */
    p->fetcher = fetcher_stop(p->fetcher);
    if (r == 0 && !*ret_there) {
        pull_show_restart(&p->show, "verifying");
        r = pull_install(p->store, p->job, &p->plan, pull_show_verified, &p->show, reterr);
    }
    pull_show_done(&p->show);
    /* The files that have arrived stay after an error, so that the next attempt goes on. */
    return r < 0 ? r : store_discard(p->store, p->job, reterr);
}

static int pull_source(const struct cli_models *m, const char *text, const char *name, bool json)
{
    _cleanup_(pull_done) struct pull p = {.lock = -1, .json = json};
    bool was_there = false;
    struct inf_err err;
    int r;

    if (pull_source_read(text, &p.source, &err) < 0)
        return cli_usage("pull", "%s", err.text);
    if (name && (!model_name_is_safe(name) || strlen(name) >= sizeof(p.plan.name)))
        return cli_usage("pull", "--name \"%s\" cannot be the name of a model", name);
    snprintf(p.plan.name, sizeof(p.plan.name), "%s", name ? name : "");
    p.show = (struct pull_show){
        .what = text, .all = UINT64_MAX, .quiet = json, .is_terminal = isatty(STDERR_FILENO)};
    r = cli_config("pull", m, &p.config);
    if (r != CLI_OK)
        return r;
    if (store_directory(p.config, m->n_dirs > 0, &p.store, &err) < 0 ||
        pull_run(&p, &was_there, &err) < 0)
        return cli_error("pull", "%s", err.text);
    return pull_tell(&p, was_there);
}

int verb_pull(int argc, char **argv)
{
    static const struct option options[] = {
        {"name", required_argument, NULL, 'n'},
        {"suggest", no_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    const char *name = NULL;
    struct cli_models m = {0};
    bool json = false, suggest = false;
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'j')
            json = true;
        else if (c == 's')
            suggest = true;
        else if (c == 'n')
            name = optarg;
        else if (c == 'h')
            return cli_help(help);
        else if (!cli_models_option(&m, c, optarg))
            return cli_usage("pull", "wrong option");
    }
    if (suggest && optind + 1 >= argc)
        return suggest_print(optind < argc ? argv[optind] : NULL, json);
    if (suggest || optind + 1 != argc)
        return cli_usage("pull", suggest ? "give one task" : "give one source");
    /* The services, which run as other users, read the models. */
    umask(022);
    return pull_source(&m, argv[optind], name, json);
}
