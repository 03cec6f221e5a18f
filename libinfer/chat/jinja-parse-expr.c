/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses expressions. From the lowest to the highest precedence, as in jinja2: conditional, or,
 * and, not, comparison, + -, ~, * / // %, **, unary operators, then postfixes, filters and tests.
 */
#include <string.h>

#include "chat/jinja-ast.h"

static struct node *parse_or(struct parser *p);
static struct node *parse_unary(struct parser *p, bool with_filter);

static struct node *binary_node(struct parser *p, enum node_type type, uint32_t line,
                                struct node *a, struct node *b)
{
    struct node *n = node_new(p, type, line);

    n->a = a;
    n->b = b;
    return n;
}

/* Counts an operator of a chain. A long chain `a + b + …` becomes a deep tree without nested
 * parentheses. So the length of each chain is limited. Chains can be nested, so the total length of
 * all chains in a tag is limited too. */
static void count_link(struct parser *p, unsigned *length)
{
    if (++*length > 500 || ++p->n_links > 2000)
        parse_fail(p, p->t->line, "an expression is too long");
}

struct node *parse_expression(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *n;
    unsigned length = 0;

    parse_deeper(p);
    n = parse_or(p);
    while (parse_skip_name(p, "if")) {
        struct node *cond = node_new(p, N_COND, line);

        count_link(p, &length);
        cond->b = n;
        cond->a = parse_or(p);
        if (parse_skip_name(p, "else"))
            cond->c = parse_expression(p);
        n = cond;
    }
    p->depth--;
    return n;
}

static struct node *parse_pow(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *n = parse_unary(p, true);
    unsigned length = 0;

    while (parse_skip(p, T_POW)) {
        count_link(p, &length);
        n = binary_node(p, N_BINARY, line, n, parse_unary(p, true));
        n->op = OP_POW;
    }
    return n;
}

static struct node *parse_product(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *n = parse_pow(p);
    unsigned length = 0;

    for (;;) {
        const enum token_type t = p->t->type;

        if (t != T_MUL && t != T_DIV && t != T_FLOORDIV && t != T_MOD)
            return n;
        p->t++;
        count_link(p, &length);
        n = binary_node(p, N_BINARY, line, n, parse_pow(p));
        n->op = t == T_MUL ? OP_MUL : t == T_DIV ? OP_DIV : t == T_MOD ? OP_MOD : OP_FLOORDIV;
    }
}

static struct node *parse_concat(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *first = parse_product(p), *n;

    if (p->t->type != T_TILDE)
        return first;
    n = node_new(p, N_CONCAT, line);
    nodes_add(p, &n->args, first);
    while (parse_skip(p, T_TILDE))
        nodes_add(p, &n->args, parse_product(p));
    return n;
}

static struct node *parse_sum(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *n = parse_concat(p);
    unsigned length = 0;

    while (p->t->type == T_ADD || p->t->type == T_SUB) {
        const enum binop op = p->t++->type == T_ADD ? OP_ADD : OP_SUB;

        count_link(p, &length);
        n = binary_node(p, N_BINARY, line, n, parse_concat(p));
        n->op = op;
    }
    return n;
}

static int compare_op(struct parser *p)
{
    switch (p->t->type) {
    case T_EQ:
        return CMP_EQ;
    case T_NE:
        return CMP_NE;
    case T_LT:
        return CMP_LT;
    case T_LE:
        return CMP_LE;
    case T_GT:
        return CMP_GT;
    case T_GE:
        return CMP_GE;
    default:
        if (token_is_name(p->t, "in"))
            return CMP_IN;
        return token_is_name(p->t, "not") && token_is_name(p->t + 1, "in") ? CMP_NOTIN : -1;
    }
}

static struct node *parse_compare(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *first = parse_sum(p), *n = NULL;
    int op;

    while ((op = compare_op(p)) >= 0) {
        struct node *operand = node_new(p, N_OPERAND, p->t->line);

        p->t += op == CMP_NOTIN ? 2 : 1;
        if (!n) {
            n = node_new(p, N_COMPARE, line);
            n->a = first;
        }
        operand->op = (uint8_t)op;
        operand->a = parse_sum(p);
        nodes_add(p, &n->args, operand);
    }
    return n ? n : first;
}

