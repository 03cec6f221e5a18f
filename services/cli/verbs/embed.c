/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce embed: converts the lines of a file to vectors, with the embed service
 *
 * Two batches are sent at a time. The output always has the results of the first lines, complete
 * and in order, so that the same command can continue an interrupted run.
 */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/embed/batch.h"
#include "cli/embed/lines.h"
#include "cli/embed/store.h"
#include "cli/suite/http-get.h"
#include "cli/suite/own-service.h"
#include "common/config/config.h"
#include "core/file.h"
#include "core/text.h"

static const char help[] =
    "Usage: sconce embed [OPTION]... FILE.txt | FILE.jsonl | - | TEXT\n"
    "Converts each line of a file, or one text, to a vector, with the embed service.\n\n"
    "  -m, --model MODEL    the model, a name or a path (default: as configured)\n"
    "  -o, --output FILE    FILE.npy: a NumPy array; FILE.jsonl: lines of JSON (default:\n"
    "                       standard output). If FILE is not complete, the command continues it\n"
    "  --anew               start the output from the beginning, replacing an existing file\n"
    "  -b, --batch N        texts in one request (default: 64)\n"
    "  --task NAME          the task adapter, for models with several adapters\n"
    "  --token-vectors      one vector for each token, not for each text; not for .npy\n"
    "  --prompt-name NAME   the model's own prompt for the texts, such as query or document\n"
    "  --dimensions N       only the first N numbers of each vector\n"
    "  --truncate           cut texts that are too long instead of refusing them\n"
    "  --jsonl              lines are JSON: strings, or objects with a text\n"
    "  --field NAME         the member of objects that holds the text (default: text)\n"
    "  --address WHERE      " HTTP_ADDRESS_FORMS " of the gateway\n"
    "                       (default: the user's, else the system's)\n"
    "  --key KEY            API key (default: $SCONCE_API_KEY)\n" CLI_MODELS_HELP
    "\nThe service is started for this command alone if no gateway answers, if MODEL\n"
    "is a path, or if --models or --config is given.\n";

enum {
    OPTION_ANEW = 256,
    OPTION_TASK,
    OPTION_TOKEN_VECTORS,
    OPTION_PROMPT,
    OPTION_DIMENSIONS,
    OPTION_TRUNCATE,
    OPTION_JSONL,
    OPTION_FIELD,
    OPTION_ADDRESS,
    OPTION_KEY,
};

enum {
    MAX_BATCH = 512,
    N_BATCHES = 2, /* batches that are sent at a time */
};

struct request {
    struct embed_ask ask;
    struct cli_models models;
    const char *input, *output, *field;
    uint64_t batch;
    bool json, anew;
    uint64_t n_bad;
};

static int embed_failed(const struct request *q, int r, const struct inf_err *err)
{
    if (cli_tell_no_gateway("embed", q->ask.address, r))
        return CLI_FAILED;
    return cli_error("embed", "%s", err->text[0] ? err->text : strerror(-r));
}

static int one_text(struct request *q)
{
    struct embed_batch batch;
    _cleanup_str_ struct str out = {0};
    int r = embed_batch_init(&batch, &q->ask, 1);

    if (r == 0) {
        batch.lines[0] = (struct embed_line){.number = 1, .text = strdup(q->input)};
        batch.n = 1;
        r = batch.lines[0].text ? embed_batch_start(&batch) : -ENOMEM;
    }
    r = r < 0 ? r : embed_batch_wait(&batch);
    if (r < 0)
        r = embed_failed(q, r, &batch.err);
    else if (!batch.vectors)
        r = cli_error("embed", "%s", batch.lines[0].error);
    else if (embed_found_put(&out, &(struct embed_found){batch.vectors, batch.first[1], batch.width,
                                                         q->ask.token_vectors}) < 0)
        r = cli_error("embed", "out of memory");
    else
        r = puts(out.data) < 0 ? CLI_FAILED : CLI_OK;
    embed_batch_done(&batch);
    return r;
}

/* Reads lines until the batch is full; 0: there are no more. */
static int embed_fill(struct embed_lines *lines, struct embed_batch *batch)
{
    int r = 1;

    embed_batch_clear(batch);
    while (batch->n < batch->cap && r > 0) {
        r = embed_lines_next(lines, &batch->lines[batch->n]);
        batch->n += r > 0;
    }
    return r < 0 ? r : batch->n > 0;
}

/* Writes the results of a batch; prints errors itself. */
static int embed_put(struct request *q, const struct embed_lines *lines, struct embed_store *store,
                     struct embed_batch *batch)
{
    size_t n = 0;
    int r = embed_batch_wait(batch);

