/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of strings that also have a pattern
 *
 * An automaton that reads a pattern and counts characters has a state for each pair of a state of
 * the pattern and a length. It becomes too large if the length is large, or if a character of the
 * pattern has many states, as those of \p{L} do. Many patterns have a simple form, though: parts of
 * a known length around at most one repetition of a single character. The length then limits the
 * number of repetitions.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

enum {
    PARTS_MAX = 64, /* the largest number of parts of one form */
    FORMS_MAX = 32, /* the largest number of forms of a pattern, which has one for each
                       alternative */
    UNIT_DEPTH = 4,
};

/* How many characters the texts of a node have; GRAMMAR_FOREVER: there is no longest text, or it is
 * not known. */
struct extent {
    uint32_t min, max;
};

struct form {
    grammar_node parts[PARTS_MAX];
    uint32_t n;
    uint32_t fixed;       /* characters of all parts but parts[loop] */
    uint32_t loop;        /* the part that is repeated; UINT32_MAX: none is */
    uint32_t least, most; /* how often */
};

struct forms {
    struct schema *s;
    struct form *list; /* [cap] */
    uint32_t n, cap;
};

static uint32_t extent_add(uint32_t x, uint32_t y)
{
    return x > UINT32_MAX - y ? UINT32_MAX : x + y;
}

static uint32_t extent_times(uint32_t x, uint32_t y)
{
    return y > 0 && x > UINT32_MAX / y ? UINT32_MAX : x * y;
}

static struct extent extent_of(const struct grammar_builder *b, grammar_node node);

static struct extent extent_of_alt(const struct grammar_builder *b, grammar_node node)
{
    struct extent e = {UINT32_MAX, 0};

    for (uint32_t i = 0; i < b->nodes[node].n; i++) {
        const struct extent x = extent_of(b, node_words(b, node)[i]);

        e = (struct extent){MIN(e.min, x.min), MAX(e.max, x.max)};
    }
    return e;
}

static struct extent extent_of_seq(const struct grammar_builder *b, grammar_node node)
{
    struct extent e = {0};

    for (uint32_t i = 0; i < b->nodes[node].n; i++) {
        const struct extent x = extent_of(b, node_words(b, node)[i]);

        e = (struct extent){extent_add(e.min, x.min), extent_add(e.max, x.max)};
    }
    return e;
}

static struct extent extent_of(const struct grammar_builder *b, grammar_node node)
{
    const struct node *n = &b->nodes[node];
    const uint32_t *words = node_words(b, node);
    struct extent e = {0, GRAMMAR_FOREVER}, x;

    switch ((enum node_kind)n->kind) {
    case NODE_EMPTY:
        return (struct extent){0};
    case NODE_BYTES:
        e.max = 0;
        for (uint32_t i = 0; i < n->n; i++)
            e.max += (words[i] & 0xc0) != 0x80;
        e.min = e.max;
        return e;
    case NODE_CLASS:
        return (struct extent){1, 1};
    case NODE_SEQ:
        return extent_of_seq(b, node);
    case NODE_ALT:
        return extent_of_alt(b, node);
    case NODE_REPEAT:
        e = extent_of(b, words[0]);
        return (struct extent){extent_times(e.min, n->min), extent_times(e.max, n->max)};
    case NODE_AND:
        e = extent_of(b, words[0]);
        x = extent_of(b, words[1]);
        return (struct extent){MAX(e.min, x.min), MIN(e.max, x.max)};
    default:
        return e;
    }
}

void schema_drop_lengths(struct schema *s, grammar_node language, struct lengths *lengths)
{
    struct extent e;

    if (language == BUILDER_NONE)
        return;
    e = extent_of(s->b, language);
    if (e.min >= lengths->min)
        lengths->min = 0;
    if (e.max <= lengths->max)
        lengths->max = GRAMMAR_FOREVER;
}

/* Returns whether every text of a node is one character. */
static bool length_is_one(const struct grammar_builder *b, grammar_node node, unsigned depth)
{
    const struct node *n = &b->nodes[node];
    const uint32_t *words = node_words(b, node);

    if (n->kind == NODE_CLASS)
        return true;
    if (n->kind == NODE_BYTES)
        return n->n == 1 && words[0] < 0x80;
    if (n->kind != NODE_ALT || n->n == 0 || depth == 0)
        return false;
    for (uint32_t i = 0; i < n->n; i++)
        if (!length_is_one(b, words[i], depth - 1))
            return false;
    return true;
}

static bool forms_append(struct forms *forms, grammar_node node, uint32_t length)
{
    for (uint32_t i = 0; i < forms->n; i++) {
        struct form *form = &forms->list[i];

        if (form->n == PARTS_MAX || length > LENGTH_MAX || form->fixed + length > LENGTH_MAX)
            return false;
        form->parts[form->n++] = node;
        form->fixed += length;
    }
    return true;
}

static bool forms_append_loop(struct forms *forms, grammar_node unit, uint32_t min, uint32_t max)
{
    for (uint32_t i = 0; i < forms->n; i++) {
        struct form *form = &forms->list[i];

        if (form->n == PARTS_MAX || form->loop != UINT32_MAX)
            return false;
        form->loop = form->n;
        form->least = min;
        form->most = max;
        form->parts[form->n++] = unit;
    }
    return true;
}

