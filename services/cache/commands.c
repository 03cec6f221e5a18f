/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the requests of the cache protocol, with one function for each type of request. */
#include <errno.h>
#include <string.h>

#include "cache/server.h"
#include "common/service/log.h"

/* Begins the answer with @status: a negative errno, or 0. */
static int answer_begin(struct session *session, const struct cache_head *head, int status,
                        uint32_t n)
{
    cache_begin(&session->server->out, &(struct cache_head){.version = CACHE_VERSION,
                                                            .type = head->type,
                                                            .answer = true,
                                                            .request = head->request,
                                                            .status = MIN(status, 0),
                                                            .n = n});
    return 0;
}

static struct store_origin origin_of(const struct cache_origin *origin)
{
    return (struct store_origin){origin->model, origin->codec, origin->tenant,
                                 origin->session[0] ? origin->session : NULL};
}

/* Returns the error for requests of engines while nothing is cached; 0: the requests are served. */
static int engine_refusal(const struct server *server)
{
    return !server->store || server->refusing ? -ENODEV : 0;
}

static int answer_hello(struct session *session, const struct cache_head *head,
                        struct cache_reader *body)
{
    const struct cache_hello ours = {
        .least = CACHE_VERSION, .most = CACHE_VERSION, .name = "sconce-cache"};
    struct cache_hello hello;
    bool common;

    if (head->n != 0 || cache_read_hello(body, &hello) < 0 || cache_read_end(body) < 0)
        return -EBADMSG;
    common = hello.least <= CACHE_VERSION && CACHE_VERSION <= hello.most;
    memcpy(session->name, hello.name, sizeof(session->name));
    session->greeted = true;
    answer_begin(session, head, common ? 0 : -EPROTONOSUPPORT, 0);
    cache_put_hello(&session->server->out, &ours);
    return common ? 0 : -EPROTONOSUPPORT;
}

static int answer_find(struct session *session, const struct cache_head *head,
                       struct cache_reader *body)
{
    struct server *server = session->server;
    struct store_place places[CACHE_MAX_NAMES];
    struct inf_tier_found found[CACHE_MAX_NAMES];
    const uint8_t(*names)[INF_TIER_NAME_BYTES];
    struct cache_origin origin;
    struct store_origin from;
    int r;

    if (cache_read_origin(body, &origin) < 0 || cache_read_names(body, head->n, &names) < 0 ||
        cache_read_end(body) < 0)
        return -EBADMSG;
    from = origin_of(&origin);
    r = engine_refusal(server);
    if (r == 0)
        r = store_find(server->store, &from, names, head->n, head->type == CACHE_GUESS, places);
    if (r < 0)
        return answer_begin(session, head, r, 0);
    for (int i = 0; i < r; i++)
        found[i] = (struct inf_tier_found){places[i].size, places[i].sum};
    answer_begin(session, head, 0, (uint32_t)r);
    cache_put_found(&server->out, found, (uint32_t)r);
    server_tend_soon(server);
    return 0;
}

/* Answers READ with a pipe, which has only the blocks that the client named. A descriptor of the
 * segment would also give the client the blocks of other clients. */
static int answer_read(struct session *session, const struct cache_head *head,
                       struct cache_reader *body)
{
    struct server *server = session->server;
    struct store_place places[CACHE_MAX_NAMES];
    const uint8_t(*names)[INF_TIER_NAME_BYTES];
    uint32_t n, n_found;
    int r;

    if (cache_read_count(body, &n) < 0 || n == 0 || n > head->n ||
        cache_read_names(body, head->n, &names) < 0 || cache_read_end(body) < 0)
        return -EBADMSG;
    r = engine_refusal(server);
    if (r == 0)
        r = store_locate(server->store, names, head->n, places);
    if (r == 0)
        r = -ENOENT;
    if (r > 0) {
        n_found = (uint32_t)r;
        n = MIN(n, n_found);
        r = stream_start(server->streams, server->store, session->id, names, places, n, n_found - n,
                         &server->out_fd);
    }
    return answer_begin(session, head, r, 0);
}

static int answer_put(struct session *session, const struct cache_head *head,
                      struct cache_reader *body)
{
    struct server *server = session->server;
    struct inf_tier_block blocks[CACHE_MAX_BLOCKS];
    struct cache_origin origin;
    uint32_t taken;
    int r;

    if (cache_read_origin(body, &origin) < 0 || cache_read_blocks(body, head->n, blocks) < 0 ||
        cache_read_end(body) < 0 || server->n_in_fds != 1)
        return -EBADMSG;
    r = engine_refusal(server);
    if (r == 0)
        r = put_start(session, &origin, server->in_fds[0], blocks, head->n);
    if (r > 0)
        server->in_fds[0] = -1;
    taken = r > 0 ? (uint32_t)r : 0;
    server->status.taken_blocks_total += taken;
    server->status.refused_blocks_total += head->n - taken;
    return answer_begin(session, head, r, taken);
}

