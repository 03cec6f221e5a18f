/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce setup tcp, key, access: opens and closes the TCP sockets, adds API keys, and sets
 * who may send requests
 *
 * systemd refuses to start a socket whose service is running. If a socket is restarted while its
 * service runs, the service still holds the socket's port. Therefore the service is stopped in the
 * same transaction in which the socket is started. Meanwhile connections to the gateway's other
 * socket wait in its backlog.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/machine/api-keys.h"
#include "cli/machine/manager.h"
#include "cli/machine/ports.h"
#include "cli/setup/setup.h"
#include "cli/suite/http-get.h"
#include "common/config/config.h"
#include "common/config/key-file.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"

#define PORT_DROP_IN   "50-port.conf"
#define ACCESS_DROP_IN "50-access.conf"
#define ACCESS_FILE    "sconce.d/50-access.yaml"

enum {
    SETUP_MAX_TRIES = 10,
};

const struct setup_socket setup_sockets[SETUP_N_SOCKETS] = {
    [SETUP_TCP] = {"tcp", SETUP_TCP_SOCKET, 7266},
    [SETUP_OLLAMA] = {"tcp --ollama", SETUP_OLLAMA_SOCKET, 11434},
};

unsigned setup_port(const struct places *p, const struct setup_socket *socket)
{
    _cleanup_free_ char *path = places_drop_in(p, socket->unit, PORT_DROP_IN), *text = NULL;
    unsigned port, found = socket->port;
    size_t len;

    if (!path || file_read(path, 65536, &text, &len, NULL) < 0)
        return socket->port;
    for (const char *s = text; (s = strstr(s, "\nListenStream=127.0.0.1:")); s++)
        if (sscanf(s, "\nListenStream=127.0.0.1:%u", &port) == 1 && port > 0 && port < 65536)
            found = port;
    return found;
}

/* Checks that no other program uses @port; else prints the name of that program and the next free
 * port. */
static int setup_check_port(struct setup *s, const struct setup_socket *socket, unsigned port)
{
    struct port_owner owner;
    char who[200];
    unsigned other;

    if (manager_is_offline(s->manager) || s->no_start)
        return CLI_OK;
    if (port == setup_port(&s->places, socket) && manager_is_active(s->manager, socket->unit))
        return CLI_OK;
    if (port_next_free(port) == port)
        return CLI_OK;
    if (port < 1024 && s->places.user)
        return cli_error("setup", "only root can use port %u; choose a port above 1023 with --port",
                         port);
    if (port_find_owner("", port, &owner))
        port_describe(&owner, who, sizeof(who));
    else
        snprintf(who, sizeof(who), "another program");
    other = port_next_free(MAX(port + 1, 1024u));
    cli_error("setup", "port %u is taken by %s", port, who);
    if (other)
        fprintf(stderr, "The next free port: sconce setup %s %s --port %u\n", socket->noun,
                places_option(&s->places), other);
    return CLI_FAILED;
}

/* Writes the drop-in with the port (none for the default port) and enables the unit. */
static int setup_write_tcp(struct setup *s, const struct setup_socket *socket, unsigned port,
                           struct inf_err *reterr)
{
    _cleanup_free_ char *path = places_drop_in(&s->places, socket->unit, PORT_DROP_IN);
    char body[200];
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    snprintf(body, sizeof(body), "[Socket]\nListenStream=\nListenStream=127.0.0.1:%u\n", port);
    if (port == socket->port)
        r = edit_remove(&s->edits, path, reterr);
    else
        r = edit_generate(&s->edits, path, body, reterr);
    return r < 0 ? r : manager_enable(s->manager, socket->unit, reterr);
}

/* Finds a key with the right `infer` in the file, or creates one; the caller frees the key. With
 * dry_run no key is created, and *ret_key is then NULL. */
static int setup_first_key(struct setup *s, char **ret_key, struct inf_err *reterr)
{
    _cleanup_(key_list_done) struct key_list keys = {0};
    const struct access_key *first;
    char key[API_KEY_SIZE];
    int r;

    r = api_keys_load(s->places.key_file, &keys, reterr);
    if (r < 0)
        return r;
    first = key_list_find(&keys, RIGHT_INFER);
    if (first) {
        *ret_key = strdup(first->key);
        return *ret_key ? 0 : err_set(reterr, ENOMEM, "out of memory");
    }
    if (api_key_new(key) < 0)
        return err_set(reterr, EIO, "the kernel gives no random bytes");
    r = api_keys_add(&s->edits, s->places.key_file, key, NULL, RIGHT_INFER, reterr);
    if (r == 0 && !s->edits.dry_run)
        *ret_key = strdup(key);
    return r;
}

