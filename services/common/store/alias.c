/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds and removes aliases (see store.h).
 *
 * A person may have written the manifest, so only the list of aliases in its text is replaced.
 * Everything else, including comments, stays as it is. The new text is read before it is stored: if
 * it does not have exactly the wanted aliases, nothing is changed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/models/manifest.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"

/* An edit of the aliases: @add is a new one, @drop one to leave out; either may be NULL. */
struct alias_edit {
    const char *add, *drop;
};

static bool stays(const struct alias_edit *edit, const char *alias)
{
    return !edit->drop || strcasecmp(alias, edit->drop) != 0;
}

/* Appends the new list, "[a, b]". *ret_n gets the number of its entries. */
static int put_aliases(struct str *out, const char *const *aliases, const struct alias_edit *edit,
                       size_t *ret_n)
{
    int r = str_putc(out, '[');
    size_t n = 0;

    for (; *aliases && r == 0; aliases++) {
        if (!stays(edit, *aliases))
            continue;
        r = n++ ? str_puts(out, ", ") : 0;
        r = r < 0 ? r : store_put_quoted(out, *aliases);
    }
    if (r == 0 && edit->add) {
        r = n++ ? str_puts(out, ", ") : 0;
        r = r < 0 ? r : store_put_quoted(out, edit->add);
    }
    *ret_n = n;
    return r < 0 ? r : str_putc(out, ']');
}

/* Writes the text of the manifest with the new list. */
static int put_text(struct str *out, const char *text, size_t len,
                    const struct model_manifest *manifest, const struct alias_edit *edit,
                    size_t *ret_n)
{
    const bool has_list = manifest->aliases_end > manifest->aliases_start;
    const size_t before = has_list ? manifest->aliases_start : len;
    const bool is_open = !has_list && len > 0 && text[len - 1] != '\n';
    int r = str_append(out, text, before);

    if (r == 0 && is_open)
        r = str_putc(out, '\n');
    if (r == 0 && !has_list)
        r = str_puts(out, "aliases: ");
    if (r == 0)
        r = put_aliases(out, manifest->aliases, edit, ret_n);
    if (r == 0)
        r = has_list ? str_append(out, text + manifest->aliases_end, len - manifest->aliases_end)
                     : str_putc(out, '\n');
    return r;
}

/* Returns whether the new text is a manifest with the new list and no other change. */
static bool text_is_right(struct arena *arena, const struct str *text,
                          const struct model_manifest *old, const struct alias_edit *edit, size_t n)
{
    struct model_manifest now;
    bool has_added = !edit->add;
    size_t n_now = 0;

    if (model_manifest_parse(arena, text->data, text->len, &now, NULL) < 0)
        return false;
    for (; now.aliases[n_now]; n_now++) {
        has_added |= edit->add && strcmp(now.aliases[n_now], edit->add) == 0;
        if (!stays(edit, now.aliases[n_now]))
            return false;
    }
    return n_now == n && has_added && now.n_files == old->n_files &&
           (!old->path || (now.path && strcmp(now.path, old->path) == 0));
}

static int edit_manifest(const char *path, const struct alias_edit *edit, struct inf_err *reterr)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_free_ char *text = NULL;
    _cleanup_str_ struct str fresh = {0};
    struct model_manifest manifest;
    size_t len, n = 0;
    int r = file_read(path, MODEL_MANIFEST_MAX_FILE, &text, &len, reterr);

    if (r == 0)
        r = model_manifest_parse(&arena, text, len, &manifest, reterr);
    if (r < 0)
        return r;
    if (put_text(&fresh, text, len, &manifest, edit, &n) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!text_is_right(&arena, &fresh, &manifest, edit, n))
        return err_set(reterr, EINVAL,
                       "the aliases in %s cannot be changed by a command; edit the file, which may "
                       "have at most %d aliases",
                       path, MODEL_MANIFEST_MAX_ALIASES);
    return store_put(path, fresh.data, fresh.len, reterr);
}

/* Writes a new manifest to the file @path, which must not exist yet. @target is the value of its
 * key `path`; NULL: it has no such key. */
static int new_manifest(const char *path, const char *target, const char *alias,
                        struct inf_err *reterr)
{
    _cleanup_str_ struct str text = {0};
    int r = 0;

    if (path_exists(path))
        return err_set(reterr, EEXIST, "%s exists already", path);
    if (target)
        r = (r = str_puts(&text, "path: ")) < 0         ? r
            : (r = store_put_quoted(&text, target)) < 0 ? r
                                                        : str_putc(&text, '\n');
    if (r == 0 && alias && (r = str_puts(&text, "aliases: [")) == 0 &&
        (r = store_put_quoted(&text, alias)) == 0)
        r = str_puts(&text, "]\n");
    return r < 0 ? err_set(reterr, ENOMEM, "out of memory")
                 : store_put(path, text.data, text.len, reterr);
}

/* Writes a manifest for a model in the store that has none. */
static int add_manifest(const struct models_entry *e, const char *alias, struct inf_err *reterr)
{
    _cleanup_free_ char *path = NULL;
    const char *base = path_base(e->path);

    if (path_is_dir(e->path))
        path = path_join(e->path, MODEL_MANIFEST);
    else if (asprintf(&path, "%.*s%s.yaml", (int)(base - e->path), e->path, path_base(e->name)) < 0)
        path = NULL;
    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    return new_manifest(path, path_is_dir(e->path) ? NULL : base, alias, reterr);
}

/* Returns the manifest ALIAS.yaml of the store, which the caller frees. */
static char *outside_manifest(const char *dir, const char *alias)
{
    char *path = NULL;

    return asprintf(&path, "%s/%s.yaml", dir, alias) < 0 ? NULL : path;
}

int store_alias_add(const char *dir, const struct models_entry *e, const char *alias,
                    struct inf_err *reterr)
{
    _cleanup_free_ char *path = NULL;

    if (store_has(dir, e))
        return e->manifest ? edit_manifest(e->manifest, &(struct alias_edit){.add = alias}, reterr)
                           : add_manifest(e, alias, reterr);
    if (strchr(alias, '/'))
        return err_set(reterr, EINVAL, "the alias of a model outside of the store has no slash");
    path = outside_manifest(dir, alias);
    return path ? new_manifest(path, e->path, NULL, reterr)
                : err_set(reterr, ENOMEM, "out of memory");
}

int store_alias_remove(const char *dir, const struct models_entry *e, const char *alias,
                       struct inf_err *reterr)
{
    _cleanup_free_ char *path = outside_manifest(dir, alias);

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (e->manifest && strcmp(e->manifest, path) == 0 && !path_is_below(e->path, dir)) {
        if (unlink(path) < 0)
            return err_set(reterr, errno, "%s cannot be removed: %s", path, strerror(errno));
        return 0;
    }
    if (strcasecmp(e->name, alias) == 0)
        return err_set(reterr, ENOENT, "\"%s\" is the name of a model, and not an alias", alias);
    if (!e->manifest || !store_has(dir, e))
        return err_set(reterr, ENOENT, "the alias \"%s\" is in no manifest of the store %s", alias,
                       dir);
    return edit_manifest(e->manifest, &(struct alias_edit){.drop = alias}, reterr);
}
