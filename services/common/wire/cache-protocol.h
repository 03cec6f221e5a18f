/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines the protocol between sconce-cache and its clients.
 *
 * Both sides send packets over a SOCK_SEQPACKET connection. A packet is a head of 24 bytes and a
 * body, whose size follows from the type and the count in the head. All numbers are little-endian.
 * The client sends requests and the service answers with one packet each, in order; USED and REJECT
 * have no answer. The first request is HELLO. A service that does not speak the client's version
 * answers with the versions that it speaks, and closes the connection. After a malformed packet the
 * connection is closed without an answer.
 *
 * KV bytes never pass through the socket: PUT carries a sealed memfd, and the answer to READ
 * carries the read end of a pipe that delivers only the requested blocks.
 *
 * LIST, PURGE and VERIFY are for managers of the cache. They fail with -EPERM unless the client has
 * sent MANAGE before. A MANAGE request comes with a descriptor of the file `lock` in the cache's
 * directory, which must be open for reading and writing. A user who can open that file can also
 * read everything in the directory, so MANAGE gives no additional rights. No other service can open
 * that file.
 *
 * Texts are UTF-8 without control characters, padded with at least one NUL. Encoders check nothing,
 * because their input is trusted. Decoders check everything. They allocate nothing: results are in
 * the packet or in structs of the caller.
 */

#include <infer/tier.h>

#include "core/macros.h"

#define CACHE_MAGIC       UINT32_C(0x4b564353) /* "SCVK" */
#define CACHE_VERSION     3
#define CACHE_PACKET_MAX  24576
#define CACHE_MAX_NAMES   INF_TIER_MAX_NAMES
#define CACHE_MAX_BLOCKS  INF_TIER_MAX_BLOCKS
#define CACHE_MAX_ROWS    32
#define CACHE_DIGEST_SIZE 32

enum cache_type {
    CACHE_HELLO = 1,
    CACHE_FIND,
    CACHE_PUT,
    CACHE_USED,
    CACHE_REJECT,
    CACHE_RECALL,
    CACHE_REMEMBER,
    CACHE_STATUS,
    CACHE_LIST,
    CACHE_PURGE,
    CACHE_VERIFY,
    CACHE_READ,
    CACHE_MANAGE,
    CACHE_GUESS, /* like FIND, but names that are not found do not count as missed */
    CACHE_N_TYPES,
};

struct cache_packet {
    size_t len;
    uint8_t data[CACHE_PACKET_MAX];
};

struct cache_head {
    uint16_t version;
    uint16_t type;    /* enum cache_type */
    bool answer;      /* true: from the service */
    uint32_t request; /* number of the request; the answer has the same number */
    int32_t status;   /* result in an answer: 0 or a negative errno; 0 in a request */
    uint32_t n; /* number of names, blocks, digests, counters or rows in the body; in the answer to
                   PUT: number of blocks that were taken */
};

/* Struct cache_origin has the texts of struct inf_tier_origin; an empty text means that there is
 * none. */
struct cache_origin {
    char model[192], codec[64], tenant[64], session[128];
};

/* Struct cache_hello has the range of versions that the sender speaks, and the sender's name for
 * the service's log. */
struct cache_hello {
    uint32_t least, most;
    char name[64];
};

/* Counters of the service, in the order in which STATUS sends them. Newer versions of the service
 * append further counters. Counters whose names end in _total never decrease while the service
 * runs. */
#define CACHE_COUNTERS(X)                                                                          \
    X(blocks, "Stored blocks.")                                                                    \
    X(bytes, "Bytes of disk that stored blocks take.")                                             \
    X(max_bytes, "Limit of stored bytes; 0: only the file system limits them.")                    \
    X(free_bytes, "Free bytes of the file system.")                                                \
    X(index_bytes, "Bytes of the index on disk.")                                                  \
    X(segments, "Segment files.")                                                                  \
    X(clients, "Connections.")                                                                     \
    X(pending_blocks, "Blocks that wait to be written.")                                           \
    X(pending_bytes, "Bytes of blocks that wait to be written.")                                   \
    X(found_blocks_total, "Requested blocks that were found.")                                     \
    X(missed_blocks_total, "Requested blocks that were not found.")                                \
    X(found_bytes_total, "Bytes of blocks that were found.")                                       \
    X(taken_blocks_total, "Blocks that were accepted.")                                            \
    X(refused_blocks_total, "Blocks that were refused, for lack of space or time.")                \
    X(written_blocks_total, "Blocks that were written.")                                           \
    X(written_bytes_total, "Bytes of blocks that were written.")                                   \
    X(failed_blocks_total, "Accepted blocks that could not be written.")                           \
    X(evicted_blocks_total, "Blocks that were evicted to make room.")                              \
    X(evicted_bytes_total, "Bytes of blocks that were evicted to make room.")                      \
    X(rejected_blocks_total, "Blocks that were removed because they were damaged.")                \
    X(purged_blocks_total, "Blocks that were removed on request.")                                 \
    X(moved_bytes_total, "Bytes that were moved to free disk space.")                              \
    X(rebuilds_total, "Times that the index was rebuilt.")                                         \
    X(malformed_total, "Connections that were closed for malformed requests.")