static struct node *parse_not(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *n;

    if (!parse_skip_name(p, "not"))
        return parse_compare(p);
    parse_deeper(p);
    n = binary_node(p, N_NOT, line, parse_not(p), NULL);
    p->depth--;
    return n;
}

static struct node *parse_and(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *n = parse_not(p);
    unsigned length = 0;

    while (parse_skip_name(p, "and")) {
        count_link(p, &length);
        n = binary_node(p, N_AND, line, n, parse_not(p));
    }
    return n;
}

static struct node *parse_or(struct parser *p)
{
    const uint32_t line = p->t->line;
    struct node *n = parse_and(p);
    unsigned length = 0;

    while (parse_skip_name(p, "or")) {
        count_link(p, &length);
        n = binary_node(p, N_OR, line, n, parse_and(p));
    }
    return n;
}

static struct node *constant_node(struct parser *p, struct value v)
{
    struct node *n = node_new(p, N_CONST, p->t->line);

    n->val = v;
    p->t++;
    return n;
}

static struct node *parse_name(struct parser *p, bool with_ns)
{
    const struct token *t = p->t;
    struct node *n;

    if (token_is_name(t, "true") || token_is_name(t, "True"))
        return constant_node(p, val_bool(true));
    if (token_is_name(t, "false") || token_is_name(t, "False"))
        return constant_node(p, val_bool(false));
    if (token_is_name(t, "none") || token_is_name(t, "None"))
        return constant_node(p, NONE);
    p->t++;
    n = node_new(p, N_NAME, t->line);
    n->name = t->val.u.s;
    if (with_ns && parse_skip(p, T_DOT)) {
        n->type = N_NSREF;
        n->val = parse_expect(p, T_NAME)->val;
    }
    return n;
}

static struct node *parse_strings(struct parser *p)
{
    struct node *n = constant_node(p, p->t->val);
    struct jbuf b = {0};

    if (p->t->type != T_STRING)
        return n;
    jbuf_add(p->j, &b, n->val.u.s->data, n->val.u.s->len);
    for (; p->t->type == T_STRING; p->t++)
        jbuf_add(p->j, &b, p->t->val.u.s->data, p->t->val.u.s->len);
    n->val = jbuf_value(p->j, &b);
    n->val.u.s->buf = NULL; /* threads share constants, so constants must not be extended in
                               place */
    jstr_count(p->j, n->val.u.s);
    return n;
}

static struct node *parse_list(struct parser *p)
{
    struct node *n = node_new(p, N_LIST, p->t++->line);

    while (p->t->type != T_RBRACKET) {
        if (n->args.n)
            parse_expect(p, T_COMMA);
        if (p->t->type == T_RBRACKET)
            break;
        nodes_add(p, &n->args, parse_expression(p));
    }
    p->t++;
    return n;
}

static struct node *parse_dict(struct parser *p)
{
    struct node *n = node_new(p, N_DICT, p->t++->line);

    while (p->t->type != T_RBRACE) {
        if (n->args.n)
            parse_expect(p, T_COMMA);
        if (p->t->type == T_RBRACE)
            break;
        nodes_add(p, &n->args, parse_expression(p));
        parse_expect(p, T_COLON);
        nodes_add(p, &n->kw, parse_expression(p));
    }
    p->t++;
    return n;
}

static struct node *parse_primary(struct parser *p, bool with_ns)
{
    struct node *n;

    switch (p->t->type) {
    case T_NAME:
        return parse_name(p, with_ns);
    case T_STRING:
        return parse_strings(p);
    case T_INT:
    case T_FLOAT:
        return constant_node(p, p->t->val);
    case T_LPAREN:
        p->t++;
        n = parse_tuple(p, TUPLE_PAREN, NULL);
        parse_expect(p, T_RPAREN);
        return n;
    case T_LBRACKET:
        return parse_list(p);
    case T_LBRACE:
        return parse_dict(p);
    default:
        parse_fail(p, p->t->line, "unexpected '%s'", token_text(p));
    }
}

