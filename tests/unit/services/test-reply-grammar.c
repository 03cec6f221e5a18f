/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests grammars and parsers of replies against each other: parsers must read random texts of a
 * grammar as calls whose arguments fit their schema, and grammars must permit the documented form
 * of every family of models.
 */
#include "chat/reply/grammar.h"

#include "../grammar/text-grammar.h"
#include "grammar/builder.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"
#include "lib/test.h"
#include "reply-log.h"

#define N_SEEDS 12

/* Compiles the grammar of the answers. The symbols of the grammar are bytes. */
static void grammar_of(const struct reply *reply, const struct constraint *constraint,
                       struct text_grammar *g)
{
    _cleanup_(grammar_builder_freep) struct grammar_builder *b = NULL;
    static const struct constraint none = {0};
    _cleanup_str_ struct str text = {};
    enum inf_grammar_kind kind;
    struct inf_err err = {};
    grammar_node node;

    assert_int_equal(
        reply_grammar(reply, constraint ? constraint : &none, false, NULL, &kind, &text), 1);
    assert_int_equal(kind, INF_GRAMMAR_LARK);
    *g = (struct text_grammar){0};
    ASSERT_OK(grammar_builder_new(&b));
    if (grammar_read_lark(b, text.data, text.len, &node, &err) < 0 ||
        grammar_program_new(b, node, NULL, &g->program, &err) < 0)
        fail_msg("%s in:\n%s", err.text, text.data);
    ASSERT_OK(automaton_init(&g->automaton, g->program));
}

static void check_arguments(const char *name, const char *text, const char *answer)
{
    _cleanup_json_ json_t *arguments = NULL;
    struct inf_err err = {};
    json_t *city, *days, *detailed;

    if (json_parse(text, strlen(text), &arguments, &err) < 0 || !json_is_object(arguments))
        fail_msg("arguments are no object: %s\nof: %s", text, answer);
    if (strcmp(name, "get_weather") != 0)
        return;
    city = json_object_get(arguments, "city");
    days = json_object_get(arguments, "days");
    detailed = json_object_get(arguments, "detailed");
    if (!json_is_string(city) || (days && !json_is_integer(days)) ||
        (detailed && !json_is_boolean(detailed)))
        fail_msg("arguments do not fit: %s\nof: %s", text, answer);
}

/* Checks that the log of an answer (reply-log.h) has only calls of tools, and that the arguments of
 * the calls fit the schemas of the tools. Returns the number of calls. */
static size_t check_calls(const struct str *log, const char *answer)
{
    _cleanup_free_ char *copy = strdup(log->data ? log->data : "");
    char *at = copy, *name, *text = NULL, *next;
    size_t n = 0;

    assert_non_null(copy);
    /* Thoughts and notes of gpt-oss come before its call. */
    while ((at[0] == 'R' || at[0] == 'T') && strstr(answer, "<|message|>") && strstr(at, "|C:"))
        at = strstr(at, "|C:") + 1;
    while (*at) {
        text = strchr(at, '|');
        if (strncmp(at, "C:", 2) != 0 || !text)
            fail_msg("not only calls: %s\nof: %s", log->data, answer);
        name = at + 2;
        *text++ = '\0';
        next = strstr(text, "|C:");
        if (next)
            *next++ = '\0';
        if (strncmp(text, "A:", 2) == 0)
            check_arguments(name, text + 2, answer);
        else if (strncmp(text, "I:", 2) != 0)
            fail_msg("a call without arguments: %s\nof: %s", log->data, answer);
        n++;
        at = next ? next : text + strlen(text);
    }
    return n;
}

struct visit {
    uint32_t config, from;
    unsigned char byte;
};

#define MAX_VISITS 60000

/* The text in @out has brought the automaton of the grammar to the configuration (state) @config.
 * Appends the fewest bytes that complete the text. Returns false if no end is found. */
