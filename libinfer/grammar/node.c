/* SPDX-License-Identifier: Apache-2.0 */
/* Builds nodes: checks the limits, and finds nodes that exist already. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/hash.h"
#include "grammar/dfa.h"
#include "grammar/node.h"

#define LAST_CODE_POINT 0x10ffffu

int grammar_builder_new(struct grammar_builder **ret_builder)
{
    struct grammar_builder *b = NEW(struct grammar_builder, 1);

    if (!b || ARRAY_GROW(b->words, b->cap_words, 1) < 0) {
        free(b);
        return -ENOMEM;
    }
    *ret_builder = b;
    return 0;
}

struct grammar_builder *grammar_builder_free(struct grammar_builder *b)
{
    if (!b)
        return NULL;
    for (uint32_t i = 0; i < b->n_rules; i++)
        free(b->rules[i].name);
    free(b->nodes);
    free(b->words);
    free(b->rules);
    index_done(&b->index);
    free(b);
    return NULL;
}

int grammar_builder_error(const struct grammar_builder *b)
{
    return b->error;
}

static grammar_node node_fail(struct grammar_builder *b, int error)
{
    if (b->error == 0)
        b->error = error;
    return BUILDER_NONE;
}

static uint32_t add_capped(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static uint32_t mul_capped(uint32_t a, uint32_t b)
{
    const uint64_t r = (uint64_t)a * b;

    return r > UINT32_MAX ? UINT32_MAX : (uint32_t)r;
}

static bool has_operands(enum node_kind kind)
{
    return kind == NODE_SEQ || kind == NODE_ALT || kind == NODE_REPEAT || kind == NODE_AND ||
           kind == NODE_NOT || kind == NODE_JSON_ESCAPED;
}

/* Returns whether the bytes @words are UTF-8. */
static bool words_are_text(const uint32_t *words, uint32_t n)
{
    uint8_t state = UTF8_START;

    for (uint32_t i = 0; i < n && state != UTF8_INVALID; i++)
        state = utf8_step(state, (uint8_t)words[i]);
    return state == UTF8_START;
}

static bool node_finds_text(const struct grammar_builder *b, const struct node *node,
                            const uint32_t *words)
{
    if (node->kind == NODE_BYTES || node->kind == NODE_UNTIL)
        return words_are_text(words, node->n);
    if (node->kind == NODE_TOKEN || node->kind == NODE_TOKEN_ID || node->kind == NODE_RULE)
        return false;
    for (uint32_t i = 0; has_operands(node->kind) && i < node->n; i++)
        if (!b->nodes[words[i]].is_text)
            return false;
    return true;
}

/* Fills in the members of a node that follow from its words: depth, size and is_text. */
static int node_measure(const struct grammar_builder *b, struct node *node, const uint32_t *words)
{
    uint32_t size = 1;

    node->is_text = node_finds_text(b, node, words);
    if (!has_operands(node->kind)) {
        node->size = node->kind == NODE_CLASS ? MAX(4, node->n) : add_capped(node->n, 1);
        return 0;
    }
    for (uint32_t i = 0; i < node->n; i++) {
        const struct node *operand = &b->nodes[words[i]];

        size = add_capped(size, operand->size);
        node->depth = MAX(node->depth, operand->depth + 1);
    }
    if (node->kind == NODE_REPEAT)
        size = mul_capped(size, node->max == GRAMMAR_FOREVER ? node->min + 1 : node->max);
    node->size = size;
    return node->depth > BUILDER_MAX_DEPTH ? -E2BIG : 0;
}

static bool node_equal(const struct grammar_builder *b, const struct node *x, const struct node *y,
                       const uint32_t *words)
{
    return x->kind == y->kind && x->n == y->n && x->min == y->min && x->max == y->max &&
           (x->n == 0 || memcmp(b->words + x->at, words, x->n * sizeof(*words)) == 0);
}

static int node_room(struct grammar_builder *b, uint32_t n_words)
{
    int r;

    if (b->n_nodes >= BUILDER_MAX_NODES || n_words > BUILDER_MAX_WORDS - b->n_words)
        return -E2BIG;
    r = work_add(&b->work, WORK_NODE + WORK_WORD * (uint64_t)n_words);
    if (r == 0)
        r = ARRAY_GROW(b->nodes, b->cap_nodes, b->n_nodes + 1);
    if (r == 0)
        r = ARRAY_GROW(b->words, b->cap_words, (size_t)b->n_words + n_words);
    return r == 0 ? index_reserve(&b->index, (size_t)b->n_nodes + 1) : r;
}

