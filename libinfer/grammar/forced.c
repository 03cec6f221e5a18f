/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the tokens that a grammar forces (see matcher.h).
 *
 * First the bytes that must follow are found, one by one. Where white space is optional, it is
 * assumed to be the same as at the last similar place of the text. Then these bytes are encoded
 * together with the end of the text, because the tokens of a text depend on what stands before.
 */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "grammar/grammar.h"

#define TEXT_BYTES   512u /* bytes at the end of the text that are searched for white space */
#define RUN_BYTES    128u /* bytes that can be found at once; after a short text it can be more */
#define ENCODE_BYTES 48u  /* bytes at the end of the text that are encoded with the found bytes */

/* Values of struct config.next. */
enum {
    NEXT_UNKNOWN = 0,
    NEXT_FREE = 1,         /* several bytes or tokens, or the end of the text */
    NEXT_BYTE = 2,         /* + the byte: only this byte */
    NEXT_OR_BLANK = 0x102, /* + the byte: this byte or white space */
    NEXT_TOKEN = 0x202, /* + its index in the program: only this token, which the grammar names */
};

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The symbols that may follow a configuration. */
struct follow {
    uint32_t n_blanks, n_bytes, n_tokens; /* bytes of white space, other bytes, tokens */
    uint32_t blank, byte, token;          /* one of each */
    bool is_free;
};

static void follow_add(struct follow *f, const struct program *p, uint32_t symbol)
{
    uint32_t n_bytes = 0, n_blanks = 0;

    if (symbol >= p->n_classes) {
        f->token = symbol - p->n_classes;
        f->is_free |= f->n_tokens++ > 0;
        return;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        n_bytes += p->class_of[byte] == symbol;
        n_blanks += p->class_of[byte] == symbol && is_blank((uint8_t)byte);
    }
    if (n_blanks == n_bytes) {
        f->blank = p->byte_of[symbol];
        f->n_blanks += n_bytes;
        return;
    }
    f->byte = p->byte_of[symbol];
    f->n_bytes += n_bytes;
    f->is_free |= f->n_bytes > 1;
}

static uint32_t follow_next(const struct follow *f)
{
    if (f->is_free || (f->n_tokens > 0 && f->n_bytes + f->n_blanks > 0))
        return NEXT_FREE;
    if (f->n_tokens > 0)
        return NEXT_TOKEN + f->token;
    if (f->n_bytes == 0)
        return f->n_blanks == 1 ? NEXT_BYTE + f->blank : NEXT_FREE;
    return f->n_blanks == 0 ? NEXT_BYTE + f->byte : NEXT_OR_BLANK + f->byte;
}

/* Finds what may follow a configuration. */
static int config_next(struct inf_grammar *g, uint32_t config, uint32_t *ret_next)
{
    struct follow f = {.is_free = g->automaton.configs[config].is_complete};
    uint32_t to;

    *ret_next = g->automaton.configs[config].next;
    if (*ret_next != NEXT_UNKNOWN)
        return 0;
    for (uint32_t symbol = 0; !f.is_free && symbol < g->program->n_symbols; symbol++) {
        const int r = grammar_step(g, config, symbol, &to);

        if (r < 0)
            return r;
        if (to != AUTOMATON_DEAD)
            follow_add(&f, g->program, symbol);
    }
    *ret_next = g->automaton.configs[config].next = follow_next(&f);
    return 0;
}

/* The end of the text, and the bytes that follow it. */
struct run {
    char bytes[TEXT_BYTES + RUN_BYTES];
    uint32_t n_text, n; /* bytes of the text, and in all */
    uint32_t n_sure;    /* the first n_sure bytes have no white space that was assumed */
    int32_t token;      /* the token that the grammar names; -1: none */
};

/* Finds the last place of the text where white space stands between the bytes @before and @after.
 * Returns the length of this white space, which may be 0; UINT32_MAX: there is no such place. */
static uint32_t find_blanks(const struct run *run, uint32_t end, char before, char after,
                            uint32_t *ret_at)
{
    uint32_t n_blanks = 0;
    bool behind = false;

    for (uint32_t i = end; i-- > 0;) {
        if (is_blank((uint8_t)run->bytes[i])) {
            n_blanks++;
            continue;
        }
        if (behind && run->bytes[i] == before) {
            *ret_at = i + 1;
            return n_blanks;
        }
        behind = run->bytes[i] == after;
        n_blanks = 0;
    }
    return UINT32_MAX;
}

