/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the command line of a service. Its options override the configuration.
 *
 * Services that open models also take directories of models (--models).
 */
#include "common/config/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/config/config.h"
#include "common/config/draft-kind.h"

#define OPTIONS_MAX_DIRS  32
#define OPTIONS_MAX_DRAIN 86400 /* seconds */

enum {
    OPTION_DEVICE = 256,
    OPTION_DRAFT,
    OPTION_DRAFT_KIND,
    OPTION_DRAIN,
    OPTION_TCP_ACCESS,
    OPTION_MODEL,
    OPTION_VERSION,
    OPTION_PROGRAM_SOCKET,
    OPTION_SOCKETS, /* the option --NAME-socket has this value plus the enum service_id of NAME */
    OPTIONS_MAX = N_SERVICES + 11,
};

/* The options of one service, for getopt_long(). */
struct options_known {
    struct option list[OPTIONS_MAX];
    size_t n;
    char socket_names[N_SERVICES][32]; /* "chat-socket" */
    char program_socket[32];           /* "fetch-socket" */
};

static void options_know(struct options_known *known, const char *name, int has_arg, int value)
{
    known->list[known->n++] = (struct option){name, has_arg, NULL, value};
}

static void options_know_service(struct options_known *known, const struct service_row *row)
{
    *known = (struct options_known){};
    options_know(known, "config", required_argument, 'c');
    options_know(known, "drain-timeout", required_argument, OPTION_DRAIN);
    options_know(known, "help", no_argument, 'h');
    options_know(known, "version", no_argument, OPTION_VERSION);
    if (row->options & SERVICE_OPTION_MODELS) {
        options_know(known, "models", required_argument, 'm');
        options_know(known, "model", required_argument, OPTION_MODEL);
    }
    if (row->options & SERVICE_OPTION_DEVICE)
        options_know(known, "device", required_argument, OPTION_DEVICE);
    if (row->options & SERVICE_OPTION_DRAFT) {
        options_know(known, "draft", required_argument, OPTION_DRAFT);
        options_know(known, "draft-kind", required_argument, OPTION_DRAFT_KIND);
    }
    if (row->options & SERVICE_OPTION_TCP_ACCESS)
        options_know(known, "tcp-access", required_argument, OPTION_TCP_ACCESS);
    if (row->starts) {
        snprintf(known->program_socket, sizeof(known->program_socket), "%s-socket", row->starts);
        options_know(known, known->program_socket, required_argument, OPTION_PROGRAM_SOCKET);
    }
    for (unsigned i = 0; i < N_SERVICES; i++) {
        if (!service_row_connects(row, i))
            continue;
        snprintf(known->socket_names[i], sizeof(known->socket_names[i]), "%s-socket",
                 service_rows[i].name);
        options_know(known, known->socket_names[i], required_argument, OPTION_SOCKETS + (int)i);
    }
}

static void options_help(const struct service_row *row)
{
    printf("Usage: %s [OPTION]...\n"
           "A service of sconce: it is started by its socket unit, or by `sconce serve`.\n\n"
           "  --config FILE         read only this file\n",
           row->program);
    if (row->options & SERVICE_OPTION_MODELS)
        printf("  --models DIR          look for models here first; may be given more than once\n"
               "  --model NAME          offer only this model\n");
    if (row->options & SERVICE_OPTION_DEVICE)
        printf("  --device NAME         instead of %s.device of the configuration\n", row->name);
    if (row->options & SERVICE_OPTION_DRAFT)
        printf("  --draft NAME          instead of speculative.model\n"
               "  --draft-kind KIND     instead of speculative.kind\n");
    for (unsigned i = 0; i < N_SERVICES; i++) {
        if (service_row_connects(row, i))
            printf("  --%s-socket PATH%*swhere the %s service listens\n", service_rows[i].name,
                   MAX(1, 8 - (int)strlen(service_rows[i].name)), "", service_rows[i].name);
    }
    if (row->starts)
        printf("  --%s-socket PATH   for each connection there, a sconce-%s is started\n",
               row->starts, row->starts);
    if (row->options & SERVICE_OPTION_TCP_ACCESS)
        printf("  --tcp-access KIND     key: requests over TCP must show a key; open: they need\n"
               "                        none\n");
    printf("  --drain-timeout SEC   how long running %s may take after SIGTERM (30)\n"
           "  -h, --help            this text\n"
           "  --version             the version\n",
           row->has_packets ? "writes" : "answers");
}

int options_set_wrong(struct options *options, const char *text)
{
    options_done(options);
    options->wrong = strdup(text);
    return options->wrong ? config_new(&options->config) : -ENOMEM;
}

