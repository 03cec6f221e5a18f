/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce tokenize: converts text to token ids, and token ids to text
 */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include <infer/tokenizer.h>

#include "cli/cli.h"

static const char help[] =
    "Usage: sconce tokenize -m MODEL [--json] [--pieces] TEXT | - | -f FILE\n"
    "Prints the token ids of a text, as the model would see it. `-` reads standard input.\n"
    "MODEL needs no weights: a GGUF file with only a vocabulary, tokenizer.json, or a\n"
    "directory with tokenizer files is enough.\n\n"
    "  -m, --model MODEL    the model whose tokenizer is used\n"
    "  -f, --file FILE      read the text from this file\n"
    "  --json               print the ids as a JSON array\n"
    "  --pieces             print a line for each token: id and text\n"
    "  --no-special         omit the tokens that the model adds around a text (BOS…)\n"
    "  --no-parse-special   treat \"<|im_end|>\" in the text as ordinary text, not as the token\n"
    "  --decode             the arguments are ids; print their text\n" CLI_MODELS_HELP;

static void print_piece(const struct inf_tokenizer *tok, int32_t id)
{
    size_t len = 0;
    const char *text = inf_tokenizer_token_text(tok, id, &len);

    printf("%7" PRId32 "  ", id);
    for (size_t i = 0; text && i < len; i++) {
        const unsigned char c = (unsigned char)text[i];

        if (c < 0x20 || c == 0x7f)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    putchar('\n');
}

static int print_ids(const struct inf_tokenizer *tok, const char *text, size_t len, unsigned flags,
                     bool json, bool pieces)
{
    _cleanup_free_ int32_t *ids = NULL;
    size_t n = 0;

    const int r = inf_tokenizer_encode(tok, text, len, flags, 0, &ids, &n);

    if (r < 0)
        return cli_error("tokenize", "%s", strerror(-r));
    if (json)
        putchar('[');
    for (size_t i = 0; i < n; i++) {
        if (pieces)
            print_piece(tok, ids[i]);
        else
            printf("%s%" PRId32, i == 0 ? "" : json ? ", " : " ", ids[i]);
    }
    if (!pieces)
        puts(json ? "]" : "");
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

static int print_text(const struct inf_tokenizer *tok, char **args, int n)
{
    _cleanup_free_ int32_t *ids = NEW(int32_t, (size_t)n);
    _cleanup_free_ char *text = NULL;
    size_t len;

    if (!ids)
        return cli_error("tokenize", "out of memory");
    for (int i = 0; i < n; i++) {
        uint64_t id;

        if (!cli_number(args[i], INT32_MAX, &id))
            return cli_usage("tokenize", "\"%s\" is not a token id", args[i]);
        ids[i] = (int32_t)id;
    }
    if (inf_tokenizer_decode(tok, ids, (size_t)n, true, &text, &len) < 0)
        return cli_error("tokenize", "an id is outside the vocabulary of %" PRIu32 " tokens",
                         inf_tokenizer_n_vocab(tok));
    fwrite(text, 1, len, stdout);
    putchar('\n');
    return CLI_OK;
}

int verb_tokenize(int argc, char **argv)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"file", required_argument, NULL, 'f'},
        {"json", no_argument, NULL, 'j'},
        {"pieces", no_argument, NULL, 'p'},
        {"no-special", no_argument, NULL, 's'},
        {"no-bos", no_argument, NULL, 's'},
        {"no-parse-special", no_argument, NULL, 'x'},
        {"decode", no_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    _cleanup_free_ char *text = NULL;
    unsigned flags = INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL;
    const char *name = NULL, *file = NULL;
    bool json = false, pieces = false, decode = false;
    struct cli_models m = {0};
    size_t len;
    int c, r;

    while ((c = getopt_long(argc, argv, "m:f:h", options, NULL)) >= 0) {
        switch (c) {
        case 'm':
            name = optarg;
            break;
        case 'f':
            file = optarg;
            break;
        case 'j':
            json = true;
            break;
        case 'p':
            pieces = true;
            break;
        case 's':
            flags &= ~(unsigned)INF_ENCODE_ADD_SPECIAL;
            break;
        case 'x':
            flags &= ~(unsigned)INF_ENCODE_PARSE_SPECIAL;
            break;
        case 'd':
            decode = true;
            break;
        case 'h':
            return cli_help(help);
        default:
            if (!cli_models_option(&m, c, optarg))
                return cli_usage("tokenize", "wrong option");
        }
    }
    if (!name)
        return cli_usage("tokenize", "-m MODEL is missing");
    if (!decode && (file != NULL) == (optind + 1 == argc))
        return cli_usage("tokenize", "give one text, `-`, or -f FILE");
    if (json && pieces)
        return cli_usage("tokenize", "--json and --pieces cannot be combined");
    if (decode && (file || json || pieces || optind == argc))
        return cli_usage("tokenize",
                         "--decode takes token ids, and neither -f, --json nor --pieces");
    r = cli_open_model("tokenize", &m, name, true, &model);
    if (r != CLI_OK)
        return r;
    if (!inf_model_tokenizer(model))
        return cli_error("tokenize", "%s has no tokenizer", name);
    if (decode)
        return print_text(inf_model_tokenizer(model), argv + optind, argc - optind);
    if (!file && strcmp(argv[optind], "-") != 0)
        return print_ids(inf_model_tokenizer(model), argv[optind], strlen(argv[optind]), flags,
                         json, pieces);
    r = cli_read("tokenize", file ? file : "-", &text, &len);
    if (r != CLI_OK)
        return r;
    return print_ids(inf_model_tokenizer(model), text, len, flags, json, pieces);
}
