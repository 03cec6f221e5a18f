/* SPDX-License-Identifier: Apache-2.0 */
/* Adds, lists, finds and deletes the items of entries (see archive.h). */
#include <errno.h>
#include <string.h>

#include "keep/archive-sql.h"

#define ITEM_ROW 128u /* bytes that are counted for a row in addition to its text */

int archive_add_item(struct archive *a, const char *tenant, int64_t key,
                     const struct archive_item *item)
{
    const uint64_t bytes = item->len + ITEM_ROW;
    int r = archive_make_room(a, tenant, key, bytes);
    sqlite3_stmt *st = r == 0 ? archive_statement(a, SQL_ADD_ITEM, &r) : NULL;

    if (!st)
        return r;
    sqlite3_bind_int64(st, 1, key);
    sqlite3_bind_text(st, 2, item->id, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, item->is_output);
    sqlite3_bind_text64(st, 4, item->text, item->len, SQLITE_STATIC, SQLITE_UTF8);
    r = sql_step(st);
    sqlite3_clear_bindings(st);
    return r < 0 ? r : archive_grow(a, key, (int64_t)bytes);
}

/* Sets *ret_place to the place after which a list begins. */
static int item_start(struct archive *a, int64_t key, const struct archive_page *page,
                      int64_t *ret_place)
{
    sqlite3_stmt *st;
    int r = 0;

    *ret_place = page->descending ? INT64_MAX : 0;
    if (!page->after)
        return 0;
    st = archive_statement(a, SQL_PLACE_OF, &r);
    if (!st)
        return r;
    sqlite3_bind_int64(st, 1, key);
    sqlite3_bind_text(st, 2, page->after, -1, SQLITE_STATIC);
    r = sql_step(st);
    if (r > 0)
        *ret_place = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return r < 0 ? r : r == 0 ? ARCHIVE_ABSENT : 0;
}

int archive_list(struct archive *a, int64_t key, const struct archive_page *page,
                 int (*each)(void *data, const struct archive_item *item), void *data)
{
    int64_t place = 0;
    int r = item_start(a, key, page, &place), stopped = 0;
    sqlite3_stmt *st =
        r == 0 ? archive_statement(a, page->descending ? SQL_LIST_DOWN : SQL_LIST_UP, &r) : NULL;

    if (!st)
        return r;
    sqlite3_bind_int64(st, 1, key);
    sqlite3_bind_int64(st, 2, place);
    sqlite3_bind_int(st, 3, page->inputs_only ? 0 : 1);
    sqlite3_bind_int64(st, 4, (int64_t)MIN(page->limit, (size_t)INT32_MAX) + 1);
    while (!stopped && (r = sql_step(st)) > 0)
        stopped = each(data, &(struct archive_item){
                                 .id = (const char *)sqlite3_column_text(st, 0),
                                 .text = (const char *)sqlite3_column_text(st, 1),
                                 .len = (size_t)sqlite3_column_bytes(st, 1),
                                 .is_output = sqlite3_column_int(st, 2) != 0,
                             });
    sqlite3_reset(st);
    return stopped ? stopped : r;
}

int archive_find_item(struct archive *a, const char *tenant, int64_t key, const char *id,
                      struct str *out)
{
    int r = 0;
    sqlite3_stmt *st = archive_statement(a, key ? SQL_FIND_ITEM_OF : SQL_FIND_ITEM, &r);

    if (!st)
        return r;
    if (key) {
        sqlite3_bind_int64(st, 1, key);
        sqlite3_bind_text(st, 2, id, -1, SQLITE_STATIC);
    } else {
        sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 2, tenant, -1, SQLITE_STATIC);
    }
    r = sql_step(st);
    if (r <= 0)
        return r < 0 ? r : ARCHIVE_ABSENT;
    r = str_append(out, (const char *)sqlite3_column_text(st, 0),
                   (size_t)sqlite3_column_bytes(st, 0));
    sqlite3_reset(st);
    return r;
}

int archive_delete_item(struct archive *a, int64_t key, const char *id)
{
    _cleanup_str_ struct str text = {};
    int r = archive_find_item(a, NULL, key, id, &text);
    sqlite3_stmt *st = r == 0 ? archive_statement(a, SQL_DELETE_ITEM, &r) : NULL;

    if (!st)
        return r;
    sqlite3_bind_int64(st, 1, key);
    sqlite3_bind_text(st, 2, id, -1, SQLITE_STATIC);
    r = sql_step(st);
    return r < 0 ? r : archive_grow(a, key, -(int64_t)(text.len + ITEM_ROW));
}
