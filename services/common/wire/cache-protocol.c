/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes packets of the cache service (see cache-protocol.h).
 *
 * Encoders append to a packet. A packet is large enough for the largest request and the largest
 * answer, which put_bytes() asserts. Decoders read from front to back. A decoder that fails moves
 * the reader to the end of the packet, so all later decoders fail too.
 */
#include "common/wire/cache-protocol.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "core/utf8.h"

#define CACHE_ANSWER 0x8000u

#define CACHE_ROW(name, help) {#name, help, offsetof(struct cache_status, name)},
const struct cache_counter cache_counters[] = {CACHE_COUNTERS(CACHE_ROW)};
#undef CACHE_ROW
const size_t cache_n_counters = ARRAY_SIZE(cache_counters);

static void put_bytes(struct cache_packet *p, const void *data, size_t len)
{
    assert(len <= sizeof(p->data) - p->len);
    memcpy(p->data + p->len, data, len);
    p->len += len;
}

static void put_u16(struct cache_packet *p, uint16_t value)
{
    value = htole16(value);
    put_bytes(p, &value, sizeof(value));
}

static void put_u32(struct cache_packet *p, uint32_t value)
{
    value = htole32(value);
    put_bytes(p, &value, sizeof(value));
}

static void put_u64(struct cache_packet *p, uint64_t value)
{
    value = htole64(value);
    put_bytes(p, &value, sizeof(value));
}

void cache_begin(struct cache_packet *p, const struct cache_head *head)
{
    p->len = 0;
    put_u32(p, CACHE_MAGIC);
    put_u16(p, head->version);
    put_u16(p, (uint16_t)(head->type | (head->answer ? CACHE_ANSWER : 0)));
    put_u32(p, head->request);
    put_u32(p, (uint32_t)head->status);
    put_u32(p, head->n);
    put_u32(p, 0);
}

void cache_put_hello(struct cache_packet *p, const struct cache_hello *hello)
{
    put_u32(p, hello->least);
    put_u32(p, hello->most);
    put_bytes(p, hello->name, sizeof(hello->name));
}

void cache_put_origin(struct cache_packet *p, const struct cache_origin *origin)
{
    put_bytes(p, origin->model, sizeof(origin->model));
    put_bytes(p, origin->codec, sizeof(origin->codec));
    put_bytes(p, origin->tenant, sizeof(origin->tenant));
    put_bytes(p, origin->session, sizeof(origin->session));
}

void cache_put_kind(struct cache_packet *p, enum cache_kind kind)
{
    put_u64(p, kind);
}

void cache_put_names(struct cache_packet *p, const uint8_t (*names)[INF_TIER_NAME_BYTES],
                     uint32_t n)
{
    put_bytes(p, names, (size_t)n * INF_TIER_NAME_BYTES);
}

void cache_put_blocks(struct cache_packet *p, const struct inf_tier_block *blocks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        put_bytes(p, blocks[i].name, sizeof(blocks[i].name));
        put_bytes(p, blocks[i].parent, sizeof(blocks[i].parent));
        put_u64(p, blocks[i].index);
        put_u64(p, blocks[i].offset);
        put_u64(p, blocks[i].size);
        put_u64(p, blocks[i].sum);
    }
}

void cache_put_file(struct cache_packet *p, const struct inf_tier_file *file)
{
    put_u64(p, file->dev);
    put_u64(p, file->ino);
    put_u64(p, file->size);
    put_u64(p, (uint64_t)file->mtime_ns);
    put_u64(p, (uint64_t)file->ctime_ns);
}

void cache_put_digest(struct cache_packet *p, const uint8_t digest[CACHE_DIGEST_SIZE])
{
    put_bytes(p, digest, CACHE_DIGEST_SIZE);
}

void cache_put_found(struct cache_packet *p, const struct inf_tier_found *found, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        put_u64(p, found[i].size);
        put_u64(p, found[i].sum);
    }
}

void cache_put_count(struct cache_packet *p, uint32_t count)
{
    put_u32(p, count);
}

void cache_put_status(struct cache_packet *p, const struct cache_status *status)
{
    struct cache_status copy = *status;

    for (size_t i = 0; i < cache_n_counters; i++)
        put_u64(p, *cache_counter_at(&copy, i));
    put_bytes(p, status->directory, sizeof(status->directory));
    put_bytes(p, status->problem, sizeof(status->problem));
}

void cache_put_rows(struct cache_packet *p, const struct cache_row *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        cache_put_origin(p, &rows[i].origin);
        put_u64(p, rows[i].blocks);
        put_u64(p, rows[i].bytes);
        put_u64(p, rows[i].age);
    }
}

void cache_put_filter(struct cache_packet *p, const struct cache_filter *filter)
{
    put_bytes(p, filter->model, sizeof(filter->model));
    put_bytes(p, filter->tenant, sizeof(filter->tenant));
    put_bytes(p, filter->session, sizeof(filter->session));
    put_u64(p, filter->older_than);
}

