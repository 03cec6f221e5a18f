/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Builds the rules of a grammar, for the parsers of all notations.
 *
 * A grammar is a set of rules over bytes. A node stands for an expression. It is a number, which is
 * valid only for the builder that made it. A node may be used in any number of places. The function
 * that fails first (out of memory, or a limit of the builder) leaves an error in the builder and
 * returns BUILDER_NONE. All later functions return BUILDER_NONE at once. Therefore readers test for
 * an error with grammar_builder_error() only at the end and in long loops.
 *
 * A node is *regular* if no rule that contains itself is reachable from it. Only regular nodes may
 * be operands of grammar_and() and grammar_not().
 */

#include <infer/types.h>

#include "core/macros.h"

struct grammar_builder;
typedef uint32_t grammar_node;

#define BUILDER_NONE    UINT32_MAX
#define GRAMMAR_FOREVER UINT32_MAX /* no upper limit of grammar_repeat() */

/* A range of code points, both ends included. Surrogates are left out. */
struct grammar_range {
    uint32_t first, last;
};

/* Returns 0 or -ENOMEM. */
int grammar_builder_new(struct grammar_builder **ret_builder);
struct grammar_builder *grammar_builder_free(struct grammar_builder *b);
DEFINE_CLEANUP(struct grammar_builder *, grammar_builder_free);
/* Returns 0, -ENOMEM, or -E2BIG. */
int grammar_builder_error(const struct grammar_builder *b);

grammar_node grammar_empty(struct grammar_builder *b);   /* the empty text */
grammar_node grammar_nothing(struct grammar_builder *b); /* no text at all */
grammar_node grammar_bytes(struct grammar_builder *b, const char *text, size_t len);
/* Returns the node of one code point in UTF-8. The code point is in one of the ranges, or with
 * @inverted outside of all ranges. */
grammar_node grammar_class(struct grammar_builder *b, const struct grammar_range *ranges, size_t n,
                           bool inverted);
/* Returns the node of the token whose piece is @text. If the token is special, only the token
 * matches. If it is plain, the token and the bytes of @text match. If the tokenizer has no such
 * token, only the bytes match. */
grammar_node grammar_token(struct grammar_builder *b, const char *text, size_t len);
/* Returns the node of the token with this id. grammar_program_new() refuses ids that the tokenizer
 * does not have. */
grammar_node grammar_token_id(struct grammar_builder *b, uint32_t id);
grammar_node grammar_seq(struct grammar_builder *b, const grammar_node *nodes, size_t n);
grammar_node grammar_alt(struct grammar_builder *b, const grammar_node *nodes, size_t n);
/* Returns the node of @min to @max texts of @node, one after another; @max may be GRAMMAR_FOREVER.
 */
grammar_node grammar_repeat(struct grammar_builder *b, grammar_node node, uint32_t min,
                            uint32_t max);
/* Creates a rule, which may be used before it has a body. @name is for messages; may be NULL. */
grammar_node grammar_rule_new(struct grammar_builder *b, const char *name);
void grammar_rule_set(struct grammar_builder *b, grammar_node rule, grammar_node body);

/* Returns the node of the texts that belong to both regular nodes. */
grammar_node grammar_and(struct grammar_builder *b, grammar_node x, grammar_node y);
/* Returns the node of the texts of valid UTF-8 that do not belong to the regular node. */
grammar_node grammar_not(struct grammar_builder *b, grammar_node x);
/* Returns the node of the texts of a regular @x as they are written inside of a JSON string:
 * quotes, backslashes and control characters are escaped, each in every way that JSON permits. The
 * quotes around the string are not part of the node. */
grammar_node grammar_json_escaped(struct grammar_builder *b, grammar_node x);
/* Returns the node of any text that ends with the first occurrence of @end in it. @end is not
 * empty. */
grammar_node grammar_until(struct grammar_builder *b, const char *end, size_t len);

/*
 * Reads a regular expression of ECMA-262 with the flag u. JSON Schema uses this notation, and Lark
 * and Rust write most expressions in the same way. The node stands for the whole text: ^ and $ at
 * its ends are permitted and change nothing, and with @unanchored any text may stand at an end
 * where ^ or $ is missing. Look-behind and back references are refused, and so is look-ahead inside
 * of most groups and repetitions. -EINVAL with the position in *reterr; -E2BIG; -ENOMEM.
 */
int grammar_regex(struct grammar_builder *b, const char *pattern, size_t len, bool unanchored,
                  grammar_node *ret_node, struct inf_err *reterr);

/* These functions read the notations. Each function adds rules to @b, and sets *ret_node to the
 * node of the whole text. A reader of one notation may call the reader of another (%json in Lark).
 * The errors are those of inf_grammar_new(). */
int grammar_read_schema(struct grammar_builder *b, const char *text, size_t len,
                        grammar_node *ret_node, struct inf_err *reterr);
/* Like grammar_read_schema(). With @loose, keywords that cannot be enforced are ignored instead of
 * refused, so that the grammar permits more than the schema. */
int grammar_read_schema_how(struct grammar_builder *b, const char *text, size_t len, bool loose,
                            grammar_node *ret_node, struct inf_err *reterr);
int grammar_read_gbnf(struct grammar_builder *b, const char *text, size_t len,
                      grammar_node *ret_node, struct inf_err *reterr);
int grammar_read_lark(struct grammar_builder *b, const char *text, size_t len,
                      grammar_node *ret_node, struct inf_err *reterr);
/* Returns the node of any JSON value, or only of any JSON object. */
grammar_node grammar_json(struct grammar_builder *b, bool only_objects);
