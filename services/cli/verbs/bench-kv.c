/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce bench --kv-table: compares number formats of keys and values
 *
 * All columns are measured in the same context: n_depth tokens, and n_prompt (or n_generate) tokens
 * after them.
 *
 * - Bits of a number: 16 × the memory of such a text ÷ its memory in f16. This counts the scales,
 *   the windowed layers, and what is stored twice.
 * - Divergence, perplexity and the share of equal top tokens: the last n_prompt - 1 tokens of parts
 *   of the text (without n_depth, the second half of each part) are predicted, and compared with
 *   the predictions of the same model whose keys and values are f32.
 * - Needle: a sentence with a number of NEEDLE_DIGITS digits is hidden in the text, and the
 *   beginning of the sentence is repeated at the end. The score is the geometric mean of the
 *   probabilities that the model then gives to the digits. It is averaged over N_NEEDLES places.
 * - Speed: the median over rounds of the speed ÷ that of f16 in the same round. In each round all
 *   formats are measured, one after the other, so that other load affects all of them.
 *
 * A format is dominated if another one is at least as good in bits, divergence and both speeds, and
 * better in one of them. Speeds differ only if the same format is faster in all rounds, by more
 * than SPEED_NOISE.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include <infer/bench.h>
#include <infer/kv.h>
#include <infer/tokenizer.h>

#include "cli/verbs/bench-draft.h"
#include "cli/verbs/bench-kv.h"

#include "core/rng.h"

#define MAX_TYPES     48u
#define MAX_ROUNDS    1000u
#define MAX_TYPE_NAME 512u
#define NAME_WIDTH    32
#define N_NEEDLES     5u
#define NEEDLE_DIGITS 10u
#define SPEED_NOISE   0.02

#define NEEDLE_BEGIN " The secret number of the lighthouse is"

/* The speeds of one round, in tokens per second. */
struct speeds {
    double read, write;
};

struct row {
    char type[MAX_TYPE_NAME];
    struct inf_err refusal; /* why the model or the device cannot have this format; "": it can */
    double bits, ppl, needle;
    struct inf_estimate kld, same_top;
    struct speeds *rounds; /* [n_repeat] */
    struct speeds ratio;   /* to f16: medians */
    const struct row *by;  /* a format that dominates this one; NULL: none */
};

struct table {
    const struct kv_bench_params *params;
    struct row rows[MAX_TYPES]; /* the first one is f16 */
    unsigned n_rows;
    int32_t *text, *needles; /* needles: [N_NEEDLES × n_ctx] */
    size_t n_text;
    uint32_t n_ctx, n_answer; /* tokens of a part of the text, and of a needle's digits */
    double *sorted;           /* [n_repeat] */
    struct cli_progress progress;
    unsigned n_done, n_steps;
};

static void table_done(struct table *t)
{
    for (unsigned i = 0; i < t->n_rows; i++)
        free(t->rows[i].rounds);
    free(t->sorted);
    free(t->text);
    free(t->needles);
}

static void table_progress(struct table *t)
{
    cli_progress(&t->progress, (double)++t->n_done / (double)t->n_steps);
}

/* Adds the format @type of @len bytes, unless the table has it. */
static int table_add(struct table *t, const char *type, size_t len)
{
    struct row *row = &t->rows[t->n_rows];

    if (len == 0 || len >= MAX_TYPE_NAME || t->n_rows == MAX_TYPES)
        return cli_usage("bench",
                         "--kv-type: a name is empty or too long, or there are more "
                         "than %u",
                         MAX_TYPES);
    for (unsigned i = 0; i < t->n_rows; i++)
        if (strlen(t->rows[i].type) == len && memcmp(t->rows[i].type, type, len) == 0)
            return CLI_OK;
    memcpy(row->type, type, len);
    row->rounds = calloc(t->params->n_repeat, sizeof(*row->rounds));
    t->n_rows++;
    return row->rounds ? CLI_OK : cli_error("bench", "out of memory");
}

/* Adds all formats. */
static int table_add_known(struct table *t)
{
    struct inf_kv_type types[INF_MAX_KV_TYPES];
    struct inf_err err;
    int r = CLI_OK;
    size_t n;

    if (inf_model_kv_types(t->params->model, t->n_ctx, types, &n, &err) < 0)
        return cli_error("bench", "%s", err.text);
    for (size_t i = 0; r == CLI_OK && i < n; i++)
        r = table_add(t, types[i].name, strlen(types[i].name));
    return r;
}

static int table_add_all(struct table *t)
{
    int r = table_add(t, "f16", 3);

    if (r == CLI_OK && !t->params->types)
        return table_add_known(t);
    for (const char *at = t->params->types; r == CLI_OK; at++) {
        const size_t len = strcspn(at, ",");

        r = table_add(t, at, len);
        at += len;
        if (*at == '\0')
            break;
    }
    return r;
}

