/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers questions about schemas, for tests/golden/check_schemas.py.
 *
 * Each question on the standard input is a line "LETTER NUMBER", and for S, L and A that many
 * bytes. S and L (loose) compile a schema: "ok MICROSECONDS" or "no MESSAGE". A follows a text:
 * "BYTES COMPLETE". W walks with a seed: "OK LENGTH" and the text.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text-grammar.h"

static char *cli_read(size_t len)
{
    char *text = malloc(len + 1);

    if (!text || fread(text, 1, len, stdin) != len) {
        free(text);
        return NULL;
    }
    text[len] = 0;
    return text;
}

static long cli_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static void cli_compile(struct text_grammar *g, const char *text, size_t len, bool loose)
{
    struct inf_err err = {.text = "?"};
    const long start = cli_now();
    int r;

    text_grammar_done(g);
    r = text_grammar_init(g, text, len, loose, &err);
    if (r < 0)
        printf("no %d %s\n", -r, err.text);
    else
        printf("ok %ld %u\n", cli_now() - start, g->program->nfa.n_states);
}

static void cli_walk(struct text_grammar *g, uint64_t seed)
{
    _cleanup_str_ struct str text = {0};
    const bool ok = g->program && text_grammar_walk(g, seed, 300, &text);

    printf("%d %zu\n", ok, text.len);
    fwrite(text.data ? text.data : "", 1, text.len, stdout);
}

static bool cli_answer(struct text_grammar *g, char letter, unsigned long n)
{
    _cleanup_free_ char *text = letter == 'W' ? NULL : cli_read(n);
    bool complete = false;
    size_t len = 0;

    if (letter == 'W') {
        cli_walk(g, n);
    } else if (!text) {
        return false;
    } else if (letter == 'A') {
        if (g->program)
            len = text_grammar_follow(g, text, n, &complete);
        printf("%zu %d\n", len, complete);
    } else {
        cli_compile(g, text, n, letter == 'L');
    }
    fflush(stdout);
    return true;
}

int main(void)
{
    struct text_grammar g = {0};
    unsigned long n;
    char letter;

    while (scanf("%c %lu", &letter, &n) == 2 && getchar() == '\n')
        if (!cli_answer(&g, letter, n))
            break;
    text_grammar_done(&g);
    return 0;
}
