/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the reader of JSON Schema
 *
 * A schema is read into a tree of values. A *set* is the list of all schemas that apply to a place
 * of a document: for example `properties/a` of one schema, and `properties/a` of each schema that
 * its `allOf` and `$ref` name. A set is expanded (schema-expand.c) into alternatives, each a list
 * of *facts*: schemas whose own keywords all apply and whose choices (anyOf, oneOf, if, not) have
 * been made. schema-leaf.c turns the facts of an alternative into nodes of a grammar. Each set and
 * each alternative is made once and then found in a map, so recursive schemas become recursive
 * rules.
 *
 * The first error ends the work: functions return BUILDER_NONE or false, and schema->r is set.
 */

#include <string.h>

#include "core/arena.h"
#include "core/map.h"
#include "grammar/fragment.h"
#include "grammar/schema-value.h"

/* The limits of a schema */
enum {
    SCHEMA_MAX_TEXT = 2 << 20,     /* bytes */
    SCHEMA_MAX_DEPTH = 256,        /* nesting of the text */
    SCHEMA_MAX_VALUES = 200000,    /* values of the text, and those that are made */
    SCHEMA_MAX_STEPS = 4000000,    /* schemas, keywords and properties looked at */
    SCHEMA_MAX_NODES = 400000,     /* nodes that are made */
    SCHEMA_MAX_CHOICES = 1024,     /* alternatives of one set */
    SCHEMA_MAX_LEAVES = 20000,     /* alternatives of all sets */
    SCHEMA_MAX_FACTS = 1024,       /* schemas that apply to one place */
    SCHEMA_MAX_MEMORY = 128 << 20, /* bytes */
};

enum schema_type {
    TYPE_NULL = 1 << 0,
    TYPE_BOOLEAN = 1 << 1,
    TYPE_INTEGER = 1 << 2,
    TYPE_FRACTION = 1 << 3, /* numbers that are not integers */
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_STRING = 1 << 4,
    TYPE_ARRAY = 1 << 5,
    TYPE_OBJECT = 1 << 6,
    TYPE_ANY = (1 << 7) - 1,
};

/* The schemas that apply to a place, without those that permit everything. */
struct schema_set {
    uint32_t n;
    const struct schema_value **v;
};

/* A schema whose own keywords apply. @parent is the index of the fact that applies it to the same
 * place, or UINT32_MAX. */
struct fact {
    const struct schema_value *v;
    uint32_t parent;
    bool only_ref; /* only its $ref counts */
};

struct facts {
    uint32_t n;
    const struct fact *v;
};

struct schema {
    struct grammar_builder *b;
    struct compiler compiler; /* makes the automata of regular nodes that are examined */
    struct inf_err *reterr;
    struct arena arena;
    struct schema_value *root;
    struct map ids;      /* URI → struct schema_value *, see schema-ref.c */
    struct map keys;     /* a set of names → its node, see schema-key.c */
    struct map dynamic;  /* name of a $dynamicAnchor → how many there are */
    struct map sets;     /* set → node */
    struct map leaves;   /* facts → node */
    struct map patterns; /* text of a pattern → node */
    uint32_t n_values, n_steps, n_nodes, n_recursive, n_leaves;
    uint32_t depth; /* number of nested alternatives that are being built */
    bool old_refs;  /* drafts up to 7, in which $ref hides the keywords beside it */
    bool draft4;    /* draft 4, which has "id" instead of "$id" */
    bool loose;     /* keywords that cannot be enforced are ignored */
    int r;          /* 0 or the first error */
    const struct schema_value *conflict; /* the first schema that permits nothing */
    const char *conflict_text;
    struct leaf_work *work; /* alternatives that have a rule without a body */

    /* Shared nodes. 0 is a valid node, so they are all made at the start. */
    grammar_node nothing, gap, comma, colon, quote, digit, character, any_text, string, string_rest,
        any, any_array, any_object;
    struct schema_value *null, *no_choices;
};

/* -- schema-error.c -- */

/* Sets the error unless there is one: "'POINTER': TEXT". Returns BUILDER_NONE. @code is a positive
 * errno value. */
grammar_node schema_fail(struct schema *s, int code, const struct schema_value *at,
                         const char *format, ...) PRINTF(4, 5);
