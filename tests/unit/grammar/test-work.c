/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that the work of compiling is limited, that long repetitions are cheap, and that the quick
 * ways to compute a mask give the same mask as the slow way. */
#include "unit/grammar/tiny.h"

#include "core/err.h"
#include "core/str.h"
#include "grammar/node.h"

/* Compiles a grammar. Returns the work in units of work.h, and sets *ret_error. */
static uint64_t work_of(enum inf_grammar_kind kind, const char *text, int *ret_error)
{
    _cleanup_(grammar_builder_freep) struct grammar_builder *b = NULL;
    struct program *program = NULL;
    struct inf_err err = {0};
    grammar_node root = 0;
    int r;

    ASSERT_OK(grammar_builder_new(&b));
    if (kind == INF_GRAMMAR_JSON_SCHEMA)
        r = grammar_read_schema(b, text, strlen(text), &root, &err);
    else if (kind == INF_GRAMMAR_LARK)
        r = grammar_read_lark(b, text, strlen(text), &root, &err);
    else
        r = grammar_regex(b, text, strlen(text), false, &root, &err);
    if (r == 0)
        r = grammar_program_new(b, root, NULL, &program, &err);
    grammar_program_free(program);
    *ret_error = r;
    return b->work.done;
}

#define MILLISECONDS 1000000u /* the units of work of about a millisecond */

