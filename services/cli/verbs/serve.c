/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce serve: runs all services in the foreground
 *
 * The command opens the same sockets as the units, and starts each service when a client first
 * connects. If the usual sockets are in use, the command creates a new directory for its sockets.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>

#include <systemd/sd-daemon.h>

#include "cli/cli.h"
#include "cli/catalog.h"
#include "cli/suite/path-model.h"
#include "cli/suite/supervisor.h"
#include "cli/verbs/run-pull.h"
#include "common/config/config.h"
#include "common/config/draft-kind.h"
#include "common/config/key-file.h"
#include "common/config/program.h"
#include "common/config/service-table.h"
#include "common/models/models.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

#define SERVE_OLLAMA "127.0.0.1:11434"

static const char help[] =
    "Usage: sconce serve [--listen ADDR:PORT]... [--ollama] [--models DIR]... [--config FILE]\n"
    "Runs the services in the foreground, without systemd: each starts on its first connection.\n\n"
    "  --listen ADDR:PORT   address for clients, or unix:PATH (default: 127.0.0.1:7266); port 0\n"
    "                       selects a free port\n"
    "  --port N             the same as --listen 127.0.0.1:N\n"
    "  --model MODEL        serve only this model: a name, a path, or OWNER/REPO of the hub\n"
    "  -y, --yes            fetch that model if it is not installed\n"
    "  --draft MODEL        a smaller model with the same vocabulary guesses tokens\n"
    "  --draft-kind KIND    how tokens are guessed: none, auto, ngram, suffix, model,\n"
    "                       mtp, eagle3, dflash or gemma4-assistant\n"
    "  --ollama             also listens on " SERVE_OLLAMA ", where clients expect Ollama\n"
    "  --runtime-dir DIR    directory for the services' sockets "
    "($XDG_RUNTIME_DIR/sconce)\n" CLI_DEVICE_HELP CLI_MODELS_HELP;

enum {
    SERVE_MAX_LISTEN = SUPERVISOR_MAX_SOCKETS - 2, /* without the unix socket and --ollama */
};

struct part {
    struct supervisor_service service;
    char *program; /* NULL: not installed */
    char *socket;  /* the socket that serve creates and removes; NULL: none yet */
};

struct serve {
    struct cli_models models;
    const char *device;             /* NULL: from the configuration */
    const char *draft, *draft_kind; /* NULL: from the configuration */
    const char *model;              /* as it was given; NULL: all models are served */
    bool yes;
    char *only;   /* the name of `model` */
    char own[32]; /* directory of the manifest, if `model` was given as a path; "": none */
    const char *listen[SERVE_MAX_LISTEN + 1];
    size_t n_listen;
    char ports[SERVE_MAX_LISTEN][24]; /* the addresses of --port */
    bool ollama;                      /* the last address is SERVE_OLLAMA */
    char *dir;
    bool own_dir;
    char socket_options[N_SERVICES][32]; /* "--chat-socket" */
    char program_option[32];             /* "--fetch-socket" */
    char *no_socket; /* a path in dir without a listener, for services that are not installed */
    struct part parts[N_SERVICES];    /* by enum service_id */
    struct part programs[N_SERVICES]; /* programs that the services use, by enum service_id */
    unsigned port;                    /* port of the first address; 0: unix */
};

/* Removes the sockets that this process created. @close_too: also closes their descriptors, which
 * the supervisor does not own yet. */
static void drop_sockets(struct serve *s, bool close_too)
{
    for (size_t i = 0; i < 2 * N_SERVICES; i++) {
        struct part *part = i < N_SERVICES ? &s->parts[i] : &s->programs[i - N_SERVICES];

        if (!part->socket)
            continue;
        unlink(part->socket);
        if (close_too)
            close(part->service.sockets[--part->service.n_sockets].fd);
        free(part->socket);
        part->socket = NULL;
    }
}

static void serve_done(struct serve *s)
{
    drop_sockets(s, false);
    for (size_t i = 0; i < N_SERVICES; i++) {
        free(s->parts[i].program);
        free(s->programs[i].program);
    }
    if (s->own_dir)
        rmdir(s->dir);
    if (s->own[0]) {
        char manifest[sizeof(s->own) + 16];

        snprintf(manifest, sizeof(manifest), "%s/model.yaml", s->own);
        unlink(manifest);
        rmdir(s->own);
    }
    free(s->only);
    free(s->no_socket);
    free(s->dir);
}

