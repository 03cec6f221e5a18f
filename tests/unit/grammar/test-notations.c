/* SPDX-License-Identifier: Apache-2.0 */
/* Reads grammars written as regular expressions, in GBNF and in Lark, and checks which texts they
 * permit. */
#include "unit/grammar/tiny.h"

#include "core/err.h"

static struct inf_tokenizer *tok;
static struct inf_grammar_vocab *vocab;

static int set_up(void **state)
{
    (void)state;
    tok = tiny_tokenizer();
    return inf_grammar_vocab_new(tok, &vocab);
}

static int tear_down(void **state)
{
    (void)state;
    vocab = inf_grammar_vocab_unref(vocab);
    tok = tokenizer_free(tok);
    return 0;
}

/* Returns whether a grammar permits @text, byte by byte. */
static bool accepts(struct inf_grammar *g, const char *text, size_t len)
{
    uint32_t config;

    ASSERT_OK(automaton_start(&g->automaton, &config));
    ASSERT_OK(grammar_make_room(g));
    for (size_t i = 0; i < len && config != AUTOMATON_DEAD; i++)
        ASSERT_OK(grammar_step(g, config, g->program->class_of[(unsigned char)text[i]], &config));
    return config != AUTOMATON_DEAD && g->automaton.configs[config].is_complete;
}

struct expected {
    const char *grammar;
    const char *yes[6], *no[6]; /* texts, up to NULL */
};

static void check(enum inf_grammar_kind kind, const struct expected *e)
{
    struct inf_grammar *g;
    struct inf_err err = {0};

    if (inf_grammar_new(vocab, kind, e->grammar, strlen(e->grammar), &g, &err) < 0)
        fail_msg("%s: %s", e->grammar, err.text);
    for (size_t i = 0; i < ARRAY_SIZE(e->yes) && e->yes[i]; i++)
        if (!accepts(g, e->yes[i], strlen(e->yes[i])))
            fail_msg("%s refuses \"%s\"", e->grammar, e->yes[i]);
    for (size_t i = 0; i < ARRAY_SIZE(e->no) && e->no[i]; i++)
        if (accepts(g, e->no[i], strlen(e->no[i])))
            fail_msg("%s permits \"%s\"", e->grammar, e->no[i]);
    inf_grammar_unref(g);
}

static void refuse(enum inf_grammar_kind kind, const char *text, const char *part)
{
    struct inf_grammar *g;
    struct inf_err err = {0};
    const int r = inf_grammar_new(vocab, kind, text, strlen(text), &g, &err);

    if (r == 0)
        fail_msg("%s is not refused", text);
    if (!strstr(err.text, part))
        fail_msg("%s: \"%s\" does not contain \"%s\"", text, err.text, part);
}

