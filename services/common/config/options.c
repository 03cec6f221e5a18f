/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of services: options override the configuration
 *
 * Services that open models also accept model directories.
 */
#include "common/config/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/config/config.h"

#define OPTIONS_MAX_DIRS 32

enum {
    OPTION_AUDIO_SOCKET = 256,
    OPTION_CACHE_SOCKET,
    OPTION_CHAT_SOCKET,
    OPTION_DEVICE,
    OPTION_DRAIN,
    OPTION_EMBED_SOCKET,
    OPTION_TCP_ACCESS,
    OPTION_VERSION,
};

static void options_help(const char *service)
{
    printf("Usage: sconce-%s [OPTION]...\n"
           "A service of sconce: it is started by its socket unit, or by `sconce serve`.\n\n"
           "  --config FILE         read only this file\n",
           service);
    if (strcmp(service, "gateway") == 0)
        printf("  --chat-socket PATH    where the chat service listens\n"
               "  --embed-socket PATH   where the embed service listens\n"
               "  --audio-socket PATH   where the audio service listens\n"
               "  --tcp-access KIND     key: requests over TCP must show a key; open: they need\n"
               "                        none\n");
    else if (strcmp(service, "chat") == 0)
        printf("  --models DIR          look for models here first; may be given more than once\n"
               "  --device NAME         instead of chat.device of the configuration\n"
               "  --cache-socket PATH   where the cache service listens\n");
    else if (strcmp(service, "embed") == 0 || strcmp(service, "audio") == 0)
        printf("  --models DIR          look for models here first; may be given more than once\n");
    printf("  --drain-timeout SEC   how long running %s may take after SIGTERM (30)\n"
           "  -h, --help            this text\n"
           "  --version             the version\n",
           strcmp(service, "cache") == 0 ? "writes" : "answers");
}

int options_set_wrong(struct options *options, const char *text)
{
    options_done(options);
    options->wrong = strdup(text);
    return options->wrong ? config_new(&options->config) : -ENOMEM;
}

int options_read(const char *service, int argc, char **argv, struct options *ret_options)
{
    static const struct option long_options[] = {
        {"config", required_argument, NULL, 'c'},
        {"models", required_argument, NULL, 'm'},
        {"audio-socket", required_argument, NULL, OPTION_AUDIO_SOCKET},
        {"cache-socket", required_argument, NULL, OPTION_CACHE_SOCKET},
        {"chat-socket", required_argument, NULL, OPTION_CHAT_SOCKET},
        {"device", required_argument, NULL, OPTION_DEVICE},
        {"drain-timeout", required_argument, NULL, OPTION_DRAIN},
        {"embed-socket", required_argument, NULL, OPTION_EMBED_SOCKET},
        {"tcp-access", required_argument, NULL, OPTION_TCP_ACCESS},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, OPTION_VERSION},
        {},
    };
    struct options o = {.drain_timeout_usec = 30 * 1000000u};
    const char *file = NULL, *device = NULL, *tcp_access = NULL, *dirs[OPTIONS_MAX_DIRS];
    struct inf_err err = {};
    size_t n_dirs = 0;
    char *end;
    int c;

    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0)
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
        case OPTION_CACHE_SOCKET:
            o.cache_socket = optarg;
            break;
        case OPTION_CHAT_SOCKET:
            o.chat_socket = optarg;
            break;
        case OPTION_DEVICE:
            device = optarg;
            break;
        case OPTION_AUDIO_SOCKET:
            o.audio_socket = optarg;
            break;
        case OPTION_EMBED_SOCKET:
            o.embed_socket = optarg;
            break;
        case OPTION_DRAIN:
            o.drain_timeout_usec = (uint64_t)(strtod(optarg, &end) * 1e6);
            if (*end || end == optarg || o.drain_timeout_usec > UINT64_C(86400000000)) {
                fprintf(stderr, "sconce-%s: --drain-timeout: not a number of seconds\n", service);
                return 2;
            }
            break;
        case OPTION_TCP_ACCESS:
            tcp_access = optarg;
            if (strcmp(optarg, "key") == 0 || strcmp(optarg, "open") == 0)
                break;
            fprintf(stderr, "sconce-%s: --tcp-access is \"key\" or \"open\"\n", service);
            return 2;
        case 'h':
            options_help(service);
            return 0;
        case OPTION_VERSION:
            printf("sconce-%s %s\n", service, SCONCE_VERSION);
            return 0;
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
    if (device && config_set_device(o.config, device) < 0) {
        options_done(&o);
        return 1;
    }
    /* The first one given is searched first, so they are inserted in reverse order. */
    while (n_dirs > 0)
        if (config_add_model_dir(o.config, dirs[--n_dirs]) < 0) {
            options_done(&o);
            return 1;
        }
    *ret_options = o;
    return -1;
}

void options_done(struct options *options)
{
    options->config = config_free(options->config);
    key_list_done(&options->keys);
    free(options->wrong);
    options->wrong = NULL;
}
