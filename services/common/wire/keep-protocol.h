/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the protocol between the chat service and the keep service.
 *
 * A connection carries packets (SOCK_SEQPACKET), because the chat service may connect to other
 * services only with sockets of this type. A question is one packet: a head, and the target of a
 * request to OpenAI's API (path and query). An answer is one packet with a head. A body is JSON in
 * a memfd, whose descriptor comes with the packet. Each side copies a body from the memfd before it
 * uses the body.
 */

#include "common/http/request-id.h"
#include "common/wire/tenant.h"
#include "core/str.h"

#define KEEP_VERSION    2
#define KEEP_MAX_TARGET 1024
#define KEEP_MAX_BODY   ((size_t)160 << 20)

/* The numbers of the service, with the help texts of their metrics. Names that end in _total count
 * since the process began. */
#define KEEP_NUMBERS(X)                                                                            \
    X(entries, "Kept responses and conversations.")                                                \
    X(bytes, "Bytes of kept entries.")                                                             \
    X(tenants, "API keys and users that have kept entries.")                                       \
    X(added_total, "Entries that were kept.")                                                      \
    X(found_total, "Requested entries that were found.")                                           \
    X(missed_total, "Requested entries that were not found.")                                      \
    X(expired_total, "Entries that expired.")                                                      \
    X(evicted_total, "Entries that were deleted to make room for newer entries of their owner.")   \
    X(refused_total, "Times that a limit left no room for an entry or an item.")

struct keep_numbers {
#define KEEP_FIELD(name, help) uint64_t name;
    KEEP_NUMBERS(KEEP_FIELD)
#undef KEEP_FIELD
};

/* The bytes of a packet, in the byte order of the machine. Texts end with NUL bytes. */
struct keep_head {
    char magic[4];
    uint32_t version;
    int32_t status; /* an answer has a status of HTTP; a question has 0 */
    uint32_t target_len;
    uint64_t body_len;
    struct keep_numbers numbers; /* an answer has these numbers; in a question they are 0 */
    char method[8];
    char tenant[TENANT_SIZE];
    char id[REQUEST_ID_SIZE]; /* id of the request, for logs */
};

struct keep_packet {
    struct keep_head head;
    char target[KEEP_MAX_TARGET];
    size_t len; /* bytes of head and target */
    int fd;     /* descriptor of the body; -1: none */
};

/* Makes a question. -ENAMETOOLONG: @target is too long. */
int keep_question_make(struct keep_packet *packet, const char *method, struct http_text target,
                       const char *tenant, const char *id);
void keep_answer_make(struct keep_packet *packet, int status);
/* Checks a packet that was received, whatever its bytes are. -EBADMSG, -EPROTONOSUPPORT. */
int keep_packet_check(const struct keep_packet *packet);

/* Makes packet->fd with a copy of @body; an empty body needs none. */
int keep_packet_add_body(struct keep_packet *packet, struct http_text body);
/* Appends the body to @out. -EBADMSG: the descriptor has fewer bytes, or @sealed is true and the
 * descriptor is not sealed memory. */
int keep_packet_read_body(const struct keep_packet *packet, bool sealed, struct str *out);
void keep_packet_done(struct keep_packet *packet);

/* @flags are MSG_ flags. -ECONNRESET: the other side left; -EBADMSG: the packet is too long. */
int keep_packet_send(const struct keep_packet *packet, int socket, int flags);
int keep_packet_receive(struct keep_packet *packet, int socket, int flags);
