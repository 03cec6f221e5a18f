/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce setup: sets up the sockets of one service manager, and what its services may access
 *
 * A command writes files (drop-ins, keys, one configuration file) and sends requests to systemd.
 * Running a command a second time changes nothing more, except that `setup key` adds another key.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/machine/gpu-nodes.h"
#include "cli/machine/manager.h"
#include "cli/setup/setup.h"
#include "common/config/config.h"
#include "common/config/rights.h"
#include "core/file.h"

static const char help[] =
    "Usage: sconce setup [--user|--system] [OPTION]... [WHAT]\n"
    "Sets up sconce under systemd, for you or for the machine.\n\n"
    "  (nothing)                   enables the unix socket, now and at each login or boot\n"
    "  tcp [--port N] [--off]      enables TCP on 127.0.0.1 (port 7266) with an API key, and "
    "prints it\n"
    "  tcp --ollama [OPTION]...    the same for port 11434, where programs look for Ollama\n"
    "  key [NAME] [--rights LIST]  adds an API key and prints it; LIST: infer (the default), "
    "manage,\n"
    "                              observe, separated by commas\n"
    "  access keys|open|group      who may send requests. group: the group sconce; keys: also\n"
    "                              clients with a key, by TCP; open: every program of the machine\n"
    "  gpu [--off]                 gives the chat service access to this machine's GPUs\n"
    "  models [DIR]...             adds model directories, and gives the services access to all\n"
    "                              configured ones\n\n"
    "  --user, --system            your services, or the machine's (the default for root)\n"
    "  --dry-run                   print what would be written and called, and change nothing\n"
    "  --no-start                  change files, but start nothing\n"
    "  --root DIR                  change the system in DIR instead of this one\n";

static const struct {
    const char *name;
    int (*run)(struct setup *s, int argc, char **argv);
} nouns[] = {
    {"tcp", setup_tcp}, {"key", setup_key},       {"access", setup_access},
    {"gpu", setup_gpu}, {"models", setup_models},
};

int setup_failed(const struct setup *s, const struct inf_err *err)
{
    const bool rights =
        err->code == -EACCES || err->code == -EPERM || err->code == EACCES || err->code == EPERM;

    if (rights && !s->places.user && geteuid() != 0)
        return cli_error("setup",
                         "%s; only root can set up the machine's services: "
                         "sudo sconce setup --system …",
                         err->text);
    return cli_error("setup", "%s", err->text);
}

void setup_tell_offline(const struct setup *s)
{
    if (!manager_is_offline(s->manager) || s->places.root[0])
        return;
    if (!s->places.user)
        puts("systemd does not run here: the files take effect when it starts.");
    else if (!s->places.socket_dir)
        puts("Your systemd cannot be found, because XDG_RUNTIME_DIR is not set: the files take "
             "effect\n"
             "at your next login by console or ssh.");
    else
        puts("Your systemd does not run: the files take effect when it starts, or\n"
             "`sconce serve` starts the services in the foreground.");
}

static void tell_linger(const struct setup *s)
{
    const char *name = getenv("USER");
    char path[512];

    if (!s->places.user || !name || geteuid() == 0)
        return;
    snprintf(path, sizeof(path), "/var/lib/systemd/linger/%s", name);
    if (!path_exists(path))
        puts("Your services stop when you log out; `loginctl enable-linger` keeps them running.");
}

/* Returns whether the unix socket requires a key. Only the configuration sets this; no subcommand
 * does. */
static bool needs_key(const struct setup *s)
{
    _cleanup_(config_freep) struct config *config = NULL;
    struct inf_err err;

    return places_config(&s->places, &config, &err) == 0 &&
           config->gateway.unix_access == CONFIG_UNIX_KEY;
}

/* Returns the option, after a blank, that another command needs to select the same services. */
static const char *option_text(const struct setup *s)
{
    if (s->places.user == (geteuid() != 0))
        return "";
    return s->places.user ? " --user" : " --system";
}

/* Prints how to give the services access to a GPU, if they have none. */
static void tell_gpu(const struct setup *s)
{
    _cleanup_free_ char *path = places_drop_in(&s->places, SETUP_CHAT, "50-gpu.conf");
    struct gpu_node nodes[GPU_MAX_NODES];

    if (s->places.root[0] || !path || path_exists(path) || gpu_nodes_find("", nodes) == 0)
        return;
    printf("The services have no access to %s; `sconce setup gpu%s` gives it to them.\n",
           nodes[0].path, option_text(s));
}