/* Starts or restarts a TCP socket, and stops the gateway, which holds the old socket. */
static int setup_restart_tcp(struct setup *s, const struct setup_socket *socket,
                             struct inf_err *reterr)
{
    const struct manager_job first[] = {{"StopUnit", socket->unit}};
    const struct manager_job then[] = {{"StopUnit", SETUP_GATEWAY}, {"StartUnit", socket->unit}};
    int r = 0;

    if (s->no_start)
        return 0;
    /* The socket is stopped first: otherwise its next client could start the gateway again before
     * systemd runs the jobs. */
    if (manager_is_active(s->manager, socket->unit))
        r = manager_run(s->manager, first, ARRAY_SIZE(first), reterr);
    if (r < 0)
        return r;
    /* The jobs are repeated if a client of the other socket starts the gateway between them. */
    for (int i = 0; i < SETUP_MAX_TRIES; i++) {
        r = manager_run(s->manager, then, ARRAY_SIZE(then), reterr);
        if (r != -EPROTO)
            return r;
    }
    return r;
}

/* Finds out whether TCP requests need no key, according to the effective configuration of this
 * manager's gateway. @ret_own: whether this manager's own files say so, and not only the system's
 * files. */
static int setup_tcp_is_open(const struct setup *s, bool *ret_open, bool *ret_own,
                             struct inf_err *reterr)
{
    _cleanup_(config_freep) struct config *all = NULL, *own = NULL;
    int r;

    if (config_new(&own) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    r = places_config(&s->places, &all, reterr);
    if (r == 0)
        r = config_apply_dir(own, s->places.config_dir, reterr);
    if (r < 0)
        return r;
    *ret_open = all->gateway.tcp_access == CONFIG_TCP_OPEN;
    *ret_own = own->gateway.tcp_access == CONFIG_TCP_OPEN;
    return 0;
}

/* Writes gateway.tcp_access to a configuration file. */
static int setup_write_access(struct setup *s, bool open, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(s->places.config_dir, ACCESS_FILE);

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    return edit_generate(&s->edits, path,
                         open ? "gateway:\n  tcp_access: open\n" : "gateway:\n  tcp_access: key\n",
                         reterr);
}

/* Tests that the port that was just opened answers, and that the gateway accepts the key. */
static int tcp_prove(const struct setup *s, unsigned port, const char *key)
{
    _cleanup_str_ struct str body = {0};
    struct inf_err err;
    char address[32];
    int status;

    if (manager_is_offline(s->manager) || s->no_start || s->edits.dry_run)
        return CLI_OK;
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    status = http_get(address, "/health", key, &body, &err);
    /* /health needs no key, but /metrics needs one. Status 403 also means that the key was
     * accepted, since the gateway checks rights after keys. */
    if (status == 200)
        status = http_get(address, "/metrics", key, &body, &err);
    if (status == 403)
        status = 200;
    if (status == 200 && key && http_get(address, "/metrics", NULL, &body, &err) != 401)
        return cli_error("setup",
                         "%s accepts requests without a key; `sconce doctor` looks for the "
                         "reason",
                         address);
    if (status == 200)
        return CLI_OK;
    if (status < 0)
        cli_error("setup", "the port does not answer: %s", err.text);
    else
        cli_error("setup", "the gateway answered with status %d: %.*s", status,
                  (int)MIN(body.len, 400u), body.data ? body.data : "");
    fputs("`sconce doctor` looks for the reason.\n", stderr);
    return CLI_FAILED;
}

static int close_tcp(struct setup *s, const struct setup_socket *socket)
{
    const struct manager_job stop[] = {{"StopUnit", SETUP_GATEWAY}, {"StopUnit", socket->unit}};
    struct inf_err err;
    int r;

    r = manager_disable(s->manager, socket->unit, &err);
    if (r >= 0)
        r = manager_reload(s->manager, &err);
    /* If the socket is active, sconce itself uses the port. The same is true if the socket has
     * failed, but a running gateway still holds the port. */
    if (r >= 0 && !s->no_start &&
        (manager_is_active(s->manager, socket->unit) ||
         manager_is_active(s->manager, SETUP_GATEWAY)))
        r = manager_run(s->manager, stop, ARRAY_SIZE(stop), &err);
    if (r < 0)
        return setup_failed(s, &err);
    return CLI_OK;
}

static int open_tcp(struct setup *s, const struct setup_socket *socket, unsigned port,
                    struct inf_err *reterr)
{
    static const struct manager_job target[] = {{"StartUnit", SETUP_TARGET}};
    const bool was_open = manager_is_active(s->manager, socket->unit);
    int r;