grammar_node schema_fail_memory(struct schema *s);
/* Counts @n steps. Returns false if a limit is reached or there was an error. */
bool schema_step(struct schema *s, const struct schema_value *at, uint32_t n);
/* Records why a part permits nothing, and returns s->nothing. */
grammar_node schema_conflict(struct schema *s, const struct schema_value *at, const char *text);

/* -- schema-number.c -- */

/* Returns the node of the numbers of the types @types that all facts permit. */
grammar_node schema_number(struct schema *s, const struct facts *f, unsigned types);
grammar_node schema_number_any(struct schema *s, unsigned types);

/* -- schema-range.c -- */

struct range {
    bool has_low, has_high, low_open, high_open;
    struct decimal low, high;
};
/* Returns the node of the numbers in a range, written without an exponent. */
grammar_node range_node(struct schema *s, const struct range *range, bool fraction);
/* -- schema-multiple.c -- */

/* Returns the node of the multiples of @factor × 10^-n_frac that have at most @n_int digits before
 * the point and at most @n_frac after it; s->nothing if there are too many states. */
grammar_node multiple_node(struct schema *s, uint32_t factor, uint32_t n_int, uint32_t n_frac);
enum { MULTIPLE_DIGITS = 20, MULTIPLE_STATES = 8192 };

/* -- schema-char.c -- */

/* Returns the node of any one character of a string, in all ways in which it can be written. */
grammar_node schema_char_any(struct schema *s);
grammar_node schema_char(struct schema *s, uint32_t cp);

grammar_node schema_char_wide(struct schema *s); /* escapes of the characters from U+0100 on */

/* -- schema-key.c -- */

enum { KEY_MAX = 1024 };
struct key_name {
    const char *text;
    size_t len;
};
/* Returns the node of the strings, with their quotes, that are not among @names; s->nothing if a
 * name is longer than KEY_MAX. Sorts @names. */
grammar_node schema_other_keys(struct schema *s, struct key_name *names, size_t n);

/* -- schema-string.c -- */

/* Returns the regular node of the strings that all facts permit, not escaped and without quotes;
 * s->nothing if they permit none; BUILDER_NONE on an error. *ret_plain tells whether every string
 * is permitted. */
grammar_node schema_string_language(struct schema *s, const struct facts *f, bool *ret_plain);
/* Returns the node of the strings that all facts permit, as they are written in a document. */
grammar_node schema_string(struct schema *s, const struct facts *f);
/* Returns the node of a string constant as it is written in a document. ASCII characters that need
 * no escape are written as themselves; other characters may be written in every way that JSON
 * permits. */
grammar_node schema_literal(struct schema *s, const char *text, size_t len);
/* Finds out whether a text belongs to a regular node. Returns false on an error. */
bool schema_matches(struct schema *s, grammar_node node, const char *text, size_t len,
                    bool *ret_matches);
/* Returns the node of the strings of a language (a set of strings) as they are written in a
 * document: with quotes and escapes. */
grammar_node schema_quoted(struct schema *s, grammar_node language);
/* Returns the node of the strings in which the pattern @text matches somewhere. */
grammar_node schema_pattern_node(struct schema *s, const struct schema_value *at, const char *text,
                                 size_t len);
/* -- schema-length.c -- */

/* No answer of a model has more characters than this, so a larger maxLength is not enforced. */
enum { LENGTH_MAX = 1 << 16 };
struct lengths {
    uint32_t min, max;             /* GRAMMAR_FOREVER: no maximum */
    const struct schema_value *at; /* the keyword that sets the limits; NULL: none */
};
/* Drops those limits of the length that all texts of a node satisfy anyway. */
void schema_drop_lengths(struct schema *s, grammar_node language, struct lengths *lengths);
/* Makes the node of those strings of a regular node that have a permitted length, with quotes and
 * escapes. Makes no automaton that counts characters. Returns false if the texts of the node are
 * too complicated for this (schema-length.c). */
bool schema_counted_string(struct schema *s, grammar_node language, const struct lengths *lengths,
                           grammar_node *ret_node);
/* -- schema-format.c -- */
/* Returns the regular expression that describes whole strings of a format; NULL if the format is
 * not known. */
const char *schema_format_pattern(const char *name, size_t len);

