/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The archive holds the responses and conversations that the service keeps for clients, and their
 * items, in an SQLite database in memory or in a file.
 *
 * An entry is a response or a conversation, and belongs to one tenant (an API key or a user). To
 * find an entry, both its tenant and its id are needed. An entry is deleted when it was not used
 * for the time expiry_sec, when its tenant deletes it, or to make room for other data of its
 * tenant. Entries of one tenant are never deleted to make room for another tenant. Deleted text is
 * overwritten in the file. Texts are JSON, but the archive does not read them.
 *
 * Times are seconds since 1970. Functions that change the archive belong between archive_begin()
 * and archive_commit() or archive_rollback(). Functions return 0, a negative errno value (-EUCLEAN:
 * the file is damaged), or one of the positive results that their comments name.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "core/str.h"

/* The positive results of functions. */
enum {
    ARCHIVE_ABSENT = 1, /* the tenant has no such entry or item */
    ARCHIVE_FULL,       /* a limit leaves no room */
};

enum archive_kind { ARCHIVE_RESPONSE, ARCHIVE_CONVERSATION };

struct archive_limits {
    int64_t expiry_sec;
    uint64_t max_bytes;       /* limit for all entries of one tenant */
    uint64_t max_total_bytes; /* limit for all entries */
};

struct archive_entry {
    int64_t key; /* the key in the database */
    enum archive_kind kind;
    int64_t created;
    struct str text;     /* the object of a response, or the metadata of a conversation; JSON */
    struct str previous; /* id of the response before it; "": none */
};

struct archive_item {
    const char *id;
    const char *text;
    size_t len;
    bool is_output; /* the model wrote the item */
};

/* Selects the items of a list, and their order. */
struct archive_page {
    bool descending;
    bool inputs_only;
    const char *after; /* id of the item after which the list begins; NULL: the list begins with the
                          first item */
    size_t limit;
};

/* The members from n_added on count since the archive was opened. A change that was rolled back
 * adds to n_found, n_missed and n_refused only. */
struct archive_numbers {
    uint64_t n_entries, n_bytes;
    uint64_t n_tenants; /* tenants that have entries */
    uint64_t n_added;   /* entries that were made */
    uint64_t n_found;   /* entries that archive_find() found */
    uint64_t n_missed;  /* entries that archive_find() did not find */
    uint64_t n_expired; /* entries that expired */
    uint64_t n_evicted; /* entries that were deleted to make room for others of their tenant */
    uint64_t n_refused; /* results ARCHIVE_FULL */
};

struct archive;

/* Opens or creates the file @path; NULL: memory. */
int archive_open(const char *path, const struct archive_limits *limits,
                 struct archive **ret_archive, struct inf_err *reterr);
struct archive *archive_free(struct archive *a);
DEFINE_CLEANUP(struct archive *, archive_free);

/* Begins a change at the time @now, and deletes expired entries. */
int archive_begin(struct archive *a, int64_t now);
int archive_commit(struct archive *a);
void archive_rollback(struct archive *a);

/* Makes an entry. @previous may be NULL. *ret_key is the key of the entry. ARCHIVE_FULL. */
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
/* Records that an entry was used now. Its time until it expires starts again. */
int archive_touch(struct archive *a, int64_t key);
/* Deletes an entry and its items. */
int archive_delete(struct archive *a, int64_t key);
/* Calls @each for items of an entry. If @each returns a nonzero number, the list ends, and the
 * function returns this number. The function calls @each for up to page->limit + 1 items, so that
 * @each can find out whether there are more than page->limit items. ARCHIVE_ABSENT: the item
 * page->after does not exist. */
int archive_list(struct archive *a, int64_t key, const struct archive_page *page,
                 int (*each)(void *data, const struct archive_item *item), void *data);
/* Finds the text of an item in the entry @key, or, if @key is 0, in any entry of the tenant.
 * ARCHIVE_ABSENT. */
int archive_find_item(struct archive *a, const char *tenant, int64_t key, const char *id,
                      struct str *out);
/* Deletes an item of an entry. ARCHIVE_ABSENT. */
int archive_delete_item(struct archive *a, int64_t key, const char *id);

int archive_numbers(struct archive *a, struct archive_numbers *ret_numbers);
/* Sets *ret_time to the time when the next entry expires, or to 0 if there is no entry. */
int archive_next_expiry(struct archive *a, int64_t *ret_time);
