/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_GRAMMAR_H
#define INFER_GRAMMAR_H

/*
 * Grammars: what a generated text may be
 *
 * A grammar is compiled from a JSON Schema or from a text in one of several notations, for one
 * tokenizer. The engine excludes at each step all tokens after which the text could not be
 * completed to a text of the grammar, and permits the end of the generation only after a complete
 * text. The automaton of a grammar is built while it is used, and all requests that use the grammar
 * share it, so callers should keep a grammar that they may need again.
 *
 * All functions may be called from any thread.
 */

#include <infer/tokenizer.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tokens of a tokenizer, sorted by their bytes. Callers make one per model. */
struct inf_grammar_vocab;
struct inf_grammar;

enum inf_grammar_kind {
    INF_GRAMMAR_JSON,        /* any JSON object; the text is ignored */
    INF_GRAMMAR_JSON_SCHEMA, /* the text is a JSON Schema (drafts 4 to 2020-12) */
    INF_GRAMMAR_GBNF,        /* the notation of llama.cpp */
    INF_GRAMMAR_REGEX,       /* a regular expression that the whole text matches */
    INF_GRAMMAR_LARK,        /* Lark with the extensions of llguidance, see docs/grammars.md */
    /* Like INF_GRAMMAR_JSON_SCHEMA, but keywords that cannot be enforced are ignored. */
    INF_GRAMMAR_JSON_SCHEMA_LOOSE,
};

/* @tok is borrowed, and must outlive the object and all grammars made with it. -ENOMEM. */
INF_PUBLIC int inf_grammar_vocab_new(const struct inf_tokenizer *tok,
                                     struct inf_grammar_vocab **ret_vocab);
/* Sets how many bytes the automaton of one grammar may use. The new limit is for grammars that are
 * made with the vocabulary from now on. Without this call, the limit is 64 MiB. An automaton that
 * reaches its limit forgets everything except what the running requests need. If they need more
 * than twice the limit, they fail with -E2BIG. The masks that say which tokens are permitted, and
 * that are kept for later steps, may use a quarter of the limit in addition. */
INF_PUBLIC void inf_grammar_vocab_set_memory(struct inf_grammar_vocab *vocab, size_t bytes);
/* Grammars hold references of their own. NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_grammar_vocab *inf_grammar_vocab_unref(struct inf_grammar_vocab *vocab);

/*
 * Compiles a grammar. Time and memory are bounded. -EINVAL: the text is invalid, uses something
 * that is not supported, or permits no text at all; *reterr says what and where (a JSON pointer for
 * schemas, the line for the other notations). -E2BIG: the grammar exceeds a limit; -ENOMEM.
 */
INF_PUBLIC int inf_grammar_new(struct inf_grammar_vocab *vocab, enum inf_grammar_kind kind,
                               const char *text, size_t len, struct inf_grammar **ret_grammar,
                               struct inf_err *reterr);
INF_PUBLIC struct inf_grammar *inf_grammar_ref(struct inf_grammar *grammar);
INF_PUBLIC struct inf_grammar *inf_grammar_unref(struct inf_grammar *grammar);

#ifdef __cplusplus
}
#endif
#endif
