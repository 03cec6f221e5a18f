/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the nouns of `sconce setup` share
 *
 * A noun is a function that gets its words (argv[0] is the noun) and returns an exit status. It
 * first checks, then changes files through `edits`, then asks the manager to take them in.
 */

#include "cli/cli.h"
#include "cli/machine/edits.h"
#include "cli/machine/places.h"

struct manager;

enum {
    SETUP_PORT = 7266, /* what sconce-gateway-tcp.socket says itself */
};

#define SETUP_TCP_SOCKET  "sconce-gateway-tcp.socket"
#define SETUP_UNIX_SOCKET "sconce-gateway.socket"
#define SETUP_GATEWAY     "sconce-gateway.service"
#define SETUP_CHAT        "sconce-chat.service"
#define SETUP_EMBED       "sconce-embed.service"
#define SETUP_AUDIO       "sconce-audio.service"
#define SETUP_TARGET      "sconce.target"

struct setup {
    struct places places;
    struct edits edits;
    struct manager *manager;
    bool off;        /* --off */
    bool no_start;   /* --no-start */
    unsigned port;   /* --port; 0: not given */
    unsigned rights; /* --rights, a set of enum right; 0: not given */
};

struct inf_err;

int setup_doors(struct setup *s, int argc, char **argv);
int setup_tcp(struct setup *s, int argc, char **argv);
int setup_key(struct setup *s, int argc, char **argv);
int setup_access(struct setup *s, int argc, char **argv);
int setup_gpu(struct setup *s, int argc, char **argv);
int setup_models(struct setup *s, int argc, char **argv);

/* Tells the error, with sudo where rights are what is missing; returns CLI_FAILED. */
int setup_failed(const struct setup *s, const struct inf_err *err);
/* Says that no systemd runs here and what takes the changes in. */
void setup_tell_offline(const struct setup *s);

/* The port of the TCP door as the drop-in says it. */
unsigned setup_port(const struct places *p);
/* Makes sure that nobody else has @port; tells who, and which is free. */
int setup_check_port(struct setup *s, unsigned port);
/* Writes the drop-in of the port (none for the unit's own) and enables the unit. */
int setup_write_tcp(struct setup *s, unsigned port, struct inf_err *reterr);
/* A key in the file that may infer, made when it has none; the caller frees it. NULL with dry_run
 * when it would be made. */
int setup_first_key(struct setup *s, char **ret_key, struct inf_err *reterr);
/* Starts the TCP socket, anew where it listens, and ends the service that holds the old one. */
int setup_restart_tcp(struct setup *s, struct inf_err *reterr);

/* gateway.tcp_access as `sconce setup` writes it. */
int setup_write_access(struct setup *s, bool open, struct inf_err *reterr);
/* Whether requests by TCP need no key: the effective configuration of this manager's gateway.
 * @ret_own: this manager's own files say so, not only those of the system. */
int setup_tcp_is_open(const struct setup *s, bool *ret_open, bool *ret_own, struct inf_err *reterr);
