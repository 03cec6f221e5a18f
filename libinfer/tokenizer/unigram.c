/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes with a unigram model: finds the segmentation with the highest sum of scores, with
 * Viterbi's algorithm over byte positions. SentencePiece's EncodeOptimized and Hugging Face's
 * encode_optimized do the same, and only differ in the precision of their sums.
 */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/utf8.h"
#include "tokenizer/spm.h"

struct spm_node {
    double score;
    size_t start, next;  /* start of the best piece that ends at this position; next position on the
                            best path */
    int32_t id, next_id; /* ids of these two pieces; -1: an unknown character */
    bool set;
};

static void offer_piece(const struct spm *m, struct spm_node *n, double score, size_t start,
                        int32_t id)
{
    if (m->single)
        score = (double)(float)score;
    if (n->set && !(score > n->score))
        return;
    n->score = score;
    n->start = start;
    n->id = id;
    n->set = true;
}

static double score_of(const struct spm *m, int32_t id, size_t len)
{
    const struct piece *p = &m->vocab->pieces[id];

    if (p->kind == PIECE_USER && m->user_bonus)
        return (double)(float)((double)len * m->max_score - 0.1);
    if (p->kind == PIECE_USER && m->user_zero)
        return 0;
    return vocab_score(m->vocab, id);
}

/* Extends the best path to @at by each piece that starts there. */
static void extend_paths(const struct spm *m, struct spm_node *nodes, const char *text, size_t len,
                         size_t at)
{
    struct trie_walk w = trie_start(&m->all);
    const double here = nodes[at].score;
    bool single = false;
    uint32_t cp;
    const size_t n_char = utf8_decode(text + at, len - at, &cp);
    int32_t id;

    for (size_t i = at; i < len && trie_step(&m->all, &w, (unsigned char)text[i], &id); i++) {
        const struct piece *p;

        if (id < 0)
            continue;
        p = &m->vocab->pieces[id];
        if (p->kind == PIECE_UNUSED && m->has_unused)
            continue;
        /* As in SentencePiece, the characters "</s>" in a text never become the control token. If a
         * caller wants the control token, it was cut out of the text before this function runs. */
        if (p->kind == PIECE_CONTROL)
            continue;
        offer_piece(m, &nodes[i + 1], score_of(m, id, i + 1 - at) + here, at,
                    id == m->unknown ? -1 : id);
        single = single || i + 1 - at == n_char;
    }
    if (!single)
        offer_piece(m, &nodes[at + n_char],
                    (m->single ? (double)(float)m->unknown_score : m->unknown_score) + here, at,
                    -1);
}

/* Emits a run of unknown characters as bytes or as the unknown token. */
static int put_unknown(const struct spm *m, const char *s, size_t len, struct ids *out)
{
    const int32_t id = vocab_find(m->vocab, s, len);
    int r = 0;

    /* The run may be the text of the unknown token itself, such as "<unk>". */
    if (id >= 0 && id == m->unknown)
        return ids_push(out, id);
    if (m->byte_fallback) {
        bool all = true;

        for (size_t i = 0; all && i < len; i++)
            all = m->bytes[(unsigned char)s[i]] >= 0;
        for (size_t i = 0; all && r == 0 && i < len; i++)
            r = ids_push(out, m->bytes[(unsigned char)s[i]]);
        if (all)
            return r;
    }
    return m->unknown < 0 ? 0 : ids_push(out, m->unknown);
}

int unigram_encode(const struct spm *m, struct spm_work *w, const char *text, size_t len,
                   struct ids *out)
{
    struct spm_node *nodes;
    size_t end = len, at;
    uint32_t cp;
    int r = 0;

    if (len == 0)
        return 0;
    if (len > SIZE_MAX / 2 / sizeof(*nodes))
        return -E2BIG;
    if (ARRAY_GROW(w->nodes, w->node_cap, len + 1) < 0)
        return -ENOMEM;
    nodes = w->nodes;
    memset(nodes, 0, (len + 1) * sizeof(*nodes));
    for (at = 0; at < len; at += utf8_decode(text + at, len - at, &cp))
        extend_paths(m, nodes, text, len, at);
    for (; end > 0; end = nodes[end].start) {
        nodes[nodes[end].start].next = end;
        nodes[nodes[end].start].next_id = nodes[end].id;
    }
    for (at = 0; r == 0 && at < len; at = end) {
        end = nodes[at].next;
        if (nodes[at].next_id >= 0) {
            r = ids_push(out, nodes[at].next_id);
            continue;
        }
        while (end < len && nodes[end].next_id < 0)
            end = nodes[end].next;
        r = put_unknown(m, text + at, end - at, out);
    }
    return r;
}
