/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the input as a program for a stack machine that builds the nodes of a grammar, and follows
 * a text of the grammar. */
#include "fuzz/grammar/exercise.h"

#include "grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RULES = 4, STACK = 64 };

struct machine {
    struct grammar_builder *b;
    grammar_node rules[RULES], stack[STACK];
    unsigned n;
};

static grammar_node pop(struct machine *m)
{
    return m->n > 0 ? m->stack[--m->n] : grammar_empty(m->b);
}

static void push(struct machine *m, grammar_node node)
{
    m->stack[m->n < STACK ? m->n++ : STACK - 1] = node;
}

static void run_one(struct machine *m, uint8_t code, uint8_t arg)
{
    static const char *const texts[] = {"a", "b", "ab", "\"", "\\", "\n", "\u00e9", "0"};
    const char *text = texts[arg % ARRAY_SIZE(texts)];
    const struct grammar_range range = {arg, (uint32_t)arg * 3 + 1};
    grammar_node x, y;

    switch (code % 13) {
    case 0:
        push(m, grammar_bytes(m->b, text, strlen(text)));
        return;
    case 1:
        push(m, grammar_class(m->b, &range, 1, arg & 1));
        return;
    case 2:
        push(m, m->rules[arg % RULES]);
        return;
    case 3:
        push(m, grammar_until(m->b, text, strlen(text)));
        return;
    case 4:
        push(m, grammar_token_id(m->b, arg % 15));
        return;
    case 5:
        push(m, grammar_not(m->b, pop(m)));
        return;
    case 6:
        push(m, grammar_json_escaped(m->b, pop(m)));
        return;
    case 7:
        push(m, grammar_repeat(m->b, pop(m), arg & 3,
                               arg & 4 ? GRAMMAR_FOREVER : (arg & 3u) + (arg >> 3) * 100u));
        return;
    case 8:
        grammar_rule_set(m->b, m->rules[arg % RULES], pop(m));
        return;
    default:
        break;
    }
    y = pop(m);
    x = pop(m);
    if (code % 13 == 9)
        push(m, grammar_and(m->b, x, y));
    else if (code % 13 == 10)
        push(m, grammar_alt(m->b, (grammar_node[]){x, y}, 2));
    else
        push(m, grammar_seq(m->b, (grammar_node[]){x, y}, 2));
}

static void follow(struct inf_grammar *g, uint32_t seed)
{
    struct grammar_matcher *m;

    for (int round = 0; round < 4; round++) {
        if (grammar_matcher_new(g, &m) < 0)
            return;
        for (int i = 0; i < 40 && exercise_step(m, &seed); i++)
            continue;
        grammar_matcher_free(m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct inf_grammar_vocab *vocab = exercise_vocab();
    struct machine m = {.n = 0};
    struct program *program;
    struct inf_grammar *g;
    struct inf_err err = {0};
    const clock_t start = clock();
    int r;

    if (size > 512 || grammar_builder_new(&m.b) < 0)
        return 0;
    for (unsigned i = 0; i < RULES; i++) {
        m.rules[i] = grammar_rule_new(m.b, NULL);
        grammar_rule_set(m.b, m.rules[i], grammar_bytes(m.b, "c", 1));
    }
    for (size_t i = 0; i + 1 < size; i += 2)
        run_one(&m, data[i], data[i + 1]);
    r = grammar_program_new(m.b, pop(&m), vocab->tok, &program, &err);
    grammar_builder_free(m.b);
    assert(r == 0 || err.text[0] != '\0');
    if (r == 0 && grammar_new(vocab, program, &g) == 0) {
        follow(g, (uint32_t)size);
        inf_grammar_unref(g);
    }
    assert(clock() - start < MAX_SECONDS * CLOCKS_PER_SEC);
    return 0;
}
