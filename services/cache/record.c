/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes records (the pages before blocks) and the first pages of segments (see
 * record.h). */
#include "cache/record.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAGIC      "sconceKV"
#define FILE_MAGIC "sconceSG"
#define NO_TEXT    UINT16_MAX

/* Struct page_head is the layout of a record's page. Numbers are little-endian. */
struct page_head {
    char magic[8];
    uint32_t version, length; /* length: number of valid bytes from the beginning of the page */
    uint64_t check;           /* XXH3-64 of the bytes after this field */
    uint8_t name[STORE_NAME_BYTES], parent[STORE_NAME_BYTES];
    uint64_t size, sum, at;
    uint32_t index;
    uint16_t lengths[RECORD_TEXTS];
    uint32_t zero;
};

#define CHECKED_FROM offsetof(struct page_head, name)

_Static_assert(sizeof(struct page_head) % 8 == 0, "no padding");
_Static_assert(sizeof(struct page_head) + (size_t)RECORD_TEXTS * STORE_TEXT_MAX <= STORE_PAGE,
               "a page has room for all texts");

uint64_t record_sum(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

int record_set_origin(struct record *r, const struct store_origin *origin)
{
    const char *texts[RECORD_TEXTS] = {origin->model, origin->codec, origin->tenant,
                                       origin->session};

    r->has_session = origin->session != NULL;
    for (int i = 0; i < RECORD_TEXTS; i++) {
        const char *text = texts[i] ? texts[i] : "";

        if (strlen(text) > STORE_TEXT_MAX)
            return -EINVAL;
        memcpy(r->texts[i], text, strlen(text) + 1);
    }
    return 0;
}

void record_origin(const struct record *r, struct store_origin *ret_origin)
{
    *ret_origin = (struct store_origin){
        .model = r->texts[RECORD_MODEL],
        .codec = r->texts[RECORD_CODEC],
        .tenant = r->texts[RECORD_TENANT],
        .session = r->has_session ? r->texts[RECORD_SESSION] : NULL,
    };
}

void record_encode(const struct record *r, uint8_t page[STORE_PAGE])
{
    struct page_head head = {
        .magic = MAGIC,
        .version = htole32(RECORD_FILE_VERSION),
        .size = htole64(r->size),
        .sum = htole64(r->sum),
        .at = htole64(r->at),
        .index = htole32(r->index),
    };
    size_t length = sizeof(head);

    memset(page, 0, STORE_PAGE);
    memcpy(head.name, r->name, sizeof(head.name));
    memcpy(head.parent, r->parent, sizeof(head.parent));
    for (int i = 0; i < RECORD_TEXTS; i++) {
        const size_t n = strlen(r->texts[i]);

        head.lengths[i] = htole16((uint16_t)n);
        memcpy(page + length, r->texts[i], n);
        length += n;
    }
    if (!r->has_session)
        head.lengths[RECORD_SESSION] = htole16(NO_TEXT);
    head.length = htole32((uint32_t)length);
    memcpy(page, &head, sizeof(head));
    head.check = htole64(record_sum(page + CHECKED_FROM, length - CHECKED_FROM));
    memcpy(page, &head, sizeof(head));
}

/* Reads the texts from @page, whose first @length bytes are valid. False: the texts are invalid. */
static bool decode_texts(const uint8_t *page, const struct page_head *head, size_t length,
                         struct record *r)
{
    size_t at = sizeof(*head);

    for (int i = 0; i < RECORD_TEXTS; i++) {
        size_t n = le16toh(head->lengths[i]);

        if (i == RECORD_SESSION) {
            r->has_session = n != NO_TEXT;
            n = r->has_session ? n : 0;
        }
        if (n > STORE_TEXT_MAX || n > length - at || memchr(page + at, 0, n))
            return false;
        memcpy(r->texts[i], page + at, n);
        r->texts[i][n] = 0;
        at += n;
    }
    return at == length;
}

bool record_decode(const uint8_t page[STORE_PAGE], struct record *ret_record)
{
    struct page_head head;
    struct record r = {0};
    size_t length;

    memcpy(&head, page, sizeof(head));
    length = le32toh(head.length);
    if (memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0 ||
        le32toh(head.version) != RECORD_FILE_VERSION || length < sizeof(head) ||
        length > STORE_PAGE)
        return false;
    if (le64toh(head.check) != record_sum(page + CHECKED_FROM, length - CHECKED_FROM))
        return false;
    r.size = le64toh(head.size);
    r.sum = le64toh(head.sum);
    r.at = le64toh(head.at);
    r.index = le32toh(head.index);
    if (r.size == 0 || r.size > STORE_BLOCK_MAX || !decode_texts(page, &head, length, &r))
        return false;
    memcpy(r.name, head.name, sizeof(r.name));
    memcpy(r.parent, head.parent, sizeof(r.parent));
    *ret_record = r;
    return true;
}

/* Struct file_head is the first page of a segment. The checksum covers the three fields before the
 * checksum. */
struct file_head {
    char magic[8];
    uint32_t version, number;
    uint64_t check;
};

void record_encode_file(uint32_t number, uint8_t page[STORE_PAGE])
{
    struct file_head head = {
        .magic = FILE_MAGIC,
        .version = htole32(RECORD_FILE_VERSION),
        .number = htole32(number),
    };

    head.check = htole64(record_sum(&head, offsetof(struct file_head, check)));
    memset(page, 0, STORE_PAGE);
    memcpy(page, &head, sizeof(head));
}

uint32_t record_file_version(const uint8_t page[STORE_PAGE])
{
    struct file_head head;

    memcpy(&head, page, sizeof(head));
    if (memcmp(head.magic, FILE_MAGIC, sizeof(head.magic)) != 0 ||
        le64toh(head.check) != record_sum(&head, offsetof(struct file_head, check)))
        return 0;
    return le32toh(head.version);
}