static bool forms_add(struct forms *forms, grammar_node node);

/* Continues all forms with each of the nodes. */
static bool forms_fork(struct forms *forms, const grammar_node *nodes, uint32_t n)
{
    const uint32_t n_old = forms->n;
    _cleanup_free_ struct form *old = NEW(struct form, n_old);

    if (!old)
        return false;
    memcpy(old, forms->list, n_old * sizeof(*old));
    forms->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct forms more = {forms->s, forms->list + forms->n, n_old, forms->cap - forms->n};

        if (more.cap < n_old)
            return false;
        memcpy(more.list, old, n_old * sizeof(*old));
        if (!forms_add(&more, nodes[i]))
            return false;
        forms->n += more.n;
    }
    return true;
}

static bool forms_add_bytes(struct forms *forms, grammar_node node)
{
    const struct node n = forms->s->b->nodes[node];
    const uint32_t *words = node_words(forms->s->b, node);
    uint32_t length = 0;

    for (uint32_t i = 0; i < n.n; i++)
        length += (words[i] & 0xc0) != 0x80;
    return (n.n == 0 || (words[0] & 0xc0) != 0x80) && forms_append(forms, node, length);
}

static bool forms_add_repeat(struct forms *forms, grammar_node node)
{
    const struct node n = forms->s->b->nodes[node];
    const grammar_node x = node_words(forms->s->b, node)[0];
    const grammar_node choices[] = {grammar_empty(forms->s->b), x};

    if (length_is_one(forms->s->b, x, UNIT_DEPTH))
        return n.min == n.max ? forms_append(forms, node, n.min)
                              : forms_append_loop(forms, x, n.min, n.max);
    if (n.max == 1 && n.min == 0)
        return forms_fork(forms, choices, 2);
    if (n.min != n.max || n.max > PARTS_MAX)
        return false;
    for (uint32_t i = 0; i < n.max; i++)
        if (!forms_add(forms, x))
            return false;
    return true;
}

static bool forms_add_seq(struct forms *forms, grammar_node node)
{
    for (uint32_t i = 0; i < forms->s->b->nodes[node].n; i++)
        if (!forms_add(forms, node_words(forms->s->b, node)[i]))
            return false;
    return true;
}

/* Continues all forms with a node. Returns false if the pattern does not have the simple form that
 * is described above. */
static bool forms_add(struct forms *forms, grammar_node node)
{
    const struct node n = forms->s->b->nodes[node];

    if (length_is_one(forms->s->b, node, UNIT_DEPTH))
        return forms_append(forms, node, 1);
    switch ((enum node_kind)n.kind) {
    case NODE_EMPTY:
        return true;
    case NODE_BYTES:
        return forms_add_bytes(forms, node);
    case NODE_SEQ:
        return forms_add_seq(forms, node);
    case NODE_ALT:
        return forms_fork(forms, node_words(forms->s->b, node), n.n);
    case NODE_REPEAT:
        return forms_add_repeat(forms, node);
    default:
        return false;
    }
}

/* Returns the node of the texts of a form that have a permitted length, escaped and in quotes. */
static grammar_node form_node(struct schema *s, const struct form *form, const struct lengths *l)
{
    const uint32_t min = l->min > form->fixed ? l->min - form->fixed : 0;
    const uint32_t max = l->max > LENGTH_MAX ? GRAMMAR_FOREVER : l->max - form->fixed;
    grammar_node parts[PARTS_MAX + 2];
    uint32_t n = 0;

    if (l->max < form->fixed || (form->loop == UINT32_MAX && min > 0))
        return s->nothing;
    if (form->loop != UINT32_MAX && MAX(min, form->least) > MIN(max, form->most))
        return s->nothing;
    parts[n++] = s->quote;
    for (uint32_t i = 0; i < form->n; i++) {
        parts[n] = grammar_json_escaped(s->b, form->parts[i]);
        if (i == form->loop)
            parts[n] = grammar_repeat(s->b, parts[n], MAX(min, form->least), MIN(max, form->most));
        n++;
    }
    parts[n++] = s->quote;
    return schema_seq(s, parts, n);
}

bool schema_counted_string(struct schema *s, grammar_node language, const struct lengths *lengths,
                           grammar_node *ret_node)
{
    _cleanup_free_ struct form *list = NEW(struct form, FORMS_MAX);
    struct forms forms = {s, list, 1, FORMS_MAX};
    grammar_node ways[FORMS_MAX];

    if (!list) {
        *ret_node = schema_fail_memory(s);
        return true;
    }
    list[0] = (struct form){.loop = UINT32_MAX};
    if (language == BUILDER_NONE || language == s->nothing || !forms_add(&forms, language))
        return false;
    for (uint32_t i = 0; i < forms.n; i++)
        ways[i] = form_node(s, &list[i], lengths);
    *ret_node = schema_alt(s, ways, forms.n);
    return true;
}
