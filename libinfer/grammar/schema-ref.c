/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References between schemas ($ref, $dynamicRef and $recursiveRef) inside of one document
 *
 * A reference is a URI that is resolved against the URI of the innermost schema around it that has
 * an $id. All schemas with an $id or an anchor are in a table of URIs. A reference to a document
 * that is not in the table is refused, because no document is ever loaded.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/str.h"
#include "grammar/schema.h"

enum { URI_MAX = 2048, WALK_DEPTH = SCHEMA_MAX_DEPTH + 2 };

static bool ref_fail_memory(struct schema *s, const struct schema_value *at)
{
    schema_fail(s, ENOMEM, at, "out of memory");
    return false;
}

/* -- URIs -- */

struct uri {
    const char *text;
    size_t len, scheme, path; /* scheme and path: ends of the scheme (with ':') and authority */
};

static struct uri uri_split(const char *text, size_t len)
{
    struct uri u = {.text = text, .len = len};

    for (size_t i = 0; i < len && !strchr("/?#", text[i]); i++) {
        if (text[i] == ':') {
            u.scheme = i + 1;
            break;
        }
    }
    u.path = u.scheme;
    if (len - u.path >= 2 && text[u.path] == '/' && text[u.path + 1] == '/')
        for (u.path += 2; u.path < len && text[u.path] != '/'; u.path++)
            ;
    return u;
}

/* Removes "." and ".." from the path of @s, which begins at @path. */
static void uri_remove_dots(struct str *s, size_t path)
{
    size_t in = path, out = path;

    while (in < s->len) {
        size_t end = in + 1;

        while (end < s->len && s->data[end] != '/')
            end++;
        if (end - in == 2 && memcmp(s->data + in, "/.", 2) == 0) {
            if (end == s->len)
                s->data[out++] = '/';
        } else if (end - in == 3 && memcmp(s->data + in, "/..", 3) == 0) {
            while (out > path && s->data[--out] != '/')
                ;
            if (end == s->len)
                s->data[out++] = '/';
        } else {
            memmove(s->data + out, s->data + in, end - in);
            out += end - in;
        }
        in = end;
    }
    s->len = out;
}

/* Appends the reference @text without fragment, resolved against @base. */
static int uri_resolve(const struct str *base, const char *text, size_t len, struct str *ret)
{
    const struct uri b = uri_split(base->data ? base->data : "", base->len);
    const struct uri u = uri_split(text, len);
    size_t keep;
    int r;

    if (len == 0)
        return str_append(ret, b.text, b.len);
    if (u.scheme > 0)
        return str_append(ret, text, len);
    if (u.path > 0)
        keep = b.scheme;
    else if (text[0] == '/')
        keep = b.path;
    else
        for (keep = b.len; keep > b.path && b.text[keep - 1] != '/'; keep--)
            ;
    r = str_append(ret, b.text, keep);
    if (r == 0)
        r = str_append(ret, text, len);
    if (r == 0 && b.path <= ret->len && u.path == 0)
        uri_remove_dots(ret, b.path);
    return r;
}

/* -- the table -- */

static const struct schema_value *ref_id(const struct schema *s, const struct schema_value *v)
{
    const struct schema_value *id = schema_get(v, s->draft4 ? "id" : "$id");

    return id && id->type == VALUE_STRING && id->len <= URI_MAX ? id : NULL;
}

static bool ref_put(struct schema *s, const struct str *uri, const struct schema_value *v)
{
    const char *key = arena_strndup(&s->arena, uri->data ? uri->data : "", uri->len);

    if (!key || map_put(&s->ids, key, uri->len, (uintptr_t)v) < 0)
        return ref_fail_memory(s, v);
    return true;
}

static size_t ref_fragment(const char *text, size_t len)
{
    const char *hash = memchr(text, '#', len);

    return hash ? (size_t)(hash - text) : len;
}

static bool ref_put_anchor(struct schema *s, const struct str *base, const char *name, size_t len,
                           const struct schema_value *v)
{
    _cleanup_str_ struct str uri = {0};

    if (str_append(&uri, base->data ? base->data : "", base->len) < 0 || str_putc(&uri, '#') < 0 ||
        str_append(&uri, name, len) < 0)
        return ref_fail_memory(s, v);
    return ref_put(s, &uri, v);
}

/* Counts the schemas that have a dynamic anchor. A $dynamicRef is an ordinary reference if only one
 * schema has its anchor. */
static bool ref_put_dynamic(struct schema *s, const struct schema_value *v)
{
    const struct schema_value *a = schema_get(v, "$dynamicAnchor");
    const struct schema_value *recursive = schema_get(v, "$recursiveAnchor");
    uint64_t n = 0;

    s->n_recursive += recursive && recursive->truth;
    if (!a || a->type != VALUE_STRING)
        return true;
    map_find(&s->dynamic, a->text, a->len, &n);
    return map_set(&s->dynamic, a->text, a->len, n + 1) == 0 || ref_fail_memory(s, v);
}

