/* SPDX-License-Identifier: Apache-2.0 */
/* Talks to the cache service (see cache-client.h). */
#include "common/wire/cache-client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/service/log.h"
#include "common/service/metrics.h"
#include "common/wire/cache-conn.h"
#include "core/clock.h"

#define CLIENT_REST_LEAST_USEC  (5 * UINT64_C(1000000))
#define CLIENT_REST_MOST_USEC   (60 * UINT64_C(1000000))
#define CLIENT_REST_ALIEN_USEC  (600 * UINT64_C(1000000))
#define CLIENT_STATUS_STEP_USEC (5 * UINT64_C(1000000))

struct cache_client {
    struct inf_tier tier;
    char *path, *name;
    uint64_t timeout_usec;
    struct cache_conn conn;
    uint64_t rest_usec;  /* pause after the next failure */
    uint64_t rest_until; /* no requests before this time */
    uint64_t status_usec;
};

/* The counters of all clients of this process. */
static struct {
    atomic_uint_fast64_t calls, failures, timeouts, connects, resting;
    atomic_uint_fast64_t found_blocks, found_bytes, missed_blocks, put_blocks, refused_blocks;
} counts;

static struct {
    pthread_mutex_t lock;
    bool known;
    struct cache_status status;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void counter_add(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static struct cache_client *client_of(struct inf_tier *tier)
{
    return CONTAINER_OF(tier, struct cache_client, tier);
}

/* Starts a pause after an error, and counts the error. */
static void client_pause(struct cache_client *c, int error)
{
    const bool alien = error == -EPROTONOSUPPORT;

    counter_add(&counts.failures, 1);
    if (error == -ETIMEDOUT)
        counter_add(&counts.timeouts, 1);
    if (c->rest_usec == CLIENT_REST_LEAST_USEC || alien)
        log_warn("the cache service: %s; prompts are computed without it",
                 alien                  ? "it speaks another version; restart the chat service"
                 : error == -ETIMEDOUT  ? "it does not answer"
                 : error == -ECONNRESET ? "it closes the connection"
                                        : strerror(-error));
    c->rest_until = clock_usec() + (alien ? CLIENT_REST_ALIEN_USEC : c->rest_usec);
    c->rest_usec = MIN(c->rest_usec * 2, CLIENT_REST_MOST_USEC);
}

static int client_connect(struct cache_client *c)
{
    if (c->conn.fd >= 0)
        return 0;
    counter_add(&counts.connects, 1);
    return cache_conn_open(&c->conn, c->path, c->name, c->timeout_usec);
}

/* Struct question has the parameters of a request. */
struct question {
    enum cache_type type;
    uint32_t n;
    int fd; /* descriptor to send with the request; -1: none */
    bool silent;
    const uint32_t *count;
    const struct cache_origin *origin;
    const uint8_t (*names)[INF_TIER_NAME_BYTES];
    const struct inf_tier_block *blocks;
    const struct inf_tier_file *file;
    const uint8_t *digest;
};

static void write_question(struct cache_conn *conn, const struct question *q)
{
    cache_conn_ask(conn, q->type, q->n);
    if (q->count)
        cache_put_count(&conn->packet, *q->count);
    if (q->origin)
        cache_put_origin(&conn->packet, q->origin);
    if (q->names)
        cache_put_names(&conn->packet, q->names, q->n);
    if (q->blocks)
        cache_put_blocks(&conn->packet, q->blocks, q->n);
    if (q->file)
        cache_put_file(&conn->packet, q->file);
    if (q->digest)
        cache_put_digest(&conn->packet, q->digest);
}

static int try_question(struct cache_client *c, const struct question *q)
{
    int r = client_connect(c);

    if (r < 0)
        return r;
    write_question(&c->conn, q);
    return q->silent ? cache_conn_send(&c->conn, q->fd) : cache_conn_call(&c->conn, q->fd);
}

/* Sends a request. On success returns 0, and c->conn has the answer unless @q is silent. */
static int client_ask(struct cache_client *c, const struct question *q)
{
    const bool kept = c->conn.fd >= 0;
    int r;

    if (clock_usec() < c->rest_until) {
        counter_add(&counts.resting, 1);
        return -EAGAIN;
    }
    counter_add(&counts.calls, 1);
    r = try_question(c, q);
    /* The service has exited, for example because it was idle. The next process answers. */
    if (r == -ECONNRESET && kept)
        r = try_question(c, q);
    if (r == 0 && !q->silent)
        r = c->conn.head.status;
    if (r < 0 && c->conn.fd < 0)
        client_pause(c, r);
    else
        c->rest_usec = CLIENT_REST_LEAST_USEC;
    return r;
}

static void ask_status(struct cache_client *c)
{
    const uint64_t now = clock_usec();
    struct cache_status status;

    if (now - c->status_usec < CLIENT_STATUS_STEP_USEC)
        return;
    c->status_usec = now;
    if (client_ask(c, &(struct question){.type = CACHE_STATUS, .fd = -1}) < 0 ||
        cache_read_status(&c->conn.body, c->conn.head.n, &status) < 0)
        return;
    pthread_mutex_lock(&last.lock);
    last.status = status;
    last.known = true;
    pthread_mutex_unlock(&last.lock);
}

/* Reads the answer to FIND. Returns the number of blocks that were found. */
static int read_found(struct cache_client *c, uint32_t n, struct inf_tier_found *ret_found)
{
    const uint32_t n_found = c->conn.head.n;

    if (n_found > n || cache_read_found(&c->conn.body, n_found, ret_found) < 0 ||
        cache_read_end(&c->conn.body) < 0)
        return -EBADMSG;
    for (uint32_t i = 0; i < n_found; i++)
        counter_add(&counts.found_bytes, ret_found[i].size);
    return (int)n_found;
}

static int client_find(struct inf_tier *t, const struct inf_tier_origin *o,
                       const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n,
                       struct inf_tier_found *ret_found)
{
    struct cache_client *c = client_of(t);
    struct cache_origin origin;
    int r = cache_origin_set(&origin, o);

    n = MIN(n, CACHE_MAX_NAMES);
    if (r == 0)
        r = client_ask(c, &(struct question){.type = o->is_guess ? CACHE_GUESS : CACHE_FIND,
                                             .n = n,
                                             .fd = -1,
                                             .origin = &origin,
                                             .names = names});
    if (r < 0)
        return r;
    r = read_found(c, n, ret_found);
    if (r < 0) {
        cache_conn_close(&c->conn);
        return r;
    }
    counter_add(&counts.found_blocks, (uint64_t)r);
    if (!o->is_guess)
        counter_add(&counts.missed_blocks, n - (uint64_t)r);
    ask_status(c);
    return r;
}

static int client_read(struct inf_tier *t, const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n,
                       uint32_t n_ahead, int *ret_fd)
{
    struct cache_client *c = client_of(t);
    int r = client_ask(
        c, &(struct question){
               .type = CACHE_READ, .n = n + n_ahead, .fd = -1, .count = &n, .names = names});

    if (r < 0)
        return r;
    /* The engine must never block when it reads from this pipe, because it may hold a lock. */
    if (cache_read_end(&c->conn.body) < 0 || c->conn.given < 0 ||
        !(fcntl(c->conn.given, F_GETFL) & O_NONBLOCK)) {
        cache_conn_close(&c->conn);
        return -EBADMSG;
    }
    *ret_fd = c->conn.given;
    c->conn.given = -1;
    return 0;
}

static int client_put(struct inf_tier *t, const struct inf_tier_origin *o, int fd,
                      const struct inf_tier_block *blocks, uint32_t n)
{
    struct cache_client *c = client_of(t);
    struct cache_origin origin;
    int r = cache_origin_set(&origin, o);

    n = MIN(n, CACHE_MAX_BLOCKS);
    if (r == 0)
        r = client_ask(
            c, &(struct question){
                   .type = CACHE_PUT, .n = n, .fd = fd, .origin = &origin, .blocks = blocks});
    if (r < 0) {
        counter_add(&counts.refused_blocks, n);
        return r;
    }
    r = (int)MIN(c->conn.head.n, n);
    counter_add(&counts.put_blocks, (uint64_t)r);
    counter_add(&counts.refused_blocks, n - (uint64_t)r);
    ask_status(c);
    return r;
}

static void client_used(struct inf_tier *t, const struct inf_tier_origin *o,
                        const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n)
{
    struct cache_client *c = client_of(t);
    struct cache_origin origin;

    if (cache_origin_set(&origin, o) == 0)
        client_ask(c, &(struct question){.type = CACHE_USED,
                                         .n = MIN(n, CACHE_MAX_NAMES),
                                         .fd = -1,
                                         .silent = true,
                                         .origin = &origin,
                                         .names = names});
}

static void client_reject(struct inf_tier *t, const uint8_t name[INF_TIER_NAME_BYTES])
{
    client_ask(client_of(t),
               &(struct question){.type = CACHE_REJECT,
                                  .n = 1,
                                  .fd = -1,
                                  .silent = true,
                                  .names = (const uint8_t(*)[INF_TIER_NAME_BYTES])name});
}

static int client_recall(struct inf_tier *t, const struct inf_tier_file *file,
                         uint8_t ret_digest[32])
{
    struct cache_client *c = client_of(t);
    const int r = client_ask(c, &(struct question){.type = CACHE_RECALL, .fd = -1, .file = file});

    if (r < 0 || c->conn.head.n == 0)
        return r;
    return cache_read_digest(&c->conn.body, ret_digest) < 0 ? -EBADMSG : 1;
}

static int client_remember(struct inf_tier *t, const struct inf_tier_file *file,
                           const uint8_t digest[32])
{
    return client_ask(
        client_of(t),
        &(struct question){.type = CACHE_REMEMBER, .fd = -1, .file = file, .digest = digest});
}

static const struct inf_tier_ops client_ops = {
    .find = client_find,
    .read = client_read,
    .put = client_put,
    .used = client_used,
    .reject = client_reject,
    .recall = client_recall,
    .remember = client_remember,
};

int cache_client_new(const char *path, const char *name, uint64_t timeout_usec,
                     struct inf_tier **ret_tier)
{
    struct cache_client *c = NEW(struct cache_client, 1);

    if (!c)
        return -ENOMEM;
    c->tier.ops = &client_ops;
    c->conn = (struct cache_conn)CACHE_CONN_INIT;
    c->path = strdup(path);
    c->name = strdup(name);
    c->timeout_usec = timeout_usec;
    c->rest_usec = CLIENT_REST_LEAST_USEC;
    if (!c->path || !c->name) {
        cache_client_free(&c->tier);
        return -ENOMEM;
    }
    *ret_tier = &c->tier;
    return 0;
}

struct inf_tier *cache_client_free(struct inf_tier *tier)
{
    struct cache_client *c = client_of(tier);

    if (!c)
        return NULL;
    cache_conn_close(&c->conn);
    free(c->path);
    free(c->name);
    free(c);
    return NULL;
}

bool cache_client_status(struct cache_status *ret_status)
{
    bool known;

    pthread_mutex_lock(&last.lock);
    known = last.known;
    *ret_status = last.status;
    pthread_mutex_unlock(&last.lock);
    return known;
}

void cache_client_metrics(struct str *out)
{
    const struct {
        const char *name, *help;
        atomic_uint_fast64_t *value;
    } rows[] = {
        {"calls", "Requests to the cache service.", &counts.calls},
        {"failures", "Requests that failed.", &counts.failures},
        {"timeouts", "Requests that timed out.", &counts.timeouts},
        {"connects", "Connection attempts.", &counts.connects},
        {"skipped_calls", "Requests that were skipped after a failure.", &counts.resting},
        {"found_blocks", "Requested blocks that the cache service had.", &counts.found_blocks},
        {"found_bytes", "Bytes of requested blocks that the cache service had.",
         &counts.found_bytes},
        {"missed_blocks", "Requested blocks that the cache service did not have.",
         &counts.missed_blocks},
        {"put_blocks", "Blocks that the cache service accepted.", &counts.put_blocks},
        {"refused_blocks", "Blocks that were not accepted.", &counts.refused_blocks},
    };
    struct cache_status status;
    char name[96];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        snprintf(name, sizeof(name), "sconce_chat_cache_%s_total", rows[i].name);
        metrics_counter(out, name, rows[i].help, NULL,
                        (double)atomic_load_explicit(rows[i].value, memory_order_relaxed));
    }
    if (!cache_client_status(&status))
        return;
    for (size_t i = 0; i < cache_n_counters; i++) {
        const size_t n = strlen(cache_counters[i].name);
        const bool total = n > 6 && strcmp(cache_counters[i].name + n - 6, "_total") == 0;

        snprintf(name, sizeof(name), "sconce_cache_%s", cache_counters[i].name);
        (total ? metrics_counter : metrics_gauge)(out, name, cache_counters[i].help, NULL,
                                                  (double)*cache_counter_at(&status, i));
    }
}
