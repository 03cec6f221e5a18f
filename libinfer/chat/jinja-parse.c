/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses statements: turns tags and text into nodes, by jinja2's grammar with the loopcontrols
 * extension and the generation tag. jinja-parse-expr.c parses expressions.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "chat/jinja-ast.h"

struct node *node_new(struct parser *p, enum node_type type, uint32_t line)
{
    struct node *n = JNEW(p->j, struct node);

    n->type = type;
    n->line = line;
    return n;
}

void nodes_add(struct parser *p, struct nodes *list, struct node *n)
{
    /* The capacity is always a power of two and doubles when the list is full, so the list does not
     * store its capacity. */
    if ((list->n & (list->n - 1)) == 0) {
        struct node **v = JARRAY(p->j, struct node *, list->n ? (size_t)list->n * 2 : 1);

        if (list->n)
            memcpy(v, list->v, list->n * sizeof(*v));
        list->v = v;
    }
    list->v[list->n++] = n;
}

void parse_fail(struct parser *p, uint32_t line, const char *format, ...)
{
    char text[160];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    p->j->line = line;
    jinja_raise(p->j, EBADMSG, "%s", text);
}

const char *token_text(struct parser *p)
{
    static const char *const names[] = {
        "end of template",
        "text",
        "{%",
        "%}",
        "{{",
        "}}",
        "name",
        "string",
        "integer",
        "float",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "~",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "==",
        "!=",
        ">",
        ">=",
        "<",
        "<=",
        "=",
        ".",
        ":",
        "|",
        ",",
        ";",
    };
    const struct token *t = p->t;

    if (t->type == T_NAME) {
        char *s = arena_strndup(p->j->arena, t->val.u.s->data, MIN(t->val.u.s->len, (size_t)60));

        return s ? s : "name";
    }
    return names[t->type];
}

bool token_is_name(const struct token *t, const char *name)
{
    return t->type == T_NAME && jstr_is(t->val.u.s, name);
}

bool parse_skip(struct parser *p, enum token_type type)
{
    if (p->t->type != type)
        return false;
    p->t++;
    return true;
}

bool parse_skip_name(struct parser *p, const char *name)
{
    if (!token_is_name(p->t, name))
        return false;
    p->t++;
    return true;
}

struct token *parse_expect(struct parser *p, enum token_type type)
{
    static const char *const names[] = {
        [T_BLOCK_END] = "%}", [T_VAR_END] = "}}", [T_NAME] = "name", [T_RBRACKET] = "]",
        [T_LPAREN] = "(",     [T_RPAREN] = ")",   [T_RBRACE] = "}",  [T_ASSIGN] = "=",
        [T_COLON] = ":",      [T_COMMA] = ",",
    };

    if (p->t->type != type)
        parse_fail(p, p->t->line, "expected '%s', got '%s'", names[type], token_text(p));
    return p->t++;
}

void parse_deeper(struct parser *p)
{
    if (++p->depth > JINJA_MAX_NESTING)
        parse_fail(p, p->t->line, "the template nests too deeply");
}

static struct nodes parse_until(struct parser *p, const char *const *ends);

/* Parses the body of a statement up to a tag whose name is in @ends. That name is then the current
 * token. */
static struct nodes parse_body(struct parser *p, const char *const *ends)
{
    struct nodes body;

    parse_skip(p, T_COLON);
    parse_expect(p, T_BLOCK_END);
    parse_deeper(p);
    body = parse_until(p, ends);
    p->depth--;
    return body;
}

static struct nodes parse_body_to(struct parser *p, const char *end)
{
    struct nodes body = parse_body(p, (const char *const[]){end, NULL});

    p->t++;
    return body;
}

static struct node *name_target(struct parser *p, enum name_ctx ctx)
{
    struct token *t = parse_expect(p, T_NAME);
    struct node *n = node_new(p, N_NAME, t->line);

    n->name = t->val.u.s;
    n->op = ctx;
    if (jstr_is(n->name, "true") || jstr_is(n->name, "false") || jstr_is(n->name, "none") ||
        jstr_is(n->name, "True") || jstr_is(n->name, "False") || jstr_is(n->name, "None"))
        parse_fail(p, t->line, "can't assign to 'name'");
    return n;
}

static void set_ctx(struct parser *p, struct node *n, enum name_ctx ctx)
{
    if (n->type == N_NAME)
        n->op = ctx;
    else if (n->type == N_TUPLE)
        for (uint32_t i = 0; i < n->args.n; i++)
            set_ctx(p, n->args.v[i], ctx);
    else if (n->type != N_NSREF)
        parse_fail(p, n->line, "can't assign to this expression");
}

static struct node *assign_target(struct parser *p, bool with_ns, const char *end_name,
                                  enum name_ctx ctx)
{
    struct node *n = parse_tuple(p, TUPLE_SIMPLE | (with_ns ? TUPLE_NS : 0), end_name);