static bool ref_put_anchors(struct schema *s, const struct str *base, const struct schema_value *v)
{
    static const char *const names[] = {"$anchor", "$dynamicAnchor"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct schema_value *a = schema_get(v, names[i]);

        if (a && a->type == VALUE_STRING && a->len <= URI_MAX &&
            !ref_put_anchor(s, base, a->text, a->len, v))
            return false;
    }
    return ref_put_dynamic(s, v);
}

/* The role of a value. $id and anchors have a meaning only in schemas. */
enum ref_place {
    REF_DATA,    /* a value of an unknown keyword, or data */
    REF_SCHEMA,  /* a schema, or a list of schemas */
    REF_SCHEMAS, /* an object of schemas */
};

static bool ref_walk(struct schema *s, struct schema_value *v, struct schema_value *base,
                     const struct str *base_uri, enum ref_place place);

static enum ref_place ref_place_of(const struct schema_value *member)
{
    static const char *const schemas[] = {
        "$defs",     "definitions", "dependencies", "dependentSchemas", "patternProperties",
        "properties"};
    static const char *const one[] = {"additionalItems",
                                      "additionalProperties",
                                      "allOf",
                                      "anyOf",
                                      "contains",
                                      "contentSchema",
                                      "else",
                                      "if",
                                      "items",
                                      "not",
                                      "oneOf",
                                      "prefixItems",
                                      "propertyNames",
                                      "then",
                                      "unevaluatedItems",
                                      "unevaluatedProperties"};

    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++)
        if (strcmp(schemas[i], member->key) == 0)
            return REF_SCHEMAS;
    for (size_t i = 0; i < ARRAY_SIZE(one); i++)
        if (strcmp(one[i], member->key) == 0)
            return REF_SCHEMA;
    return REF_DATA;
}

/* Puts a schema that has an $id into the table, and gives its URI. In old drafts, an $id that is
 * only a fragment is an anchor. */
static bool ref_walk_id(struct schema *s, struct schema_value *v, const struct str *base_uri,
                        const struct schema_value *id, struct str *ret_uri)
{
    const size_t len = ref_fragment(id->text, id->len);

    if (id->len > len + 1 && !ref_put_anchor(s, base_uri, id->text + len + 1, id->len - len - 1, v))
        return false;
    if (len == 0)
        return str_append(ret_uri, base_uri->data ? base_uri->data : "", base_uri->len) == 0 ||
               ref_fail_memory(s, v);
    if (uri_resolve(base_uri, id->text, len, ret_uri) < 0)
        return ref_fail_memory(s, v);
    v->is_base = true;
    return ref_put(s, ret_uri, v);
}

static bool ref_walk_members(struct schema *s, struct schema_value *v, struct schema_value *base,
                             const struct str *uri, enum ref_place place)
{
    for (struct schema_value *m = v->first; m; m = m->next) {
        enum ref_place to = place == REF_SCHEMAS ? REF_SCHEMA : place;

        if (place == REF_SCHEMA && v->type == VALUE_OBJECT)
            to = ref_place_of(m);
        if (!ref_walk(s, m, base, uri, to))
            return false;
    }
    return true;
}

static bool ref_walk(struct schema *s, struct schema_value *v, struct schema_value *base,
                     const struct str *base_uri, enum ref_place place)
{
    _cleanup_str_ struct str own = {0};
    const struct schema_value *id = ref_id(s, v);
    const struct str *uri = base_uri;

    v->base = base;
    if (v->type != VALUE_ARRAY && v->type != VALUE_OBJECT)
        return true;
    if (place != REF_SCHEMA)
        return ref_walk_members(s, v, base, uri, place);
    if (id && !(s->old_refs && schema_get(v, "$ref"))) {
        if (!ref_walk_id(s, v, base_uri, id, &own))
            return false;
        uri = &own;
        if (v->is_base)
            v->base = base = v;
    }
    return ref_put_anchors(s, uri, v) && ref_walk_members(s, v, base, uri, place);
}

bool schema_ref_index(struct schema *s)
{
    const struct schema_value *version = schema_get(s->root, "$schema");
    const struct str none = {0};

    s->draft4 = version && version->type == VALUE_STRING &&
                (strstr(version->text, "draft-04") || strstr(version->text, "draft-03"));
    s->old_refs =
        s->draft4 || (version && version->type == VALUE_STRING &&
                      (strstr(version->text, "draft-06") || strstr(version->text, "draft-07")));
    return ref_put(s, &none, s->root) && ref_walk(s, s->root, s->root, &none, REF_SCHEMA);
}

/* -- resolution -- */