    if (r < 0)
        return embed_failed(q, r, &batch->err);
    for (size_t i = 0; i < batch->n && r == 0; i++) {
        const struct embed_line *line = &batch->lines[i];
        struct embed_found found = {.width = batch->width, .of_tokens = q->ask.token_vectors};

        if (!line->text) {
            fprintf(stderr, "sconce embed: %s:%llu: %s\n", lines->name,
                    (unsigned long long)line->number, line->error);
            q->n_bad++;
        }
        if (line->text) {
            found.vectors = batch->vectors + batch->first[n] * batch->width;
            found.n = batch->first[n + 1] - batch->first[n];
            n++;
        }
        r = embed_store_put(store, line, &found);
    }
    if (r == 0 && fflush(store->file) != 0)
        r = -errno;
    if (r == -EMSGSIZE)
        return cli_error("embed",
                         "%s has vectors of %u numbers, but the new vectors have %u; --anew starts "
                         "it again",
                         q->output, store->width, batch->width);
    return r < 0 ? cli_error("embed", "cannot write: %s", strerror(-r)) : CLI_OK;
}

static int embed_batches(struct request *q, struct embed_lines *lines, struct embed_store *store,
                         struct embed_batch *batches)
{
    struct cli_progress progress = {.label = "embedding"};
    size_t first = 0, n = 0; /* @n batches of the ring are in use, beginning at @first */
    int r = 1, status = CLI_OK;

    while (status == CLI_OK && (r > 0 || n > 0)) {
        struct embed_batch *next = &batches[(first + n) % N_BATCHES];

        if (r > 0 && n < N_BATCHES) {
            r = embed_fill(lines, next);
            if (r > 0)
                r = embed_batch_start(next) < 0 ? -EAGAIN : 1;
            n += r > 0;
            if (r >= 0)
                continue;
            status = cli_error("embed", "%s: %s", lines->name, strerror(-r));
            break;
        }
        status = embed_put(q, lines, store, &batches[first]);
        first = (first + 1) % N_BATCHES;
        n--;
        if (lines->size)
            cli_progress(&progress, (double)lines->n_read / (double)lines->size);
    }
    cli_progress_done(&progress);
    return status;
}

/* Makes the description of the input and options that is stored beside an incomplete output. */
static int put_work(const struct request *q, struct str *out)
{
    const struct embed_ask *ask = &q->ask;

    return str_printf(out, "input=%s model=%s task=%s prompt=%s dimensions=%u%s%s%s field=%s",
                      q->input, ask->model ? ask->model : "", ask->task ? ask->task : "",
                      ask->prompt_name ? ask->prompt_name : "", ask->dimensions,
                      ask->truncate ? " truncate" : "", ask->token_vectors ? " token-vectors" : "",
                      q->json ? " jsonl" : "", q->field);
}

static int with_store(struct request *q, struct embed_lines *lines, struct embed_store *store)
{
    struct embed_batch batches[N_BATCHES] = {0};
    int r = 0, status;

    if (store->n_rows > 0) {
        fprintf(stderr, "Continuing after line %llu of %s\n", (unsigned long long)store->n_rows,
                lines->name);
        r = embed_lines_skip(lines, store->n_rows);
    }
    if (r == -ESPIPE)
        return cli_error("embed", "%s has fewer lines than %s", lines->name, q->output);
    if (r < 0)
        return cli_error("embed", "cannot read %s: %s", lines->name, strerror(-r));
    for (size_t i = 0; i < N_BATCHES && r == 0; i++)
        r = embed_batch_init(&batches[i], &q->ask, q->batch);
    status = r < 0 ? cli_error("embed", "out of memory") : embed_batches(q, lines, store, batches);
    for (size_t i = 0; i < N_BATCHES; i++)
        embed_batch_done(&batches[i]);
    if (status == CLI_OK && (r = embed_store_finish(store)) < 0)
        status = cli_error("embed", "cannot write: %s", strerror(-r));
    if (status == CLI_OK && q->n_bad)
        status = cli_error("embed", "%llu lines have no vector", (unsigned long long)q->n_bad);
    return status;
}

static int whole_file(struct request *q)
{
    _cleanup_(embed_lines_done) struct embed_lines lines = {0};
    _cleanup_(embed_store_done) struct embed_store store = {0};
    _cleanup_str_ struct str work = {0};
    struct inf_err err;

    if (put_work(q, &work) < 0)
        return cli_error("embed", "out of memory");
    for (size_t i = 0; i < work.len; i++)
        if (work.data[i] == '\n')
            work.data[i] = ' ';
    if (embed_lines_open(&lines, q->input, q->json, q->field, &err) < 0 ||
        embed_store_open(&store, q->output, work.data, q->anew, &err) < 0)
        return cli_error("embed", "%s", err.text);
    return with_store(q, &lines, &store);
}

