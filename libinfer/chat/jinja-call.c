/* SPDX-License-Identifier: Apache-2.0 */
/* Calls values: binds arguments to names, finds methods by type, and defines the globals. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "chat/jinja.h"

int64_t arg_int(struct jinja *j, struct value v, int64_t absent)
{
    if (v.kind == V_MISSING)
        return absent;
    if (!val_is_int(v))
        raise_type(j, "'%s' object cannot be interpreted as an integer", val_type(v));
    return val_as_int(v);
}

bool arg_true(struct jinja *j, struct value v, bool absent)
{
    return v.kind == V_MISSING ? absent : val_truth(j, v);
}

struct jstr *arg_str(struct jinja *j, struct value v)
{
    if (v.kind != V_STR)
        raise_type(j, "expected a string, got '%s'", val_type(v));
    return v.u.s;
}

/* Returns the length of the parameter's name at the beginning of @spec (see struct builtin).
 * *ret_next is the next word, or NULL. */
static size_t spec_word(const char *spec, bool *ret_optional, const char **ret_next)
{
    size_t len = strcspn(spec, " ");

    *ret_next = spec[len] ? spec + len + 1 : NULL;
    *ret_optional = spec[len - 1] == '?';
    return len - *ret_optional;
}

static void bind_args(struct jinja *j, const struct builtin *b, const struct args *args,
                      struct value *out)
{
    const char *spec = b->spec;
    const bool by_position = *spec == '/';
    size_t n = 0, n_kw = 0, len;
    bool optional;

    for (spec += by_position; spec && *spec; n++) {
        const char *name = spec;
        struct value *kw = NULL;

        assert(n < MAX_BOUND);
        len = spec_word(name, &optional, &spec);
        out[n] = MISSING;
        if (args->kw && !by_position) {
            const struct jstr key = {.data = name, .len = len, .n = SIZE_MAX};

            kw = jdict_get_str(j, args->kw, &key);
            n_kw += kw != NULL;
        }
        if (n < args->n && kw)
            raise_type(j, "%s() got multiple values for argument '%.*s'", b->name, (int)len, name);
        if (n < args->n)
            out[n] = args->v[n];
        else if (kw)
            out[n] = *kw;
        else if (!optional)
            raise_type(j, "%s() missing a required argument: '%.*s'", b->name, (int)len, name);
    }
    if (args->n > n)
        raise_type(j, "%s() takes at most %zu arguments (%zu given)", b->name, n, args->n);
    if (args->kw && args->kw->n > n_kw)
        raise_type(j, "%s() got an unexpected keyword argument", b->name);
}

struct value call_builtin(struct jinja *j, const struct builtin *b, struct value self,
                          const struct args *args)
{
    struct value bound[MAX_BOUND], r;

    jinja_step(j, 1);
    jinja_enter(j);
    if (*b->spec != '*')
        bind_args(j, b, args, bound);
    r = b->fn(j, self, bound, args);
    jinja_leave(j);
    return r;
}

static struct value val_builtin(struct jinja *j, const struct builtin *b, struct value self)
{
    struct jfunc *f = JNEW(j, struct jfunc);

    *f = (struct jfunc){.fn = b, .self = self};
    return (struct value){.kind = V_FUNC, .u.func = f};
}

static struct value joiner_call(struct jinja *j, struct jcycler *c)
{
    if (c->pos++ == 0)
        return val_cstr(j, "");
    return c->sep;
}

static void no_arguments(struct jinja *j, const struct args *args)
{
    if (args->n || args->kw)
        raise_type(j, "this object takes no arguments");
}

struct value call_value(struct jinja *j, struct value callee, const struct args *args)
{
    const struct args none = {0};
    struct value d;

    if (!args->n && args->kw && !args->kw->n)
        args = &none;
    switch (callee.kind) {
    case V_UNDEF:
        jinja_raise_undef(j, callee);
    case V_FUNC:
        return call_builtin(j, callee.u.func->fn, callee.u.func->self, args);
    case V_MACRO:
        return macro_call(j, callee.u.macro, args);
    case V_LOOP:
        if (args->n != 1 || args->kw)
            raise_type(j, "loop() takes one argument");
        return loop_recurse(j, callee.u.loop, args->v[0]);
    case V_JOINER:
        no_arguments(j, args);
        return joiner_call(j, callee.u.cycler);
    case V_BLOCK:
        no_arguments(j, args);
        return block_call(j, callee.u.block);
    case V_DICT_TYPE:
        d = dict_type_methods[0].fn(j, callee, NULL, args);
        return d;
    default:
        raise_type(j, "'%s' object is not callable", val_type(callee));
    }
}

static const struct builtin *find_builtin(const struct builtin *table, const struct jstr *name)
{
    for (; table->name; table++)
        if (jstr_is(name, table->name))
            return table;
    return NULL;
}

const struct builtin *filter_find(const struct jstr *name)
{
    const struct builtin *const tables[] = {filters_text, filters_value, filters_seq, filters_pick,
                                            filters_html};

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        const struct builtin *b = find_builtin(tables[i], name);

        if (b)
            return b;
    }
    return NULL;
}

