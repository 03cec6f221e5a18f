/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the text of a template into tokens, like jinja2's lexer with trim_blocks, lstrip_blocks and
 * the default delimiters. Line ends become \n, and a line end at the end of the template is
 * dropped. The lexer removes whitespace around tags, so that the parser sees only text that is
 * printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja-ast.h"
#include "core/utf8.h"

struct lexer {
    struct jinja *j;
    const char *s, *p, *end;
    uint32_t line;
    bool line_start; /* the previous token ended a line, or there is no previous token */
    struct token *t;
    size_t n, cap;
    char braces[JINJA_MAX_NESTING * 2];
    size_t n_braces;
};

static struct token *emit_token(struct lexer *x, enum token_type type)
{
    if (x->n == x->cap) {
        const size_t cap = x->cap ? x->cap * 2 : 256;
        struct token *t = JARRAY(x->j, struct token, cap);

        if (x->n)
            memcpy(t, x->t, x->n * sizeof(*t));
        x->t = t;
        x->cap = cap;
    }
    x->t[x->n] = (struct token){.type = type, .line = x->line};
    return &x->t[x->n++];
}

static _Noreturn void lex_fail(struct lexer *x, const char *what)
{
    x->j->line = x->line;
    jinja_raise(x->j, EBADMSG, "%s", what);
}

static bool starts_with(const struct lexer *x, const char *p, const char *with)
{
    const size_t len = strlen(with);

    return (size_t)(x->end - p) >= len && memcmp(p, with, len) == 0;
}

static const char *skip_space(const struct lexer *x, const char *p)
{
    while (p < x->end) {
        const char *q = p;

        if (!cp_is_space(u8_next(&q)))
            break;
        p = q;
    }
    return p;
}

static void count_lines(struct lexer *x, const char *from, const char *to)
{
    while ((from = memchr(from, '\n', (size_t)(to - from)))) {
        x->line++;
        from++;
    }
}

static void move_to(struct lexer *x, const char *p)
{
    count_lines(x, x->p, p);
    if (p > x->p)
        x->line_start = p[-1] == '\n';
    x->p = p;
}

static void emit_data(struct lexer *x, const char *from, const char *to)
{
    if (from < to) {
        struct value v = val_of_jstr(jstr_wrap(x->j, from, (size_t)(to - from)));

        jstr_count(x->j, v.u.s);
        emit_token(x, T_DATA)->val = v;
    }
}

/* Returns the end of the text before a tag, without the whitespace that the tag removes because of
 * its @sign or its kind. */
static const char *strip_before(const struct lexer *x, const char *from, const char *tag, char sign,
                                bool is_var)
{
    const char *p = tag;

    if (sign == '-') {
        while (p > from) {
            const char *q = p;

            if (!cp_is_space(u8_prev(&q)))
                break;
            p = q;
        }
        return p;
    }
    if (sign == '+' || is_var)
        return tag;
    while (p > from && p[-1] != '\n') {
        const char *q = p;

        if (!cp_is_space(u8_prev(&q)))
            return tag;
        p = q;
    }
    /* If all text from @from to the tag is blank, the text is removed only if it begins a line. */
    if (p == from && !x->line_start)
        return tag;
    return p;
}

/* Matches the end of a block or comment ("%}" or "#}") at @p. Returns the place after it, or
 * NULL. */
static const char *match_end(const struct lexer *x, const char *p, const char *mark)
{
    if (*p == '+' && starts_with(x, p + 1, mark))
        return p + 3;
    if (*p == '-' && starts_with(x, p + 1, mark))
        return skip_space(x, p + 3);
    if (starts_with(x, p, mark)) {
        p += 2;
        return p < x->end && *p == '\n' ? p + 1 : p;
    }
    return NULL;
}

static const char *match_word(const struct lexer *x, const char *p, const char *word)
{
    p = skip_space(x, p);
    if (!starts_with(x, p, word))
        return NULL;
    return skip_space(x, p + strlen(word));
}