static int answer_used(struct session *session, const struct cache_head *head,
                       struct cache_reader *body)
{
    struct server *server = session->server;
    const uint8_t(*names)[INF_TIER_NAME_BYTES];
    struct cache_origin origin;
    struct store_origin from;

    if (cache_read_origin(body, &origin) < 0 || cache_read_names(body, head->n, &names) < 0 ||
        cache_read_end(body) < 0)
        return -EBADMSG;
    from = origin_of(&origin);
    if (engine_refusal(server) == 0 && store_used(server->store, &from, names, head->n) >= 0)
        server_tend_soon(server);
    return 0;
}

static int answer_reject(struct session *session, const struct cache_head *head,
                         struct cache_reader *body)
{
    struct server *server = session->server;
    const uint8_t(*names)[INF_TIER_NAME_BYTES];

    if (cache_read_names(body, head->n, &names) < 0 || cache_read_end(body) < 0)
        return -EBADMSG;
    for (uint32_t i = 0; i < head->n && engine_refusal(server) == 0; i++)
        store_reject(server->store, names[i]);
    if (server_may_complain(server, SERVER_REJECTED))
        log_warn("%s says that %u of the blocks that it read differ from what was stored; they are "
                 "removed",
                 session->name, head->n);
    server_tend_soon(server);
    return 0;
}

static struct store_file file_of(const struct inf_tier_file *file)
{
    return (struct store_file){file->dev, file->ino, file->size, file->mtime_ns, file->ctime_ns};
}

static int answer_recall(struct session *session, const struct cache_head *head,
                         struct cache_reader *body)
{
    uint8_t digest[CACHE_DIGEST_SIZE];
    struct inf_tier_file file;
    struct store_file id;
    int r;

    if (head->n != 0 || cache_read_file(body, &file) < 0 || cache_read_end(body) < 0)
        return -EBADMSG;
    id = file_of(&file);
    r = engine_refusal(session->server);
    if (r == 0)
        r = store_recall(session->server->store, &id, digest);
    answer_begin(session, head, r, r > 0);
    if (r > 0)
        cache_put_digest(&session->server->out, digest);
    return 0;
}

static int answer_remember(struct session *session, const struct cache_head *head,
                           struct cache_reader *body)
{
    uint8_t digest[CACHE_DIGEST_SIZE];
    struct inf_tier_file file;
    struct store_file id;
    int r;

    if (head->n != 0 || cache_read_file(body, &file) < 0 || cache_read_digest(body, digest) < 0 ||
        cache_read_end(body) < 0)
        return -EBADMSG;
    id = file_of(&file);
    r = engine_refusal(session->server);
    if (r == 0)
        r = store_remember(session->server->store, &id, digest);
    server_tend_soon(session->server);
    return answer_begin(session, head, r, 0);
}

static int answer_status(struct session *session, const struct cache_head *head,
                         struct cache_reader *body)
{
    struct cache_status status;

    if (head->n != 0 || cache_read_end(body) < 0)
        return -EBADMSG;
    server_count(session->server, &status);
    answer_begin(session, head, 0, (uint32_t)cache_n_counters);
    cache_put_status(&session->server->out, &status);
    return 0;
}

static int answer_manage(struct session *session, const struct cache_head *head,
                         struct cache_reader *body)
{
    const struct server *server = session->server;

    if (head->n != 0 || cache_read_end(body) < 0 || server->n_in_fds != 1)
        return -EBADMSG;
    if (!server->store)
        return answer_begin(session, head, -ENODEV, 0);
    session->manages = store_is_lock(server->store, server->in_fds[0]);
    return answer_begin(session, head, session->manages ? 0 : -EPERM, 0);
}

/* Returns the error for a client that may not manage the cache; 0: the client may. */
static int manage_refusal(const struct session *session)
{
    return !session->server->store ? -ENODEV : session->manages ? 0 : -EPERM;
}

/* Struct page is the part of a list that fits into one answer. */
struct page {
    uint64_t skip;
    struct cache_row rows[CACHE_MAX_ROWS];
    uint32_t n;
    bool more;
};

static int page_add(void *data, const struct store_entry *entry)
{
    struct page *page = data;
    struct cache_row *row = &page->rows[page->n];

    if (page->skip > 0) {
        page->skip--;
        return 0;
    }
    if (page->n == CACHE_MAX_ROWS) {
        page->more = true;
        return -ECANCELED;
    }
    cache_text_set(row->origin.model, sizeof(row->origin.model), entry->model ? entry->model : "");
    cache_text_set(row->origin.codec, sizeof(row->origin.codec), entry->codec ? entry->codec : "");
    cache_text_set(row->origin.tenant, sizeof(row->origin.tenant),
                   entry->tenant ? entry->tenant : "");
    cache_text_set(row->origin.session, sizeof(row->origin.session),
                   entry->session ? entry->session : "");
    row->blocks = entry->blocks;
    row->bytes = entry->bytes;
    row->age = entry->age;
    page->n++;
    return 0;
}

