/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The archive holds what the service keeps for clients: responses and conversations, and their
 * items, in an SQLite database in memory or in a file
 *
 * An entry is a response or a conversation, and belongs to one tenant. Only the pair of tenant and
 * id finds an entry. An entry is deleted when nobody used it for the time `expiry`, when its owner
 * deletes it, or when its owner needs its room; entries of one tenant never give way to entries of
 * another. Deleted text is overwritten in the file. Texts are JSON, but the archive does not read
 * them.
 *
 * Times are seconds since 1970. Functions that change the archive belong between archive_begin()
 * and archive_commit() or archive_rollback(). Errors are negative errno values; -EUCLEAN: the file
 * is damaged.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "core/str.h"

/* Positive results. */
enum {
    ARCHIVE_ABSENT = 1, /* the tenant has no such entry or item */
    ARCHIVE_FULL,       /* a limit leaves no room */
};

enum archive_kind { ARCHIVE_RESPONSE, ARCHIVE_CONVERSATION };

struct archive_limits {
    int64_t expiry_sec;
    uint64_t max_bytes;       /* of the entries of one tenant */
    uint64_t max_total_bytes; /* of all entries */
};

struct archive_entry {
    int64_t key; /* in the database */
    enum archive_kind kind;
    int64_t created;
    struct str text;     /* of a response: the object; of a conversation: its metadata */
    struct str previous; /* id of the response before it; "": none */
};

struct archive_item {
    const char *id;
    const char *text;
    size_t len;
    bool is_output; /* of a response: the model wrote it */
};

/* Which items to list, and in which order. */
struct archive_page {
    bool descending;
    bool inputs_only;
    const char *after; /* id of the item after which the list begins; NULL: at the first one */
    size_t limit;
};

struct archive_numbers {
    uint64_t n_entries, n_bytes;
};

struct archive;

/* Opens or creates the file @path; NULL: memory. */
int archive_open(const char *path, const struct archive_limits *limits,
                 struct archive **ret_archive, struct inf_err *reterr);
struct archive *archive_free(struct archive *a);
DEFINE_CLEANUP(struct archive *, archive_free);

/* Begins a change at the time @now, and deletes what has expired. */
int archive_begin(struct archive *a, int64_t now);
int archive_commit(struct archive *a);
void archive_rollback(struct archive *a);

/* Makes an entry. @previous may be NULL. *ret_key is its key. ARCHIVE_FULL. */
int archive_add(struct archive *a, const char *tenant, enum archive_kind kind, const char *id,
                const char *previous, struct str text, int64_t *ret_key);
/* Replaces the text of an entry. ARCHIVE_FULL. */
int archive_replace(struct archive *a, const char *tenant, int64_t key, struct str text);
/* Appends an item to an entry. ARCHIVE_FULL. */
int archive_add_item(struct archive *a, const char *tenant, int64_t key,
                     const struct archive_item *item);
/* Finds an entry; the caller frees it with archive_entry_done(). ARCHIVE_ABSENT. */
int archive_find(struct archive *a, const char *tenant, enum archive_kind kind, const char *id,
                 struct archive_entry *ret_entry);
void archive_entry_done(struct archive_entry *entry);
/* Notes that an entry was used: its time begins anew. */
int archive_touch(struct archive *a, int64_t key);
/* Deletes an entry and its items. */
int archive_delete(struct archive *a, int64_t key);
/* Calls @each for items of an entry until it returns nonzero, which becomes the result. @each may
 * be called once more than page->limit, so that it sees whether there are further items.
 * ARCHIVE_ABSENT: there is no item page->after. */
int archive_list(struct archive *a, int64_t key, const struct archive_page *page,
                 int (*each)(void *data, const struct archive_item *item), void *data);
/* Finds the text of an item in the entry @key, or, if @key is 0, in any entry of the tenant.
 * ARCHIVE_ABSENT. */
int archive_find_item(struct archive *a, const char *tenant, int64_t key, const char *id,
                      struct str *out);
/* Deletes an item of an entry. ARCHIVE_ABSENT. */
int archive_delete_item(struct archive *a, int64_t key, const char *id);

int archive_numbers(struct archive *a, struct archive_numbers *ret_numbers);
/* *ret_time: when the next entry expires; 0: there is no entry. */
int archive_next_expiry(struct archive *a, int64_t *ret_time);