/* Returns where the raw text begins if "{% raw %}" is at @p, else NULL. */
static const char *match_raw(const struct lexer *x, const char *p)
{
    p += 2;
    if (p < x->end && (*p == '-' || *p == '+'))
        p++;
    p = match_word(x, p, "raw");
    if (!p)
        return NULL;
    if (starts_with(x, p, "-%}"))
        return skip_space(x, p + 3);
    return starts_with(x, p, "%}") ? p + 2 : NULL;
}

static void lex_raw(struct lexer *x)
{
    for (const char *p = x->p; p < x->end; p++) {
        const char *q;
        char sign = 0;

        if (!starts_with(x, p, "{%"))
            continue;
        q = p + 2;
        if (q < x->end && (*q == '-' || *q == '+'))
            sign = *q++;
        q = match_word(x, q, "endraw");
        if (q && q < x->end && (q = match_end(x, q, "%}"))) {
            emit_data(x, x->p, strip_before(x, x->p, p, sign, false));
            move_to(x, q);
            return;
        }
    }
    if (x->p < x->end) /* jinja2 allows a template to end right after {% raw %} */
        lex_fail(x, "Missing end of raw directive");
}

static void lex_comment(struct lexer *x)
{
    for (const char *p = x->p; p < x->end; p++) {
        const char *q = match_end(x, p, "#}");

        if (q) {
            move_to(x, q);
            return;
        }
    }
    if (x->p < x->end)
        lex_fail(x, "Missing end of comment tag");
}

static unsigned hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

static const char *unescape_hex(struct lexer *x, struct jbuf *b, const char *p, const char *end,
                                unsigned digits)
{
    uint32_t cp = 0;

    for (unsigned i = 0; i < digits; i++, p++) {
        const unsigned d = p < end ? hex_digit(*p) : 16;

        if (d == 16)
            lex_fail(x, "truncated escape in a string");
        cp = cp << 4 | d;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        lex_fail(x, "a string escape is no Unicode character");
    jbuf_cp(x->j, b, cp);
    return p;
}

/* Appends the character that an escape stands for, as Python's codec unicode-escape does. @p is
 * after the backslash of the escape. Returns the end of the escape. */
static const char *unescape_string(struct lexer *x, struct jbuf *b, const char *p, const char *end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = *p, *known = strchr(from, c);
    char text[16];

    if (c == '\n')
        return p + 1;
    if (c && known) {
        jbuf_putc(x->j, b, to[known - from]);
        return p + 1;
    }
    if (c == 'x')
        return unescape_hex(x, b, p + 1, end, 2);
    if (c == 'u')
        return unescape_hex(x, b, p + 1, end, 4);
    if (c == 'U')
        return unescape_hex(x, b, p + 1, end, 8);
    if (c == 'N')
        lex_fail(x, "named characters (\\N) are not supported");
    if (c >= '0' && c <= '7') {
        uint32_t cp = 0;

        for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++)
            cp = cp * 8 + (uint32_t)(*p++ - '0');
        jbuf_cp(x->j, b, cp);
        return p;
    }
    jbuf_putc(x->j, b, '\\');
    if ((unsigned char)c >= 0x80) {
        const uint32_t cp = u8_next(&p);

        snprintf(text, sizeof(text), cp < 0x100 ? "x%02x" : cp < 0x10000 ? "u%04x" : "U%08x", cp);
        jbuf_puts(x->j, b, text);
    }
    return p;
}

static void lex_string(struct lexer *x)
{
    const char quote = *x->p, *p = x->p + 1, *start = p;
    struct jbuf b = {0};
    struct value v;

    while (p < x->end && *p != quote)
        p += *p == '\\' && p + 1 < x->end ? 2 : 1;
    if (p >= x->end)
        lex_fail(x, "unexpected char: a string does not end");
    for (const char *q = start; q < p;) {
        if (*q == '\\')
            q = unescape_string(x, &b, q + 1, p);
        else
            jbuf_putc(x->j, &b, *q++);
    }
    v = jbuf_value(x->j, &b);
    v.u.s->buf = NULL;
    jstr_count(x->j, v.u.s);
    emit_token(x, T_STRING)->val = v;
    move_to(x, p + 1);
}