static int setup_doors(struct setup *s, int argc __attribute__((unused)),
                       char **argv __attribute__((unused)))
{
    static const struct manager_job start[] = {{"StartUnit", SETUP_TARGET}};
    struct inf_err err;
    int r;

    r = manager_enable(s->manager, SETUP_TARGET, &err);
    if (r >= 0)
        r = manager_reload(s->manager, &err);
    if (r >= 0 && !s->no_start)
        r = manager_run(s->manager, start, ARRAY_SIZE(start), &err);
    if (r < 0)
        return setup_failed(s, &err);
    setup_tell_offline(s);
    if (s->places.socket_dir)
        printf("Unix socket  unix:%s/gateway.sock   %s%s\n", s->places.socket_dir,
               s->places.user ? "only for you"
                              : "for members of the group sconce (usermod -aG sconce NAME)",
               needs_key(s) ? ", with an API key" : "");
    if (manager_is_enabled(&s->places, SETUP_TCP_SOCKET))
        printf("TCP          http://127.0.0.1:%u/v1\n",
               setup_port(&s->places, &setup_sockets[SETUP_TCP]));
    else
        printf("TCP is disabled; `sconce setup tcp%s` enables it with an API key.\n",
               option_text(s));
    if (manager_is_enabled(&s->places, SETUP_OLLAMA_SOCKET))
        printf("Ollama       http://127.0.0.1:%u\n",
               setup_port(&s->places, &setup_sockets[SETUP_OLLAMA]));
    tell_gpu(s);
    tell_linger(s);
    return CLI_OK;
}

/* Returns true if root runs with the home directory of another user. Root would follow links of
 * that user there, and leave files that the user cannot change. */
static bool is_home_of_another(const char *home)
{
    struct stat st;

    return geteuid() == 0 && home && stat(home, &st) == 0 && st.st_uid != 0;
}

/* Runs the subcommand argv[0]; returns an exit status. */
static int run_noun(struct setup *s, int argc, char **argv)
{
    struct inf_err err;
    int status;

    if (manager_open(&s->places, &s->edits, &s->manager, &err) < 0)
        return setup_failed(s, &err);
    if (argc == 0) {
        status = setup_doors(s, argc, argv);
        manager_close(s->manager);
        return status;
    }
    status = -1;
    for (size_t i = 0; i < ARRAY_SIZE(nouns); i++)
        if (strcmp(argv[0], nouns[i].name) == 0)
            status = nouns[i].run(s, argc, argv);
    manager_close(s->manager);
    return status >= 0 ? status : cli_usage("setup", "there is no subcommand \"%s\"", argv[0]);
}

int verb_setup(int argc, char **argv)
{
    static const struct option options[] = {
        {"user", no_argument, NULL, 'u'},
        {"system", no_argument, NULL, 's'},
        {"dry-run", no_argument, NULL, 'n'},
        {"no-start", no_argument, NULL, 'S'},
        {"root", required_argument, NULL, 'r'},
        {"port", required_argument, NULL, 'p'},
        {"rights", required_argument, NULL, 'R'},
        {"off", no_argument, NULL, 'o'},
        {"ollama", no_argument, NULL, 'O'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct setup s = {0};
    bool user = geteuid() != 0;
    const char *root = NULL;
    struct inf_err err;
    uint64_t port;
    int c, status;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'u' || c == 's')
            user = c == 'u';
        else if (c == 'n')
            s.edits.dry_run = true;
        else if (c == 'S')
            s.no_start = true;
        else if (c == 'r')
            root = optarg;
        else if (c == 'o')
            s.off = true;
        else if (c == 'O')
            s.ollama = true;
        else if (c == 'p' && (!cli_number(optarg, 65535, &port) || port == 0))
            return cli_usage("setup", "--port: \"%s\" is not a port", optarg);
        else if (c == 'p')
            s.port = (unsigned)port;
        else if (c == 'R' && rights_parse(optarg, strlen(optarg), &s.rights) < 0)
            return cli_usage("setup", "--rights takes a list separated by commas: " RIGHTS_LIST);
        else if (c == 'R')
            continue;
        else if (c == 'h')
            return cli_help(help);
        else
            return cli_usage("setup", "wrong option");
    }
    if (s.rights && (optind == argc || strcmp(argv[optind], "key") != 0))
        return cli_usage("setup", "--rights is only for `sconce setup key`");
    if (s.ollama && (optind == argc || strcmp(argv[optind], "tcp") != 0))
        return cli_usage("setup", "--ollama is only for `sconce setup tcp`");
    if (root && user)
        return cli_usage("setup", "--root is only for --system");
    if (user &&
        (is_home_of_another(getenv("HOME")) || is_home_of_another(getenv("XDG_CONFIG_HOME"))))
        return cli_error(
            "setup",
            "the home directory belongs to another user: run this as that user, without sudo");
    if (places_init(user, root, &s.places, &err) < 0)
        return setup_failed(&s, &err);
    status = run_noun(&s, argc - optind, argv + optind);
    places_done(&s.places);
    return status;
}