/* Stores a node, or finds an equal one. */
static grammar_node node_put(struct grammar_builder *b, struct node node, const uint32_t *words)
{
    const uint32_t head[] = {node.kind, node.n, node.min, node.max};
    uint64_t seed = hash_seeded(head, sizeof(head));
    uint32_t hash, at, found;
    int r;

    if (b->error < 0)
        return BUILDER_NONE;
    if (has_operands(node.kind))
        for (uint32_t i = 0; i < node.n; i++)
            if (words[i] >= b->n_nodes)
                return node_fail(b, -EINVAL);
    r = node_room(b, node.n);
    if (r == 0)
        r = node_measure(b, &node, words);
    if (r < 0)
        return node_fail(b, r);
    hash = (uint32_t)(node.n > 0 ? hash_bytes(seed, words, node.n * sizeof(*words)) : seed);
    at = index_start(&b->index, hash);
    for (; index_match(&b->index, hash, &at, &found); at++)
        if (node_equal(b, &b->nodes[found], &node, words))
            return found;
    node.at = b->n_words;
    if (node.n > 0)
        memcpy(b->words + node.at, words, node.n * sizeof(*words));
    b->n_words += node.n;
    index_put(&b->index, at, hash, b->n_nodes);
    b->nodes[b->n_nodes] = node;
    return b->n_nodes++;
}

grammar_node grammar_empty(struct grammar_builder *b)
{
    return node_put(b, (struct node){.kind = NODE_EMPTY}, NULL);
}

grammar_node grammar_nothing(struct grammar_builder *b)
{
    return node_put(b, (struct node){.kind = NODE_NOTHING}, NULL);
}

/* Stores a node whose words are the bytes of @text. */
static grammar_node node_put_text(struct grammar_builder *b, enum node_kind kind, const char *text,
                                  size_t len)
{
    _cleanup_free_ uint32_t *words = NULL;

    if (b->error < 0)
        return BUILDER_NONE;
    if (len > BUILDER_MAX_WORDS)
        return node_fail(b, -E2BIG);
    words = NEW(uint32_t, len);
    if (!words)
        return node_fail(b, -ENOMEM);
    for (size_t i = 0; i < len; i++)
        words[i] = (unsigned char)text[i];
    return node_put(b, (struct node){.kind = kind, .n = (uint32_t)len}, words);
}

grammar_node grammar_bytes(struct grammar_builder *b, const char *text, size_t len)
{
    return len == 0 ? grammar_empty(b) : node_put_text(b, NODE_BYTES, text, len);
}

grammar_node grammar_token(struct grammar_builder *b, const char *text, size_t len)
{
    return len == 0 ? grammar_empty(b) : node_put_text(b, NODE_TOKEN, text, len);
}

grammar_node grammar_token_id(struct grammar_builder *b, uint32_t id)
{
    return node_put(b, (struct node){.kind = NODE_TOKEN_ID, .min = id}, NULL);
}

grammar_node grammar_until(struct grammar_builder *b, const char *end, size_t len)
{
    return len == 0 ? node_fail(b, -EINVAL) : node_put_text(b, NODE_UNTIL, end, len);
}

static int range_compare(const void *x, const void *y)
{
    const struct grammar_range *a = x, *b = y;

    return a->first < b->first ? -1 : a->first > b->first;
}

/* Sorts and merges ranges. Returns their new number. */
static size_t ranges_merge(struct grammar_range *ranges, size_t n)
{
    size_t n_out = 0, n_sorted = 1;

    while (n_sorted < n && ranges[n_sorted - 1].first <= ranges[n_sorted].first)
        n_sorted++;
    if (n_sorted < n)
        qsort(ranges, n, sizeof(*ranges), range_compare);
    for (size_t i = 0; i < n; i++) {
        const struct grammar_range range = {ranges[i].first, MIN(ranges[i].last, LAST_CODE_POINT)};

        if (range.first > range.last)
            continue;
        if (n_out > 0 && range.first <= ranges[n_out - 1].last + 1)
            ranges[n_out - 1].last = MAX(ranges[n_out - 1].last, range.last);
        else
            ranges[n_out++] = range;
    }
    return n_out;
}

/* Replaces merged @ranges, which have room for one more, by the ranges between them. */
static size_t ranges_invert(struct grammar_range *ranges, size_t n)
{
    uint32_t first = 0;
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++) {
        const struct grammar_range range = ranges[i];

        if (range.first > first)
            ranges[n_out++] = (struct grammar_range){first, range.first - 1};
        first = range.last + 1;
    }
    if (first <= LAST_CODE_POINT)
        ranges[n_out++] = (struct grammar_range){first, LAST_CODE_POINT};
    return n_out;
}