static bool walk_to_end(struct text_grammar *g, uint32_t config, struct str *out)
{
    static struct visit visits[MAX_VISITS];
    static bool seen[4 * MAX_VISITS];
    static char path[MAX_VISITS];
    uint32_t n = 1, at = 0, next, length = 0;

    memset(seen, 0, sizeof(seen));
    visits[0] = (struct visit){.config = config};
    for (; at < n && !g->automaton.configs[visits[at].config].is_complete; at++)
        for (unsigned byte = 0; byte < 256 && n < MAX_VISITS; byte++) {
            if (automaton_step(&g->automaton, visits[at].config, g->program->class_of[byte],
                               &next) < 0 ||
                next == AUTOMATON_DEAD || next >= ARRAY_SIZE(seen) || seen[next])
                continue;
            seen[next] = true;
            visits[n++] = (struct visit){next, at, (unsigned char)byte};
        }
    if (at == n)
        return false; /* no end was found */
    while (at > 0) {
        path[length++] = (char)visits[at].byte;
        at = visits[at].from;
    }
    while (length > 0)
        if (str_putc(out, path[--length]) < 0)
            return false;
    return true;
}

/* Appends a random text of the grammar: at most @n random bytes, and then the fewest bytes that
 * complete the text. */
static bool walk(struct text_grammar *g, uint64_t seed, size_t n, struct str *out)
{
    uint32_t config, next;

    if (automaton_start(&g->automaton, &config) < 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        size_t tries = 0;

        do {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            /* Three in four bytes are letters: other bytes could end a string or a call early. */
            byte = seed >> 33 & 3 ? 'a' + (seed >> 40) % 26 : (seed >> 40) % 128;
        } while (++tries < 2000 &&
                 (automaton_step(&g->automaton, config, g->program->class_of[byte], &next) < 0 ||
                  next == AUTOMATON_DEAD));
        if (tries == 2000)
            break;
        if (str_putc(out, (char)byte) < 0)
            return false;
        config = next;
    }
    return walk_to_end(g, config, out);
}

static void set_tools(struct reply *reply, const char *tools)
{
    const struct tool_rules rules = {.choice = TOOLS_REQUIRED};
    struct inf_err err;
    json_t *array = NULL;

    ASSERT_OK(json_parse(tools, strlen(tools), &array, &err));
    ASSERT_OK(reply_set_tools(reply, array, &rules));
    json_decref(array);
}

static void check_walks(const char *format, bool single)
{
    static const char tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{"
        "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},"
        "\"detailed\":"
        "{\"type\":\"boolean\"}},\"required\":[\"city\"],\"additionalProperties\":false}}},{"
        "\"type\":"
        "\"function\",\"function\":{\"name\":\"now\",\"parameters\":{\"properties\":{\"a\":{"
        "\"type\":"
        "\"integer\"}},\"additionalProperties\":false}}}]";
    struct reply reply = {.format = reply_format_named(format)};
    struct text_grammar g;

    set_tools(&reply, tools);
    reply.single = single;
    grammar_of(&reply, NULL, &g);
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        _cleanup_str_ struct str answer = {}, log = {};
        size_t n;

        if (!walk(&g, seed, 40 * seed, &answer))
            fail_msg("%s: seed %u has no end: %s", format, (unsigned)seed, answer.data);
        reply_log_parse(&reply, answer.data, answer.len, answer.len, 0, false, &log);
        n = check_calls(&log, answer.data);
        if (n == 0 || (single && n > 1))
            fail_msg("%s: %zu calls in: %s", format, n, answer.data);
    }
    text_grammar_done(&g);
    reply_done(&reply);
}

TEST(every_text_of_a_grammar_is_calls_that_fit)
{
    for (size_t i = 0; reply_format_at(i); i++) {
        check_walks(reply_format_at(i)->name, true);
        check_walks(reply_format_at(i)->name, false);
    }
}

static void check_follows(const char *format, const char *thinking, bool is_open,
                          enum tool_choice choice, const char *text, bool expected)
{
    struct reply reply = reply_of(format, thinking, true);
    struct text_grammar g;
    bool complete;
    size_t n;

    reply.is_open = is_open;
    reply.choice = choice;
    grammar_of(&reply, NULL, &g);
    n = text_grammar_follow(&g, text, strlen(text), &complete);
    if ((n == strlen(text) && complete) != expected)
        fail_msg("%s: byte %zu of: %s", format, n, text);
    text_grammar_done(&g);
    reply_done(&reply);
}