const struct builtin *test_find(const struct jstr *name)
{
    return find_builtin(tests_all, name);
}

static const struct builtin *by_name(struct jinja *j, struct value name, bool test)
{
    const struct builtin *b = NULL;

    jinja_step(j, 4); /* the cost of the search in all tables */
    if (name.kind == V_STR)
        b = test ? test_find(name.u.s) : filter_find(name.u.s);
    if (!b)
        jinja_raise(j, EPROTO, "No %s named '%.*s'.", test ? "test" : "filter",
                    name.kind == V_STR ? (int)MIN(name.u.s->len, (size_t)80) : 1,
                    name.kind == V_STR ? name.u.s->data : "?");
    return b;
}

struct value call_filter(struct jinja *j, struct value name, struct value self,
                         const struct args *args)
{
    return call_builtin(j, by_name(j, name, false), self, args);
}

bool call_test(struct jinja *j, struct value name, struct value self, const struct args *args)
{
    return val_truth(j, call_builtin(j, by_name(j, name, true), self, args));
}

static const struct builtin *method_of(struct value obj, const struct jstr *name)
{
    const struct builtin *b = NULL;

    switch (obj.kind) {
    case V_STR:
        b = find_builtin(str_methods, name);
        b = b ? b : find_builtin(str_test_methods, name);
        return b ? b : find_builtin(str_format_methods, name);
    case V_LIST:
        return find_builtin(list_methods, name);
    case V_TUPLE:
        return find_builtin(tuple_methods, name);
    case V_DICT:
        return find_builtin(dict_methods, name);
    case V_BOOL:
    case V_INT:
        return find_builtin(int_methods, name);
    case V_FLOAT:
        return find_builtin(float_methods, name);
    case V_RANGE:
        return find_builtin(range_methods, name);
    case V_VIEW:
        return find_builtin(view_methods, name);
    case V_LOOP:
        return find_builtin(loop_methods, name);
    case V_CYCLER:
        return find_builtin(cycler_methods, name);
    case V_DICT_TYPE:
        return find_builtin(dict_type_methods + 1, name);
    default:
        return NULL;
    }
}

static bool number_attr(struct value obj, const struct jstr *name, struct value *ret)
{
    const struct value whole = obj.kind == V_BOOL ? val_int(obj.u.b) : obj;

    if (jstr_is(name, "real") || (obj.kind != V_FLOAT && jstr_is(name, "numerator")))
        *ret = whole;
    else if (jstr_is(name, "imag"))
        *ret = obj.kind == V_FLOAT ? val_float(0) : val_int(0);
    else if (obj.kind != V_FLOAT && jstr_is(name, "denominator"))
        *ret = val_int(1);
    else
        return false;
    return true;
}

bool attr_find(struct jinja *j, struct value obj, struct jstr *name, struct value *ret)
{
    const struct builtin *b = method_of(obj, name);

    if (b) {
        *ret = b->fn ? val_builtin(j, b, obj)
                     : undef_hint(j, "access to a method that changes the object is unsafe.");
        return true;
    }
    *ret = MISSING;
    if (val_is_num(obj))
        return number_attr(obj, name, ret);
    switch (obj.kind) {
    case V_TUPLE:
        if (obj.flag == TUPLE_GROUP && jstr_is(name, "grouper"))
            *ret = obj.u.l->v[0];
        else if (obj.flag == TUPLE_GROUP && jstr_is(name, "list"))
            *ret = obj.u.l->v[1];
        break;
    case V_RANGE:
        if (jstr_is(name, "start"))
            *ret = val_int(obj.u.range->start);
        else if (jstr_is(name, "stop"))
            *ret = val_int(obj.u.range->stop);
        else if (jstr_is(name, "step"))
            *ret = val_int(obj.u.range->step);
        break;
    case V_LOOP:
        *ret = loop_attr(j, obj.u.loop, name);
        break;
    case V_MACRO:
        *ret = macro_attr(j, obj.u.macro, name);
        break;
    case V_CYCLER:
        if (jstr_is(name, "current"))
            *ret = obj.u.cycler->items->v[obj.u.cycler->pos];
        else if (jstr_is(name, "pos"))
            *ret = val_int((int64_t)obj.u.cycler->pos);
        else if (jstr_is(name, "items"))
            *ret = (struct value){.kind = V_TUPLE, .u.l = obj.u.cycler->items};
        break;
    case V_JOINER:
        if (jstr_is(name, "sep"))
            *ret = obj.u.cycler->sep;
        else if (jstr_is(name, "used"))
            *ret = val_bool(obj.u.cycler->pos > 0);
        break;
    default:
        break;
    }
    return ret->kind != V_MISSING;
}

/* ---- globals ---- */