TEST(long_repetitions_take_little_work)
{
    static const struct {
        enum inf_grammar_kind kind;
        const char *text;
    } cases[] = {
        {INF_GRAMMAR_REGEX, "((a{1,50}){1,50}){1,50}"},
        {INF_GRAMMAR_REGEX, "((a{0,1000}){0,1000}){0,1000}"},
        {INF_GRAMMAR_REGEX, "((ab|cd|[x-z]{1,30}|e{2,40}){1,100}){1,100}"},
        {INF_GRAMMAR_REGEX, "(.{1,1000000000}x){1,1000000000}"},
        {INF_GRAMMAR_JSON_SCHEMA,
         "{\"pattern\":\"^((a{1,50}){1,50}){1,50}$\",\"type\":\"string\"}"},
        {INF_GRAMMAR_JSON_SCHEMA, "{\"pattern\":\"^[a-z]{1,5000}$\",\"type\":\"string\"}"},
        {INF_GRAMMAR_JSON_SCHEMA,
         "{\"pattern\":\"^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\\\.){1,500}[a-z]{2,63}$\","
         "\"type\":\"string\"}"},
        {INF_GRAMMAR_JSON_SCHEMA, "{\"maxLength\":100000,\"minLength\":7,\"type\":\"string\"}"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int error;
        const uint64_t work = work_of(cases[i].kind, cases[i].text, &error);

        assert_int_equal(error, 0);
        if (work > 5 * MILLISECONDS)
            fail_msg("%s takes %llu units of work", cases[i].text, (unsigned long long)work);
    }
}

static uint64_t work_of_properties(const char *format, bool twice)
{
    _cleanup_str_ struct str s = {0};
    uint64_t work;
    int error;

    ASSERT_OK(str_puts(&s, "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"));
    for (unsigned i = 0; i < 200; i++) {
        ASSERT_OK(str_printf(&s, "%s\"key%u\":{\"type\":\"string\",", i > 0 ? "," : "", i));
        if (twice)
            ASSERT_OK(str_printf(&s, format, i + 5, 1000 + i));
        else
            ASSERT_OK(str_printf(&s, format, i + 5));
        ASSERT_OK(str_puts(&s, "}"));
    }
    ASSERT_OK(str_puts(&s, "}}"));
    work = work_of(INF_GRAMMAR_JSON_SCHEMA, s.data, &error);
    assert_int_equal(error, 0);
    return work;
}

TEST(two_hundred_properties_take_little_work)
{
    assert_true(work_of_properties("\"pattern\":\"^[a-z]{1,%u}-[0-9]{4}$\"", false) <
                25 * MILLISECONDS);
    assert_true(work_of_properties("\"minLength\":%u,\"maxLength\":%u", true) < 10 * MILLISECONDS);
    assert_true(work_of_properties("\"pattern\":\"^[A-Za-z0-9_./ -]{%u,%u}$\"", true) <
                25 * MILLISECONDS);
    assert_true(work_of_properties("\"format\":\"email\",\"title\":\"%u\"", false) <
                25 * MILLISECONDS);
}

/* Earlier versions did not count all of the work on these grammars, and took seconds to compile
 * them.
 */
TEST(too_much_work_is_refused)
{
    _cleanup_str_ struct str s = {0};
    int error;

    ASSERT_OK(str_puts(&s, "start: A\nA: "));
    for (unsigned i = 2; i < 40; i++)
        ASSERT_OK(str_printf(&s, "%s~/(.|\\n)*a.{%u}b(.|\\n)*/", i > 2 ? " & " : "", i));
    ASSERT_OK(str_puts(&s, "\n"));
    assert_true(work_of(INF_GRAMMAR_LARK, s.data, &error) <= WORK_MAX + 10 * MILLISECONDS);
    assert_int_equal(error, -E2BIG);
    s.len = 0;
    for (unsigned i = 0; i < 8000; i++)
        ASSERT_OK(str_puts(&s, "\\p{L}\\P{Lu}"));
    assert_true(work_of(INF_GRAMMAR_REGEX, s.data, &error) <= WORK_MAX + 10 * MILLISECONDS);
    assert_true(error < 0);
}

/* Checks for each token that the matcher accepts it exactly if its mask permits it. */
static void check_mask(struct grammar_matcher *m, uint32_t *mask)
{
    const struct inf_grammar_vocab *v = m->grammar->vocab;
    const uint32_t config = m->config;

    ASSERT_OK(grammar_matcher_mask(m, mask));
    for (uint32_t t = 0; t < v->n_vocab; t++) {
        const bool accepted = grammar_matcher_accept(m, (int32_t)t) == 0;

        m->config = config;
        m->has_ended = false;
        if (accepted != (mask[t / 32] >> (t % 32) & 1))
            fail_msg("token %u is %s", t, accepted ? "missing in a mask" : "wrong in a mask");
    }
}

static void check_masks(struct inf_grammar_vocab *v, enum inf_grammar_kind kind,
                        const char *grammar, const char *text)
{
    _cleanup_free_ uint32_t *mask = NEW(uint32_t, v->n_words);
    _cleanup_(grammar_matcher_freep) struct grammar_matcher *m = NULL;
    _cleanup_free_ int32_t *ids = NULL;
    struct inf_grammar *g;
    struct inf_err err = {0};
    size_t n;

    ASSERT_OK_ERR(inf_grammar_new(v, kind, grammar, strlen(grammar), &g, &err), err);
    ASSERT_OK(grammar_matcher_new(g, &m));
    inf_grammar_unref(g);
    ASSERT_OK(inf_tokenizer_encode(v->tok, text, strlen(text), 0, 0, &ids, &n));
    for (size_t i = 0; i < n; i++) {
        /* The tokenizer puts a space before the text. */
        if (grammar_matcher_accept(m, ids[i]) != 0)
            fail_msg("token %zu of \"%s\" is refused", i, text);
        check_mask(m, mask);
    }
}

TEST(masks_of_a_large_vocabulary_agree_with_what_is_accepted)
{
    const char *path = test_data("tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3");
    struct inf_tokenizer *spm = NULL;
    struct inf_grammar_vocab *v;
    struct inf_err err = {0};

    if (!path) {
        skip();
        return;
    }
    ASSERT_OK_ERR(tokenizer_open_file(path, &spm, &err), err);
    ASSERT_OK(inf_grammar_vocab_new(spm, &v));
    check_masks(v, INF_GRAMMAR_LARK,
                "start: TEXT \"<tool_call>\" /[a-z]+/\nTEXT: /.*/s & ~/.*(<tool_call>|<fun=).*/s",
                "See <tool <fu <tool_call>x");
    check_masks(v, INF_GRAMMAR_REGEX, " ?\"[^\"]{0,9}\\p{L}{2}\" *",
                "\"na\303\257ve \344\275\240\345\245\275\"");
    check_masks(v, INF_GRAMMAR_REGEX, " ?[a-z0-9.+-]{1,9}@[a-z]+(?:\\.[a-z]+)+", "ab.c@de.org");
    inf_grammar_vocab_unref(v);
    tokenizer_free(spm);
}

RUN_TESTS(cmocka_unit_test(long_repetitions_take_little_work),
          cmocka_unit_test(two_hundred_properties_take_little_work),
          cmocka_unit_test(too_much_work_is_refused),
          cmocka_unit_test(masks_of_a_large_vocabulary_agree_with_what_is_accepted))