/* Matches digits with single underscores between them. Returns the place after them, or NULL. */
static const char *match_digits(const struct lexer *x, const char *p)
{
    const char *last = NULL;

    while (p < x->end && *p >= '0' && *p <= '9') {
        last = ++p;
        if (p + 1 < x->end && *p == '_' && p[1] >= '0' && p[1] <= '9')
            p++;
    }
    return last;
}

static const char *match_float(const struct lexer *x, const char *p)
{
    const char *whole = match_digits(x, p), *frac = NULL, *exp = NULL, *at = whole;

    if (!whole || (x->p > x->s && x->p[-1] == '.'))
        return NULL;
    if (at < x->end && *at == '.' && (frac = match_digits(x, at + 1)))
        at = frac;
    if (at < x->end && (*at | 0x20) == 'e') {
        const char *q = at + 1;

        if (q < x->end && (*q == '+' || *q == '-'))
            q++;
        exp = match_digits(x, q);
    }
    return exp ? exp : frac;
}

static const char *match_based(const struct lexer *x, const char *p, unsigned base)
{
    const char *last = NULL;

    for (p += 2; p < x->end; p++) {
        const char *q = *p == '_' ? p + 1 : p;

        if (q >= x->end || hex_digit(*q) >= base)
            break;
        p = q;
        last = q + 1;
    }
    return last;
}

static const char *match_int(const struct lexer *x, const char *p, unsigned *ret_base)
{
    const char *q = NULL;

    *ret_base = 10;
    if (*p == '0' && p + 1 < x->end) {
        const char c = (char)(p[1] | 0x20);

        *ret_base = c == 'b' ? 2 : c == 'o' ? 8 : c == 'x' ? 16 : 10;
        if (*ret_base != 10 && (q = match_based(x, p, *ret_base)))
            return q;
        *ret_base = 10;
    }
    if (*p != '0')
        return match_digits(x, p);
    /* A number that begins with 0 consists only of zeros: 007 gives the tokens 00 and 7. */
    for (q = p + 1; q < x->end; q++) {
        if (*q == '_' && q + 1 < x->end && q[1] == '0')
            continue;
        if (*q != '0')
            break;
    }
    return q;
}

static void lex_number(struct lexer *x)
{
    const char *p = match_float(x, x->p);
    const bool is_float = p != NULL;
    char text[512];
    unsigned base = 10;
    size_t n = 0;

    if (!p)
        p = match_int(x, x->p, &base);
    for (const char *q = x->p + (base != 10 ? 2 : 0); q < p; q++)
        if (*q != '_') {
            if (n + 1 == sizeof(text))
                lex_fail(x, "a number is too long");
            text[n++] = *q;
        }
    text[n] = 0;
    if (is_float) {
        emit_token(x, T_FLOAT)->val = val_float(strtod(text, NULL));
    } else {
        errno = 0;
        emit_token(x, T_INT)->val = val_int(strtoll(text, NULL, (int)base));
        if (errno == ERANGE)
            lex_fail(x, "an integer is larger than 64 bits");
    }
    move_to(x, p);
}

static void lex_name(struct lexer *x)
{
    const char *p = x->p, *q = p;
    struct value v;

    while (p < x->end && cp_is_name(u8_next(&q), false))
        p = q;
    v = val_of_jstr(jstr_wrap(x->j, x->p, (size_t)(p - x->p)));
    jstr_count(x->j, v.u.s);
    emit_token(x, T_NAME)->val = v;
    move_to(x, p);
}

static const struct {
    char text[3];
    uint8_t type;
} operators[] = {
    {"//", T_FLOORDIV}, {"**", T_POW},   {"==", T_EQ},      {"!=", T_NE},      {">=", T_GE},
    {"<=", T_LE},       {"+", T_ADD},    {"-", T_SUB},      {"/", T_DIV},      {"*", T_MUL},
    {"%", T_MOD},       {"~", T_TILDE},  {"[", T_LBRACKET}, {"]", T_RBRACKET}, {"(", T_LPAREN},
    {")", T_RPAREN},    {"{", T_LBRACE}, {"}", T_RBRACE},   {">", T_GT},       {"<", T_LT},
    {"=", T_ASSIGN},    {".", T_DOT},    {":", T_COLON},    {"|", T_PIPE},     {",", T_COMMA},
    {";", T_SEMICOLON},
};