/* Reads a number of seconds. False: @text is not a number, or the number is negative or too
 * large. */
static bool options_drain(const char *text, uint64_t *ret_usec)
{
    char *end;
    const double seconds = strtod(text, &end);

    /* NaN fails both comparisons. */
    if (end == text || *end || !(seconds >= 0 && seconds <= OPTIONS_MAX_DRAIN))
        return false;
    *ret_usec = (uint64_t)(seconds * 1e6);
    return true;
}

int options_read(const char *service, int argc, char **argv, struct options *ret_options)
{
    const struct service_row *row = service_row_find(service);
    struct options_known known;
    struct options o = {.drain_timeout_usec = 30 * 1000000u};
    const char *file = NULL, *device = NULL, *model = NULL, *tcp_access = NULL, *draft = NULL,
               *draft_kind = NULL, *dirs[OPTIONS_MAX_DIRS];
    struct inf_err err = {};
    size_t n_dirs = 0;
    int c;

    options_know_service(&known, row);
    while ((c = getopt_long(argc, argv, "h", known.list, NULL)) >= 0)
        switch (c) {
        case 'c':
            file = optarg;
            break;
        case 'm':
            if (n_dirs == OPTIONS_MAX_DIRS) {
                fprintf(stderr, "sconce-%s: too many --models\n", service);
                return 2;
            }
            dirs[n_dirs++] = optarg;
            break;
        case OPTION_DEVICE:
            device = optarg;
            break;
        case OPTION_DRAFT:
            draft = optarg;
            break;
        case OPTION_DRAFT_KIND:
            draft_kind = optarg;
            if (draft_kind_valid(optarg))
                break;
            fprintf(stderr, "sconce-%s: --draft-kind is " DRAFT_KIND_RULE "\n", service);
            return 2;
        case OPTION_MODEL:
            model = optarg;
            break;
        case OPTION_DRAIN:
            if (options_drain(optarg, &o.drain_timeout_usec))
                break;
            fprintf(stderr, "sconce-%s: --drain-timeout must be 0 to %d seconds, not \"%s\"\n",
                    service, OPTIONS_MAX_DRAIN, optarg);
            return 2;
        case OPTION_TCP_ACCESS:
            tcp_access = optarg;
            if (strcmp(optarg, "key") == 0 || strcmp(optarg, "open") == 0)
                break;
            fprintf(stderr, "sconce-%s: --tcp-access is \"key\" or \"open\"\n", service);
            return 2;
        case 'h':
            options_help(row);
            return 0;
        case OPTION_VERSION:
            printf("sconce-%s %s\n", service, SCONCE_VERSION);
            return 0;
        case OPTION_PROGRAM_SOCKET:
            o.program_socket = optarg;
            break;
        case OPTION_SOCKETS ... OPTION_SOCKETS + N_SERVICES - 1:
            o.sockets[c - OPTION_SOCKETS] = optarg;
            break;
        default:
            return 2;
        }
    if (optind < argc) {
        fprintf(stderr, "sconce-%s: unexpected argument \"%s\"\n", service, argv[optind]);
        return 2;
    }
    if (config_load(file, &o.config, &err) < 0 ||
        (strcmp(service, "gateway") == 0 && key_list_load(&o.keys, &err) < 0)) {
        if (sd_listen_fds(0) <= 0) {
            fprintf(stderr, "sconce-%s: %s\n", service, err.text);
            options_done(&o);
            return 78;
        }
        if (options_set_wrong(&o, err.text) < 0)
            return 1;
    }
    if (tcp_access)
        o.config->gateway.tcp_access =
            strcmp(tcp_access, "open") == 0 ? CONFIG_TCP_OPEN : CONFIG_TCP_KEY;
    if ((device && config_set_device(o.config, device) < 0) ||
        config_set_draft(o.config, draft, draft_kind) < 0 ||
        (model && config_set_only_model(o.config, model) < 0)) {
        options_done(&o);
        return 1;
    }
    o.has_models = n_dirs > 0;
    /* The first --models is searched first, so the directories are put to the front in reverse
     * order. */
    while (n_dirs > 0)
        if (config_add_model_dir(o.config, dirs[--n_dirs]) < 0) {
            options_done(&o);
            return 1;
        }
    *ret_options = o;
    return -1;
}

const char *options_socket(const struct options *options, const struct service_row *row)
{
    return options->sockets[row - service_rows];
}

void options_done(struct options *options)
{
    options->config = config_free(options->config);
    key_list_done(&options->keys);
    free(options->wrong);
    options->wrong = NULL;
}