    r = setup_write_tcp(s, socket, port, reterr);
    if (r >= 0)
        r = manager_enable(s->manager, SETUP_TARGET, reterr);
    if (r < 0 || (s->edits.n_changes == 0 && was_open))
        return r;
    r = manager_reload(s->manager, reterr);
    if (r >= 0)
        r = setup_restart_tcp(s, socket, reterr);
    if (r >= 0 && !s->no_start && !manager_is_active(s->manager, SETUP_TARGET))
        r = manager_run(s->manager, target, ARRAY_SIZE(target), reterr);
    return r;
}

/* Opens or closes one of the TCP sockets. @ret_port: its port; 0: it is closed. */
static int setup_socket(struct setup *s, const struct setup_socket *socket, int argc, char **argv,
                        unsigned *ret_port)
{
    const unsigned port = s->port ? s->port : setup_port(&s->places, socket);
    _cleanup_free_ char *key = NULL;
    bool open = false, own = false;
    struct inf_err err;
    int r;

    if (argc > 1)
        return cli_usage("setup", "unexpected argument \"%s\"", argv[1]);
    *ret_port = 0;
    if (s->off)
        return close_tcp(s, socket);
    if (setup_check_port(s, socket, port) != CLI_OK)
        return CLI_FAILED;
    r = setup_tcp_is_open(s, &open, &own, &err);
    if (r >= 0 && (!open || !own))
        r = setup_first_key(s, &key, &err);
    /* If only the machine's files open TCP to everybody, the user's files require keys for the
     * user's TCP socket. */
    if (r >= 0 && s->places.user && !own)
        r = setup_write_access(s, false, &err);
    if (r >= 0)
        r = open_tcp(s, socket, port, &err);
    /* Another program may have taken the port meanwhile. */
    if (r == -EPROTO && setup_check_port(s, socket, port) != CLI_OK)
        return CLI_FAILED;
    if (r < 0)
        return setup_failed(s, &err);
    setup_tell_offline(s);
    if (tcp_prove(s, port, key) != CLI_OK)
        return CLI_FAILED;
    printf("Base URL  http://127.0.0.1:%u%s\n", port,
           socket == &setup_sockets[SETUP_TCP] ? "/v1" : "");
    if (open && own)
        puts("No key is required (gateway.tcp_access: open).");
    else if (key)
        printf("API key   %s\n", key);
    *ret_port = port;
    return CLI_OK;
}

int setup_tcp(struct setup *s, int argc, char **argv)
{
    unsigned port = 0;
    const int status =
        setup_socket(s, &setup_sockets[s->ollama ? SETUP_OLLAMA : SETUP_TCP], argc, argv, &port);

    if (status == CLI_OK && port && s->ollama)
        puts("Clients of Ollama that cannot send a key need `sconce setup access open`.");
    return status;
}

int setup_key(struct setup *s, int argc, char **argv)
{
    static const struct manager_job restart[] = {{"TryRestartUnit", SETUP_GATEWAY}};
    const char *name = argc > 1 ? argv[1] : NULL;
    _cleanup_(key_list_done) struct key_list keys = {0};
    char key[API_KEY_SIZE];
    struct inf_err err;
    int r;

    if (argc > 2)
        return cli_usage("setup", "unexpected argument \"%s\"", argv[2]);
    if (name && (!name[0] || name[0] == '#' || strpbrk(name, "\r\n") || name[0] == ' '))
        return cli_usage("setup", "a name must be one line that does not begin with # or a blank");
    r = api_keys_load(s->places.key_file, &keys, &err);
    if (r >= 0 && name && api_keys_has_name(&keys, name))
        return cli_error("setup", "%s already has a key named \"%s\"", s->places.key_file, name);
    if (r >= 0 && api_key_new(key) < 0)
        r = err_set(&err, EIO, "the kernel gives no random bytes");
    if (r >= 0)
        r = api_keys_add(&s->edits, s->places.key_file, key, name,
                         s->rights ? s->rights : RIGHT_INFER, &err);
    if (r >= 0 && !s->no_start)
        r = manager_run(s->manager, restart, ARRAY_SIZE(restart), &err);
    if (r < 0)
        return setup_failed(s, &err);
    if (!s->edits.dry_run)
        printf("API key   %s\n", key);
    return CLI_OK;
}

/* Writes the files for the access mode; the caller opens or closes TCP itself. */
static int write_access(struct setup *s, bool open, struct inf_err *reterr)
{
    _cleanup_free_ char *path = places_drop_in(&s->places, SETUP_UNIX_SOCKET, ACCESS_DROP_IN);
    int r = 0;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!s->places.user)
        r = open ? edit_generate(&s->edits, path, "[Socket]\nSocketMode=0666\n", reterr)
                 : edit_remove(&s->edits, path, reterr);
    if (r == 0)
        r = setup_write_access(s, open, reterr);
    return r;
}

/* Changes the mode of the existing socket file to the mode that SocketMode= gives the file when the
 * socket is next started. The socket is not restarted, because clients would be refused
 * meanwhile. */