static void lex_operator(struct lexer *x)
{
    const char c = *x->p;
    char text[64];

    for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
        if (!starts_with(x, x->p, operators[i].text))
            continue;
        if (c == '(' || c == '[' || c == '{') {
            if (x->n_braces == sizeof(x->braces))
                lex_fail(x, "brackets nest too deeply");
            x->braces[x->n_braces++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (x->n_braces == 0 || x->braces[--x->n_braces] != c) {
                snprintf(text, sizeof(text), "unexpected '%c'", c);
                lex_fail(x, text);
            }
        }
        emit_token(x, operators[i].type);
        move_to(x, x->p + strlen(operators[i].text));
        return;
    }
    lex_fail(x, "unexpected character in a tag");
}

/* Lexes the content of a block or of a print statement. */
static void lex_tag(struct lexer *x, bool is_var)
{
    for (;;) {
        const char *end = NULL, *q;
        uint32_t cp;

        if (x->p >= x->end)
            return; /* the parser reports what is missing */
        if (x->n_braces == 0) {
            if (!is_var)
                end = match_end(x, x->p, "%}");
            else if (starts_with(x, x->p, "-}}"))
                end = skip_space(x, x->p + 3);
            else if (starts_with(x, x->p, "}}"))
                end = x->p + 2;
        }
        if (end) {
            emit_token(x, is_var ? T_VAR_END : T_BLOCK_END);
            move_to(x, end);
            return;
        }
        q = x->p;
        cp = u8_next(&q);
        if (cp_is_space(cp))
            move_to(x, skip_space(x, x->p));
        else if (cp >= '0' && cp <= '9')
            lex_number(x);
        else if (cp_is_name(cp, true))
            lex_name(x);
        else if (cp == '\'' || cp == '"')
            lex_string(x);
        else
            lex_operator(x);
    }
}

static void lex_root(struct lexer *x)
{
    while (x->p < x->end) {
        const char *p = x->p, *raw, *q;
        char kind, sign = 0;

        do {
            p = memchr(p, '{', (size_t)(x->end - p));
        } while (p && !(p + 1 < x->end && strchr("{%#", p[1])) && p++ < x->end);
        if (!p) {
            emit_data(x, x->p, x->end);
            return;
        }
        kind = p[1];
        q = p + 2;
        if (q < x->end && (*q == '-' || *q == '+'))
            sign = *q++;
        emit_data(x, x->p, strip_before(x, x->p, p, sign, kind == '{'));
        raw = kind == '%' ? match_raw(x, p) : NULL;
        move_to(x, raw ? raw : q);
        x->n_braces = 0;
        if (raw) {
            lex_raw(x);
        } else if (kind == '#') {
            lex_comment(x);
        } else {
            emit_token(x, kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN);
            lex_tag(x, kind == '{');
        }
    }
}

struct token *jinja_lex(struct jinja *j, const char *text, size_t len, size_t *ret_n)
{
    struct lexer x = {.j = j, .line = 1, .line_start = true};
    char *s = jinja_alloc(j, len + 1);
    size_t n = 0;

    jinja_chars(j, 2 * len);
    if (len && !utf8_valid(text, len))
        jinja_raise(j, EBADMSG, "the template is not valid UTF-8");
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r') {
            s[n++] = '\n';
            i += i + 1 < len && text[i + 1] == '\n';
        } else {
            s[n++] = text[i];
        }
    }
    if (n > 0 && s[n - 1] == '\n')
        n--;
    s[n] = 0;
    x.s = x.p = s;
    x.end = s + n;
    lex_root(&x);
    emit_token(&x, T_EOF);
    *ret_n = x.n;
    return x.t;
}