static int encode(const struct inf_tokenizer *tok, const char *text, int32_t **ret, size_t *ret_n)
{
    const int r = inf_tokenizer_encode(tok, text, strlen(text), 0, 0, ret, ret_n);

    return r < 0 ? cli_error("bench", "%s", strerror(-r)) : CLI_OK;
}

static int read_text(struct table *t, const struct inf_tokenizer *tok)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r = cli_read("bench", t->params->file, &text, &len);

    if (r != CLI_OK)
        return r;
    r = inf_tokenizer_encode(tok, text, len, INF_ENCODE_ADD_SPECIAL, 0, &t->text, &t->n_text);
    if (r < 0)
        return cli_error("bench", "%s", strerror(-r));
    if (t->n_text < t->n_ctx)
        return cli_error("bench", "the text has %zu tokens, but -d and -p need %" PRIu32, t->n_text,
                         t->n_ctx);
    return CLI_OK;
}

/* Writes the text of needle @i: a part of the text with the sentence in it, and at its end the
 * beginning of the sentence and the digits. */
static int make_needle(struct table *t, const struct inf_tokenizer *tok, unsigned i,
                       struct rng *rng)
{
    int32_t *out = t->needles + (size_t)i * t->n_ctx;
    _cleanup_free_ int32_t *begin = NULL, *answer = NULL, *end = NULL;
    const int32_t *filler = t->text + (t->n_text - t->n_ctx) * i / (N_NEEDLES - 1);
    size_t n_begin, n_answer, n_end, n_filler, at;
    char digits[2 * NEEDLE_DIGITS + 1];
    int r;

    for (unsigned k = 0; k < NEEDLE_DIGITS; k++)
        snprintf(digits + 2 * (size_t)k, 3, " %u", rng_u32(rng) % 10u);
    r = encode(tok, NEEDLE_BEGIN, &begin, &n_begin);
    if (r == CLI_OK)
        r = encode(tok, digits, &answer, &n_answer);
    if (r == CLI_OK)
        r = encode(tok, ".\n", &end, &n_end);
    if (r != CLI_OK)
        return r;
    if (i > 0 && n_answer != t->n_answer)
        return cli_error("bench",
                         "the tokenizer of the model splits numbers into different numbers "
                         "of tokens, so sentences cannot be hidden in the text");
    if (t->n_ctx < 2 * (n_begin + n_answer) + n_end + 2)
        return cli_error("bench", "-d and -p are too small for the sentence that is hidden");
    t->n_answer = (uint32_t)n_answer;
    n_filler = t->n_ctx - 2 * (n_begin + n_answer) - n_end;
    at = 1 + (n_filler - 1) * (2 * (size_t)i + 1) / (2 * (size_t)N_NEEDLES);
    memcpy(out, filler, at * sizeof(*out));
    memcpy(out + at, begin, n_begin * sizeof(*out));
    memcpy(out + at + n_begin, answer, n_answer * sizeof(*out));
    memcpy(out + at + n_begin + n_answer, end, n_end * sizeof(*out));
    memcpy(out + at + n_begin + n_answer + n_end, filler + at, (n_filler - at) * sizeof(*out));
    out += t->n_ctx - n_begin - n_answer;
    memcpy(out, begin, n_begin * sizeof(*out));
    memcpy(out + n_begin, answer, n_answer * sizeof(*out));
    return CLI_OK;
}

static int make_texts(struct table *t)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(t->params->model);
    struct rng rng;
    int r;

    if (!tok)
        return cli_error("bench", "the model has no tokenizer");
    r = read_text(t, tok);
    if (r != CLI_OK)
        return r;
    t->needles = calloc((size_t)N_NEEDLES * t->n_ctx, sizeof(*t->needles));
    if (!t->needles)
        return cli_error("bench", "out of memory");
    rng_seed(&rng, 1);
    for (unsigned i = 0; r == CLI_OK && i < N_NEEDLES; i++)
        r = make_needle(t, tok, i, &rng);
    return r;
}

static uint64_t size_of_text(const struct inf_kv_size *size, uint32_t n)
{
    return size->per_token * n + size->windows;
}

/* Computes the bits of a number, or sets row->refusal if the model cannot have the format. */
static int measure_bits(struct table *t, struct row *row)
{
    struct inf_kv_size size, f16;
    struct inf_err err;
    int r = inf_model_kv_size(t->params->model, row->type, &size, &err);

    if (r == -EOPNOTSUPP) {
        row->refusal = err;
        return CLI_OK;
    }
    if (r == 0)
        r = inf_model_kv_size(t->params->model, "f16", &f16, &err);
    if (r < 0)
        return cli_error("bench", "%s", err.text);
    row->bits = 16.0 * (double)size_of_text(&size, t->n_ctx) / (double)size_of_text(&f16, t->n_ctx);
    return CLI_OK;
}