static bool tuple_end(const struct parser *p, const char *end_name)
{
    const enum token_type t = p->t->type;

    return t == T_VAR_END || t == T_BLOCK_END || t == T_RPAREN ||
           (end_name && token_is_name(p->t, end_name));
}

struct node *parse_tuple(struct parser *p, unsigned flags, const char *end_name)
{
    struct node *n = node_new(p, N_TUPLE, p->t->line);
    bool is_tuple = false;

    parse_deeper(p);
    for (;;) {
        if (n->args.n)
            parse_expect(p, T_COMMA);
        if (tuple_end(p, end_name))
            break;
        nodes_add(p, &n->args,
                  flags & TUPLE_SIMPLE   ? parse_primary(p, flags & TUPLE_NS)
                  : flags & TUPLE_NOCOND ? parse_or(p)
                                         : parse_expression(p));
        if (p->t->type != T_COMMA)
            break;
        is_tuple = true;
    }
    p->depth--;
    if (!is_tuple && n->args.n)
        return n->args.v[0];
    if (!is_tuple && !(flags & TUPLE_PAREN))
        parse_fail(p, p->t->line, "expected an expression, got '%s'", token_text(p));
    return n;
}

static struct node *parse_subscribed(struct parser *p)
{
    struct node *n = node_new(p, N_SLICE, p->t->line);

    if (p->t->type != T_COLON) {
        n->a = parse_expression(p);
        if (p->t->type != T_COLON)
            return n->a;
    }
    p->t++;
    if (p->t->type != T_COLON && p->t->type != T_RBRACKET && p->t->type != T_COMMA)
        n->b = parse_expression(p);
    if (parse_skip(p, T_COLON) && p->t->type != T_RBRACKET && p->t->type != T_COMMA)
        n->c = parse_expression(p);
    return n;
}

static struct node *parse_subscript(struct parser *p, struct node *of)
{
    const struct token *t = p->t++;
    struct node *n = node_new(p, N_GETITEM, t->line), *arg;

    n->a = of;
    if (t->type == T_DOT) {
        if (p->t->type == T_NAME) {
            n->type = N_GETATTR;
            n->name = p->t++->val.u.s;
        } else if (p->t->type == T_INT) {
            n->b = constant_node(p, p->t->val);
        } else {
            parse_fail(p, p->t->line, "expected name or number");
        }
        return n;
    }
    arg = node_new(p, N_TUPLE, t->line);
    while (p->t->type != T_RBRACKET) {
        if (arg->args.n)
            parse_expect(p, T_COMMA);
        nodes_add(p, &arg->args, parse_subscribed(p));
    }
    p->t++;
    n->b = arg->args.n == 1 ? arg->args.v[0] : arg;
    for (uint32_t i = 0; arg->args.n > 1 && i < arg->args.n; i++)
        if (arg->args.v[i]->type == N_SLICE)
            parse_fail(p, t->line, "a slice cannot be part of a tuple");
    return n;
}

static void parse_kwarg(struct parser *p, struct node *n)
{
    struct node *k = node_new(p, N_KEYWORD, p->t->line);

    k->name = p->t->val.u.s;
    p->t += 2;
    k->a = parse_expression(p);
    jinja_charge(p->j, n->kw.n * COST_CHAR);
    for (uint32_t i = 0; i < n->kw.n; i++)
        if (jstr_eq(p->j, n->kw.v[i]->name, k->name))
            parse_fail(p, k->line, "keyword argument repeated");
    nodes_add(p, &n->kw, k);
}