/* Handles one option; false: invalid, after printing an error. */
static bool take_option(struct request *q, int c, const char *arg)
{
    uint64_t number = 0;

    switch (c) {
    case 'm':
        q->ask.model = arg;
        return true;
    case 'o':
        q->output = arg;
        return true;
    case 'b':
        if (!cli_number(arg, MAX_BATCH, &q->batch) || !q->batch)
            return cli_usage("embed", "-b, --batch must be 1 to %d, not \"%s\"", MAX_BATCH, arg),
                   false;
        return true;
    case OPTION_ANEW:
        return q->anew = true;
    case OPTION_TASK:
        q->ask.task = arg;
        return true;
    case OPTION_TOKEN_VECTORS:
        return q->ask.token_vectors = true;
    case OPTION_PROMPT:
        q->ask.prompt_name = arg;
        return true;
    case OPTION_DIMENSIONS:
        if (!cli_number(arg, 1 << 20, &number) || !number)
            return cli_usage("embed", "--dimensions must be a number above 0, not \"%s\"", arg),
                   false;
        q->ask.dimensions = (uint32_t)number;
        return true;
    case OPTION_TRUNCATE:
        return q->ask.truncate = true;
    case OPTION_JSONL:
        return q->json = true;
    case OPTION_FIELD:
        q->field = arg;
        return q->json = true;
    case OPTION_ADDRESS:
        if (!http_address_is_good(arg))
            return cli_usage("embed", "--address must be %s, not \"%s\"", HTTP_ADDRESS_FORMS, arg),
                   false;
        q->ask.address = arg;
        return true;
    case OPTION_KEY:
        q->ask.key = arg;
        return true;
    default:
        return cli_models_option(&q->models, c, arg) || (cli_usage("embed", "wrong option"), false);
    }
}

/* Returns whether the argument names the input file; else the argument is itself the text. */
static bool is_file(const struct request *q)
{
    return text_ends_with(q->input, ".txt") || text_ends_with(q->input, ".jsonl") ||
           strcmp(q->input, "-") == 0 || path_exists(q->input);
}

static int embed_at(const char *address, const char *model, void *data)
{
    struct request *q = data;

    q->ask.address = address;
    q->ask.model = model;
    return is_file(q) ? whole_file(q) : one_text(q);
}

static int embed_input(struct request *q)
{
    const struct own_service own = {"embed", &service_rows[SERVICE_EMBED], &q->models,
                                    q->ask.model};
    _cleanup_free_ char *address = q->ask.address ? strdup(q->ask.address) : cli_find_gateway();

    if (!address)
        return cli_error("embed", "out of memory");
    if (q->ask.address && (q->models.n_dirs || q->models.config))
        return cli_usage("embed", "--models and --config cannot be used with --address");
    if (q->output && !text_ends_with(q->output, ".npy") && !text_ends_with(q->output, ".jsonl"))
        return cli_usage("embed", "--output must end with .npy or .jsonl");
    if (q->output && q->ask.token_vectors && text_ends_with(q->output, ".npy"))
        return cli_usage("embed", "--token-vectors cannot be written as .npy, since texts have "
                                  "different numbers of tokens");
    if (q->output && !is_file(q))
        return cli_usage("embed", "--output needs an input file; there is no file \"%s\"",
                         q->input);
    q->json |= text_ends_with(q->input, ".jsonl");
    if (!q->ask.address && own_service_is_needed(&own, address))
        return own_service_run(&own, embed_at, q);
    return embed_at(address, q->ask.model, q);
}

int verb_embed(int argc, char **argv)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"output", required_argument, NULL, 'o'},
        {"anew", no_argument, NULL, OPTION_ANEW},
        {"batch", required_argument, NULL, 'b'},
        {"task", required_argument, NULL, OPTION_TASK},
        {"token-vectors", no_argument, NULL, OPTION_TOKEN_VECTORS},
        {"prompt-name", required_argument, NULL, OPTION_PROMPT},
        {"dimensions", required_argument, NULL, OPTION_DIMENSIONS},
        {"truncate", no_argument, NULL, OPTION_TRUNCATE},
        {"jsonl", no_argument, NULL, OPTION_JSONL},
        {"field", required_argument, NULL, OPTION_FIELD},
        {"address", required_argument, NULL, OPTION_ADDRESS},
        {"key", required_argument, NULL, OPTION_KEY},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    struct request q = {.ask = {.key = getenv("SCONCE_API_KEY")}, .field = "text", .batch = 64};
    int c;

    while ((c = getopt_long(argc, argv, "m:o:b:h", options, NULL)) >= 0) {
        if (c == 'h')
            return cli_help(help);
        if (!take_option(&q, c, optarg))
            return CLI_USAGE;
    }
    if (optind + 1 != argc)
        return cli_usage(
            "embed", optind < argc ? "unexpected argument \"%s\"" : "name a file, `-` or a text%s",
            optind < argc ? argv[optind + 1] : "");
    q.input = argv[optind];
    return embed_input(&q);
}