static int base_uri(const struct schema *s, const struct schema_value *base, struct str *ret)
{
    const struct schema_value *id = ref_id(s, base);
    _cleanup_str_ struct str outer = {0};
    int r = 0;

    if (!base->is_base || !id)
        return 0;
    if (base != s->root && base->parent)
        r = base_uri(s, base->parent->base, &outer);
    return r < 0 ? r : uri_resolve(&outer, id->text, ref_fragment(id->text, id->len), ret);
}

static const struct schema_value *pointer_step(const struct schema_value *v, const char *name,
                                               size_t len)
{
    uint32_t index = 0;

    if (v->type == VALUE_OBJECT)
        return schema_get_n(v, name, len);
    if (v->type != VALUE_ARRAY || len == 0 || len > 9)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return NULL;
        index = index * 10 + (uint32_t)(name[i] - '0');
    }
    v = v->first;
    while (v && index-- > 0)
        v = v->next;
    return v;
}

static int ref_hex(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    ch |= 0x20;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* Decodes %xx in place. Returns the new length. */
static size_t ref_unpercent(char *text, size_t len)
{
    size_t out = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '%' && i + 2 < len && ref_hex(text[i + 1]) >= 0 &&
            ref_hex(text[i + 2]) >= 0) {
            text[out++] = (char)(ref_hex(text[i + 1]) * 16 + ref_hex(text[i + 2]));
            i += 2;
        } else {
            text[out++] = text[i];
        }
    }
    return out;
}

/* Follows a JSON pointer; changes the text. */
static const struct schema_value *pointer_follow(const struct schema_value *v, char *text,
                                                 size_t len)
{
    size_t at = 0;

    while (v && at < len) {
        char *name = text + at + 1;
        size_t end = at + 1, n = 0;

        while (end < len && text[end] != '/')
            end++;
        for (size_t i = at + 1; i < end; i++) {
            char ch = text[i];

            if (ch == '~' && i + 1 < end && (text[i + 1] == '0' || text[i + 1] == '1'))
                ch = text[++i] == '0' ? '~' : '/';
            name[n++] = ch;
        }
        v = pointer_step(v, name, n);
        at = end;
    }
    return v;
}

/* Finds the value to which a URI with a fragment refers. @fragment is the text after '#'. */
static const struct schema_value *ref_in_document(struct schema *s, const struct str *uri,
                                                  const char *fragment, size_t len)
{
    _cleanup_str_ struct str text = {0};
    uint64_t found;

    if (len == 0 || fragment[0] == '/') {
        if (!map_find(&s->ids, uri->data ? uri->data : "", uri->len, &found) ||
            str_append(&text, fragment, len) < 0)
            return NULL;
        text.len = text.data ? ref_unpercent(text.data, text.len) : 0;
        return pointer_follow((const struct schema_value *)(uintptr_t)found, text.data, text.len);
    }
    if (str_append(&text, uri->data ? uri->data : "", uri->len) < 0 || str_putc(&text, '#') < 0 ||
        str_append(&text, fragment, len) < 0 || !map_find(&s->ids, text.data, text.len, &found))
        return NULL;
    return (const struct schema_value *)(uintptr_t)found;
}

const struct schema_value *schema_ref_resolve(struct schema *s, const struct schema_value *at,
                                              const struct schema_value *ref)
{
    _cleanup_str_ struct str base = {0}, uri = {0};
    const size_t len = ref_fragment(ref->text, ref->len);
    const size_t skip = len < ref->len;
    const struct schema_value *to;
    uint64_t found;

    if (!schema_step(s, at, 4))
        return NULL;
    if (strcmp(ref->key, "$recursiveRef") == 0 && s->n_recursive > 1) {
        schema_fail(s, EINVAL, ref, "a '$recursiveRef' with several anchors is not supported");
        return NULL;
    }
    if (strcmp(ref->key, "$dynamicRef") == 0 && len < ref->len &&
        map_find(&s->dynamic, ref->text + len + 1, ref->len - len - 1, &found) && found > 1) {
        schema_fail(s, EINVAL, ref, "a '$dynamicRef' with several anchors is not supported");
        return NULL;
    }
    if (ref->len > URI_MAX) {
        schema_fail(s, EINVAL, ref, "the reference is longer than %d bytes", URI_MAX);
        return NULL;
    }
    if (base_uri(s, at->base ? at->base : s->root, &base) < 0 ||
        uri_resolve(&base, ref->text, len, &uri) < 0) {
        ref_fail_memory(s, ref);
        return NULL;
    }
    to = ref_in_document(s, &uri, ref->text + len + skip, ref->len - len - skip);
    if (to)
        return to;
    if (s->loose)
        return schema_make_bool(s, true, ref);
    if (map_find(&s->ids, uri.data ? uri.data : "", uri.len, &found))
        schema_fail(s, EINVAL, ref, "the reference '%.80s' leads nowhere", ref->text);
    else
        schema_fail(s, EINVAL, ref,
                    "the reference '%.80s' leads to another document, and none is "
                    "loaded",
                    ref->text);
    return NULL;
}