/* -- schema-ref.c -- */
bool schema_ref_index(struct schema *s);
/* Returns the schema that @ref (a member $ref, $dynamicRef or $recursiveRef of @at) names; NULL on
 * an error. */
const struct schema_value *schema_ref_resolve(struct schema *s, const struct schema_value *at,
                                              const struct schema_value *ref);

/* -- schema-expand.c -- */

/* Returns the node of the values that a set permits. */
grammar_node schema_set_node(struct schema *s, const struct schema_set *set);
/* Calls @leaf for every alternative of a set. Stops if @leaf returns false. */
typedef bool (*schema_leaf_fn)(struct schema *s, const struct facts *f, void *data);
bool schema_expand(struct schema *s, const struct schema_set *set, schema_leaf_fn leaf, void *data);

/* -- schema-rewrite.c -- */

/* Returns the choices of schema @v as an array of arrays of schemas; NULL on an error. One schema
 * of each inner array must be chosen. */
const struct schema_value *schema_choices(struct schema *s, const struct schema_value *v);

/* Returns a schema that permits exactly the value @v; NULL on an error. */
const struct schema_value *schema_constant(struct schema *s, const struct schema_value *v);

/* -- schema-negate.c -- */

/* Returns a schema that permits exactly the values that @v does not permit; NULL on an error. */
const struct schema_value *schema_negate(struct schema *s, const struct schema_value *v);
/* Returns whether schema_negate() can negate @v and everything below it. */
bool schema_can_negate(struct schema *s, const struct schema_value *v);
/* -- schema-disjoint.c -- */
bool schema_disjoint(struct schema *s, const struct schema_value *a, const struct schema_value *b);

/* -- schema-keyword.c -- */

enum keyword_kind {
    KEYWORD_NOTE,     /* ignored */
    KEYWORD_ENFORCED, /* restricts the values */
    KEYWORD_APPLY,    /* applies other schemas to the same place */
    KEYWORD_REFUSED,
};
enum keyword_kind schema_keyword_kind(const char *name, size_t len);
/* Checks the values of keywords of a schema. Sets v->asserts if one of the keywords is
 * KEYWORD_ENFORCED. */
bool schema_keyword_check(struct schema *s, const struct schema_value *v);
/* Returns the types that a schema's own keyword "type" permits. */
unsigned schema_types(const struct schema_value *v);

/* -- schema-leaf.c -- */
grammar_node schema_leaf_node(struct schema *s, const struct facts *f);
/* Makes the bodies of the rules in s->work. */
bool schema_leaf_finish(struct schema *s);
/* Returns whether fact @i is fact @top or below fact @top. Facts inside of a negation do not count
 * as below @top. */
bool schema_fact_is_below(const struct facts *f, uint32_t i, uint32_t top);
/* Returns the types that all facts permit. */
unsigned schema_leaf_types(struct schema *s, const struct facts *f);
/* Returns whether a schema has no keyword that restricts a value. */
bool schema_is_everything(const struct schema_value *v);
/* Appends a schema to a set unless the schema permits everything. */
bool schema_set_add(struct schema *s, struct schema_set *set, const struct schema_value *v);

/* -- schema-object.c, schema-array.c, schema-enum.c -- */
grammar_node schema_object(struct schema *s, const struct facts *f);
grammar_node schema_array(struct schema *s, const struct facts *f);
/* Returns whether no value of an enum is an array or an object. */
bool schema_enum_is_scalar(const struct schema_value *list);
unsigned schema_value_type(const struct schema_value *v);
struct schema_values {
    uint32_t n;
    const struct schema_value **v;
};
/* Sets *ret_values to the scalar values that enum and const of all facts permit. *ret_has tells
 * whether there is an enum or a const of scalars. */
bool schema_enum_values(struct schema *s, const struct facts *f, struct schema_values *ret_values,
                        bool *ret_has);

/* -- nodes with simplification: parts that permit nothing disappear -- */
grammar_node schema_seq(struct schema *s, const grammar_node *nodes, size_t n);
grammar_node schema_alt(struct schema *s, const grammar_node *nodes, size_t n);
grammar_node schema_optional(struct schema *s, grammar_node node);
grammar_node schema_chars(struct schema *s, const char *text);