/* Appends the white space that is likely to stand before the byte @after. Returns false if nothing
 * is known about it, or if the text has begun with other white space. */
static bool run_add_blanks(struct run *run, char after)
{
    uint32_t end = run->n, n_written, n, at = 0;
    char usual[] = " ";
    const char *blanks = usual;

    while (end > 0 && is_blank((uint8_t)run->bytes[end - 1]))
        end--;
    if (end == 0)
        return false;
    n_written = run->n - end;
    n = find_blanks(run, end, run->bytes[end - 1], after, &at);
    if (n == UINT32_MAX && run->bytes[end - 1] == ',')
        n = find_blanks(run, end, '{', after, &at);
    if (n != UINT32_MAX)
        blanks = run->bytes + at;
    else if (run->bytes[end - 1] == ':')
        n = 1;
    if (n == UINT32_MAX || n < n_written || n - n_written > sizeof(run->bytes) - run->n ||
        memcmp(blanks, run->bytes + end, n_written) != 0)
        return false;
    memmove(run->bytes + run->n, blanks + n_written, n - n_written);
    run->n += n - n_written;
    return true;
}

/* Follows the bytes of the run from @from on. Returns 0, or a negative errno value; the run is cut
 * where the grammar does not permit it. */
static int run_follow(struct inf_grammar *g, struct run *run, uint32_t from, uint32_t *config)
{
    for (uint32_t i = from; i < run->n; i++) {
        uint32_t to;
        const int r = grammar_step(g, *config, g->program->class_of[(uint8_t)run->bytes[i]], &to);

        if (r < 0)
            return r;
        if (to == AUTOMATON_DEAD)
            run->n = i;
        else
            *config = to;
    }
    return 0;
}

/* Finds the bytes that follow the text in the configuration @config. */
static int run_find(struct inf_grammar *g, uint32_t config, struct run *run)
{
    bool is_sure = true;

    run->n_sure = run->n;
    for (;;) {
        const uint32_t from = run->n;
        uint32_t next;
        int r = config_next(g, config, &next);

        if (r < 0 || next == NEXT_FREE)
            return r;
        if (next >= NEXT_TOKEN) {
            if (run->n == run->n_text)
                run->token = g->program->tokens[next - NEXT_TOKEN];
            return 0;
        }
        if (next >= NEXT_OR_BLANK) {
            is_sure = false;
            if (!run_add_blanks(run, (char)(next - NEXT_OR_BLANK)))
                return 0;
        }
        if (run->n == sizeof(run->bytes))
            return run_follow(g, run, from, &config);
        run->bytes[run->n++] = (char)(next - (next >= NEXT_OR_BLANK ? NEXT_OR_BLANK : NEXT_BYTE));
        r = run_follow(g, run, from, &config);
        if (r < 0 || run->n == from)
            return r;
        if (is_sure)
            run->n_sure = run->n;
    }
}

/* Copies the end of the text. It begins after the last token that stands for no bytes. */
static void run_begin(struct run *run, const struct inf_grammar_vocab *v, const int32_t *tokens,
                      uint32_t n_tokens)
{
    unsigned char bytes[TEXT_BYTES];
    uint32_t n = 0;

    run->token = -1;
    for (uint32_t i = n_tokens; i-- > 0 && tokens[i] >= 0 && vocab_has_bytes(v, tokens[i]);) {
        const size_t len = inf_tokenizer_token_bytes(v->tok, tokens[i], bytes, sizeof(bytes));

        if (len > TEXT_BYTES - n)
            break;
        n += (uint32_t)len;
        memcpy(run->bytes + TEXT_BYTES - n, bytes, len);
    }
    memmove(run->bytes, run->bytes + TEXT_BYTES - n, n);
    run->n = run->n_text = n;
}

/* Returns whether only one token can begin a text that begins with @bytes [n]. */
static bool is_only_token(const struct token_trie *trie, const char *bytes, uint32_t n)
{
    uint32_t n_tokens = 0, i = 0, end = trie->n;

    for (uint32_t d = 0; d < n; d++) {
        while (i < end && trie->nodes[i].byte != (uint8_t)bytes[d])
            i += trie->nodes[i].size;
        if (i >= end)
            return n_tokens == 1;
        if (trie->nodes[i].token != -1)
            n_tokens += trie->nodes[i].token >= 0 ? 1 : 2;
        if (n_tokens > 1)
            return false;
        end = i + trie->nodes[i].size;
        i++;
    }
    return i >= end && n_tokens == 1;
}

