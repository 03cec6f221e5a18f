/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the automata of random grammars with the results of a second implementation. For each
 * rule the second implementation computes the set of all texts up to a length, by applying the
 * rules until no set changes.
 */
#include "unit/grammar/tiny.h"

#include "core/rng.h"

enum {
    LETTERS = 3,
    LENGTH = 6,
    TEXTS = 1093, /* 1 + 3 + 9 + … + 729 */
    RULES = 3,
    MAX_EXPRS = 64,
};

/* A set of texts. Text number 0 is empty, and text number 3 n + 1 + k is text number n followed by
 * letter k. */
struct language {
    bool has[TEXTS];
};

enum expr_kind {
    EXPR_TEXT,
    EXPR_EMPTY,
    EXPR_SEQ,
    EXPR_ALT,
    EXPR_REPEAT,
    EXPR_RULE,
    EXPR_AND,
    EXPR_NOT
};

struct expr {
    enum expr_kind kind;
    int x, y; /* the operands, or x is the number of the text or the rule */
    uint32_t min, max;
};

struct random_grammar {
    struct expr exprs[MAX_EXPRS];
    int n, bodies[RULES];
    struct language rules[RULES];
    uint64_t seed;
};

static int text_length(int text)
{
    int n = 0;

    for (; text > 0; text = (text - 1) / LETTERS)
        n++;
    return n;
}

static void text_write(int text, char out[LENGTH + 1])
{
    const int n = text_length(text);

    out[n] = '\0';
    for (int i = n; i > 0; text = (text - 1) / LETTERS)
        out[--i] = "abc"[(text - 1) % LETTERS];
}

/* Appends text @y to text @x; -1: the result is too long. */
static int text_join(int x, int y)
{
    char letters[LENGTH + 1];

    if (text_length(x) + text_length(y) > LENGTH)
        return -1;
    text_write(y, letters);
    for (const char *p = letters; *p; p++)
        x = LETTERS * x + 1 + (*p - 'a');
    return x;
}

static uint32_t draw(struct random_grammar *g, uint32_t n)
{
    g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->seed >> 33) % n;
}

static int add_expr(struct random_grammar *g, struct expr e)
{
    g->exprs[g->n] = e;
    return g->n++;
}

/* Makes an expression and returns its number. If @regular is true, the expression refers to no
 * rule. */
static int make_expr(struct random_grammar *g, int depth, bool regular)
{
    const uint32_t kind = draw(g, 16);
    struct expr e = {.kind = EXPR_TEXT, .x = (int)draw(g, 13)};

    if (depth == 0 || g->n > MAX_EXPRS - 8 || kind < 3) {
        if (kind == 0)
            e.kind = EXPR_EMPTY;
    } else if (kind < 7) {
        e.kind = EXPR_SEQ;
        e.x = make_expr(g, depth - 1, regular);
        e.y = make_expr(g, depth - 1, regular);
    } else if (kind < 10) {
        e.kind = EXPR_ALT;
        e.x = make_expr(g, depth - 1, regular);
        e.y = make_expr(g, depth - 1, regular);
    } else if (kind < 12) {
        e.kind = EXPR_REPEAT;
        e.min = draw(g, 3);
        e.max = draw(g, 3) == 0 ? GRAMMAR_FOREVER : e.min + draw(g, 3);
        e.x = make_expr(g, depth - 1, regular);
    } else if (kind < 15 && !regular) {
        e.kind = EXPR_RULE;
        e.x = (int)draw(g, RULES);
    } else {
        e.kind = draw(g, 2) ? EXPR_AND : EXPR_NOT;
        e.x = make_expr(g, depth - 1, true);
        e.y = e.kind == EXPR_AND ? make_expr(g, depth - 1, true) : 0;
    }
    return g->n < MAX_EXPRS ? add_expr(g, e) : 0;
}

static void language_join(const struct language *x, const struct language *y,
                          struct language *ret_language)
{
    struct language result = {{false}};

    for (int i = 0; i < TEXTS; i++)
        for (int k = 0; x->has[i] && k < TEXTS; k++)
            if (y->has[k] && text_join(i, k) >= 0)
                result.has[text_join(i, k)] = true;
    *ret_language = result;
}

static void language_repeat(const struct language *x, uint32_t min, uint32_t max,
                            struct language *ret_language)
{
    struct language power = {{true}}, result = {{false}};

    /* A text has at most LENGTH letters, so at most LENGTH of its repetitions are not empty. More
     * than min + LENGTH repetitions therefore give no new texts. */
    for (uint32_t i = 0; i <= MIN(max, min + LENGTH); i++) {
        for (int t = 0; i >= min && t < TEXTS; t++)
            result.has[t] |= power.has[t];
        language_join(&power, x, &power);
    }
    *ret_language = result;
}

