/* SPDX-License-Identifier: Apache-2.0 */
#include "text-grammar.h"

#include <string.h>

#include "grammar/builder.h"

int text_grammar_init(struct text_grammar *g, const char *schema, size_t len, bool loose,
                      struct inf_err *reterr)
{
    _cleanup_(grammar_builder_freep) struct grammar_builder *b = NULL;
    grammar_node node;
    int r;

    *g = (struct text_grammar){0};
    r = grammar_builder_new(&b);
    if (r == 0)
        r = grammar_read_schema_how(b, schema, len, loose, &node, reterr);
    if (r == 0)
        r = grammar_program_new(b, node, NULL, &g->program, reterr);
    if (r < 0)
        return r;
    r = automaton_init(&g->automaton, g->program);
    if (r < 0)
        g->program = grammar_program_free(g->program);
    return r;
}

void text_grammar_done(struct text_grammar *g)
{
    if (!g->program)
        return;
    automaton_done(&g->automaton);
    g->program = grammar_program_free(g->program);
}

static bool text_step(struct text_grammar *g, uint32_t config, unsigned byte, uint32_t *ret_config)
{
    return automaton_step(&g->automaton, config, g->program->class_of[byte], ret_config) == 0 &&
           *ret_config != AUTOMATON_DEAD;
}

size_t text_grammar_follow(struct text_grammar *g, const char *text, size_t len, bool *ret_complete)
{
    uint32_t config, next;
    size_t i;

    *ret_complete = false;
    if (automaton_start(&g->automaton, &config) < 0)
        return 0;
    for (i = 0; i < len && text_step(g, config, (unsigned char)text[i], &next); i++)
        config = next;
    *ret_complete = i == len && g->automaton.configs[config].is_complete;
    return i;
}

static uint64_t walk_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Finds the next byte: chooses a random class of bytes, and then a random byte of this class. */
static bool walk_any(struct text_grammar *g, uint32_t config, uint64_t *random,
                     uint32_t *ret_config, unsigned *ret_byte)
{
    const uint32_t n = g->program->n_classes;
    const uint32_t from = (uint32_t)(walk_random(random) % n);

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t symbol = (from + i) % n;
        unsigned byte = (unsigned)(walk_random(random) % 256);

        if (automaton_step(&g->automaton, config, symbol, ret_config) < 0 ||
            *ret_config == AUTOMATON_DEAD)
            continue;
        while (g->program->class_of[byte] != symbol)
            byte = (byte + 1) % 256;
        *ret_byte = byte;
        return true;
    }
    return false;
}

static bool walk_end(struct text_grammar *g, uint32_t config, uint32_t *ret_config,
                     unsigned *ret_byte)
{
    static const char closers[] = "\"}]0:n";

    for (const char *c = closers; *c; c++) {
        *ret_byte = (unsigned char)*c;
        if (text_step(g, config, *ret_byte, ret_config))
            return true;
    }
    return false;
}

bool text_grammar_walk(struct text_grammar *g, uint64_t seed, size_t budget, struct str *ret)
{
    const size_t start = ret->len;
    uint32_t config, next;
    unsigned byte;

    if (automaton_start(&g->automaton, &config) < 0)
        return false;
    for (;;) {
        const bool late = ret->len - start > budget;

        if (g->automaton.configs[config].is_complete && (late || walk_random(&seed) % 4 == 0))
            return true;
        if ((!late || walk_random(&seed) % 4 == 0 || !walk_end(g, config, &next, &byte)) &&
            !walk_any(g, config, &seed, &next, &byte))
            return g->automaton.configs[config].is_complete;
        if (ret->len - start > 50 * budget || str_putc(ret, (char)byte) < 0)
            return false;
        config = next;
    }
}