    set_ctx(p, n, ctx);
    return n;
}

static struct node *parse_set(struct parser *p)
{
    const uint32_t line = p->t++->line;
    struct node *target = assign_target(p, true, NULL, CTX_STORE), *n;

    if (parse_skip(p, T_ASSIGN)) {
        n = node_new(p, N_ASSIGN, line);
        n->a = target;
        n->b = parse_tuple(p, 0, NULL);
        return n;
    }
    n = node_new(p, N_ASSIGNBLOCK, line);
    n->a = target;
    n->b = parse_filters(p, NULL, false);
    n->body = parse_body_to(p, "endset");
    return n;
}

static struct node *parse_for(struct parser *p)
{
    struct node *n = node_new(p, N_FOR, p->t++->line);

    n->a = assign_target(p, false, "in", CTX_STORE);
    if (!parse_skip_name(p, "in"))
        parse_fail(p, p->t->line, "expected 'in', got '%s'", token_text(p));
    n->b = parse_tuple(p, TUPLE_NOCOND, "recursive");
    if (parse_skip_name(p, "if"))
        n->c = parse_expression(p);
    n->flag = parse_skip_name(p, "recursive");
    n->body = parse_body(p, (const char *const[]){"endfor", "else", NULL});
    if (token_is_name(p->t++, "else"))
        n->els = parse_body_to(p, "endfor");
    return n;
}

static struct node *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node *n = node_new(p, N_IF, p->t++->line), *last = n;

    for (;;) {
        last->a = parse_tuple(p, TUPLE_NOCOND, NULL);
        last->body = parse_body(p, ends);
        if (token_is_name(p->t, "elif")) {
            last = node_new(p, N_IF, p->t++->line);
            nodes_add(p, &n->args, last);
            continue;
        }
        if (token_is_name(p->t++, "else"))
            n->els = parse_body_to(p, "endif");
        return n;
    }
}

static void parse_signature(struct parser *p, struct node *n)
{
    parse_expect(p, T_LPAREN);
    while (p->t->type != T_RPAREN) {
        struct node *arg;

        if (n->args.n)
            parse_expect(p, T_COMMA);
        arg = name_target(p, CTX_PARAM);
        jinja_charge(p->j, n->args.n * COST_CHAR);
        for (uint32_t i = 0; i < n->args.n; i++)
            if (jstr_eq(p->j, n->args.v[i]->name, arg->name))
                parse_fail(p, arg->line, "two parameters have the same name");
        if (parse_skip(p, T_ASSIGN))
            nodes_add(p, &n->kw, parse_expression(p));
        else if (n->kw.n)
            parse_fail(p, arg->line, "non-default argument follows default argument");
        nodes_add(p, &n->args, arg);
    }
    parse_expect(p, T_RPAREN);
}

static struct node *parse_macro(struct parser *p)
{
    struct node *n = node_new(p, N_MACRO, p->t++->line);

    n->name = name_target(p, CTX_STORE)->name;
    parse_signature(p, n);
    n->body = parse_body_to(p, "endmacro");
    return n;
}

static struct node *parse_call_block(struct parser *p)
{
    struct node *n = node_new(p, N_CALLBLOCK, p->t++->line);

    if (p->t->type == T_LPAREN)
        parse_signature(p, n);
    n->a = parse_expression(p);
    if (n->a->type != N_CALL)
        parse_fail(p, n->line, "expected call");
    n->body = parse_body_to(p, "endcall");
    return n;
}

static struct node *parse_generation(struct parser *p)
{
    struct node *n = node_new(p, N_CALLBLOCK, p->t++->line);

    n->body = parse_body_to(p, "endgeneration");
    return n;
}

static struct node *parse_filter_block(struct parser *p)
{
    struct node *n = node_new(p, N_FILTERBLOCK, p->t++->line);

    n->a = parse_filters(p, NULL, true);
    n->body = parse_body_to(p, "endfilter");
    return n;
}

static struct node *parse_with(struct parser *p)
{
    struct node *n = node_new(p, N_WITH, p->t++->line);

    while (p->t->type != T_BLOCK_END) {
        if (n->args.n)
            parse_expect(p, T_COMMA);
        nodes_add(p, &n->args, assign_target(p, false, NULL, CTX_PARAM));
        parse_expect(p, T_ASSIGN);
        nodes_add(p, &n->kw, parse_expression(p));
    }
    n->body = parse_body_to(p, "endwith");
    return n;
}

static struct node *parse_autoescape(struct parser *p)
{
    struct node *n = node_new(p, N_SCOPE, p->t++->line);

    n->a = parse_expression(p);
    if (n->a->type != N_CONST || n->a->val.kind == V_NONE || n->a->val.kind == V_STR ||
        val_as_float(n->a->val) != 0)
        parse_fail(p, n->line, "autoescape is not supported in chat templates");
    n->body = parse_body_to(p, "endautoescape");
    return n;
}

