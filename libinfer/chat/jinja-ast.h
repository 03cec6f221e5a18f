/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines parsed templates and the functions that make and run them.
 *
 * The parser makes a tree of nodes. Then jinja-resolve.c gives every name a place: a slot in the
 * array of variables of the function to which the name belongs. Functions are the parts of a
 * template that jinja2 compiles to Python functions: the template, blocks, macros, bodies of call
 * blocks, recursive loops and loop filters. A function has one slot for each pair of a scope's
 * level and a name, like the local variables of the Python code that jinja2 generates. When all
 * names have places, the tree never changes again.
 */

#include "chat/jinja.h"

enum node_type {
    /* statements; the comments list the members of struct node that a type uses */
    N_OUTPUT,      /* args: N_DATA and expressions */
    N_FOR,         /* a: target, b: iterable, c: filter; body, els; flag: recursive */
    N_IF,          /* a: test; body, args (N_IF for each elif), els */
    N_MACRO,       /* name, args (names), kw (defaults of the last args), body */
    N_CALLBLOCK,   /* a: call (NULL: {% generation %}), args, kw, body */
    N_FILTERBLOCK, /* a: filter; body */
    N_WITH,        /* args: targets, kw: values; body */
    N_ASSIGN,      /* a: target, b: value */
    N_ASSIGNBLOCK, /* a: target, b: filter or NULL; body */
    N_BLOCK,       /* name, body; flag: the block is scoped; required */
    N_SCOPE,       /* autoescape; a: option; body */
    N_BREAK,
    N_CONTINUE,
    /* expressions */
    N_DATA,  /* val */
    N_CONST, /* val */
    N_NAME,  /* name, ctx */
    N_NSREF, /* name, val: attribute */
    N_TUPLE, /* args */
    N_LIST,  /* args */
    N_DICT,  /* args: keys, kw: values */
    N_COND,  /* a: test, b: value if true, c: value if false, or NULL */
    N_OR,
    N_AND,
    N_NOT,
    N_COMPARE, /* a, args: N_OPERAND for each further operand */
    N_OPERAND, /* op, a */
    N_BINARY,  /* op, a, b */
    N_CONCAT,  /* args */
    N_NEG,
    N_POS,
    N_GETATTR, /* a, name */
    N_GETITEM, /* a, b */
    N_SLICE,   /* a, b, c, each may be NULL */
    N_CALL,    /* a, args, kw, dyn_args, dyn_kw */
    N_FILTER,  /* a (NULL: the captured block), name, args, kw, dyn_args, dyn_kw */
    N_TEST,    /* a, name, args, kw, dyn_args, dyn_kw */
    N_KEYWORD, /* name, a */
};

enum name_ctx { CTX_LOAD, CTX_STORE, CTX_PARAM };
enum cmp_op { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_IN, CMP_NOTIN };

struct nodes {
    struct node **v;
    uint32_t n;
};

/* The place of a name: slot @slot of the function that is @hops functions outwards from the current
 * function. */
struct ref {
    uint32_t hops, slot;
};

enum load_action { LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEF };

/* An action that sets a name of a scope when the scope is entered. */
struct load {
    enum load_action action;
    uint32_t slot;
    struct ref from;   /* LOAD_ALIAS: the variable to copy */
    struct jstr *name; /* LOAD_RESOLVE: the name to look up */
};

struct scope {
    struct load *loads;
    uint32_t n_loads;
    struct load *stores; /* names that this and enclosing scopes set, for scoped blocks */
    uint32_t n_stores;
};

struct func {
    uint32_t n_slots;
};

struct node {
    enum node_type type;
    uint8_t op; /* enum binop, enum cmp_op or enum name_ctx */
    bool flag, required, export, extended;
    uint32_t line;
    struct jstr *name;
    struct value val;
    struct node *a, *b, *c, *dyn_args, *dyn_kw;
    struct nodes args, kw, body, els;
    const struct builtin *fn; /* the filter or test; NULL: it does not exist */