static void check_auto(const char *format, const char *text, bool expected)
{
    check_follows(format, NULL, false, TOOLS_AUTO, text, expected);
}

TEST(published_examples_belong_to_the_grammars)
{
    check_auto("hermes",
               "I look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
               "{\"city\": \"Paris\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", "
               "\"arguments\": {}}\n</tool_call>",
               true);
    check_auto("qwen-xml",
               "<tool_call>\n<function=get_weather>\n<parameter=city>\nA\nB\n</parameter>\n"
               "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
               true);
    check_auto("glm",
               "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris"
               "</arg_value>\n</tool_call>",
               true);
    check_auto("minimax",
               "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">"
               "Paris</parameter>\n</invoke>\n</minimax:tool_call>",
               true);
    check_auto("deepseek-v3.2",
               "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
               "<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n"
               "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
               true);
    check_auto("gemma4", "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>}<tool_call|>", false);
    check_auto("gemma4", "<|tool_call>call:now{}<tool_call|>", true);
    check_auto(
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
        "commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Paris\"}",
        true);
    check_auto("harmony", "<|channel|>final<|message|>Yes.", true);
    check_auto("llama3", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
               true);
    check_auto("mistral", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]", true);
    check_auto("mistral-named", "[TOOL_CALLS]now[ARGS]{}", true);
    check_auto("deepseek-v3",
               "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n"
               "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
               true);
    check_auto("deepseek-v3.1",
               "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}"
               "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
               true);
    check_auto("kimi-k2",
               "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0"
               "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
               true);
    check_auto("granite", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", true);
    check_auto("lfm2", "<|tool_call_start|>[get_weather(city=\"Paris\"), now()]<|tool_call_end|>",
               true);
    check_auto("pythonic", "[get_weather(city=\"Paris\", days=3)]", true);
}

TEST(text_may_come_instead_of_calls_but_not_half_a_call)
{
    for (size_t i = 0; reply_format_at(i); i++)
        if (reply_format_at(i)->body != BODY_HARMONY) {
            check_auto(reply_format_at(i)->name, "Hello, a < b.\n", true);
            check_follows(reply_format_at(i)->name, NULL, false, TOOLS_REQUIRED, "Hello.", false);
        }
    check_auto("hermes", "See <tool_call>.", false);
    check_auto("hermes", "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
               false);
    check_auto("hermes",
               "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>", false);
}

/* Tests a grammar for answers whose beginning is already in the prompt: checks whether the grammar
 * permits the rest of the answer, @text. */
static void check_rest(const char *format, enum tool_choice choice, const char *text, bool expected)
{
    struct reply reply = reply_of(format, NULL, true);
    struct text_grammar g;
    bool complete;
    size_t n;

    reply.continues = true;
    reply.choice = choice;
    grammar_of(&reply, NULL, &g);
    n = text_grammar_follow(&g, text, strlen(text), &complete);
    if ((n == strlen(text) && complete) != expected)
        fail_msg("%s: byte %zu of: %s", format, n, text);
    text_grammar_done(&g);
    reply_done(&reply);
}

TEST(a_text_that_was_begun_goes_on)
{
    static const char call[] = "{\"name\": \"now\", \"parameters\": {}}";

    check_rest("hermes", TOOLS_AUTO, " is 42.", true);
    check_rest("llama3", TOOLS_AUTO, "{ int x; }", true);
    check_rest("llama3", TOOLS_REQUIRED, call, true);
    check_rest("llama3", TOOLS_REQUIRED, " is 42.", false);
    check_rest("harmony", TOOLS_AUTO, " is 42.", true);
    check_rest("harmony", TOOLS_REQUIRED, " is 42.", false);
    check_rest("harmony", TOOLS_REQUIRED,
               " look.<|end|><|start|>assistant<|channel|>commentary to=functions.now "
               "<|constrain|>json<|message|>{}",
               true);
}

TEST(thinking_comes_first)
{
    check_follows("hermes", "<think>", true, TOOLS_REQUIRED,
                  "Hm.\n</think>\n\n<tool_call>\n{\"name\":"
                  " \"now\", \"arguments\": {}}\n</tool_call>",
                  true);
    check_follows("hermes", "<think>", false, TOOLS_REQUIRED,
                  "<think>\nHm <tool_call>.\n</think>\n\n"
                  "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
                  true);
    check_follows("hermes", "<think>", false, TOOLS_AUTO, "<think>\nHm.\n</think>\n\nYes.", true);
    check_follows("hermes", "<think>", true, TOOLS_REQUIRED, "Hm.\n</think>\n\nYes.", false);
}

/* Returns how many bytes of the text the grammar permits, or -1 if it permits the whole text. */
static long follow_constraint(const char *thinking, enum constraint_kind kind, const char *value,
                              bool with_tools, const char *text)
{
    struct reply reply = reply_of(with_tools ? "hermes" : NULL, thinking, with_tools);
    struct constraint constraint = {.kind = kind};
    struct inf_err err = {};
    struct text_grammar g;
    bool complete;
    size_t n;

    if (value && json_parse(value, strlen(value), &constraint.value, &err) < 0)
        fail_msg("%s", err.text);
    grammar_of(&reply, &constraint, &g);
    n = text_grammar_follow(&g, text, strlen(text), &complete);
    text_grammar_done(&g);
    json_decref(constraint.value);
    reply_done(&reply);
    return n == strlen(text) && complete ? -1 : (long)n;
}

TEST(answers_follow_constraints_behind_the_thinking_and_beside_tools)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
        "\"required\":[\"a\"],\"additionalProperties\":false}";

    assert_int_equal(follow_constraint("<think>", CONSTRAINT_SCHEMA, schema, false,
                                       "<think>\nHm.\n</think>\n\n{\"a\": 1}"),
                     -1);
    assert_int_equal(follow_constraint("<think>", CONSTRAINT_SCHEMA, schema, false, "{\"a\": 1}"),
                     -1);
    assert_int_equal(follow_constraint("<think>", CONSTRAINT_SCHEMA, schema, false, "Hm."), 0);
    assert_int_equal(follow_constraint(NULL, CONSTRAINT_SCHEMA, schema, true, "{\"a\": 1}"), -1);
    assert_int_equal(
        follow_constraint(NULL, CONSTRAINT_SCHEMA, schema, true,
                          "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"),
        -1);
    assert_int_equal(follow_constraint(NULL, CONSTRAINT_SCHEMA, schema, true, "Hm."), 0);
    assert_int_equal(
        follow_constraint(NULL, CONSTRAINT_CHOICE, "[\"yes\",\"n\\\"o\"]", false, "n\"o"), -1);
    assert_int_equal(follow_constraint(NULL, CONSTRAINT_CHOICE, "[\"yes\",\"no\"]", false, "nope"),
                     2);
    assert_int_equal(follow_constraint("<think>", CONSTRAINT_REGEX, "\"a/[b-d]+\"", false, "a/bd"),
                     -1);
    assert_int_equal(follow_constraint("<think>", CONSTRAINT_JSON, NULL, false, "{\"x\": [1]}"),
                     -1);
    assert_int_equal(follow_constraint(NULL, CONSTRAINT_LARK,
                                       "\"start: \\\"a\\\" B\\nB: /[0-9]+/\"", true, "a12"),
                     -1);
}