char *serve_program(const struct service_row *row)
{
    return program_find(row->name);
}

/* Opens the socket FILE of a service or a program in the directory. */
static int open_part(struct serve *s, struct part *part, const char *file, bool packets,
                     const char *name, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(s->dir, file);
    char address[PATH_MAX + 16];
    unsigned port;
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    snprintf(address, sizeof(address), "%s:%s", packets ? "seqpacket" : "unix", path);
    r = supervisor_listen(address, &port, reterr);
    if (r < 0)
        return r;
    /* Only sockets that this process created are removed at the end. */
    part->socket = STEAL(path);
    part->service.sockets[part->service.n_sockets++] = (struct supervisor_socket){name, r};
    return 0;
}

static int open_in_dir(struct serve *s, struct inf_err *reterr)
{
    int r = 0;

    mkdir(s->dir, 0700);
    free(s->no_socket);
    s->no_socket = path_join(s->dir, "not-installed.sock");
    if (!s->no_socket)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < N_SERVICES && r >= 0; i++) {
        const struct service_row *row = &service_rows[i];
        char file[32];

        if (s->parts[i].program)
            r = open_part(s, &s->parts[i], row->socket, row->has_packets,
                          i == SERVICE_GATEWAY ? "gateway-unix" : row->name, reterr);
        snprintf(file, sizeof(file), "%s.sock", row->starts ? row->starts : "");
        if (r >= 0 && s->programs[i].program)
            r = open_part(s, &s->programs[i], file, false, row->starts, reterr);
    }
    if (r < 0)
        drop_sockets(s, true);
    return r;
}

/* Opens the services' sockets in the usual directory, or in a new one if those sockets are in
 * use. */
static int open_sockets(struct serve *s, const char *runtime_dir, struct inf_err *reterr)
{
    char template[] = "/tmp/sconce-XXXXXX";
    int r = -ENOENT;

    if (runtime_dir)
        s->dir = strdup(runtime_dir);
    else if (config_socket_dir(&s->dir) < 0)
        s->dir = NULL;
    if (s->dir)
        r = open_in_dir(s, reterr);
    if (r >= 0 || runtime_dir)
        return r;
    free(s->dir);
    s->dir = mkdtemp(template) ? strdup(template) : NULL;
    s->own_dir = s->dir != NULL;
    return s->dir ? open_in_dir(s, reterr) : -errno;
}

static void add_arg(struct part *part, const char *arg)
{
    size_t n = 0;

    while (part->service.argv[n])
        n++;
    /* The last element of argv stays NULL. */
    if (n + 1 < SUPERVISOR_MAX_ARGS)
        part->service.argv[n] = arg;
}

static void add_option(struct part *part, const char *option, const char *value)
{
    add_arg(part, option);
    add_arg(part, value);
}

/* Adds options with the paths of the sockets to which the service @row connects. */
static void add_sockets(struct serve *s, struct part *part, const struct service_row *row)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        if (!service_row_connects(row, i))
            continue;
        /* If service @i is not installed, nobody listens at the path. The service @row then fails
         * to connect, and its error says which package to install. */
        add_option(part, s->socket_options[i],
                   s->parts[i].socket ? s->parts[i].socket : s->no_socket);
    }
}