struct cache_status {
#define CACHE_FIELD(name, help) uint64_t name;
    CACHE_COUNTERS(CACHE_FIELD)
#undef CACHE_FIELD
    char directory[512];
    char problem[256]; /* why nothing is cached; "": no problem */
};

/* Struct cache_counter has the name and the meaning of one counter of struct cache_status. */
struct cache_counter {
    const char *name, *help;
    size_t offset; /* in struct cache_status */
};
extern const struct cache_counter cache_counters[];
extern const size_t cache_n_counters;
static inline uint64_t *cache_counter_at(struct cache_status *status, size_t i)
{
    return (uint64_t *)(void *)((char *)status + cache_counters[i].offset);
}

/* The groups in which LIST counts blocks. */
enum cache_kind {
    CACHE_MODELS, /* pairs of a model and a codec */
    CACHE_TENANTS,
    CACHE_SESSIONS,
    CACHE_N_KINDS,
};

/* Struct cache_row counts the blocks of a model, a tenant or a session. The other texts of `origin`
 * are empty. */
struct cache_row {
    struct cache_origin origin;
    uint64_t blocks, bytes;
    uint64_t age; /* seconds since the last use */
};

/* Struct cache_filter says which blocks to remove. An empty text matches all blocks. */
struct cache_filter {
    char model[192], tenant[64], session[128];
    uint64_t older_than; /* seconds since the last use; 0: any */
};

/* LIST, PURGE and VERIFY run in steps. The first request has a zeroed struct cache_step, and each
 * further request has that of the previous answer. In the last answer `cursor` is 0. */
struct cache_step {
    uint64_t cursor;
    uint64_t seen;          /* blocks examined since the beginning */
    uint64_t blocks, bytes; /* removed blocks and their bytes */
    uint64_t total;         /* blocks to examine, approximately */
};

/* Begins a packet. The functions below append to it. */
void cache_begin(struct cache_packet *p, const struct cache_head *head);
void cache_put_hello(struct cache_packet *p, const struct cache_hello *hello);
void cache_put_origin(struct cache_packet *p, const struct cache_origin *origin);
void cache_put_kind(struct cache_packet *p, enum cache_kind kind);
void cache_put_names(struct cache_packet *p, const uint8_t (*names)[INF_TIER_NAME_BYTES],
                     uint32_t n);
void cache_put_blocks(struct cache_packet *p, const struct inf_tier_block *blocks, uint32_t n);
void cache_put_file(struct cache_packet *p, const struct inf_tier_file *file);
void cache_put_digest(struct cache_packet *p, const uint8_t digest[CACHE_DIGEST_SIZE]);
void cache_put_found(struct cache_packet *p, const struct inf_tier_found *found, uint32_t n);
void cache_put_count(struct cache_packet *p, uint32_t count);
void cache_put_status(struct cache_packet *p, const struct cache_status *status);
void cache_put_rows(struct cache_packet *p, const struct cache_row *rows, uint32_t n);
void cache_put_filter(struct cache_packet *p, const struct cache_filter *filter);
void cache_put_step(struct cache_packet *p, const struct cache_step *step);

/* Copies the texts of @from and truncates long ones. -ENAMETOOLONG: the tenant is too long. It is
 * not truncated, because it could then be the name of another tenant. */
int cache_origin_set(struct cache_origin *origin, const struct inf_tier_origin *from);
/* Copies a text into a field, without characters that the protocol does not allow. */
void cache_text_set(char *field, size_t size, const char *text);

/* Reads a packet from front to back. After the first error, all calls fail with -EBADMSG. */
struct cache_reader {
    const uint8_t *at, *end;
};

/* Reads the head; the functions below then read the body. -EPROTONOSUPPORT: the packet has another
 * version; *ret_head is set nevertheless, because the answer needs it. */
int cache_read_head(struct cache_reader *r, const uint8_t *data, size_t len,
                    struct cache_head *ret_head);
int cache_read_hello(struct cache_reader *r, struct cache_hello *ret_hello);
int cache_read_origin(struct cache_reader *r, struct cache_origin *ret_origin);
int cache_read_kind(struct cache_reader *r, enum cache_kind *ret_kind);
/* @ret_names [n] points into the packet. */
int cache_read_names(struct cache_reader *r, uint32_t n,
                     const uint8_t (**ret_names)[INF_TIER_NAME_BYTES]);
int cache_read_blocks(struct cache_reader *r, uint32_t n, struct inf_tier_block *ret_blocks);
int cache_read_file(struct cache_reader *r, struct inf_tier_file *ret_file);
int cache_read_digest(struct cache_reader *r, uint8_t ret_digest[CACHE_DIGEST_SIZE]);
int cache_read_found(struct cache_reader *r, uint32_t n, struct inf_tier_found *ret_found);
int cache_read_count(struct cache_reader *r, uint32_t *ret_count);
int cache_read_status(struct cache_reader *r, uint32_t n, struct cache_status *ret_status);
int cache_read_rows(struct cache_reader *r, uint32_t n, struct cache_row *ret_rows);
int cache_read_filter(struct cache_reader *r, struct cache_filter *ret_filter);
int cache_read_step(struct cache_reader *r, struct cache_step *ret_step);
/* Returns 0 if the whole packet was read. */
int cache_read_end(const struct cache_reader *r);
