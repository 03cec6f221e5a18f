/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles any text as a JSON Schema, strictly and loosely, and follows a text of the grammar. The
 * limits must bound the time. A text must never reach a state in which it can neither end nor
 * continue.
 */
#include <assert.h>
#include <string.h>
#include <time.h>

#include "core/utf8.h"
#include "grammar/automaton.h"
#include "grammar/builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_SIZE = 1 << 14, STEPS = 300 };

/* Follows one text. Each step takes the first symbol that continues the text. The search begins at
 * a different symbol in each step. */
static void fuzz_walk(struct automaton *a, const struct program *p)
{
    uint32_t config, next;

    if (automaton_start(a, &config) < 0)
        return;
    for (uint32_t step = 0; step < STEPS; step++) {
        bool found = false;

        for (uint32_t i = 0; i < p->n_classes && !found; i++) {
            if (automaton_step(a, config, (i + step * 7) % p->n_classes, &next) < 0)
                return;
            found = next != AUTOMATON_DEAD;
        }
        assert(found || a->configs[config].is_complete);
        if (!found)
            return;
        config = next;
    }
}

static void fuzz_compile(const char *text, size_t len, bool loose)
{
    _cleanup_(grammar_builder_freep) struct grammar_builder *b = NULL;
    _cleanup_(grammar_program_freep) struct program *p = NULL;
    struct inf_err err = {.text = ""};
    struct automaton a;
    grammar_node node;
    int r;

    if (grammar_builder_new(&b) < 0)
        return;
    r = grammar_read_schema_how(b, text, len, loose, &node, &err);
    if (r == 0)
        r = grammar_program_new(b, node, NULL, &p, &err);
    assert(r == 0 || (err.text[0] && utf8_valid(err.text, strlen(err.text))));
    if (r < 0 || automaton_init(&a, p) < 0)
        return;
    fuzz_walk(&a, p);
    automaton_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const clock_t start = clock();

    if (size > MAX_SIZE)
        return 0;
    fuzz_compile((const char *)data, size, false);
    fuzz_compile((const char *)data, size, true);
    assert(clock() - start < 20 * CLOCKS_PER_SEC);
    return 0;
}