static void language_of(const struct random_grammar *g, int expr, struct language *ret_language)
{
    const struct expr e = g->exprs[expr];
    struct language x = {{false}}, y;

    switch (e.kind) {
    case EXPR_TEXT:
        x.has[e.x] = true;
        break;
    case EXPR_EMPTY:
        x.has[0] = true;
        break;
    case EXPR_RULE:
        x = g->rules[e.x];
        break;
    case EXPR_REPEAT:
        language_of(g, e.x, &y);
        language_repeat(&y, e.min, e.max, &x);
        break;
    case EXPR_NOT:
        language_of(g, e.x, &x);
        for (int t = 0; t < TEXTS; t++)
            x.has[t] = !x.has[t];
        break;
    case EXPR_SEQ:
    case EXPR_ALT:
    case EXPR_AND:
        language_of(g, e.x, &x);
        language_of(g, e.y, &y);
        for (int t = 0; e.kind != EXPR_SEQ && t < TEXTS; t++)
            x.has[t] = e.kind == EXPR_ALT ? x.has[t] || y.has[t] : x.has[t] && y.has[t];
        if (e.kind == EXPR_SEQ)
            language_join(&x, &y, &x);
        break;
    }
    *ret_language = x;
}

static void find_languages(struct random_grammar *g)
{
    bool changed;

    memset(g->rules, 0, sizeof(g->rules));
    do {
        changed = false;
        for (int i = 0; i < RULES; i++) {
            struct language new;

            language_of(g, g->bodies[i], &new);
            changed |= memcmp(&new, &g->rules[i], sizeof(new)) != 0;
            g->rules[i] = new;
        }
    } while (changed);
}

static grammar_node build_expr(const struct random_grammar *g, struct grammar_builder *b, int expr,
                               const grammar_node *rules)
{
    const struct expr e = g->exprs[expr];
    grammar_node nodes[2];
    char text[LENGTH + 1];

    switch (e.kind) {
    case EXPR_TEXT:
        text_write(e.x, text);
        return grammar_bytes(b, text, strlen(text));
    case EXPR_EMPTY:
        return grammar_empty(b);
    case EXPR_RULE:
        return rules[e.x];
    case EXPR_REPEAT:
        return grammar_repeat(b, build_expr(g, b, e.x, rules), e.min, e.max);
    case EXPR_NOT:
        return grammar_not(b, build_expr(g, b, e.x, rules));
    default:
        nodes[0] = build_expr(g, b, e.x, rules);
        nodes[1] = build_expr(g, b, e.y, rules);
    }
    if (e.kind == EXPR_AND)
        return grammar_and(b, nodes[0], nodes[1]);
    return e.kind == EXPR_SEQ ? grammar_seq(b, nodes, 2) : grammar_alt(b, nodes, 2);
}

/* Builds a grammar. Returns NULL if the grammar permits no text. */
static struct inf_grammar *build(const struct random_grammar *g, struct inf_grammar_vocab *vocab)
{
    grammar_node rules[RULES];
    struct grammar_builder *b;
    struct inf_grammar *grammar;
    struct program *program;
    struct inf_err err = {0};
    int r;

    ASSERT_OK(grammar_builder_new(&b));
    for (int i = 0; i < RULES; i++)
        rules[i] = grammar_rule_new(b, "rule");
    for (int i = 0; i < RULES; i++)
        grammar_rule_set(b, rules[i], build_expr(g, b, g->bodies[i], rules));
    r = grammar_program_new(b, rules[0], vocab->tok, &program, &err);
    grammar_builder_free(b);
    if (r == -EINVAL) {
        ASSERT_STREQ(err.text, "the grammar permits no text at all");
        return NULL;
    }
    ASSERT_OK_ERR(r, err);
    ASSERT_OK(grammar_new(vocab, program, &grammar));
    return grammar;
}

/* Checks that the mask has exactly the tokens that a copy of the matcher accepts. A copy must
 * accept a token exactly if another copy accepts its bytes one after the other. */
static void check_mask(const struct grammar_matcher *m)
{
    struct grammar_matcher *other, *bytes;
    uint32_t mask = 0;

    ASSERT_OK(grammar_matcher_clone(m, &other));
    ASSERT_OK(grammar_matcher_mask(other, &mask));
    assert_int_equal(mask >> TINY_END & 1, grammar_matcher_is_complete(m));
    for (int32_t id = 0; id < TINY_N; id++) {
        bool by_bytes;

        other = grammar_matcher_free(other);
        ASSERT_OK(grammar_matcher_clone(m, &other));
        ASSERT_OK(grammar_matcher_clone(m, &bytes));
        by_bytes = tiny_feed(bytes, TINY_TEXTS[id]);
        assert_int_equal(mask >> id & 1, by_bytes);
        assert_int_equal(grammar_matcher_accept(other, id) == 0, by_bytes);
        if (by_bytes)
            assert_int_equal(other->config, bytes->config);
        grammar_matcher_free(bytes);
    }
    grammar_matcher_free(other);
}

static unsigned n_only, n_bytes; /* forced tokens that were checked */

static bool is_beginning(const char *a, const char *b)
{
    return strncmp(a, b, MIN(strlen(a), strlen(b))) == 0;
}