static void check_custom(const char *format, const char *text, bool expected)
{
    static const char tools[] =
        "[{\"type\":\"custom\",\"custom\":{\"name\":\"patch\",\"format\":{\"type\":\"grammar\","
        "\"grammar\":{\"syntax\":\"lark\",\"definition\":\"start: begin line+ \\\"*** "
        "End\\\"\\nbegin: "
        "\\\"*** Begin\\\\n\\\"\\nline: /[+-][^\\\\n]*/ \\\"\\\\n\\\"\\n\"}}}}]";
    struct reply reply = {.format = reply_format_named(format)};
    struct text_grammar g;
    bool complete;
    size_t n;

    set_tools(&reply, tools);
    grammar_of(&reply, NULL, &g);
    n = text_grammar_follow(&g, text, strlen(text), &complete);
    if ((n == strlen(text) && complete) != expected)
        fail_msg("%s: byte %zu of: %s", format, n, text);
    text_grammar_done(&g);
    reply_done(&reply);
}

TEST(the_text_of_custom_tools_follows_their_grammar)
{
    check_custom("hermes",
                 "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"*** Begin\\n+"
                 "a\\\"\\n*** End\"}}\n</tool_call>",
                 true);
    check_custom("hermes",
                 "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"*** End\"}}\n"
                 "</tool_call>",
                 false);
    check_custom("qwen-xml",
                 "<tool_call>\n<function=patch>\n<parameter=input>\n*** Begin\n+a\n*** End\n"
                 "</parameter>\n</function>\n</tool_call>",
                 true);
    check_custom("gemma4",
                 "<|tool_call>call:patch{input:<|\"|>*** Begin\n+a\n*** End<|\"|>}<tool_call|>",
                 true);
}