/* Fills the arguments of the services; @open: TCP requires no key. */
static void fill_args(struct serve *s, bool open)
{
    /* A service has at most SUPERVISOR_MAX_ARGS arguments, so further directories are left out. */
    const size_t n_dirs = MIN(s->models.n_dirs, (size_t)SUPERVISOR_MAX_ARGS / 2 - 8);

    for (size_t i = 0; i < N_SERVICES; i++)
        snprintf(s->socket_options[i], sizeof(s->socket_options[i]), "--%s-socket",
                 service_rows[i].name);
    for (size_t i = 0; i < N_SERVICES; i++) {
        const struct service_row *row = &service_rows[i];
        struct part *part = &s->parts[i];

        part->service.name = row->name;
        if (!part->program)
            continue;
        add_arg(part, part->program);
        if (s->models.config)
            add_option(part, "--config", s->models.config);
        add_sockets(s, part, row);
        if (row->starts) {
            snprintf(s->program_option, sizeof(s->program_option), "--%s-socket", row->starts);
            add_option(part, s->program_option,
                       s->programs[i].socket ? s->programs[i].socket : s->no_socket);
            s->programs[i].service.name = row->starts;
            s->programs[i].service.is_program = true;
            add_arg(&s->programs[i], s->programs[i].program);
        }
        if (open && row->options & SERVICE_OPTION_TCP_ACCESS)
            add_option(part, "--tcp-access", "open");
        if (s->device && row->options & SERVICE_OPTION_DEVICE)
            add_option(part, "--device", s->device);
        if (s->draft && row->options & SERVICE_OPTION_DEVICE)
            add_option(part, "--draft", s->draft);
        if (s->draft_kind && row->options & SERVICE_OPTION_DEVICE)
            add_option(part, "--draft-kind", s->draft_kind);
        if (s->only && row->options & SERVICE_OPTION_MODELS)
            add_option(part, "--model", s->only);
        for (size_t k = 0; row->options & SERVICE_OPTION_MODELS && k < n_dirs; k++)
            add_option(part, "--models", s->models.dirs[k]);
    }
}

static int find_programs(struct serve *s)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        s->parts[i].program = serve_program(&service_rows[i]);
        if (!s->parts[i].program && !service_rows[i].package)
            return cli_error("serve", "%s is not installed in %s", service_rows[i].program,
                             SCONCE_LIBEXECDIR);
        if (service_rows[i].starts)
            s->programs[i].program = program_find(service_rows[i].starts);
    }
    return CLI_OK;
}

/* Returns whether other machines can reach the address. */
static bool is_remote(const char *address)
{
    static const char *const local[] = {"unix:", "127.", "localhost:", "[::1]:"};

    for (size_t i = 0; i < ARRAY_SIZE(local); i++)
        if (text_starts_with(address, local[i]))
            return false;
    return true;
}

static void serve_greet(const struct serve *s, const struct config *config, bool open,
                        const struct models *models)
{
    _cleanup_free_ char *names = models_names(models);
    const struct models_entry *first = models_default(models, config);

    for (size_t i = 0; !first && i < models_count(models); i++)
        if (models_at(models, i)->task == MODELS_CHAT)
            first = models_at(models, i);
    for (size_t i = 0; i < s->n_listen; i++) {
        if (text_starts_with(s->listen[i], "unix:"))
            fprintf(stderr, "Listening on %s\n", s->listen[i]);
        else
            fprintf(stderr, "Listening on http://%.*s:%u/v1\n",
                    (int)(strrchr(s->listen[i], ':') - s->listen[i]), s->listen[i],
                    i == 0 ? s->port : (unsigned)atoi(strrchr(s->listen[i], ':') + 1));
    }
    fprintf(stderr, "Listening on unix:%s\n", s->parts[SERVICE_GATEWAY].socket);
    for (size_t i = 0; i < s->n_listen && open; i++)
        if (is_remote(s->listen[i]))
            fprintf(stderr, "Everybody who can reach %s may send requests without an API key.\n",
                    s->listen[i]);
    if (!open)
        fputs("TCP requests must send one of the configured API keys.\n", stderr);
    if (models_count(models) == 0) {
        fputs("No model is installed yet. Fetch one with `sconce pull`, or put a .gguf file or a "
              "model\n"
              "directory into one of:\n",
              stderr);
        for (size_t i = 0; i < config->n_model_dirs; i++)
            fprintf(stderr, "  %s\n", config->model_dirs[i]);
        return;
    }
    fprintf(stderr, "Models: %s\n", names ? names : "");
    for (size_t i = 0; i < N_SERVICES; i++)
        if (!s->parts[i].program)
            fprintf(stderr, "The %s service is not installed; it is in the package %s.\n",
                    service_rows[i].name, service_rows[i].package);
    if (s->port && first) {
        const int n_host = (int)(strrchr(s->listen[0], ':') - s->listen[0]);
        const bool any = n_host == 0 || text_starts_with(s->listen[0], "0.0.0.0") ||
                         text_starts_with(s->listen[0], "[::]");

        const int n = any ? 9 : n_host;
        const char *host = any ? "127.0.0.1" : s->listen[0];

        fprintf(stderr,
                "Try: curl http://%.*s:%u/v1/chat/completions -H 'Content-Type: application/json' "
                "%s-d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":"
                "\"Hello\"}]}'\n",
                n, host, s->port, open ? "" : "-H 'Authorization: Bearer KEY' ", first->name);
        if (config->gateway.page)
            fprintf(stderr, "Or open http://%.*s:%u/ in a browser.\n", n, host, s->port);
    }
}