static int answer_list(struct session *session, const struct cache_head *head,
                       struct cache_reader *body)
{
    static const enum store_kind kinds[CACHE_N_KINDS] = {[CACHE_MODELS] = STORE_MODELS,
                                                         [CACHE_TENANTS] = STORE_TENANTS,
                                                         [CACHE_SESSIONS] = STORE_SESSIONS};
    struct server *server = session->server;
    struct cache_step step;
    enum cache_kind kind;
    struct page page = {0};
    int r;

    if (head->n != 0 || cache_read_kind(body, &kind) < 0 || cache_read_step(body, &step) < 0 ||
        cache_read_end(body) < 0)
        return -EBADMSG;
    page.skip = step.cursor;
    r = manage_refusal(session);
    if (r == 0)
        r = store_list(server->store, kinds[kind], page_add, &page);
    if (r < 0 && !page.more)
        return answer_begin(session, head, r, 0);
    answer_begin(session, head, 0, page.n);
    step.cursor = page.more ? step.cursor + page.n : 0;
    cache_put_step(&server->out, &step);
    cache_put_rows(&server->out, page.rows, page.n);
    return 0;
}

/* In packets, the cursor 0 means the beginning in a request, and the end in an answer. A cursor in
 * a packet is therefore the store's cursor plus one. */
static struct store_cursor cursor_of(const struct cache_step *step)
{
    return (struct store_cursor){.at = step->cursor ? step->cursor - 1 : 0,
                                 .seen = step->seen,
                                 .blocks = step->blocks,
                                 .bytes = step->bytes,
                                 .total = step->total};
}

static int answer_step(struct session *session, const struct cache_head *head, int r,
                       const struct store_cursor *cursor)
{
    const struct cache_step step = {.cursor = r > 0 ? cursor->at + 1 : 0,
                                    .seen = cursor->seen,
                                    .blocks = cursor->blocks,
                                    .bytes = cursor->bytes,
                                    .total = cursor->total};

    answer_begin(session, head, r, 0);
    if (r >= 0)
        cache_put_step(&session->server->out, &step);
    server_tend_soon(session->server);
    return 0;
}

static int answer_purge(struct session *session, const struct cache_head *head,
                        struct cache_reader *body)
{
    struct server *server = session->server;
    struct cache_filter filter;
    struct store_cursor cursor;
    struct cache_step step;
    struct store_filter of;
    int r;

    if (head->n != 0 || cache_read_filter(body, &filter) < 0 || cache_read_step(body, &step) < 0 ||
        cache_read_end(body) < 0)
        return -EBADMSG;
    of = (struct store_filter){.model = filter.model[0] ? filter.model : NULL,
                               .tenant = filter.tenant[0] ? filter.tenant : NULL,
                               .session = filter.session[0] ? filter.session : NULL,
                               .older_than = filter.older_than};
    cursor = cursor_of(&step);
    r = manage_refusal(session);
    if (r == 0)
        r = store_purge(server->store, &of, &cursor);
    return answer_step(session, head, r, &cursor);
}

static int answer_verify(struct session *session, const struct cache_head *head,
                         struct cache_reader *body)
{
    struct server *server = session->server;
    struct store_cursor cursor;
    struct cache_step step;
    int r;

    if (head->n != 0 || cache_read_step(body, &step) < 0 || cache_read_end(body) < 0)
        return -EBADMSG;
    cursor = cursor_of(&step);
    r = manage_refusal(session);
    if (r == 0)
        r = store_verify(server->store, &cursor);
    return answer_step(session, head, r, &cursor);
}

int command_answer(struct session *session, const struct cache_head *head,
                   struct cache_reader *body)
{
    static int (*const answers[CACHE_N_TYPES])(struct session *, const struct cache_head *,
                                               struct cache_reader *) = {
        [CACHE_HELLO] = answer_hello,       [CACHE_FIND] = answer_find,
        [CACHE_PUT] = answer_put,           [CACHE_USED] = answer_used,
        [CACHE_REJECT] = answer_reject,     [CACHE_RECALL] = answer_recall,
        [CACHE_REMEMBER] = answer_remember, [CACHE_STATUS] = answer_status,
        [CACHE_LIST] = answer_list,         [CACHE_PURGE] = answer_purge,
        [CACHE_VERIFY] = answer_verify,     [CACHE_READ] = answer_read,
        [CACHE_MANAGE] = answer_manage,     [CACHE_GUESS] = answer_find,
    };

    if (head->answer || session->greeted == (head->type == CACHE_HELLO))
        return -EBADMSG;
    if (head->type != CACHE_PUT && head->type != CACHE_MANAGE && session->server->n_in_fds > 0)
        return -EBADMSG;
    /* A status request does not keep the service running. */
    if (head->type != CACHE_STATUS)
        service_touch(session->server->service);
    return answers[head->type](session, head, body);
}
