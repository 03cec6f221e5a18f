/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares what the subcommands ("nouns") of `sconce setup` share.
 *
 * A noun is a function that receives its arguments (argv[0] is the noun) and returns an exit
 * status. It first checks everything, then changes files through `edits`, then makes systemd apply
 * the changes.
 */

#include "cli/cli.h"
#include "cli/machine/edits.h"
#include "cli/machine/places.h"

struct manager;

#define SETUP_TCP_SOCKET    "sconce-gateway-tcp.socket"
#define SETUP_OLLAMA_SOCKET "sconce-gateway-ollama.socket"
#define SETUP_UNIX_SOCKET   "sconce-gateway.socket"
#define SETUP_GATEWAY       "sconce-gateway.service"
#define SETUP_CHAT          "sconce-chat.service"
#define SETUP_TARGET        "sconce.target"

/* The gateway's TCP sockets, which are closed unless somebody opens them. */
enum { SETUP_TCP, SETUP_OLLAMA, SETUP_N_SOCKETS };
struct setup_socket {
    const char *noun; /* the subcommand that opens it, with its option */
    const char *unit;
    unsigned port; /* the port in the unit */
};
extern const struct setup_socket setup_sockets[SETUP_N_SOCKETS]; /* tcp.c */

struct setup {
    struct places places;
    struct edits edits;
    struct manager *manager;
    bool off;        /* --off */
    bool ollama;     /* --ollama */
    bool no_start;   /* --no-start */
    unsigned port;   /* --port; 0: not given */
    unsigned rights; /* --rights, a set of enum right; 0: not given */
};

struct inf_err;

int setup_tcp(struct setup *s, int argc, char **argv);
int setup_key(struct setup *s, int argc, char **argv);
int setup_access(struct setup *s, int argc, char **argv);
int setup_gpu(struct setup *s, int argc, char **argv);
int setup_models(struct setup *s, int argc, char **argv);

/* Prints the error, and suggests sudo if privileges are missing; returns CLI_FAILED. */
int setup_failed(const struct setup *s, const struct inf_err *err);
/* Prints that systemd does not run, and when the changes take effect. */
void setup_tell_offline(const struct setup *s);

/* Returns the port of a TCP socket: the port in the drop-in, or the default. */
unsigned setup_port(const struct places *p, const struct setup_socket *socket);