/* Predicts tokens of the text, and the digits of the needles. Sets row->refusal if the device does
 * not support the format. */
static int measure_loss(struct table *t, struct row *row)
{
    const struct kv_bench_params *p = t->params;
    struct inf_perplexity_params params = {
        .model = p->model,
        .device = p->device,
        .cache_dir = p->cache_dir,
        .isa = p->isa,
        .kv_type = row->type,
        .n_threads = p->n_threads,
        .n_ctx = t->n_ctx,
        .n_batch = p->n_batch,
        .n_chunks = p->n_chunks,
        .n_predict = p->n_depth > 0 ? p->n_prompt - 1 : 0,
        .base = p->model,
        .base_kv_type = "f32",
    };
    struct inf_perplexity_result res;
    struct inf_err err;
    int r = inf_perplexity(&params, t->text, t->n_text, &res, &err);

    if (r == -EOPNOTSUPP) {
        row->refusal = err;
        return CLI_OK;
    }
    if (r < 0)
        return cli_error("bench", "%s: %s", row->type, err.text);
    row->ppl = res.ppl;
    row->kld = res.divergence.kld;
    row->same_top = res.divergence.same_top;
    params.base = NULL;
    params.n_chunks = N_NEEDLES;
    params.n_predict = t->n_answer;
    r = inf_perplexity(&params, t->needles, (size_t)N_NEEDLES * t->n_ctx, &res, &err);
    if (r < 0)
        return cli_error("bench", "%s: %s", row->type, err.text);
    row->needle = exp(-res.nll);
    return isfinite(row->ppl)
               ? CLI_OK
               : cli_error("bench", "the perplexity with %s is not a finite number", row->type);
}

static int measure_speed(struct table *t, struct row *row, uint32_t i_round)
{
    const struct kv_bench_params *p = t->params;
    const struct inf_bench_params params = {
        .model = p->model,
        .device = p->device,
        .cache_dir = p->cache_dir,
        .isa = p->isa,
        .kv_type = row->type,
        .n_threads = p->n_threads,
        .n_prompt = p->n_prompt,
        .n_generate = p->n_generate,
        .n_depth = p->n_depth,
        .n_batch = p->n_batch,
        .n_repeat = 1,
    };
    struct inf_bench_result res;
    struct inf_err err;

    if (inf_bench(&params, &res, &err) < 0)
        return cli_error("bench", "%s: %s", row->type, err.text);
    row->rounds[i_round] = (struct speeds){res.pp_tok_s, res.tg_tok_s};
    return CLI_OK;
}

static int table_measure(struct table *t)
{
    int r = CLI_OK;

    for (unsigned i = 0; r == CLI_OK && i < t->n_rows; i++)
        r = measure_bits(t, &t->rows[i]);
    for (unsigned i = 0; r == CLI_OK && i < t->n_rows; i++) {
        if (!t->rows[i].refusal.text[0])
            r = measure_loss(t, &t->rows[i]);
        table_progress(t);
    }
    for (uint32_t k = 0; r == CLI_OK && k < t->params->n_repeat; k++)
        for (unsigned i = 0; r == CLI_OK && i < t->n_rows; i++) {
            if (!t->rows[i].refusal.text[0])
                r = measure_speed(t, &t->rows[i], k);
            table_progress(t);
        }
    cli_progress_done(&t->progress);
    if (r == CLI_OK && t->rows[0].refusal.text[0])
        r = cli_error("bench", "%s", t->rows[0].refusal.text);
    return r;
}

/* Computes the median over the rounds of a speed ÷ that of f16. */
static double median_ratio(struct table *t, const struct row *row, bool write)
{
    const struct speeds *f16 = t->rows[0].rounds;

    for (uint32_t i = 0; i < t->params->n_repeat; i++)
        t->sorted[i] =
            write ? row->rounds[i].write / f16[i].write : row->rounds[i].read / f16[i].read;
    return bench_median(t->sorted, t->params->n_repeat);
}

/* Returns whether @a is faster than @b in all rounds. */
static bool row_is_faster(const struct table *t, const struct row *a, const struct row *b,
                          bool write)
{
    for (uint32_t i = 0; i < t->params->n_repeat; i++) {
        const double x = write ? a->rounds[i].write : a->rounds[i].read;
        const double y = write ? b->rounds[i].write : b->rounds[i].read;

        if (x <= y * (1 + SPEED_NOISE))
            return false;
    }
    return true;
}

