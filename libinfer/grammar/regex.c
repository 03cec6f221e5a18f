/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns (lowers) the tree of a regular expression into nodes.
 *
 * The pattern describes a part of a text, and anchors and look-ahead describe what surrounds the
 * part. A node describes whole texts. Therefore "any text" (padding) is put where a branch of the
 * pattern has no anchor, and look-ahead becomes an intersection with the whole rest of the text.
 */
#include <errno.h>

#include "core/err.h"
#include "grammar/nodes.h"
#include "grammar/regex-tree.h"

#define MAX_PATTERN 65536 /* bytes */

/* The place of a part of the pattern in the text. */
struct place {
    bool at_start, at_end;    /* nothing but padding is before or after the part */
    bool pad_left, pad_right; /* any text may be before or after the part */
};

struct lowering {
    struct grammar_builder *b;
    struct inf_err *reterr;
};

static int lower(const struct lowering *l, const struct tree *tree, struct place place,
                 grammar_node *ret_node);

static grammar_node any_text(struct grammar_builder *b)
{
    const struct grammar_range all = {0, SET_LAST};

    return grammar_repeat(b, grammar_class(b, &all, 1, false), 0, GRAMMAR_FOREVER);
}

static int lower_seq(const struct lowering *l, const struct tree *first, struct place place,
                     grammar_node *ret_node);

/* Lowers a look-ahead together with the trees that follow it. */
static int lower_ahead(const struct lowering *l, const struct tree *ahead, struct place place,
                       grammar_node *ret_node)
{
    const struct place inside = {
        .at_start = place.at_start && !place.pad_left, .at_end = true, .pad_right = true};
    struct place rest = place;
    grammar_node condition, node;
    int r;

    if (!place.at_end)
        return err_set(l->reterr, EINVAL,
                       "a regular expression has look-ahead inside of a group or a repetition");
    rest.pad_left = false;
    r = lower(l, ahead->children, inside, &condition);
    if (r == 0)
        r = lower_seq(l, ahead->next, rest, &node);
    if (r < 0)
        return r;
    if (ahead->kind == TREE_NOT_AHEAD)
        condition = grammar_not(l->b, condition);
    node = grammar_and(l->b, node, condition);
    if (place.pad_left)
        node = grammar_seq(l->b, (grammar_node[]){any_text(l->b), node}, 2);
    *ret_node = node;
    return 0;
}

/* Returns whether all trees from @tree on are anchors of the end of the text. */
static bool is_tail(const struct tree *tree)
{
    while (tree && tree->kind == TREE_END)
        tree = tree->next;
    return !tree;
}

/* Lowers the list of trees from @first on, and appends the nodes to @list. */
static int lower_list(const struct lowering *l, const struct tree *first, struct place place,
                      struct nodes *list)
{
    const bool at_end = place.at_end;
    grammar_node part;
    int r = 0;

    for (; first && first->kind == TREE_START && place.at_start; first = first->next)
        place.pad_left = false;
    for (; r == 0 && first && !(at_end && is_tail(first)); first = first->next) {
        const bool is_last = is_tail(first->next);
        struct place inside = {.at_start = place.at_start, .at_end = at_end && is_last};

        if (place.pad_left && !first->has_anchor)
            r = nodes_add(list, any_text(l->b));
        inside.pad_left = place.pad_left && first->has_anchor;
        if (first->kind == TREE_AHEAD || first->kind == TREE_NOT_AHEAD) {
            inside.at_end = at_end;
            inside.pad_right = place.pad_right;
            r = lower_ahead(l, first, inside, &part);
            return r < 0 ? r : nodes_add(list, part);
        }
        if (is_last && at_end && first->next)
            place.pad_right = false;
        inside.pad_right = place.pad_right && is_last && first->has_anchor;
        if (r == 0)
            r = lower(l, first, inside, &part);
        if (r == 0)
            r = nodes_add(list, part);
        place.pad_right &= !inside.pad_right;
        place.at_start = place.pad_left = false;
    }
    /* An empty list has only one padding. */
    place.pad_right &= !first;
    return r == 0 && (place.pad_left || place.pad_right) ? nodes_add(list, any_text(l->b)) : r;
}

static int lower_seq(const struct lowering *l, const struct tree *first, struct place place,
                     grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes list = {0};
    int r;

    r = lower_list(l, first, place, &list);
    if (r == 0)
        *ret_node = grammar_seq(l->b, list.list, list.n);
    return r;
}

static int lower_alt(const struct lowering *l, const struct tree *tree, struct place place,
                     grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes list = {0};
    grammar_node part;
    int r = 0;

    for (const struct tree *child = tree->children; r == 0 && child; child = child->next) {
        r = lower(l, child, place, &part);
        if (r == 0)
            r = nodes_add(&list, part);
    }
    if (r == 0)
        *ret_node = grammar_alt(l->b, list.list, list.n);
    return r;
}

static int lower(const struct lowering *l, const struct tree *tree, struct place place,
                 grammar_node *ret_node)
{
    const struct tree alone = {.kind = tree->kind, .has_anchor = true, .children = tree->children};
    int r;

    switch (tree->kind) {
    case TREE_NODE:
        *ret_node = tree->node;
        break;
    case TREE_SEQ:
        return lower_seq(l, tree->children, place, ret_node);
    case TREE_ALT:
        return lower_alt(l, tree, place, ret_node);
    case TREE_START:
    case TREE_END:
        if (tree->kind == TREE_START ? place.at_start : place.at_end)
            return lower_seq(l, &alone, place, ret_node);
        return err_set(l->reterr, EINVAL,
                       "a regular expression has ^ or $ in the middle of the text");
    case TREE_AHEAD:
    case TREE_NOT_AHEAD:
        return lower_ahead(l, &alone, place, ret_node);
    case TREE_REPEAT:
        if (tree->has_anchor)
            return err_set(l->reterr, EINVAL, "a regular expression repeats ^, $ or look-ahead");
        r = lower(l, tree->children, (struct place){.at_start = false}, ret_node);
        if (r < 0)
            return r;
        *ret_node = grammar_repeat(l->b, *ret_node, tree->min, tree->max);
        break;
    }
    if (place.pad_left)
        *ret_node = grammar_seq(l->b, (grammar_node[]){any_text(l->b), *ret_node}, 2);
    if (place.pad_right)
        *ret_node = grammar_seq(l->b, (grammar_node[]){*ret_node, any_text(l->b)}, 2);
    return 0;
}

int regex_read(struct grammar_builder *b, const char *pattern, size_t len, unsigned flags,
               grammar_node *ret_node, struct inf_err *reterr)
{
    const bool pad = flags & REGEX_UNANCHORED;
    const struct lowering l = {b, reterr};
    struct arena arena = {0};
    const struct tree *tree;
    int r;

    if (len > MAX_PATTERN)
        return err_set(reterr, E2BIG, "a regular expression has more than %d bytes", MAX_PATTERN);
    r = regex_parse(b, &arena, pattern, len, flags, &tree, reterr);
    if (r == 0)
        r = lower(
            &l, tree,
            (struct place){.at_start = true, .at_end = true, .pad_left = pad, .pad_right = pad},
            ret_node);
    arena_done(&arena);
    if (r == 0 && grammar_builder_error(b) < 0)
        r = err_set(reterr, -grammar_builder_error(b), "a regular expression is too large");
    return r;
}

int grammar_regex(struct grammar_builder *b, const char *pattern, size_t len, bool unanchored,
                  grammar_node *ret_node, struct inf_err *reterr)
{
    return regex_read(b, pattern, len, unanchored ? REGEX_UNANCHORED : 0, ret_node, reterr);
}
