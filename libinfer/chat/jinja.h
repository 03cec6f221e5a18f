/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the state and the internal functions for parsing and rendering templates.
 *
 * A struct jinja serves one parse or one render, on one thread. On an error jinja_raise() jumps to
 * the setjmp() in render.c. All code that render.c calls owns only memory of the arena, so nothing
 * has to be released before the jump.
 */

#include <errno.h>
#include <setjmp.h>

#include <infer/chat.h>

#include "chat/value.h"
#include "core/arena.h"

enum {
    JINJA_MAX_DEPTH = 3000,   /* limit of nested C calls of the evaluator */
    JINJA_MAX_MACROS = 190,   /* limit of nested macro calls, about as many as Python allows */
    JINJA_MAX_NESTING = 300,  /* limit of nested expressions and statements in the source */
    JINJA_MAX_RANGE = 100000, /* limit of the items of range(), as in jinja2's sandbox */
    JINJA_MAX_TEXT = 4 << 20, /* limit of the bytes of a template */
};

/*
 * Costs of work, in units. A unit stands for work of at most a few nanoseconds, about the time to
 * copy a byte. tests/unit/chat/test-cost.c measures these times.
 */
enum {
    COST_STEP = 64,    /* a node, a call, an item of a list */
    COST_CHAR = 8,     /* a byte of text that is decoded and examined character by character */
    COST_SEARCH = 4,   /* a byte of text that is searched for a shorter text */
    COST_FLOAT = 1024, /* a float that is printed or parsed */
};

struct env;
struct node;
struct template;

struct jinja {
    struct arena *arena;
    size_t max_memory;
    jmp_buf on_error;
    int r;
    struct inf_err *err;
    uint32_t line; /* line that is being executed, for messages */

    const struct template *tmpl;
    uint64_t cost, max_cost, look_at; /* the limits are checked again when the cost exceeds
                                         look_at */
    uint64_t deadline_usec;           /* time of the monotonic clock; 0: there is none */
    size_t max_output;
    unsigned depth, n_macros;
    struct jdict *globals; /* built-in names and the caller's variables */
    struct jbuf *out;      /* output buffer: the result, or a captured block */
    int64_t now;
};

/* Positional and named arguments of a call. */
struct args {
    struct value *v;
    size_t n;
    struct jdict *kw; /* NULL: none */
};

enum { MAX_BOUND = 8 };

/*
 * A function, method, filter or test that is written in C. @spec names its parameters: "a b? c?",
 * where ? marks optional parameters. A leading / means that arguments cannot be passed by name.
 * With the spec "*", the function itself reads @args. A missing optional argument is
 * V_MISSING. @self is the object of a method, or the value that a filter or test gets.
 */
struct builtin {
    const char *name, *spec;
    struct value (*fn)(struct jinja *j, struct value self, struct value *a,
                       const struct args *args);
};

/* Ends the parse or render with an error, and adds the line number to the message. @code is EBADMSG
 * for a fault that parsing finds, EPROTO for a fault that rendering finds, and E2BIG, ETIME or
 * ENOMEM for a limit. */
_Noreturn void jinja_raise(struct jinja *j, int code, const char *format, ...) PRINTF(3, 4);
#define raise_type(j, ...)  jinja_raise(j, EPROTO, "TypeError: " __VA_ARGS__)
#define raise_value(j, ...) jinja_raise(j, EPROTO, "ValueError: " __VA_ARGS__)
_Noreturn void jinja_raise_undef(struct jinja *j, struct value undef);

/* Return zeroed memory of the arena. They raise an error if the limit of memory is exceeded. */
void *jinja_alloc(struct jinja *j, size_t size);
void *jinja_array(struct jinja *j, size_t n, size_t size);
#define JNEW(j, type)      ((type *)jinja_alloc(j, sizeof(type)))
#define JARRAY(j, type, n) ((type *)jinja_array(j, n, sizeof(type)))

/* Raises an error if the limit of cost or the limit of time is exceeded. Otherwise sets look_at for
 * the next check. */
void jinja_look(struct jinja *j);

/* Charges work: adds its cost to the cost of the render, before the work is done. Raises an error
 * if a limit is exceeded. */
static inline void jinja_charge(struct jinja *j, uint64_t cost)
{
    j->cost += cost;
    if (UNLIKELY(j->cost > j->look_at))
        jinja_look(j);
}

static inline void jinja_step(struct jinja *j, uint64_t n)
{
    jinja_charge(j, n * COST_STEP);
}

/* Charges work on each character of a text of @len bytes. */
static inline void jinja_chars(struct jinja *j, size_t len)
{
    jinja_charge(j, len * COST_CHAR);
}

