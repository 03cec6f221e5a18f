/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles grammars, counts their references, and limits the memory of their automata
 * (automaton.h). */
#include <errno.h>

#include "core/err.h"
#include "grammar/builder.h"
#include "grammar/grammar.h"

static int grammar_init(struct inf_grammar *g)
{
    int r;

    g->path = NEW(uint32_t, (size_t)g->vocab->max_len + 1);
    if (!g->path)
        return -ENOMEM;
    r = automaton_init(&g->automaton, g->program);
    for (unsigned family = 0; r == 0 && family < N_FAMILIES; family++)
        r = family_moves_init(&g->moves[family], g->program, family);
    return r;
}

int grammar_new(struct inf_grammar_vocab *vocab, struct program *program,
                struct inf_grammar **ret_grammar)
{
    struct inf_grammar *g = NEW(struct inf_grammar, 1);
    int r;

    if (!g)
        return -ENOMEM;
    atomic_init(&g->refs, 1);
    pthread_mutex_init(&g->lock, NULL);
    g->vocab = grammar_vocab_ref(vocab);
    g->program = program;
    g->memory = atomic_load(&vocab->memory);
    g->large_size = g->memory;
    r = grammar_init(g);
    if (r < 0) {
        g->program = NULL;
        inf_grammar_unref(g);
        return r;
    }
    *ret_grammar = g;
    return 0;
}

struct inf_grammar *inf_grammar_ref(struct inf_grammar *grammar)
{
    atomic_fetch_add(&grammar->refs, 1);
    return grammar;
}

struct inf_grammar *inf_grammar_unref(struct inf_grammar *g)
{
    if (!g || atomic_fetch_sub(&g->refs, 1) > 1)
        return NULL;
    grammar_drop_masks(g);
    free(g->masks);
    free(g->path);
    automaton_done(&g->automaton);
    for (unsigned family = 0; family < N_FAMILIES; family++)
        free(g->moves[family].moves);
    grammar_program_free(g->program);
    inf_grammar_vocab_unref(g->vocab);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return NULL;
}

static int grammar_read(struct grammar_builder *b, enum inf_grammar_kind kind, const char *text,
                        size_t len, grammar_node *ret_root, struct inf_err *reterr)
{
    switch (kind) {
    case INF_GRAMMAR_JSON:
        *ret_root = grammar_json(b, true);
        return 0;
    case INF_GRAMMAR_JSON_SCHEMA:
        return grammar_read_schema(b, text, len, ret_root, reterr);
    case INF_GRAMMAR_JSON_SCHEMA_LOOSE:
        return grammar_read_schema_how(b, text, len, true, ret_root, reterr);
    case INF_GRAMMAR_GBNF:
        return grammar_read_gbnf(b, text, len, ret_root, reterr);
    case INF_GRAMMAR_REGEX:
        return grammar_regex(b, text, len, false, ret_root, reterr);
    case INF_GRAMMAR_LARK:
        return grammar_read_lark(b, text, len, ret_root, reterr);
    }
    return err_set(reterr, EINVAL, "there is no such kind of grammar");
}

int inf_grammar_new(struct inf_grammar_vocab *vocab, enum inf_grammar_kind kind, const char *text,
                    size_t len, struct inf_grammar **ret_grammar, struct inf_err *reterr)
{
    _cleanup_(grammar_builder_freep) struct grammar_builder *b = NULL;
    _cleanup_(grammar_program_freep) struct program *program = NULL;
    grammar_node root;
    int r;

    r = grammar_builder_new(&b);
    if (r < 0)
        return r;
    r = grammar_read(b, kind, text, len, &root, reterr);
    if (r == 0)
        r = grammar_program_new(b, root, vocab->tok, &program, reterr);
    if (r == 0)
        r = grammar_new(vocab, program, ret_grammar);
    if (r == 0)
        program = NULL;
    return r;
}

int grammar_make_room(struct inf_grammar *g)
{
    _cleanup_free_ uint32_t **configs = NULL;
    size_t n = 0;
    int r = 0;

    if (automaton_size(&g->automaton) > g->large_size) {
        configs = NEW(uint32_t *, g->n_matchers);
        if (!configs)
            return -ENOMEM;
        for (struct grammar_matcher *m = g->matchers; m; m = m->next)
            configs[n++] = &m->config;
        grammar_drop_masks(g);
        r = automaton_forget(&g->automaton, configs, n);
        if (r < 0)
            return r;
        /* If the configurations in use are large, forgetting again soon would free little. */
        g->large_size = MAX(g->memory, 2 * automaton_size(&g->automaton));
        if (g->large_size > 4 * g->memory)
            r = -E2BIG;
    }
    g->size_limit = automaton_size(&g->automaton) + g->memory / 2; /* for the growth in one call */
    return r;
}

int grammar_step(struct inf_grammar *g, uint32_t config, uint32_t symbol, uint32_t *ret_config)
{
    const uint32_t to = g->automaton.rows[config][symbol];

    if (to != AUTOMATON_UNKNOWN) {
        *ret_config = to;
        return 0;
    }
    if (automaton_size(&g->automaton) > g->size_limit)
        return -E2BIG;
    return automaton_step(&g->automaton, config, symbol, ret_config);
}