static bool is_blank(const struct nodes *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const struct node *n = body->v[i];

        if (n->type != N_OUTPUT)
            return false;
        for (uint32_t k = 0; k < n->args.n; k++) {
            const struct jstr *s = n->args.v[k]->val.u.s;

            if (n->args.v[k]->type != N_DATA)
                return false;
            for (const char *q = s->data; q < s->data + s->len;)
                if (!cp_is_space(u8_next(&q)))
                    return false;
        }
    }
    return true;
}

static struct node *parse_block(struct parser *p)
{
    struct node *n = node_new(p, N_BLOCK, p->t++->line);

    n->name = parse_expect(p, T_NAME)->val.u.s;
    n->flag = parse_skip_name(p, "scoped");
    n->required = parse_skip_name(p, "required");
    n->body = parse_body_to(p, "endblock");
    if (n->required && !is_blank(&n->body))
        parse_fail(p, n->line, "required blocks can only contain comments or whitespace");
    if (p->t->type == T_NAME && jstr_eq(p->j, p->t->val.u.s, n->name))
        p->t++;
    jinja_charge(p->j, p->blocks->n * COST_CHAR);
    for (uint32_t i = 0; i < p->blocks->n; i++)
        if (jstr_eq(p->j, p->blocks->v[i]->name, n->name))
            parse_fail(p, n->line, "a block is defined twice");
    nodes_add(p, p->blocks, n);
    return n;
}

static struct node *parse_print(struct parser *p)
{
    struct node *n = node_new(p, N_OUTPUT, p->t++->line);

    while (p->t->type != T_BLOCK_END) {
        if (n->args.n)
            parse_expect(p, T_COMMA);
        nodes_add(p, &n->args, parse_expression(p));
    }
    return n;
}

static struct node *parse_loop_control(struct parser *p)
{
    const bool is_break = token_is_name(p->t, "break");

    return node_new(p, is_break ? N_BREAK : N_CONTINUE, p->t++->line);
}

static struct node *parse_statement(struct parser *p)
{
    static const struct {
        const char *name;
        struct node *(*parse)(struct parser *p);
    } tags[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"generation", parse_generation},
        {"break", parse_loop_control},
        {"continue", parse_loop_control},
        {"print", parse_print},
        {"block", parse_block},
        {"autoescape", parse_autoescape},
    };
    static const char *const other[] = {"include", "import", "from", "extends"};

    if (p->t->type != T_NAME)
        parse_fail(p, p->t->line, "tag name expected");
    for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
        if (token_is_name(p->t, tags[i].name))
            return tags[i].parse(p);
    for (size_t i = 0; i < ARRAY_SIZE(other); i++)
        if (token_is_name(p->t, other[i]))
            parse_fail(p, p->t->line, "'%s' needs other templates, but a chat template has none",
                       other[i]);
    parse_fail(p, p->t->line, "unknown tag '%s'", token_text(p));
}

static void add_output(struct parser *p, struct nodes *body, struct node **out, struct node *n)
{
    if (!*out) {
        *out = node_new(p, N_OUTPUT, n->line);
        nodes_add(p, body, *out);
    }
    nodes_add(p, &(*out)->args, n);
}

static struct nodes parse_until(struct parser *p, const char *const *ends)
{
    struct nodes body = {0};
    struct node *out = NULL, *n;

    for (;; p->t++) {
        p->n_links = 0;
        switch (p->t->type) {
        case T_EOF:
            if (ends)
                parse_fail(p, p->t->line, "unexpected end of template, expected '%s'", ends[0]);
            return body;
        case T_DATA:
            n = node_new(p, N_DATA, p->t->line);
            n->val = p->t->val;
            add_output(p, &body, &out, n);
            break;
        case T_VAR_BEGIN:
            p->t++;
            add_output(p, &body, &out, parse_tuple(p, 0, NULL));
            if (p->t->type != T_VAR_END)
                parse_expect(p, T_VAR_END);
            break;
        case T_BLOCK_BEGIN:
            p->t++;
            out = NULL;
            for (size_t i = 0; ends && ends[i]; i++)
                if (token_is_name(p->t, ends[i]))
                    return body;
            nodes_add(p, &body, parse_statement(p));
            if (p->t->type != T_BLOCK_END)
                parse_expect(p, T_BLOCK_END);
            break;
        default:
            parse_fail(p, p->t->line, "unexpected '%s'", token_text(p));
        }
    }
}

void jinja_parse(struct jinja *j, struct template *tmpl)
{
    struct parser p = {.j = j, .blocks = &tmpl->blocks};
    size_t n;

    p.t = jinja_lex(j, tmpl->text->data, tmpl->text->len, &n);
    tmpl->root = node_new(&p, N_BLOCK, 1);
    tmpl->root->body = parse_until(&p, NULL);
}