/* Writes a manifest for the model that --model gives as a path. The model gets the name NAME of its
 * file or directory, and the alias DIRECTORY/NAME. */
static int take_path(struct serve *s)
{
    static const char template[] = "/tmp/sconce-XXXXXX";
    _cleanup_free_ char *path = realpath(s->model, NULL), *alias = NULL;
    char manifest[sizeof(s->own) + 16], *base, *parent;
    int r;

    if (!path)
        return cli_error("serve", "%s: %s", s->model, strerror(errno));
    s->only = path_model_name(path);
    if (!s->only)
        return cli_error("serve", "out of memory");
    base = (char *)path_base(path);
    if (base > path + 1) {
        base[-1] = '\0';
        parent = (char *)path_base(path);
        if (asprintf(&alias, "%s/%s", parent, s->only) < 0)
            return cli_error("serve", "out of memory");
        base[-1] = '/';
    }
    memcpy(s->own, template, sizeof(template));
    if (!mkdtemp(s->own)) {
        s->own[0] = '\0';
        return cli_error("serve", "/tmp: %s", strerror(errno));
    }
    snprintf(manifest, sizeof(manifest), "%s/model.yaml", s->own);
    r = path_model_write(manifest, path, s->only, alias);
    if (r < 0)
        return cli_error("serve", "%s: %s", manifest, strerror(-r));
    if (s->models.n_dirs == ARRAY_SIZE(s->models.dirs))
        return cli_usage("serve", "--models is given too many times");
    memmove(s->models.dirs + 1, s->models.dirs, s->models.n_dirs * sizeof(*s->models.dirs));
    s->models.dirs[0] = s->own;
    s->models.n_dirs++;
    return CLI_OK;
}

/* Finds the model of --model. */
static int take_model(struct serve *s)
{
    _cleanup_(cli_catalog_done) struct cli_catalog catalog = {0};
    int r;

    if (strchr(s->model, '/') && path_exists(s->model)) {
        r = take_path(s);
    } else {
        r = cli_find_or_pull("serve", &s->models, s->model, s->yes, &s->only);
    }
    if (r == CLI_OK)
        r = cli_catalog_open("serve", &s->models, &catalog);
    return r == CLI_OK && !cli_catalog_find("serve", &catalog, s->only) ? CLI_FAILED : r;
}

static int serve_run(struct serve *s, const char *runtime_dir)
{
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    _cleanup_(supervisor_freep) struct supervisor *sup = NULL;
    _cleanup_(key_list_done) struct key_list keys = {0};
    struct supervisor_service *gateway = &s->parts[SERVICE_GATEWAY].service;
    struct inf_err err = {.text = "out of memory"};
    bool open;
    int r;

    r = s->model ? take_model(s) : CLI_OK;
    if (r == CLI_OK)
        r = cli_config("serve", &s->models, &config);
    if (r != CLI_OK)
        return r;
    if (config_set_draft(config, s->draft, s->draft_kind) < 0 ||
        (s->only && config_set_only_model(config, s->only) < 0))
        return cli_error("serve", "out of memory");
    if (models_scan(config, &models) < 0 || key_list_load(&keys, &err) < 0)
        return cli_error("serve", "%s", err.text);
    if (s->draft && !models_find_drafter(models, config, &(struct model_settings){0}))
        return cli_tell_no_model("serve", s->draft, config, models);
    r = find_programs(s);
    if (r != CLI_OK)
        return r;
    for (size_t i = 0; i < s->n_listen; i++) {
        unsigned port;

        r = supervisor_listen(s->listen[i], &port, &err);
        if (r == -EADDRINUSE)
            return cli_error("serve",
                             "%s; stop the program that listens there, or choose another port with "
                             "--listen 127.0.0.1:PORT (0: any free one)",
                             err.text);
        if (r < 0)
            return cli_error("serve", "%s", err.text);
        gateway->sockets[gateway->n_sockets++] = (struct supervisor_socket){
            s->ollama && i + 1 == s->n_listen ? "gateway-ollama" : "gateway", r};
        if (i == 0)
            s->port = port;
    }
    if (open_sockets(s, runtime_dir, &err) < 0)
        return cli_error("serve", "%s", err.text);
    /* TCP requests need a key only if API keys exist and the configuration does not open TCP. */
    open =
        config->gateway.api_keys.n + keys.n == 0 || config->gateway.tcp_access == CONFIG_TCP_OPEN;
    fill_args(s, open);
    r = supervisor_new(s->dir, &sup, &err);
    for (size_t i = 0; i < N_SERVICES && r == 0; i++) {
        if (s->parts[i].program)
            r = supervisor_add(sup, &s->parts[i].service);
        if (r == 0 && s->programs[i].program)
            r = supervisor_add(sup, &s->programs[i].service);
    }
    if (r < 0)
        return cli_error("serve", "%s", err.text);
    serve_greet(s, config, open, models);
    sd_notify(0, "READY=1");
    if (supervisor_run(sup, &err) < 0)
        return cli_error("serve", "%s", err.text);
    return CLI_OK;
}