grammar_node grammar_class(struct grammar_builder *b, const struct grammar_range *ranges, size_t n,
                           bool inverted)
{
    _cleanup_free_ struct grammar_range *copy = NULL;

    if (b->error < 0)
        return BUILDER_NONE;
    if (n > BUILDER_MAX_WORDS / 4 || work_add(&b->work, WORK_RANGE * (uint64_t)n) < 0)
        return node_fail(b, -E2BIG);
    copy = NEW(struct grammar_range, n + 1);
    if (!copy)
        return node_fail(b, -ENOMEM);
    if (n > 0)
        memcpy(copy, ranges, n * sizeof(*copy));
    n = ranges_merge(copy, n);
    if (inverted)
        n = ranges_invert(copy, n);
    if (n == 0)
        return grammar_nothing(b);
    return node_put(b, (struct node){.kind = NODE_CLASS, .n = (uint32_t)(2 * n)},
                    (const uint32_t *)copy);
}

/* Puts a SEQ or ALT together. Operands that change nothing (of the kind @neutral) are left out. */
static grammar_node node_put_list(struct grammar_builder *b, enum node_kind kind,
                                  const grammar_node *nodes, size_t n, enum node_kind neutral)
{
    _cleanup_free_ uint32_t *words = NULL;
    uint32_t n_words = 0;

    if (b->error < 0)
        return BUILDER_NONE;
    if (n > BUILDER_MAX_WORDS)
        return node_fail(b, -E2BIG);
    words = NEW(uint32_t, n);
    if (!words)
        return node_fail(b, -ENOMEM);
    for (size_t i = 0; i < n; i++) {
        if (nodes[i] >= b->n_nodes)
            return node_fail(b, -EINVAL);
        if (b->nodes[nodes[i]].kind == NODE_NOTHING && kind == NODE_SEQ)
            return grammar_nothing(b);
        if (b->nodes[nodes[i]].kind != neutral)
            words[n_words++] = nodes[i];
    }
    if (n_words == 0)
        return node_put(b, (struct node){.kind = neutral}, NULL);
    if (n_words == 1)
        return words[0];
    return node_put(b, (struct node){.kind = kind, .n = n_words}, words);
}

grammar_node grammar_seq(struct grammar_builder *b, const grammar_node *nodes, size_t n)
{
    return node_put_list(b, NODE_SEQ, nodes, n, NODE_EMPTY);
}

grammar_node grammar_alt(struct grammar_builder *b, const grammar_node *nodes, size_t n)
{
    return node_put_list(b, NODE_ALT, nodes, n, NODE_NOTHING);
}

grammar_node grammar_repeat(struct grammar_builder *b, grammar_node node, uint32_t min,
                            uint32_t max)
{
    if (b->error < 0)
        return BUILDER_NONE;
    if (node >= b->n_nodes)
        return node_fail(b, -EINVAL);
    if (min > max)
        return grammar_nothing(b);
    if (max == 0 || b->nodes[node].kind == NODE_EMPTY)
        return grammar_empty(b);
    if (b->nodes[node].kind == NODE_NOTHING)
        return min == 0 ? grammar_empty(b) : node;
    if (min == 1 && max == 1)
        return node;
    return node_put(b, (struct node){.kind = NODE_REPEAT, .n = 1, .min = min, .max = max}, &node);
}

grammar_node grammar_and(struct grammar_builder *b, grammar_node x, grammar_node y)
{
    const uint32_t words[] = {MIN(x, y), MAX(x, y)};

    return x == y ? x : node_put(b, (struct node){.kind = NODE_AND, .n = 2}, words);
}

grammar_node grammar_not(struct grammar_builder *b, grammar_node x)
{
    return node_put(b, (struct node){.kind = NODE_NOT, .n = 1}, &x);
}

grammar_node grammar_json_escaped(struct grammar_builder *b, grammar_node x)
{
    return node_put(b, (struct node){.kind = NODE_JSON_ESCAPED, .n = 1}, &x);
}

grammar_node grammar_rule_new(struct grammar_builder *b, const char *name)
{
    char *copy = NULL;

    if (b->error < 0)
        return BUILDER_NONE;
    if (b->n_rules >= BUILDER_MAX_NODES)
        return node_fail(b, -E2BIG);
    if (ARRAY_GROW(b->rules, b->cap_rules, b->n_rules + 1) < 0)
        return node_fail(b, -ENOMEM);
    if (name) {
        copy = strdup(name);
        if (!copy)
            return node_fail(b, -ENOMEM);
    }
    b->rules[b->n_rules++] = (struct rule){.name = copy, .body = BUILDER_NONE};
    return node_put(b, (struct node){.kind = NODE_RULE, .min = b->n_rules - 1}, NULL);
}

void grammar_rule_set(struct grammar_builder *b, grammar_node rule, grammar_node body)
{
    if (b->error < 0)
        return;
    if (rule >= b->n_nodes || body >= b->n_nodes || b->nodes[rule].kind != NODE_RULE)
        node_fail(b, -EINVAL);
    else
        b->rules[b->nodes[rule].min].body = body;
}
