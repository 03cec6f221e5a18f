/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines the values of the template language: Python's objects, as far as a template can see them.
 *
 * A template cannot change the strings, lists, tuples and dicts that it has (jinja2's sandbox
 * forbids it). So values can share them, and a longer string or list may use the buffer of the
 * string or list that it extends. Memory is freed only with its arena: constants are in the arena
 * of the parsed template, and all other values in the arena of one render.
 *
 * Errors are not returned, but raised with jinja_raise(), which does not return (jinja.h).
 */

#include "core/macros.h"

struct jinja;
struct builtin;

enum value_kind {
    V_MISSING, /* no value: an unset variable or a missing argument */
    V_UNDEF,
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT,
    V_STR,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_VIEW, /* d.keys(), d.values(), d.items() */
    V_RANGE,
    V_ITER, /* generators and iterators, which can be read once */
    V_NS,   /* namespace() */
    V_FUNC, /* a built-in function or a bound method */
    V_MACRO,
    V_LOOP,
    V_CYCLER,
    V_JOINER,
    V_DICT_TYPE, /* the global `dict` */
    V_SELF,      /* `self` of templates with blocks */
    V_BLOCK,     /* self.name */
};

enum {
    STR_MARKUP = 1,  /* flag of V_STR: markupsafe.Markup */
    TUPLE_GROUP = 1, /* flag of V_TUPLE: the named tuple of |groupby */
};

struct jstr {
    const char *data; /* valid UTF-8, not NUL-terminated */
    size_t len;
    size_t n; /* number of code points; SIZE_MAX: not counted yet */
    struct jbuf *buf;
};

/* A growing buffer in the arena. A string at the end of the used part may be extended in place. */
struct jbuf {
    char *data;
    size_t used, cap;
};

struct value {
    uint8_t kind, flag;
    union {
        bool b;
        int64_t i;
        double f;
        struct jstr *s;
        struct jlist *l;
        struct jdict *d; /* V_DICT and V_NS */
        struct jview *view;
        struct jrange *range;
        struct jiter *it;
        struct jundef *undef;
        struct jfunc *func;
        struct jmacro *macro;
        struct jloop *loop;
        struct jcycler *cycler;
        struct jblock *block;
        void *p;
    } u;
};

struct jlist {
    struct value *v;
    size_t n;
    struct jlist_room *room; /* the buffer of v; v can grow in place if it ends at `used` */
};

struct jlist_room {
    size_t used, cap;
};

struct jdict_entry {
    struct value key, val;
    uint64_t hash;
};

/* Entries are in order of insertion. A dict has an index if it has nine entries or more. */
struct jdict {
    struct jdict_entry *e;
    uint32_t *index; /* maps a slot to an entry's number + 1; n_index is a power of two */
    uint32_t n, cap, n_index;
};

enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

struct jview {
    struct jdict *d;
    enum view_kind kind;
};

struct jrange {
    int64_t start, stop, step, n;
};

struct jiter {
    /* Returns false at the end, and is not called again after that. */
    bool (*next)(struct jinja *j, struct jiter *it, struct value *ret);
    const char *type; /* Python's name of the iterator type */
    bool reversible;
    struct jiter *in; /* source of the items, for generators */
    struct value src;
    size_t i, n;
    int64_t step;
    void *data;
};

struct jundef {
    const char *hint; /* NULL: the message is made from obj and name */
    struct value obj, name;
};

struct jfunc {
    const struct builtin *fn;
    struct value self;
};

struct jcycler {
    struct jlist *items;
    size_t pos; /* index of the next item; for a joiner: whether the joiner was used */
    struct value sep;
};

#define NONE    ((struct value){.kind = V_NONE})
#define MISSING ((struct value){.kind = V_MISSING})

static inline struct value val_bool(bool b)
{
    return (struct value){.kind = V_BOOL, .u.b = b};
}

static inline struct value val_int(int64_t i)
{
    return (struct value){.kind = V_INT, .u.i = i};
}

static inline struct value val_float(double f)
{
    return (struct value){.kind = V_FLOAT, .u.f = f};
}

static inline bool val_is_int(struct value v)
{
    return v.kind == V_INT || v.kind == V_BOOL;
}

static inline int64_t val_as_int(struct value v)
{
    return v.kind == V_BOOL ? v.u.b : v.u.i;
}

static inline bool val_is_num(struct value v)
{
    return v.kind >= V_BOOL && v.kind <= V_FLOAT;
}

static inline double val_as_float(struct value v)
{
    return v.kind == V_FLOAT ? v.u.f : (double)val_as_int(v);
}

static inline bool val_is_seq(struct value v)
{
    return v.kind == V_LIST || v.kind == V_TUPLE;
}

/* ---- strings ---- */

