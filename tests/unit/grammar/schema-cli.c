/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers questions about schemas, for tests/golden/check_schemas.py.
 *
 * The argument is the directory or file of a tokenizer. Without an argument, random texts are made
 * of bytes instead of tokens. Each question on the standard input is a line "LETTER NUMBER". For
 * the letters S, L and A, a text of that many bytes follows. The answers are:
 * - S and L compile the text as a schema (L: loosely). The answer is "ok MICROSECONDS STATES", with
 *   the processor time and the number of states, or "no ERRNO MESSAGE".
 * - A compares the text with the schema. The answer is "BYTES COMPLETE": the number of bytes that
 *   the schema permits, and whether the text is complete (1 or 0).
 * - W makes a random text with NUMBER as the seed: random tokens that the masks permit, and then
 *   the shortest end. The answer is "OK LENGTH", where OK is 1 or 0, and then the text.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/err.h"
#include "core/file.h"
#include "text-grammar.h"
#include "token-walk.h"
#include "tokenizer/tokenizer.h"

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

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

struct cli {
    struct text_grammar text;
    struct inf_tokenizer *tok;
    struct inf_grammar_vocab *vocab;
    struct inf_grammar *grammar; /* the same grammar, for the tokens of the tokenizer; NULL: none */
};

static void cli_compile(struct cli *cli, const char *text, size_t len, bool loose)
{
    struct text_grammar *g = &cli->text;
    struct inf_err err = {.text = "?"};
    const long start = cli_now();
    int r;

    text_grammar_done(g);
    r = text_grammar_init(g, text, len, loose, &err);
    if (r < 0)
        printf("no %d %s\n", -r, err.text);
    else
        printf("ok %ld %u\n", cli_now() - start, g->program->nfa.n_states);
    cli->grammar = inf_grammar_unref(cli->grammar);
    if (r == 0 && cli->vocab)
        inf_grammar_new(cli->vocab, loose ? INF_GRAMMAR_JSON_SCHEMA_LOOSE : INF_GRAMMAR_JSON_SCHEMA,
                        text, len, &cli->grammar, &err);
}

static void cli_walk(struct cli *cli, uint64_t seed)
{
    _cleanup_str_ struct str text = {0};
    const bool ok = cli->grammar
                        ? token_walk(cli->grammar, seed, 40, &text)
                        : cli->text.program && text_grammar_walk(&cli->text, seed, 300, &text);

    printf("%d %zu\n", ok, text.len);
    fwrite(text.data ? text.data : "", 1, text.len, stdout);
}

static bool cli_answer(struct cli *cli, char letter, unsigned long n)
{
    _cleanup_free_ char *text = letter == 'W' ? NULL : cli_read(n);
    bool complete = false;
    size_t len = 0;

    if (letter == 'W') {
        cli_walk(cli, n);
    } else if (!text) {
        return false;
    } else if (letter == 'A') {
        if (cli->text.program)
            len = text_grammar_follow(&cli->text, text, n, &complete);
        printf("%zu %d\n", len, complete);
    } else {
        cli_compile(cli, text, n, letter == 'L');
    }
    fflush(stdout);
    return true;
}

static bool cli_open(struct cli *cli, const char *path)
{
    struct inf_err err = {.text = "?"};
    const int r = path_is_dir(path) ? tokenizer_open_dir(path, &cli->tok, &err)
                                    : tokenizer_open_file(path, &cli->tok, &err);

    if (r < 0)
        fprintf(stderr, "%s: %s\n", path, err.text);
    return r == 0 && inf_grammar_vocab_new(cli->tok, &cli->vocab) == 0;
}

int main(int argc, char **argv)
{
    struct cli cli = {0};
    unsigned long n;
    char letter;

    if (argc > 1 && !cli_open(&cli, argv[1]))
        return 2;
    while (scanf("%c %lu", &letter, &n) == 2 && getchar() == '\n')
        if (!cli_answer(&cli, letter, n))
            break;
    text_grammar_done(&cli.text);
    inf_grammar_unref(cli.grammar);
    inf_grammar_vocab_unref(cli.vocab);
    tokenizer_free(cli.tok);
    return 0;
}
