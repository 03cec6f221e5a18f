/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What sconce-cache and its clients say to each other
 *
 * Packets of a SOCK_SEQPACKET connection: a head of 24 bytes, then a body whose size the type and
 * the count of the head determine. All numbers are little-endian. The client asks and the service
 * answers, one packet each, in order; USED and REJECT are not answered. The first request is HELLO.
 * A service that does not speak the client's version says which it speaks and closes; a packet that
 * is not well formed is answered by nothing but the end of the connection.
 *
 * KV bytes never pass the socket: PUT carries a sealed memfd, and the answer to READ carries the
 * reading end of a pipe, from which the blocks that were named come, and nothing else.
 *
 * LIST, PURGE and VERIFY are for who manages the cache: -EPERM, unless MANAGE came before with a
 * descriptor of the file `lock` in the cache's directory, open for reading and writing. Who can
 * open that can read everything there, so that this gives nobody more than he has. No service can.
 *
 * Texts are UTF-8 without control characters, filled up with NULs, of which there is one at least.
 * Encoders check nothing: what they are given is ours. Decoders check everything, and allocate
 * nothing: what they return points into the packet or into structs of the caller.
 */

#include <infer/tier.h>

#include "core/macros.h"

#define CACHE_MAGIC       UINT32_C(0x4b564353) /* "SCVK" */
#define CACHE_VERSION     2
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
    CACHE_N_TYPES,
};

struct cache_packet {
    size_t len;
    uint8_t data[CACHE_PACKET_MAX];
};

struct cache_head {
    uint16_t version;
    uint16_t type;    /* enum cache_type */
    bool answer;      /* the service says it */
    uint32_t request; /* its number, repeated by the answer */
    int32_t status;   /* of an answer: 0 or a negative errno; of a request: 0 */
    uint32_t n;       /* names, blocks, places, rows: what the body holds */
};

/* The texts of struct inf_tier_origin; an empty one stands for none. */
struct cache_origin {
    char model[192], codec[64], tenant[64], session[128];
};

/* Versions that the sender speaks, both included; what it is, for the service's log. */
struct cache_hello {
    uint32_t least, most;
    char name[64];
};

/* What the service counts, in the order of the wire; a newer service says more at the end. Names
 * that end in _total only grow, until the service ends. */
#define CACHE_COUNTERS(X)                                                                          \
    X(blocks, "Blocks that are kept.")                                                             \
    X(bytes, "Bytes of disk that kept blocks take.")                                               \
    X(max_bytes, "The most bytes that may be kept; 0: no limit but the file system's.")            \
    X(free_bytes, "Free bytes of the file system.")                                                \
    X(index_bytes, "Bytes of the index on disk.")                                                  \
    X(segments, "Segment files.")                                                                  \
    X(clients, "Connections.")                                                                     \
    X(pending_blocks, "Blocks that wait to be written.")                                           \
    X(pending_bytes, "Bytes of blocks that wait to be written.")                                   \
    X(found_blocks_total, "Blocks that were asked for and found.")                                 \
    X(missed_blocks_total, "Blocks that were asked for and not found.")                            \
    X(found_bytes_total, "Bytes of blocks that were found.")                                       \
    X(taken_blocks_total, "Blocks that were taken in.")                                            \
    X(refused_blocks_total, "Blocks that were not taken in, for want of space or of time.")        \
    X(written_blocks_total, "Blocks that were written.")                                           \
    X(written_bytes_total, "Bytes of blocks that were written.")                                   \
    X(failed_blocks_total, "Blocks that were taken in and could not be written.")                  \
    X(evicted_blocks_total, "Blocks that made room for others.")                                   \
    X(evicted_bytes_total, "Bytes of blocks that made room for others.")                           \
    X(rejected_blocks_total, "Blocks that were not what had been put, and were removed.")          \
    X(purged_blocks_total, "Blocks that were removed because somebody asked.")                     \
    X(moved_bytes_total, "Bytes that were moved to give disk space back.")                         \
    X(rebuilds_total, "How often the index was made again.")                                       \
    X(malformed_total, "Connections that were ended because of what they sent.")

struct cache_status {
#define CACHE_FIELD(name, help) uint64_t name;
    CACHE_COUNTERS(CACHE_FIELD)
#undef CACHE_FIELD
    char directory[512];
    char problem[256]; /* why nothing is kept; "": all is well */
};

/* The counters of @status by number; their names and meanings. */
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

/* By what LIST adds up. */
enum cache_kind {
    CACHE_MODELS, /* and codecs */
    CACHE_TENANTS,
    CACHE_SESSIONS,
    CACHE_N_KINDS,
};

/* Blocks of a model, a tenant or a session; the other texts are empty. */
struct cache_row {
    struct cache_origin origin;
    uint64_t blocks, bytes;
    uint64_t age; /* seconds since the last use */
};

/* Which blocks to remove; empty texts stand for any. */
struct cache_filter {
    char model[192], tenant[64], session[128];
    uint64_t older_than; /* seconds since the last use; 0: any */
};

/* LIST, PURGE and VERIFY go step by step: a request has the step of the answer before, or zeros to
 * begin; @cursor of an answer is 0 at the end. */
struct cache_step {
    uint64_t cursor;
    uint64_t seen;          /* blocks that were looked at, from the beginning on */
    uint64_t blocks, bytes; /* those of them that were removed */
    uint64_t total;         /* blocks to look at, about */
};

/* Begins a packet: later calls append to it. */
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

/* Fills in the texts of @origin; those that are too long lose their ends. -ENAMETOOLONG: the tenant
 * is, who must not become another one. */
int cache_origin_set(struct cache_origin *origin, const struct inf_tier_origin *from);
/* Copies a text into a field, without what the wire does not take. */
void cache_text_set(char *field, size_t size, const char *text);

/* Reads a packet front to back. After the first thing that is wrong all calls fail; -EBADMSG. */
struct cache_reader {
    const uint8_t *at, *end;
};

/* The head; -EPROTONOSUPPORT: another version than ours, whose head is read all the same, for the
 * answer. The rest is the body. */
int cache_read_head(struct cache_reader *r, const uint8_t *data, size_t len,
                    struct cache_head *ret_head);
int cache_read_hello(struct cache_reader *r, struct cache_hello *ret_hello);
int cache_read_origin(struct cache_reader *r, struct cache_origin *ret_origin);
int cache_read_kind(struct cache_reader *r, enum cache_kind *ret_kind);
/* @ret_names [n]: in the packet. */
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
/* Whether all was read. */
int cache_read_end(const struct cache_reader *r);