static void parse_call_args(struct parser *p, struct node *n)
{
    const uint32_t line = parse_expect(p, T_LPAREN)->line;
    bool comma = false, ok = true;

    while (p->t->type != T_RPAREN) {
        if (comma) {
            parse_expect(p, T_COMMA);
            if (p->t->type == T_RPAREN)
                break;
        }
        if (parse_skip(p, T_MUL)) {
            ok = !n->dyn_args && !n->dyn_kw;
            n->dyn_args = parse_expression(p);
        } else if (parse_skip(p, T_POW)) {
            ok = !n->dyn_kw;
            n->dyn_kw = parse_expression(p);
        } else if (p->t->type == T_NAME && p->t[1].type == T_ASSIGN) {
            ok = !n->dyn_kw;
            parse_kwarg(p, n);
        } else {
            ok = !n->dyn_args && !n->dyn_kw && !n->kw.n;
            nodes_add(p, &n->args, parse_expression(p));
        }
        if (!ok)
            parse_fail(p, line, "invalid syntax for function call expression");
        comma = true;
    }
    parse_expect(p, T_RPAREN);
}

static struct node *parse_call(struct parser *p, struct node *of)
{
    struct node *n = node_new(p, N_CALL, p->t->line);

    n->a = of;
    parse_call_args(p, n);
    return n;
}

static struct node *parse_postfix(struct parser *p, struct node *n)
{
    unsigned length = 0;

    for (;; count_link(p, &length)) {
        if (p->t->type == T_DOT || p->t->type == T_LBRACKET)
            n = parse_subscript(p, n);
        else if (p->t->type == T_LPAREN)
            n = parse_call(p, n);
        else
            return n;
    }
}

/* Parses the name of a filter or test, which may contain dots. */
static struct jstr *dotted_name(struct parser *p)
{
    struct value name = parse_expect(p, T_NAME)->val;

    while (parse_skip(p, T_DOT)) {
        name = val_concat(p->j, name, val_cstr(p->j, "."));
        name = val_concat(p->j, name, parse_expect(p, T_NAME)->val);
    }
    return name.u.s;
}

struct node *parse_filters(struct parser *p, struct node *n, bool start_inline)
{
    unsigned length = 0;

    while (start_inline || p->t->type == T_PIPE) {
        struct node *f;

        count_link(p, &length);
        if (!start_inline)
            p->t++;
        f = node_new(p, N_FILTER, p->t->line);
        f->a = n;
        f->name = dotted_name(p);
        f->fn = filter_find(f->name);
        if (p->t->type == T_LPAREN)
            parse_call_args(p, f);
        n = f;
        start_inline = false;
    }
    return n;
}

static bool starts_test_argument(const struct parser *p)
{
    switch (p->t->type) {
    case T_NAME:
        return !token_is_name(p->t, "else") && !token_is_name(p->t, "or") &&
               !token_is_name(p->t, "and");
    case T_STRING:
    case T_INT:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct node *parse_test(struct parser *p, struct node *of)
{
    struct node *n = node_new(p, N_TEST, p->t++->line);
    const bool negated = parse_skip_name(p, "not");

    n->a = of;
    n->name = dotted_name(p);
    n->fn = test_find(n->name);
    if (p->t->type == T_LPAREN) {
        parse_call_args(p, n);
    } else if (starts_test_argument(p)) {
        if (token_is_name(p->t, "is"))
            parse_fail(p, p->t->line, "You cannot chain multiple tests with is");
        parse_deeper(p);
        nodes_add(p, &n->args, parse_postfix(p, parse_primary(p, false)));
        p->depth--;
    }
    return negated ? binary_node(p, N_NOT, n->line, n, NULL) : n;
}

static struct node *parse_unary(struct parser *p, bool with_filter)
{
    const uint32_t line = p->t->line;
    unsigned length = 0;
    struct node *n;

    parse_deeper(p);
    if (parse_skip(p, T_SUB))
        n = binary_node(p, N_NEG, line, parse_unary(p, false), NULL);
    else if (parse_skip(p, T_ADD))
        n = binary_node(p, N_POS, line, parse_unary(p, false), NULL);
    else
        n = parse_primary(p, false);
    n = parse_postfix(p, n);
    for (; with_filter; count_link(p, &length)) {
        if (p->t->type == T_PIPE)
            n = parse_filters(p, n, false);
        else if (token_is_name(p->t, "is"))
            n = parse_test(p, n);
        else if (p->t->type == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    p->depth--;
    return n;
}