static int change_mode(struct setup *s, bool open, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(s->places.socket_dir, "gateway.sock");
    struct stat st;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode) ||
        (st.st_mode & 07777) == (open ? 0666 : 0660))
        return 0;
    if (s->edits.dry_run)
        printf("would run: chmod %s %s\n", open ? "666" : "660", path);
    else if (chmod(path, open ? 0666 : 0660) < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    return 0;
}

static void tell_access(const struct setup *s, const char *mode)
{
    const unsigned port = setup_port(&s->places, &setup_sockets[SETUP_TCP]);

    if (strcmp(mode, "open") == 0) {
        printf("Every program of this machine may send requests: http://127.0.0.1:%u/v1", port);
        if (!s->places.user)
            printf(", unix:%s/gateway.sock", s->places.socket_dir);
        puts("\nTCP clients without a key share the prefix cache of prompts, so a client can\n"
             "find out whether another one sent the same prompt before. Requests with an API\n"
             "key share it only with requests that have the same key.");
        return;
    }
    if (!s->places.user)
        printf("Members of the group sconce may send requests: unix:%s/gateway.sock\n"
               "  (sudo usermod -aG sconce NAME adds a member)\n",
               s->places.socket_dir);
    if (strcmp(mode, "keys") == 0)
        printf("Clients with a key of %s may send requests: http://127.0.0.1:%u/v1\n",
               s->places.key_file, port);
    else
        puts("TCP is closed.");
}

/* Applies the changes to running units. A stopped target stays stopped, because the scripts of
 * packages call this function, and the administrator may want nothing to run. A TCP socket that
 * must be closed is stopped in any case, since it may have been started without the target. */
static int access_apply(struct setup *s, bool open, bool tcp, struct inf_err *reterr)
{
    static const struct manager_job restart[] = {{"TryRestartUnit", SETUP_GATEWAY}};
    static const struct manager_job stop[] = {{"StopUnit", SETUP_GATEWAY},
                                              {"StopUnit", SETUP_TCP_SOCKET},
                                              {"StopUnit", SETUP_OLLAMA_SOCKET}};
    const bool has_tcp = manager_is_active(s->manager, SETUP_TCP_SOCKET);
    const bool has_ollama = manager_is_active(s->manager, SETUP_OLLAMA_SOCKET);
    const bool wanted = manager_is_active(s->manager, SETUP_TARGET);
    int r;

    if (s->edits.n_changes == 0 && tcp == has_tcp && (tcp || !has_ollama))
        return 0;
    r = manager_reload(s->manager, reterr);
    if (r < 0 || s->no_start || manager_is_offline(s->manager))
        return r;
    if (!s->places.user)
        r = change_mode(s, open, reterr);
    if (r < 0)
        return r;
    if (!tcp && (has_tcp || has_ollama))
        return manager_run(s->manager, stop, ARRAY_SIZE(stop), reterr);
    if (tcp && !has_tcp && wanted)
        return setup_restart_tcp(s, &setup_sockets[SETUP_TCP], reterr);
    return wanted || manager_is_active(s->manager, SETUP_GATEWAY)
               ? manager_run(s->manager, restart, ARRAY_SIZE(restart), reterr)
               : 0;
}

int setup_access(struct setup *s, int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const bool open = strcmp(mode, "open") == 0, tcp = open || strcmp(mode, "keys") == 0;
    const struct setup_socket *socket = &setup_sockets[SETUP_TCP];
    const unsigned port = setup_port(&s->places, socket);
    _cleanup_free_ char *key = NULL;
    bool taken = false;
    struct inf_err err;
    int r;

    if (argc != 2 || (!tcp && strcmp(mode, "group") != 0))
        return cli_usage("setup", "access must be one of keys, open, group");
    r = write_access(s, open, &err);
    if (r >= 0 && tcp && !open)
        r = setup_first_key(s, &key, &err);
    /* If another program uses the port, all files are still written, and only TCP stays closed. */
    if (r >= 0 && tcp && manager_is_active(s->manager, SETUP_TARGET))
        taken = setup_check_port(s, socket, port) != CLI_OK;
    if (r >= 0 && tcp)
        r = setup_write_tcp(s, socket, port, &err);
    else if (r >= 0)
        r = manager_disable(s->manager, SETUP_TCP_SOCKET, &err);
    if (r >= 0 && !tcp && manager_is_enabled(&s->places, SETUP_OLLAMA_SOCKET))
        r = manager_disable(s->manager, SETUP_OLLAMA_SOCKET, &err);
    if (r >= 0)
        r = access_apply(s, open, tcp && !taken, &err);
    if (r < 0)
        return setup_failed(s, &err);
    setup_tell_offline(s);
    tell_access(s, taken ? "group" : mode);
    return taken ? CLI_FAILED : CLI_OK;
}