TEST(regular_expressions_permit_their_texts)
{
    static const struct expected cases[] = {
        {"a|bc*", {"a", "b", "bcc"}, {"", "ab", "ac"}},
        {"^a{2,3}$", {"aa", "aaa"}, {"a", "aaaa"}},
        {"(?<x>a)(?:b)??", {"a", "ab"}, {"b", "abb"}},
        {"[^a-c\\d]", {"d", "\u00e9", "\U0001f642"}, {"a", "5", "dd"}},
        {"\\w+\\s\\u0041\\x42\\u{43}", {"ab_1 ABC"}, {"ab-1 ABC"}},
        {".", {"a", "\u4f60"}, {"\n", "\r", "\u2028", ""}},
        {"\\p{Lu}\\P{L}", {"A1", "\u00c41"}, {"a1", "AA"}},
        {"\\p{General_Category=punct}\\p{gc=Decimal_Number}\\p{Combining_Mark}?",
         {"!1", ".\u0663", "-2\u0301"},
         {"a1", "!!"}},
        {"(?i)ab\u00e9", {"AB\u00c9", "aB\u00e9"}, {"ABe"}},
        {"(?i:a)b", {"Ab", "ab"}, {"AB"}},
        {"[\\]\\-]x{0}[-a]", {"]-", "-a"}, {"]x-"}},
        {"(?=.*1)(?!.*2)[0-9]{3}", {"001", "133"}, {"000", "012"}},
        {"^(a$|b)", {"a", "b"}, {"ab"}},
        {"a{2000}", {NULL}, {"aaa"}},
        {"\\ud83d\\ude42", {"\U0001f642"}, {"x"}},
        {"x{a}", {"x{a}"}, {"x"}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check(INF_GRAMMAR_REGEX, &cases[i]);
}

TEST(what_a_regular_expression_cannot_say_is_refused)
{
    refuse(INF_GRAMMAR_REGEX, "(a)\\1", "back reference");
    refuse(INF_GRAMMAR_REGEX, "(?<=a)b", "look-behind");
    refuse(INF_GRAMMAR_REGEX, "a\\b", "\\b");
    refuse(INF_GRAMMAR_REGEX, "(a", "without its end");
    refuse(INF_GRAMMAR_REGEX, "a)", "closing bracket");
    refuse(INF_GRAMMAR_REGEX, "[b-a]", "wrong order");
    refuse(INF_GRAMMAR_REGEX, "[a", "without its end");
    refuse(INF_GRAMMAR_REGEX, "*a", "nothing to repeat");
    refuse(INF_GRAMMAR_REGEX, "a{3,2}", "wrong order");
    refuse(INF_GRAMMAR_REGEX, "\\p{Nonsense}", "Nonsense");
    refuse(INF_GRAMMAR_REGEX, "\\p{Script=Greek}", "Script=Greek");
    refuse(INF_GRAMMAR_REGEX, "a^b", "middle");
    refuse(INF_GRAMMAR_REGEX, "(?!)", "no text");
    refuse(INF_GRAMMAR_REGEX, "\\", "backslash");
}

TEST(gbnf_permits_its_texts)
{
    static const struct expected cases[] = {
        {"root ::= \"a\" b | # comment\n  [x-z]+\nb ::= (\"b\" | \"c\"){2}\n",
         {"abb", "acb", "xyz"},
         {"a", "ab", "abbb"}},
        {"root ::= list\nlist ::= list \",\" item | item\nitem ::= [a-c]\n",
         {"a", "a,b,c"},
         {",a", "a,", ""}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()"}},
        {"root ::= [^\\n\\\"\\]]{,2} \"\\x41\\u00e9\\\\\"", {"xyA\u00e9\\"}, {"\nA\u00e9\\"}},
        {"root ::= x? . \nx ::= \"ab\"\n   | \"b\"", {"abz", "b\u00e9", "q"}, {"zz"}},
        {"root ::= (root)* \"a\"", {"a", "aa"}, {"", "b"}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check(INF_GRAMMAR_GBNF, &cases[i]);
    refuse(INF_GRAMMAR_GBNF, "root ::= other", "other");
    refuse(INF_GRAMMAR_GBNF, "rule ::= \"a\"", "root");
    refuse(INF_GRAMMAR_GBNF, "root ::= \"a", "line 1");
    refuse(INF_GRAMMAR_GBNF, "root ::= (\"a\"\n", "line 2");
    refuse(INF_GRAMMAR_GBNF, "root ::= root", "no text");
    refuse(INF_GRAMMAR_GBNF, "root ::= \"a\"\nroot ::= \"b\"", "twice");
    refuse(INF_GRAMMAR_GBNF, "root ::= <[99]>", "no token 99");
    refuse(INF_GRAMMAR_GBNF, "root ::= \"\\q\"", "escape");
}

TEST(lark_permits_its_texts)
{
    static const struct expected cases[] = {
        {"start: A b? -> name\nA.2: \"x\"..\"z\"\n?b: \"HI\"i | /q+/s\n",
         {"x", "yhi", "zHi", "xqq"},
         {"", "a", "xqhi"}},
        {"start: e\ne: e \"+\" INT | INT\n%import common.INT\n%ignore \" \"\n",
         {"1", "1 + 22+3 "},
         {"1 2", " 1"}},
        {"start: (\"a\" | \"b\")~2..3 [C]\nC: \"c\" // comment\n", {"ab", "babc"}, {"a", "abab"}},
        {"start: X\nX: /[a-z]{1,5}/ & ~/.*b.*/\n", {"acd"}, {"abc", "acdefg"}},
        {"start: body\nbody[suffix=\"</x>\"]: /(.|\\n)*/\n",
         {"a<\n</x>"},
         {"a</x></x>", "a", "</x"}},
        {"start: T\nT[lazy]: /a*b?/\n", {""}, {"a"}},
        {"start: %json_loose {\"items\": {\"type\": \"integer\"}, \"uniqueItems\": true, "
         "\"type\": \"array\"}",
         {"[1, 1]"},
         {"[true]", "1"}},
        {"start: \"{\" %json_text { start: \"\\\"\" W\n W: /[a}\\n]+/ } \"}\"",
         {"{\\\"a\\n}", "{\\u0022a\\u000A}"},
         {"{\"a}", "{\\\"a\n}"}},
        {"%import common (WS -> SPACE, CNAME)\nstart: CNAME SPACE CNAME{2}",
         {"a1 _bc"},
         {"1a b", "a b"}},
        {"start: %lark { start: \"a\" start | \"\" } \"!\"", {"!", "aa!"}, {"a"}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check(INF_GRAMMAR_LARK, &cases[i]);
    refuse(INF_GRAMMAR_LARK, "start: other", "other");
    refuse(INF_GRAMMAR_LARK, "other: \"a\"", "start");
    refuse(INF_GRAMMAR_LARK, "start: a{b}\n", "line 1");
    refuse(INF_GRAMMAR_LARK, "%declare X\nstart: X", "directive");
    refuse(INF_GRAMMAR_LARK, "start: X\n%import common.NOTHING", "common");
    refuse(INF_GRAMMAR_LARK, "start: \"a\n", "no end");
    refuse(INF_GRAMMAR_LARK, "start: /(/", "without its end");
    refuse(INF_GRAMMAR_LARK, "start[temperature=1]: \"a\"", "attribute");
    refuse(INF_GRAMMAR_LARK, "start: ~start \"a\"", "contains itself");
}

TEST(tokens_are_permitted_only_by_name)
{
    static const char text[] = "start: \"a\" <call> <tag> <[0]>? | <end> \"b\" | /<call>/";
    struct grammar_matcher *m;
    struct inf_grammar *g;
    struct inf_err err = {0};
    uint32_t mask;

    ASSERT_OK_ERR(inf_grammar_new(vocab, INF_GRAMMAR_LARK, text, strlen(text), &g, &err), err);
    ASSERT_OK(grammar_matcher_new(g, &m));
    ASSERT_OK(grammar_matcher_mask(m, &mask));
    assert_int_equal(mask, 1u << TINY_A | 1u << TINY_END);
    assert_int_equal(grammar_matcher_accept(m, TINY_CALL), MATCHER_REFUSED);
    ASSERT_OK(grammar_matcher_accept(m, TINY_A));
    assert_int_equal(grammar_matcher_accept(m, TINY_B), MATCHER_REFUSED);
    ASSERT_OK(grammar_matcher_mask(m, &mask));
    assert_int_equal(mask, 1u << TINY_CALL);
    assert_int_equal(grammar_matcher_accept(m, TINY_CALL), 0);
    assert_int_equal(grammar_matcher_accept(m, TINY_TAG), 0);
    assert_true(grammar_matcher_is_complete(m));
    assert_false(grammar_matcher_must_end(m));
    ASSERT_OK(grammar_matcher_mask(m, &mask));
    assert_int_equal(mask, 1u << TINY_A | 1u << TINY_END);
    assert_int_equal(grammar_matcher_accept(m, TINY_A), 0);
    assert_true(grammar_matcher_must_end(m));
    assert_int_equal(grammar_matcher_accept(m, TINY_END), 0);
    assert_int_equal(grammar_matcher_accept(m, TINY_END), MATCHER_REFUSED);
    grammar_matcher_free(m);
    inf_grammar_unref(g);
}

/* Deeply nested brackets need many configurations. If the automaton drops configurations, its
 * matchers must keep their places. */
TEST(an_automaton_forgets_without_moving_its_matchers)
{
    static const char text[] = "root ::= \"(\" root \")\" root | [ab]* [abc]*";
    struct grammar_matcher *m, *other;
    struct inf_grammar *g;
    struct inf_err err = {0};
    uint32_t *configs[2], before, after;

    ASSERT_OK_ERR(inf_grammar_new(vocab, INF_GRAMMAR_GBNF, text, strlen(text), &g, &err), err);
    ASSERT_OK(grammar_matcher_new(g, &m));
    for (int i = 0; i < 500; i++)
        assert_true(tiny_feed(m, "("));
    ASSERT_OK(grammar_matcher_clone(m, &other));
    assert_true(tiny_feed(other, "ac)"));
    ASSERT_OK(grammar_matcher_mask(other, &before));
    configs[0] = &m->config;
    configs[1] = &other->config;
    grammar_drop_masks(g);
    ASSERT_OK(automaton_forget(&g->automaton, configs, 2));
    ASSERT_OK(grammar_matcher_mask(other, &after));
    assert_int_equal(before, after);
    for (int i = 0; i < 499; i++)
        assert_true(tiny_feed(other, ")"));
    assert_true(grammar_matcher_is_complete(other));
    assert_false(tiny_feed(other, ")"));
    assert_true(tiny_feed(m, "cc))"));
    grammar_matcher_free(other);
    grammar_matcher_free(m);
    inf_grammar_unref(g);
}

/* Opens and closes brackets with tokens that the mask permits. */
static void *follow_brackets(void *data)
{
    struct grammar_matcher *m;
    uint32_t mask;
    int depth = 0;

    if (grammar_matcher_new(data, &m) < 0)
        return NULL;
    for (int i = 0; i < 2000; i++) {
        const bool open = i % 7 < 4;
        const int32_t token = open ? 9 : 10;
        bool permitted;

        if (grammar_matcher_mask(m, &mask) < 0)
            break;
        permitted = mask >> token & 1;
        if (permitted != (open || depth > 0) ||
            (grammar_matcher_accept(m, token) == 0) != permitted)
            break;
        depth += permitted ? (open ? 1 : -1) : 0;
        if (i == 1999)
            depth = -1;
    }
    grammar_matcher_free(m);
    return depth == -1 ? data : NULL;
}

TEST(several_threads_share_a_grammar)
{
    static const char text[] = "root ::= (\"(\" root \")\")*";
    struct inf_grammar *g;
    struct inf_err err = {0};
    pthread_t threads[4];
    void *result;

    ASSERT_OK_ERR(inf_grammar_new(vocab, INF_GRAMMAR_GBNF, text, strlen(text), &g, &err), err);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, follow_brackets, g), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, g);
    }
    inf_grammar_unref(g);
}

/* The vocabulary of this test comes from SentencePiece. It has tokens of single bytes, and pieces
 * that begin with a space. */
TEST(pieces_with_spaces_and_tokens_of_bytes_count_by_their_bytes)
{
    static const char text[] = "root ::= \" a\" [\\x80-\\U0010ffff] \"\\n\"";
    const char *path = test_data("tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3");
    _cleanup_(tokenizer_freep) struct inf_tokenizer *spm = NULL;
    _cleanup_(grammar_matcher_freep) struct grammar_matcher *m = NULL;
    _cleanup_free_ uint32_t *mask = NULL;
    static const char *const pieces[] = {"\u2581a", "<0xC3>", "<0xA9>", "<0x0A>"};
    struct inf_grammar_vocab *v;
    struct inf_grammar *g;
    struct inf_err err = {0};

    if (!path) {
        skip();
        return;
    }
    ASSERT_OK_ERR(tokenizer_open_file(path, &spm, &err), err);
    ASSERT_OK(inf_grammar_vocab_new(spm, &v));
    ASSERT_OK_ERR(inf_grammar_new(v, INF_GRAMMAR_GBNF, text, strlen(text), &g, &err), err);
    mask = NEW(uint32_t, v->n_words);
    inf_grammar_vocab_unref(v);
    ASSERT_OK(grammar_matcher_new(g, &m));
    inf_grammar_unref(g);
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        const int32_t id = inf_tokenizer_find(spm, pieces[i], strlen(pieces[i]));

        assert_true(id >= 0);
        ASSERT_OK(grammar_matcher_mask(m, mask));
        assert_true(mask[id / 32] >> (id % 32) & 1);
        assert_int_equal(grammar_matcher_accept(m, id), 0);
    }
    assert_true(grammar_matcher_must_end(m));
    m = grammar_matcher_free(m); /* before its tokenizer */
}

TEST(wild_grammars_end_in_an_error_or_in_little_time)
{
    static const char *const regexes[] = {
        "(a{1000000}){1000000}", "((((((a*)*)*)*)*)*)*b",  "(a|b)*a(a|b){30}(?!a)",
        "(?=(.*a){50}).{9000}",  "[\\p{L}\\P{L}]{999999}", "(((a{99}){99}){99}){99}",
    };
    char *text = NEW(char, 100001);

    for (size_t i = 0; i < ARRAY_SIZE(regexes); i++) {
        struct inf_grammar *g;
        struct inf_err err = {0};

        if (inf_grammar_new(vocab, INF_GRAMMAR_REGEX, regexes[i], strlen(regexes[i]), &g, &err) ==
            0) {
            accepts(g, "aaaaaaaaaaaaaaaaaaaaab", 22);
            inf_grammar_unref(g);
        } else {
            assert_true(err.text[0] != '\0');
        }
    }
    memset(text, '(', 100000);
    refuse(INF_GRAMMAR_REGEX, text, "");
    refuse(INF_GRAMMAR_GBNF, text, "");
    refuse(INF_GRAMMAR_LARK, text, "");
    free(text);
}

RUN_TESTS(
    cmocka_unit_test_setup_teardown(regular_expressions_permit_their_texts, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_a_regular_expression_cannot_say_is_refused, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(gbnf_permits_its_texts, set_up, tear_down),
    cmocka_unit_test_setup_teardown(lark_permits_its_texts, set_up, tear_down),
    cmocka_unit_test_setup_teardown(tokens_are_permitted_only_by_name, set_up, tear_down),
    cmocka_unit_test_setup_teardown(an_automaton_forgets_without_moving_its_matchers, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(pieces_with_spaces_and_tokens_of_bytes_count_by_their_bytes,
                                    set_up, tear_down),
    cmocka_unit_test_setup_teardown(several_threads_share_a_grammar, set_up, tear_down),
    cmocka_unit_test_setup_teardown(wild_grammars_end_in_an_error_or_in_little_time, set_up,
                                    tear_down))