void cache_put_step(struct cache_packet *p, const struct cache_step *step)
{
    put_u64(p, step->cursor);
    put_u64(p, step->seen);
    put_u64(p, step->blocks);
    put_u64(p, step->bytes);
    put_u64(p, step->total);
}

void cache_text_set(char *field, size_t size, const char *text)
{
    const size_t len = strlen(text);
    size_t n = MIN(len, size - 1);

    memset(field, 0, size);
    n = utf8_valid_prefix(text, n);
    for (size_t i = 0; i < n; i++)
        field[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
}

int cache_origin_set(struct cache_origin *origin, const struct inf_tier_origin *from)
{
    if (strlen(from->tenant) >= sizeof(origin->tenant))
        return -ENAMETOOLONG;
    cache_text_set(origin->model, sizeof(origin->model), from->model);
    cache_text_set(origin->codec, sizeof(origin->codec), from->codec);
    cache_text_set(origin->tenant, sizeof(origin->tenant), from->tenant);
    cache_text_set(origin->session, sizeof(origin->session), from->session ? from->session : "");
    return 0;
}

/* Returns the next @len bytes; NULL: there are fewer. */
static const uint8_t *read_take(struct cache_reader *r, size_t len)
{
    const uint8_t *at = r->at;

    if ((size_t)(r->end - r->at) < len) {
        r->at = r->end = NULL;
        return NULL;
    }
    r->at += len;
    return at;
}

static bool read_bytes(struct cache_reader *r, void *out, size_t len)
{
    const uint8_t *at = read_take(r, len);

    if (at)
        memcpy(out, at, len);
    return at != NULL;
}

static bool read_u16(struct cache_reader *r, uint16_t *ret)
{
    uint16_t value;

    if (!read_bytes(r, &value, sizeof(value)))
        return false;
    *ret = le16toh(value);
    return true;
}

static bool read_u32(struct cache_reader *r, uint32_t *ret)
{
    uint32_t value;

    if (!read_bytes(r, &value, sizeof(value)))
        return false;
    *ret = le32toh(value);
    return true;
}

static bool read_u64(struct cache_reader *r, uint64_t *ret)
{
    uint64_t value;

    if (!read_bytes(r, &value, sizeof(value)))
        return false;
    *ret = le64toh(value);
    return true;
}

/* Reads a number that has 64 bits in the packet and 32 bits in memory. */
static bool read_small(struct cache_reader *r, uint32_t *ret)
{
    uint64_t value;

    if (!read_u64(r, &value) || value > UINT32_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool read_text(struct cache_reader *r, char *out, size_t size)
{
    const uint8_t *at = read_take(r, size);
    size_t len;

    if (!at)
        return false;
    len = strnlen((const char *)at, size);
    if (len == size || !utf8_valid((const char *)at, len))
        return false;
    for (size_t i = 0; i < size; i++)
        if (i < len ? at[i] < ' ' || at[i] == 0x7f : at[i] != 0)
            return false;
    memcpy(out, at, size);
    return true;
}

int cache_read_head(struct cache_reader *r, const uint8_t *data, size_t len,
                    struct cache_head *ret_head)
{
    struct cache_head head = {0};
    uint32_t magic = 0, status = 0, zero = 0;
    uint16_t type = 0;

    *r = (struct cache_reader){data, data + len};
    if (!read_u32(r, &magic) || magic != CACHE_MAGIC || !read_u16(r, &head.version) ||
        !read_u16(r, &type) || !read_u32(r, &head.request) || !read_u32(r, &status) ||
        !read_u32(r, &head.n) || !read_u32(r, &zero))
        return -EBADMSG;
    head.answer = type & CACHE_ANSWER;
    head.type = (uint16_t)(type & ~CACHE_ANSWER);
    head.status = (int32_t)status;
    if (head.version != CACHE_VERSION) {
        *ret_head = head;
        return -EPROTONOSUPPORT;
    }
    if (zero != 0 || head.type == 0 || head.type >= CACHE_N_TYPES || head.status > 0 ||
        head.status < -4095 || (!head.answer && head.status != 0))
        return -EBADMSG;
    *ret_head = head;
    return 0;
}

int cache_read_hello(struct cache_reader *r, struct cache_hello *ret_hello)
{
    struct cache_hello hello;

    if (!read_u32(r, &hello.least) || !read_u32(r, &hello.most) || hello.least > hello.most ||
        !read_text(r, hello.name, sizeof(hello.name)))
        return -EBADMSG;
    *ret_hello = hello;
    return 0;
}

int cache_read_origin(struct cache_reader *r, struct cache_origin *ret_origin)
{
    if (!read_text(r, ret_origin->model, sizeof(ret_origin->model)) ||
        !read_text(r, ret_origin->codec, sizeof(ret_origin->codec)) ||
        !read_text(r, ret_origin->tenant, sizeof(ret_origin->tenant)) ||
        !read_text(r, ret_origin->session, sizeof(ret_origin->session)))
        return -EBADMSG;
    return 0;
}

int cache_read_kind(struct cache_reader *r, enum cache_kind *ret_kind)
{
    uint64_t value;

    if (!read_u64(r, &value) || value >= CACHE_N_KINDS)
        return -EBADMSG;
    *ret_kind = (enum cache_kind)value;
    return 0;
}

int cache_read_names(struct cache_reader *r, uint32_t n,
                     const uint8_t (**ret_names)[INF_TIER_NAME_BYTES])
{
    const uint8_t *at;

    if (n > CACHE_MAX_NAMES || !(at = read_take(r, (size_t)n * INF_TIER_NAME_BYTES)))
        return -EBADMSG;
    *ret_names = (const uint8_t(*)[INF_TIER_NAME_BYTES])at;
    return 0;
}

int cache_read_blocks(struct cache_reader *r, uint32_t n, struct inf_tier_block *ret_blocks)
{
    if (n > CACHE_MAX_BLOCKS)
        return -EBADMSG;
    for (uint32_t i = 0; i < n; i++) {
        struct inf_tier_block *b = &ret_blocks[i];
        uint64_t end;

        if (!read_bytes(r, b->name, sizeof(b->name)) ||
            !read_bytes(r, b->parent, sizeof(b->parent)) || !read_small(r, &b->index) ||
            !read_u64(r, &b->offset) || !read_u64(r, &b->size) || !read_u64(r, &b->sum))
            return -EBADMSG;
        if (b->size == 0 || !size_add(b->offset, b->size, &end) || end > INT64_MAX)
            return -EBADMSG;
    }
    return 0;
}

int cache_read_file(struct cache_reader *r, struct inf_tier_file *ret_file)
{
    uint64_t mtime, ctime;

    if (!read_u64(r, &ret_file->dev) || !read_u64(r, &ret_file->ino) ||
        !read_u64(r, &ret_file->size) || !read_u64(r, &mtime) || !read_u64(r, &ctime))
        return -EBADMSG;
    ret_file->mtime_ns = (int64_t)mtime;
    ret_file->ctime_ns = (int64_t)ctime;
    return 0;
}

int cache_read_digest(struct cache_reader *r, uint8_t ret_digest[CACHE_DIGEST_SIZE])
{
    return read_bytes(r, ret_digest, CACHE_DIGEST_SIZE) ? 0 : -EBADMSG;
}

int cache_read_found(struct cache_reader *r, uint32_t n, struct inf_tier_found *ret_found)
{
    if (n > CACHE_MAX_NAMES)
        return -EBADMSG;
    for (uint32_t i = 0; i < n; i++)
        if (!read_u64(r, &ret_found[i].size) || !read_u64(r, &ret_found[i].sum) ||
            ret_found[i].size == 0 || ret_found[i].size > INT64_MAX)
            return -EBADMSG;
    return 0;
}

int cache_read_count(struct cache_reader *r, uint32_t *ret_count)
{
    return read_u32(r, ret_count) ? 0 : -EBADMSG;
}

int cache_read_status(struct cache_reader *r, uint32_t n, struct cache_status *ret_status)
{
    struct cache_status status = {0};
    uint64_t value;

    if (n > CACHE_PACKET_MAX / sizeof(value))
        return -EBADMSG;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_u64(r, &value))
            return -EBADMSG;
        if (i < cache_n_counters)
            *cache_counter_at(&status, i) = value;
    }
    if (!read_text(r, status.directory, sizeof(status.directory)) ||
        !read_text(r, status.problem, sizeof(status.problem)))
        return -EBADMSG;
    *ret_status = status;
    return 0;
}

int cache_read_rows(struct cache_reader *r, uint32_t n, struct cache_row *ret_rows)
{
    if (n > CACHE_MAX_ROWS)
        return -EBADMSG;
    for (uint32_t i = 0; i < n; i++)
        if (cache_read_origin(r, &ret_rows[i].origin) < 0 || !read_u64(r, &ret_rows[i].blocks) ||
            !read_u64(r, &ret_rows[i].bytes) || !read_u64(r, &ret_rows[i].age))
            return -EBADMSG;
    return 0;
}

int cache_read_filter(struct cache_reader *r, struct cache_filter *ret_filter)
{
    if (!read_text(r, ret_filter->model, sizeof(ret_filter->model)) ||
        !read_text(r, ret_filter->tenant, sizeof(ret_filter->tenant)) ||
        !read_text(r, ret_filter->session, sizeof(ret_filter->session)) ||
        !read_u64(r, &ret_filter->older_than))
        return -EBADMSG;
    return 0;
}

int cache_read_step(struct cache_reader *r, struct cache_step *ret_step)
{
    if (!read_u64(r, &ret_step->cursor) || !read_u64(r, &ret_step->seen) ||
        !read_u64(r, &ret_step->blocks) || !read_u64(r, &ret_step->bytes) ||
        !read_u64(r, &ret_step->total))
        return -EBADMSG;
    return 0;
}

int cache_read_end(const struct cache_reader *r)
{
    return r->at && r->at == r->end ? 0 : -EBADMSG;
}