struct jstr *jstr_new(struct jinja *j, const char *s, size_t len);  /* copies */
struct jstr *jstr_wrap(struct jinja *j, const char *s, size_t len); /* borrows */
struct value val_str(struct jinja *j, const char *s, size_t len);
struct value val_cstr(struct jinja *j, const char *s);
struct value val_sub(struct jinja *j, struct value from, size_t start, size_t end); /* in bytes */
struct value val_of_jstr(struct jstr *s);
size_t jstr_count(struct jinja *j, struct jstr *s); /* number of code points */
/* Returns the byte offset of code point @i, which must be at most the count. */
size_t jstr_offset(struct jinja *j, struct jstr *s, size_t i);
struct value val_concat(struct jinja *j, struct value a, struct value b);
bool jstr_eq(struct jinja *j, const struct jstr *a, const struct jstr *b);
bool jstr_is(const struct jstr *s, const char *text);
bool val_str_is(struct value v, const char *text);

void jbuf_add(struct jinja *j, struct jbuf *b, const void *data, size_t len);
void jbuf_puts(struct jinja *j, struct jbuf *b, const char *s);
void jbuf_putc(struct jinja *j, struct jbuf *b, char c);
void jbuf_cp(struct jinja *j, struct jbuf *b, uint32_t cp);
void jbuf_fill(struct jinja *j, struct jbuf *b, uint32_t cp, size_t n); /* appends @cp @n times */
struct value jbuf_value(struct jinja *j, struct jbuf *b);               /* takes over the buffer */

/* Decodes the code point at @p, in valid UTF-8, and moves @p past it. */
static inline uint32_t u8_next(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;

    if (s[0] < 0x80) {
        *p += 1;
        return s[0];
    }
    if (s[0] < 0xe0) {
        *p += 2;
        return (s[0] & 0x1fu) << 6 | (s[1] & 0x3f);
    }
    if (s[0] < 0xf0) {
        *p += 3;
        return (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3f);
    }
    *p += 4;
    return (s[0] & 7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3f);
}

/* Moves @p back by one code point, which must exist, and returns this code point. */
static inline uint32_t u8_prev(const char **p)
{
    const char *s = *p - 1;

    while (((unsigned char)*s & 0xc0) == 0x80)
        s--;
    *p = s;
    return u8_next(&s);
}

/* ---- containers ---- */

struct value val_list(struct jinja *j, size_t n); /* n items of MISSING, for the caller to fill */
struct value val_tuple(struct jinja *j, size_t n);
struct value val_pair(struct jinja *j, struct value a, struct value b);
void jlist_push(struct jinja *j, struct jlist *l, struct value v); /* only to build a list */
struct value jlist_concat(struct jinja *j, struct value a, struct value b);

struct jdict *jdict_new(struct jinja *j);
struct value val_dict(struct jinja *j);
/* Sets the value of a key. Raises a TypeError for keys that cannot be hashed. */
void jdict_set(struct jinja *j, struct jdict *d, struct value key, struct value val);
struct value *jdict_get(struct jinja *j, const struct jdict *d, struct value key); /* or NULL */
struct value *jdict_get_str(struct jinja *j, const struct jdict *d, const struct jstr *key);
struct value *jdict_get_cstr(struct jinja *j, const struct jdict *d, const char *key);

/* ---- operations on all values ---- */

bool val_truth(struct jinja *j, struct value v);
bool val_eq(struct jinja *j, struct value a, struct value b);
bool val_same(struct jinja *j, struct value a, struct value b); /* `is` */
/* Returns <0, 0 or >0. *ret_nan: an operand is NaN. Raises a TypeError if there is no order. */
int val_cmp(struct jinja *j, struct value a, struct value b, bool *ret_nan);
bool val_lt(struct jinja *j, struct value a, struct value b);
bool val_hashable(struct jinja *j, struct value v);
uint64_t val_hash(struct jinja *j, struct value v);
int64_t val_len(struct jinja *j, struct value v); /* -1: the value has no length */
const char *val_type(struct value v);             /* Python's type name */

/* ---- iteration (iter.c) ---- */

struct jiter *iter_try(struct jinja *j, struct value v); /* NULL: not iterable */
struct jiter *iter_new(struct jinja *j, struct value v); /* raises a TypeError if not iterable */
bool iter_next(struct jinja *j, struct jiter *it, struct value *ret);
struct jiter *iter_reversed(struct jinja *j, struct value v); /* NULL: not reversible */
struct jiter *iter_generator(struct jinja *j,
                             bool (*next)(struct jinja *, struct jiter *, struct value *),
                             struct jiter *in, void *data);
struct value val_iter(struct jiter *it);
/* Returns a new list of all items. */
struct value val_to_list(struct jinja *j, struct value v);
bool val_contains(struct jinja *j, struct value container, struct value item);

/* ---- text of values (pyrepr.c, tojson.c) ---- */

void val_repr(struct jinja *j, struct jbuf *b, struct value v);
struct value val_to_str(struct jinja *j, struct value v);   /* str(v): V_STR, never Markup */
struct value val_soft_str(struct jinja *j, struct value v); /* strings are returned unchanged */
void val_print(struct jinja *j, struct jbuf *b, struct value v); /* appends str(v) */
size_t float_repr(double f, char out[32]);

struct json_style {
    bool ascii, sort, pretty;
    struct jstr *indent; /* text of one level of indentation, if pretty */
    struct jstr *item_sep, *key_sep;
};
void val_json(struct jinja *j, struct jbuf *b, struct value v, const struct json_style *style);