static inline void jinja_enter(struct jinja *j)
{
    if (UNLIKELY(++j->depth > JINJA_MAX_DEPTH))
        jinja_raise(j, E2BIG, "the template nests too deeply");
}

static inline void jinja_leave(struct jinja *j)
{
    j->depth--;
}

/* ---- undefined (jinja-ops.c) ---- */

struct value undef_name(struct jinja *j, struct value name);
struct value undef_of(struct jinja *j, struct value obj, struct value name);
struct value undef_hint(struct jinja *j, const char *hint);

/* ---- operators (jinja-ops.c) ---- */

enum binop { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW };

struct value op_binary(struct jinja *j, enum binop op, struct value a, struct value b);
struct value op_negate(struct jinja *j, struct value a, bool negative);
/* Evaluate obj.name and obj[arg] as jinja2's sandboxed environment does. */
struct value op_getattr(struct jinja *j, struct value obj, struct jstr *name);
struct value op_getitem(struct jinja *j, struct value obj, struct value arg);
struct value op_slice(struct jinja *j, struct value obj, struct value start, struct value stop,
                      struct value step);

/* ---- calls (jinja-call.c) ---- */

struct value call_value(struct jinja *j, struct value callee, const struct args *args);
struct value call_builtin(struct jinja *j, const struct builtin *b, struct value self,
                          const struct args *args);
struct value call_filter(struct jinja *j, struct value name, struct value self,
                         const struct args *args);
bool call_test(struct jinja *j, struct value name, struct value self, const struct args *args);
void globals_add(struct jinja *j, struct jdict *d);

/* Return NULL if there is no such filter or test. */
const struct builtin *filter_find(const struct jstr *name);
const struct builtin *test_find(const struct jstr *name);
/* Finds an attribute of the value's Python type. Returns false if the type has no such
 * attribute. */
bool attr_find(struct jinja *j, struct value obj, struct jstr *name, struct value *ret);

/* Convert an argument, or return @absent if the argument is missing. */
int64_t arg_int(struct jinja *j, struct value v, int64_t absent);
bool arg_true(struct jinja *j, struct value v, bool absent);
struct jstr *arg_str(struct jinja *j, struct value v); /* @v must be a string, else: TypeError */

extern const struct builtin str_methods[], str_format_methods[], str_test_methods[], list_methods[],
    tuple_methods[], dict_methods[], int_methods[], float_methods[], range_methods[],
    view_methods[], loop_methods[], cycler_methods[], dict_type_methods[];
extern const struct builtin filters_text[], filters_value[], filters_seq[], filters_pick[],
    filters_html[], tests_all[], globals_all[];
struct value loop_attr(struct jinja *j, struct jloop *l, const struct jstr *name);
struct value macro_attr(struct jinja *j, struct jmacro *m, const struct jstr *name);

/* ---- evaluation (jinja-eval.c, jinja-eval-expr.c, jinja-macro.c) ---- */

struct value loop_recurse(struct jinja *j, struct jloop *l, struct value items);
struct value macro_call(struct jinja *j, struct jmacro *m, const struct args *args);
struct value block_call(struct jinja *j, struct jblock *b);
struct value self_block(struct jinja *j, struct value self, const struct jstr *name);
const char *macro_name(const struct jmacro *m, size_t *ret_len);
int64_t loop_length(struct jinja *j, struct jloop *l);
int64_t loop_index(const struct jloop *l);
struct value *loop_changed(struct jloop *l); /* the last argument of loop.changed() */

/* ---- text (strformat.c, percent.c, unicode.c, html.c) ---- */

struct value format_percent(struct jinja *j, struct value format, struct value arg);
struct value format_braces(struct jinja *j, struct value format, const struct args *args);
struct value html_escape(struct jinja *j, struct value v); /* returns Markup */
struct value val_markup(struct value s, bool markup);

bool cp_is_space(uint32_t cp);
bool cp_is_alpha(uint32_t cp);
bool cp_is_alnum(uint32_t cp);
bool cp_is_decimal(uint32_t cp);
int cp_decimal(uint32_t cp); /* value of a decimal digit, or -1 */
bool cp_is_digit(uint32_t cp);
bool cp_is_numeric(uint32_t cp);
bool cp_is_upper(uint32_t cp);
bool cp_is_lower(uint32_t cp);
bool cp_is_title(uint32_t cp);
bool cp_is_printable(uint32_t cp);
bool cp_is_name(uint32_t cp, bool first); /* whether @cp can be in a Python identifier, or begin one
                                             if @first */
bool cp_is_break(uint32_t cp);            /* whether @cp ends a line in str.splitlines */

enum text_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP, CASE_FOLD };
struct value text_to_case(struct jinja *j, struct value s, enum text_case how);