/* Reports an invalid device now; the chat service would report it only at the first request. */
static int check_device(const char *name)
{
    struct cli_device device;
    const int r = cli_open_device("serve", name, &device);

    if (r == CLI_OK)
        cli_device_done(&device);
    return r;
}

/* Adds the address of --port. Returns false if @text is no port. */
static bool take_port(struct serve *s, const char *text)
{
    char *address = s->ports[s->n_listen];
    uint64_t n;

    if (!cli_number(text, 65535, &n))
        return false;
    snprintf(address, sizeof(s->ports[0]), "127.0.0.1:%u", (unsigned)n);
    s->listen[s->n_listen++] = address;
    return true;
}

int verb_serve(int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},
        {"runtime-dir", required_argument, NULL, 'r'},
        {"ollama", no_argument, NULL, 'O'},
        {"port", required_argument, NULL, 'p'},
        {"model", required_argument, NULL, 'm'},
        {"draft", required_argument, NULL, 'f'},
        {"draft-kind", required_argument, NULL, 'G'},
        {"yes", no_argument, NULL, 'y'},
        CLI_DEVICE_OPTION,
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    _cleanup_(serve_done) struct serve s = {0};
    const char *runtime_dir = NULL;
    int c;

    while ((c = getopt_long(argc, argv, "l:yh", options, NULL)) >= 0) {
        if ((c == 'l' || c == 'p') && s.n_listen == SERVE_MAX_LISTEN)
            return cli_usage("serve", "addresses can be given at most %d times", SERVE_MAX_LISTEN);
        if (c == 'p' && !take_port(&s, optarg))
            return cli_usage("serve", "--port must be a number from 0 to 65535");
        if (c == 'l')
            s.listen[s.n_listen++] = optarg;
        if (c == 'r')
            runtime_dir = optarg;
        else if (c == 'O')
            s.ollama = true;
        else if (c == 'm')
            s.model = optarg;
        else if (c == 'f')
            s.draft = optarg;
        else if (c == 'G')
            s.draft_kind = optarg;
        else if (c == 'y')
            s.yes = true;
        else if (c == 'D')
            s.device = optarg;
        else if (c == 'h')
            return cli_help(help);
        else if (c != 'l' && c != 'p' && !cli_models_option(&s.models, c, optarg))
            return cli_usage("serve", "wrong option");
    }
    if (optind < argc)
        return cli_usage("serve", "unexpected argument \"%s\"", argv[optind]);
    if (s.draft_kind && !draft_kind_valid(s.draft_kind))
        return cli_usage("serve", "--draft-kind must be " DRAFT_KIND_RULE);
    if (s.device) {
        const int r = check_device(s.device);

        if (r != CLI_OK)
            return r;
    }
    if (s.n_listen == 0)
        s.listen[s.n_listen++] = "127.0.0.1:7266";
    if (s.ollama)
        s.listen[s.n_listen++] = SERVE_OLLAMA;
    return serve_run(&s, runtime_dir);
}