static struct value fn_range(struct jinja *j, struct value self UNUSED, struct value *a,
                             const struct args *args)
{
    struct jrange *r = JNEW(j, struct jrange);
    uint64_t span, by;

    r->start = args->n > 1 ? arg_int(j, a[0], 0) : 0;
    r->stop = arg_int(j, a[args->n > 1], 0);
    r->step = arg_int(j, a[2], 1);
    if (r->step == 0)
        raise_value(j, "range() arg 3 must not be zero");
    span = r->step > 0 ? (uint64_t)r->stop - (uint64_t)r->start
                       : (uint64_t)r->start - (uint64_t)r->stop;
    by = r->step > 0 ? (uint64_t)r->step : 0 - (uint64_t)r->step;
    if ((r->step > 0) == (r->start < r->stop) && r->start != r->stop) {
        if ((span - 1) / by + 1 > JINJA_MAX_RANGE)
            jinja_raise(j, EPROTO, "Range too big. The sandbox blocks ranges larger than %d.",
                        JINJA_MAX_RANGE);
        r->n = (int64_t)((span - 1) / by + 1);
    }
    return (struct value){.kind = V_RANGE, .u.range = r};
}

static struct value fn_namespace(struct jinja *j, struct value self, struct value *a,
                                 const struct args *args)
{
    struct value d = dict_type_methods[0].fn(j, self, a, args);

    for (uint32_t i = 0; i < d.u.d->n; i++) {
        const struct value key = d.u.d->e[i].key;

        if (key.kind == V_STR && key.u.s->len && key.u.s->data[0] == '_')
            jinja_raise(j, EPROTO, "a namespace stores no names that begin with an underscore");
    }
    d.kind = V_NS;
    return d;
}

static struct value fn_cycler(struct jinja *j, struct value self UNUSED, struct value *a UNUSED,
                              const struct args *args)
{
    struct jcycler *c = JNEW(j, struct jcycler);
    struct value items = val_tuple(j, args->n);

    if (args->kw)
        raise_type(j, "cycler() takes no keyword arguments");
    if (args->n == 0)
        jinja_raise(j, EPROTO, "at least one item has to be provided");
    memcpy(items.u.l->v, args->v, args->n * sizeof(*args->v));
    c->items = items.u.l;
    return (struct value){.kind = V_CYCLER, .u.cycler = c};
}

static struct value fn_joiner(struct jinja *j, struct value self UNUSED, struct value *a,
                              const struct args *args UNUSED)
{
    struct jcycler *c = JNEW(j, struct jcycler);

    c->sep = a[0].kind == V_MISSING ? val_cstr(j, ", ") : a[0];
    return (struct value){.kind = V_JOINER, .u.cycler = c};
}

static struct value fn_raise(struct jinja *j, struct value self UNUSED, struct value *a,
                             const struct args *args UNUSED)
{
    const struct value s = val_to_str(j, a[0]);

    j->line = 0; /* no line number: the message is for the end user, who does not see the
                    template */
    jinja_raise(j, EPROTO, "%.*s", (int)MIN(s.u.s->len, (size_t)200), s.u.s->data);
}

static struct value fn_strftime(struct jinja *j, struct value self UNUSED, struct value *a,
                                const struct args *args UNUSED)
{
    struct jstr *format = arg_str(j, a[0]);
    const time_t now = (time_t)j->now;
    struct jbuf b = {0};
    char out[512], one[512];
    struct tm tm;

    if (!localtime_r(&now, &tm))
        raise_value(j, "the time is out of range");
    /* Each directive is formatted alone, because strftime() returns 0 both for an empty result and
     * for a buffer that is too small. */
    for (size_t i = 0; i < format->len; i++) {
        size_t n = 1;

        jinja_charge(j, format->data[i] == '%' ? COST_FLOAT : COST_CHAR);
        if (format->data[i] != '%' || i + 1 == format->len) {
            jbuf_putc(j, &b, format->data[i]);
            continue;
        }
        while (i + n < format->len && n < 8 && strchr("-_0^#EO", format->data[i + n]) &&
               format->data[i + n])
            n++;
        if (i + n < format->len)
            n++;
        if (format->data[i + n - 1] == 'f') { /* microseconds exist only in Python */
            jbuf_puts(j, &b, "000000");
        } else {
            memcpy(one, format->data + i, n);
            one[n] = 0;
            jbuf_add(j, &b, out, strftime(out, sizeof(out), one, &tm));
        }
        i += n - 1;
    }
    return jbuf_value(j, &b);
}

static struct value fn_lipsum(struct jinja *j, struct value self UNUSED, struct value *a UNUSED,
                              const struct args *args UNUSED)
{
    jinja_raise(j, EPROTO, "lipsum() is not supported, because it gives random text");
}

const struct builtin globals_all[] = {
    {"range", "/start stop? step?", fn_range},
    {"namespace", "*", fn_namespace},
    {"cycler", "*", fn_cycler},
    {"joiner", "sep?", fn_joiner},
    {"raise_exception", "message", fn_raise},
    {"strftime_now", "format", fn_strftime},
    {"lipsum", "*", fn_lipsum},
    {0},
};

void globals_add(struct jinja *j, struct jdict *d)
{
    for (const struct builtin *b = globals_all; b->name; b++)
        jdict_set(j, d, val_cstr(j, b->name), val_builtin(j, b, NONE));
    jdict_set(j, d, val_cstr(j, "dict"), (struct value){.kind = V_DICT_TYPE});
}