/* Checks the tokens that a grammar forces after @text against the masks: if only one token may
 * come, the mask has no other token. If only one text may come, each token of the mask is a
 * beginning of it, or goes beyond the part of it that was found. */
static void check_forced(const struct grammar_matcher *m, const char *text)
{
    int32_t tokens[LENGTH];
    uint32_t n = 0;
    struct grammar_matcher *other;
    struct grammar_forced forced;

    for (; *text; text++)
        tokens[n++] = *text - 'a';
    ASSERT_OK(grammar_matcher_clone(m, &other));
    ASSERT_OK(grammar_matcher_forced(other, tokens, n, 16, &forced));
    for (uint32_t i = 0; i < forced.n; i++) {
        char rest[GRAMMAR_FORCED_MAX * 3 + 1] = "";
        uint32_t mask = 0;

        for (uint32_t k = i; k < forced.n && forced.certainty[k] != GRAMMAR_LIKELY; k++)
            strcat(rest, TINY_TEXTS[forced.tokens[k]]);
        ASSERT_OK(grammar_matcher_mask(other, &mask));
        if (forced.certainty[i] == GRAMMAR_ONLY)
            assert_int_equal(mask, 1u << forced.tokens[i]);
        for (int32_t id = 0; forced.certainty[i] == GRAMMAR_BYTES && id <= TINY_END; id++)
            assert_true(!(mask >> id & 1) || is_beginning(TINY_TEXTS[id], rest));
        n_only += forced.certainty[i] == GRAMMAR_ONLY;
        n_bytes += forced.certainty[i] == GRAMMAR_BYTES;
        if (forced.certainty[i] == GRAMMAR_LIKELY)
            break;
        ASSERT_OK(grammar_matcher_accept(other, forced.tokens[i]));
    }
    grammar_matcher_free(other);
}

/* Checks that the text so far can be completed, by a search for an end made of single letters. */
static void check_alive(const struct inf_grammar *grammar, const struct grammar_matcher *m)
{
    static struct grammar_matcher *queue[5000];
    size_t n = 1;
    bool found = false;

    ASSERT_OK(grammar_matcher_clone(m, &queue[0]));
    for (size_t i = 0; i < n && !found; i++) {
        found = grammar_matcher_is_complete(queue[i]);
        for (int32_t id = 0; !found && id <= TINY_B + 1 && n < ARRAY_SIZE(queue); id++) {
            bool known = false;

            ASSERT_OK(grammar_matcher_clone(queue[i], &queue[n]));
            if (grammar_matcher_accept(queue[n], id) == 0)
                for (size_t k = 0; !known && k < n; k++)
                    known = queue[k]->config == queue[n]->config;
            else
                known = true;
            if (known)
                grammar_matcher_free(queue[n]);
            else
                n++;
        }
    }
    /* A complement may need a letter outside of the alphabet. */
    if (!found && grammar->program->n_classes <= LETTERS + 3)
        assert_true(found || n == ARRAY_SIZE(queue));
    for (size_t i = 0; i < n; i++)
        grammar_matcher_free(queue[i]);
}

static void check_grammar(struct random_grammar *g, struct inf_grammar_vocab *vocab)
{
    struct inf_grammar *grammar = build(g, vocab);
    bool prefix[TEXTS] = {false};

    find_languages(g);
    for (int t = TEXTS - 1; t >= 0; t--) {
        prefix[t] |= g->rules[0].has[t];
        if (prefix[t] && t > 0)
            prefix[(t - 1) / LETTERS] = true;
    }
    if (!grammar) {
        assert_false(prefix[0]);
        return;
    }
    for (int t = 0; t < TEXTS; t++) {
        struct grammar_matcher *m;
        char text[LENGTH + 1];
        bool fed;

        ASSERT_OK(grammar_matcher_new(grammar, &m));
        text_write(t, text);
        fed = tiny_feed(m, text);
        if ((fed && grammar_matcher_is_complete(m)) != g->rules[0].has[t] || (prefix[t] && !fed))
            fail_msg("seed %llu: text \"%s\"", (unsigned long long)g->seed, text);
        if (fed && t < 40) {
            check_mask(m);
            check_forced(m, text);
            check_alive(grammar, m);
        }
        grammar_matcher_free(m);
    }
    inf_grammar_unref(grammar);
}

TEST(random_grammars_permit_exactly_the_texts_of_a_second_implementation)
{
    struct inf_tokenizer *tok = tiny_tokenizer();
    struct inf_grammar_vocab *vocab;
    static struct random_grammar g;

    ASSERT_OK(inf_grammar_vocab_new(tok, &vocab));
    for (uint32_t i = 0; i < test_rounds(60); i++) {
        g.seed = i;
        g.n = 0;
        for (int rule = 0; rule < RULES; rule++)
            g.bodies[rule] = make_expr(&g, 3, false);
        check_grammar(&g, vocab);
    }
    assert_true(n_only > 0 && n_bytes > 0);
    inf_grammar_vocab_unref(vocab);
    tokenizer_free(tok);
}

RUN_TESTS(cmocka_unit_test(random_grammars_permit_exactly_the_texts_of_a_second_implementation))