    struct ref ref;
    struct scope scope, scope2, scope3; /* N_FOR: scopes of body, filter and else */
    struct func *func, *func2;          /* function of this node; of N_FOR: functions of the
                                           recursive loop and of the filter */
    struct node *target2;               /* of N_FOR: the target in the filter's function */
    struct ref loop_ref, caller_ref, kwargs_ref, varargs_ref, self_ref, super_ref;
    bool has_caller, has_kwargs, has_varargs, has_self, has_super;
};

struct template
{
    struct arena arena;
    struct jstr *text;
    struct node *root; /* N_BLOCK without a name */
    struct nodes blocks;
};

struct env {
    struct env *up;
    struct value *slots;
    struct context *ctx;
    struct value self_loop; /* in the function of a recursive loop: its LoopContext */
};

/* The variables in which a name is looked up if no scope sets the name. */
struct context {
    struct jdict *vars;
    struct context *parent; /* for a scoped block */
};

struct jmacro {
    const struct node *node;
    struct env *env;
};

struct jblock {
    const struct node *node;
    struct context *ctx;
};

struct jloop {
    struct jiter *it;
    struct value iterable, after, current, before, changed;
    int64_t index0, length;
    int64_t depth0;
    const struct node *node;
    struct env *env; /* the environment of the function around a recursive loop */
};

/* ---- lexer ---- */

enum token_type {
    T_EOF,
    T_DATA,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_VAR_BEGIN,
    T_VAR_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GE,
    T_LT,
    T_LE,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
};

struct token {
    enum token_type type;
    uint32_t line;
    struct value val; /* names, strings and data: V_STR; T_INT and T_FLOAT: a number */
};

/* Returns all tokens of a template. The last one is T_EOF. */
struct token *jinja_lex(struct jinja *j, const char *text, size_t len, size_t *ret_n);

/* ---- parser ---- */

struct parser {
    struct jinja *j;
    struct token *t;         /* the current token */
    unsigned depth, n_links; /* depth of nesting; number of left-associative operators in this
                                tag */
    struct nodes *blocks;
};

void jinja_parse(struct jinja *j, struct template *tmpl);
struct node *node_new(struct parser *p, enum node_type type, uint32_t line);
void nodes_add(struct parser *p, struct nodes *list, struct node *n);
_Noreturn void parse_fail(struct parser *p, uint32_t line, const char *format, ...) PRINTF(3, 4);
const char *token_text(struct parser *p);
bool token_is_name(const struct token *t, const char *name);
bool parse_skip(struct parser *p, enum token_type type);
bool parse_skip_name(struct parser *p, const char *name);
struct token *parse_expect(struct parser *p, enum token_type type);
void parse_deeper(struct parser *p);

enum tuple_flags {
    TUPLE_SIMPLE = 1, /* only names and literals */
    TUPLE_NOCOND = 2, /* no conditional expressions */
    TUPLE_PAREN = 4,  /* the tuple is in parentheses and may be empty */
    TUPLE_NS = 8,     /* a.b is a namespace reference */
};
struct node *parse_tuple(struct parser *p, unsigned flags, const char *end_name);
struct node *parse_expression(struct parser *p);
struct node *parse_filters(struct parser *p, struct node *n, bool start_inline);

/* ---- scopes ---- */

void jinja_resolve(struct jinja *j, struct template *tmpl);
/* Calls fn for each child, in the order of jinja2's fields. Stops when fn returns false. */
bool node_each(struct node *n, bool (*fn)(struct node *child, void *data), void *data);

/* ---- evaluation ---- */

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

struct value eval(struct jinja *j, struct env *env, const struct node *n);
enum flow exec_body(struct jinja *j, struct env *env, const struct nodes *body);
enum flow exec(struct jinja *j, struct env *env, const struct node *n);
void scope_enter(struct jinja *j, struct env *env, const struct scope *s);
void eval_args(struct jinja *j, struct env *env, const struct node *n, struct args *ret);
void assign(struct jinja *j, struct env *env, const struct node *target, struct value v);
struct env *env_new(struct jinja *j, struct env *up, const struct func *fn);
struct value *env_at(struct env *env, struct ref ref);
struct value run_callblock(struct jinja *j, struct env *env, const struct node *n);
void run_root(struct jinja *j, struct context *ctx);