/* Returns the index of the first token after the text; @n: the number of bytes after the text. -1:
 * no token begins at the end of the text. */
static int64_t find_border(const struct inf_tokenizer *tok, const int32_t *ids, size_t n_ids,
                           size_t n)
{
    size_t k = n_ids;

    while (k > 0 && n > 0) {
        const size_t len = inf_tokenizer_token_bytes(tok, ids[k - 1], NULL, 0);

        if (len > n)
            return -1;
        n -= len;
        k--;
    }
    return n == 0 ? (int64_t)k : -1;
}

/* Encodes the bytes after the text. Their first token is (*ret_ids)[*ret_first]. The caller frees
 * *ret_ids. */
static int run_encode(const struct run *run, const struct inf_tokenizer *tok, int32_t **ret_ids,
                      size_t *ret_n, size_t *ret_first)
{
    uint32_t begin = run->n_text > ENCODE_BYTES ? run->n_text - ENCODE_BYTES : 0;
    int64_t first;
    int r;

    while (begin < run->n_text && ((uint8_t)run->bytes[begin] & 0xc0) == 0x80)
        begin++;
    r = inf_tokenizer_encode(tok, run->bytes + begin, run->n - begin, 0, 0, ret_ids, ret_n);
    if (r < 0)
        return r;
    first = find_border(tok, *ret_ids, *ret_n, run->n - run->n_text);
    *ret_first = (size_t)MAX(first, 0);
    if (first >= 0)
        return 0;
    free(STEAL(*ret_ids));
    return inf_tokenizer_encode(tok, run->bytes + run->n_text, run->n - run->n_text, 0, 0, ret_ids,
                                ret_n);
}

/* Tells how certain the token of @len bytes at @at is. The last token of the run may be the
 * beginning of a longer token. */
static enum grammar_certainty
run_certainty(const struct run *run, const struct inf_grammar_vocab *v, uint32_t at, size_t len)
{
    if (at < run->n_sure && is_only_token(&v->all, run->bytes + at, run->n_sure - at))
        return GRAMMAR_ONLY;
    return at + len < run->n_sure ? GRAMMAR_BYTES : GRAMMAR_LIKELY;
}

/* Takes the tokens that stand for the bytes of the run. */
static void run_take(const struct run *run, const struct inf_grammar_vocab *v, const int32_t *ids,
                     size_t n_ids, uint32_t max, struct grammar_forced *ret)
{
    unsigned char bytes[sizeof(run->bytes)];
    uint32_t at = run->n_text;

    for (size_t i = 0; i < n_ids && ret->n < max; i++) {
        const size_t len = inf_tokenizer_token_bytes(v->tok, ids[i], bytes, sizeof(bytes));

        if (len == 0 || len > run->n - at || memcmp(bytes, run->bytes + at, len) != 0)
            return;
        ret->certainty[ret->n] = run_certainty(run, v, at, len);
        ret->tokens[ret->n++] = ids[i];
        at += (uint32_t)len;
    }
}

int grammar_matcher_forced(struct grammar_matcher *m, const int32_t *tokens, uint32_t n_tokens,
                           uint32_t max, struct grammar_forced *ret)
{
    struct inf_grammar *g = m->grammar;
    _cleanup_free_ int32_t *ids = NULL;
    size_t n_ids, first;
    struct run run;
    uint32_t next;
    int r;

    ret->n = 0;
    max = MIN(max, GRAMMAR_FORCED_MAX);
    if (m->has_ended || max == 0)
        return 0;
    pthread_mutex_lock(&g->lock);
    r = grammar_make_room(g);
    r = r < 0 ? r : config_next(g, m->config, &next);
    if (r == 0 && next != NEXT_FREE) {
        run_begin(&run, g->vocab, tokens, n_tokens);
        r = run_find(g, m->config, &run);
    }
    pthread_mutex_unlock(&g->lock);
    if (r < 0 || next == NEXT_FREE)
        return r;
    if (run.token >= 0) {
        *ret = (struct grammar_forced){.tokens = {run.token}, .certainty = {GRAMMAR_ONLY}, .n = 1};
        return 0;
    }
    if (run.n == run.n_text)
        return 0;
    r = run_encode(&run, g->vocab->tok, &ids, &n_ids, &first);
    if (r == 0)
        run_take(&run, g->vocab, ids + first, n_ids - first, max, ret);
    return r;
}