/* Returns whether @a dominates @b. */
static bool row_dominates(const struct table *t, const struct row *a, const struct row *b)
{
    const bool worse = a->bits > b->bits || a->kld.value > b->kld.value ||
                       row_is_faster(t, b, a, false) || row_is_faster(t, b, a, true);

    return !worse && (a->bits < b->bits || a->kld.value < b->kld.value ||
                      row_is_faster(t, a, b, false) || row_is_faster(t, a, b, true));
}

static void table_compare(struct table *t)
{
    for (unsigned i = 0; i < t->n_rows; i++) {
        struct row *row = &t->rows[i];

        if (row->refusal.text[0])
            continue;
        row->ratio = (struct speeds){median_ratio(t, row, false), median_ratio(t, row, true)};
        for (unsigned k = 0; k < t->n_rows && !row->by; k++)
            if (!t->rows[k].refusal.text[0] && row_dominates(t, &t->rows[k], row))
                row->by = &t->rows[k];
    }
}

static void print_row(const struct row *row)
{
    cli_print_column(row->type, NAME_WIDTH);
    if (row->refusal.text[0]) {
        printf("not possible: %s\n", row->refusal.text);
        return;
    }
    printf("%6.2f %9.6f ± %8.6f %7.2f %% %10.5g %7.4f %6.2f × %6.2f ×", row->bits, row->kld.value,
           row->kld.error, 100 * row->same_top.value, row->ppl, row->needle, row->ratio.read,
           row->ratio.write);
    if (row->by)
        printf("  dominated by %s", row->by->type);
    putchar('\n');
}

static int print_text(const struct table *t)
{
    printf("%s, %" PRIu32 " tokens after %" PRIu32 "\n", t->params->name, t->params->n_prompt,
           t->params->n_depth);
    printf("%-*s%6s %20s %9s %10s %7s %8s %8s\n", NAME_WIDTH, "type", "bits", "divergence",
           "same top", "perplexity", "needle", "prefill", "decode");
    for (unsigned i = 0; i < t->n_rows; i++)
        print_row(&t->rows[i]);
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

static json_t *row_json(const struct row *row)
{
    if (row->refusal.text[0])
        return json_pack("{s:s, s:s}", "type", row->type, "refusal", row->refusal.text);
    return json_pack("{s:s, s:f, s:{s:f, s:f}, s:{s:f, s:f}, s:f, s:f, s:f, s:f, s:s?}", "type",
                     row->type, "bits", row->bits, "kld", "value", row->kld.value, "error",
                     row->kld.error, "same_top", "value", row->same_top.value, "error",
                     row->same_top.error, "ppl", row->ppl, "needle", row->needle, "pp_ratio",
                     row->ratio.read, "tg_ratio", row->ratio.write, "dominated_by",
                     row->by ? row->by->type : NULL);
}

static int print_json(const struct table *t)
{
    const struct kv_bench_params *p = t->params;
    json_t *rows = json_array(), *j;
    int bad;

    for (unsigned i = 0; i < t->n_rows; i++)
        if (json_array_append_new(rows, row_json(&t->rows[i])) < 0) {
            json_decref(rows);
            return cli_error("bench", "the results of \"%s\" are not finite numbers",
                             t->rows[i].type);
        }
    j = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "model", p->name, "device", p->device,
                  "depth", (int)p->n_depth, "prompt", (int)p->n_prompt, "generate",
                  (int)p->n_generate, "rounds", (int)p->n_repeat, "types", rows);
    if (!j)
        return cli_error("bench", "out of memory");
    bad = json_dumpf(j, stdout, JSON_REAL_PRECISION(6));
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

int bench_kv(const struct kv_bench_params *p)
{
    struct table t = {
        .params = p,
        .n_ctx = p->n_depth + p->n_prompt,
        .progress = {.label = "measuring"},
    };
    struct inf_err err;
    int r;

    if (p->n_repeat > MAX_ROUNDS)
        return cli_usage("bench", "-r must not be above %u", MAX_ROUNDS);
    if (inf_model_suits(p->model, INF_USE_GENERATE, &err) < 0)
        return cli_error("bench", "%s is not a model of text: %s", p->name, err.text);
    t.sorted = calloc(p->n_repeat, sizeof(*t.sorted));
    r = t.sorted ? table_add_all(&t) : cli_error("bench", "out of memory");
    t.n_steps = t.n_rows * (1 + p->n_repeat);
    if (r == CLI_OK)
        r = make_texts(&t);
    if (r == CLI_OK)
        r = table_measure(&t);
    if (r == CLI_OK) {
        table_compare(&t);
        r = p->json ? print_json(&t) : print_text(&t);
    }
    table_done(&t);
    return r;
}