/* Returns whether a grammar permits the tokens of a text, and the end of the text after them. */
static bool accepts(struct inf_grammar *grammar, const struct inf_tokenizer *tok, const char *text,
                    unsigned flags)
{
    _cleanup_(grammar_matcher_freep) struct grammar_matcher *m = NULL;
    _cleanup_free_ int32_t *ids = NULL;
    size_t n = 0, i = 0;

    ASSERT_OK(grammar_matcher_new(grammar, &m));
    ASSERT_OK(inf_tokenizer_encode(tok, text, strlen(text), flags, 0, &ids, &n));
    while (i < n && grammar_matcher_accept(m, ids[i]) == 0)
        i++;
    return i == n && grammar_matcher_is_complete(m);
}

TEST(special_tokens_are_seen_and_are_tokens_of_the_grammar)
{
    static const char call[] = "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]";
    const char *path = test_data("tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3");
    struct reply reply = reply_of("mistral", NULL, true);
    struct inf_grammar_vocab *vocab = NULL;
    struct inf_grammar *grammar = NULL;
    struct inf_tokenizer *tok = NULL;
    _cleanup_str_ struct str text = {};
    struct reply_tokens tokens;
    enum inf_grammar_kind kind;
    struct inf_err err = {};
    size_t len;

    if (!path)
        skip();
    ASSERT_OK_ERR(tokenizer_open_file(path, &tok, &err), err);
    reply_find_tokens(&reply, tok, &tokens);
    assert_int_equal(tokens.n_shown, 1);
    ASSERT_STREQ(inf_tokenizer_token_text(tok, tokens.shown[0], &len), "[TOOL_CALLS]");
    assert_int_equal(reply_grammar(&reply, &(struct constraint){0}, false, tok, &kind, &text), 1);
    ASSERT_OK(inf_grammar_vocab_new(tok, &vocab));
    ASSERT_OK_ERR(inf_grammar_new(vocab, kind, text.data, text.len, &grammar, &err), err);
    assert_true(accepts(grammar, tok, call, INF_ENCODE_PARSE_SPECIAL));
    assert_true(accepts(grammar, tok, "Hello, you.", 0));
    /* The same characters are plain text if they are not a token. */
    assert_true(accepts(grammar, tok, "[TOOL_CALLS] is a token", 0));
    assert_false(accepts(grammar, tok, "[TOOL_CALLS] is a token", INF_ENCODE_PARSE_SPECIAL));
    inf_grammar_unref(grammar);
    inf_grammar_vocab_unref(vocab);
    tokenizer_free(tok);
    reply_done(&reply);
}

RUN_TESTS(cmocka_unit_test(every_text_of_a_grammar_is_calls_that_fit),
          cmocka_unit_test(published_examples_belong_to_the_grammars),
          cmocka_unit_test(text_may_come_instead_of_calls_but_not_half_a_call),
          cmocka_unit_test(a_text_that_was_begun_goes_on), cmocka_unit_test(thinking_comes_first),
          cmocka_unit_test(answers_follow_constraints_behind_the_thinking_and_beside_tools),
          cmocka_unit_test(the_text_of_custom_tools_follows_their_grammar),
          cmocka_unit_test(special_tokens_are_seen_and_are_tokens_of_the_grammar))
