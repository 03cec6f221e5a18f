/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce bench --kv-mix: finds the best mix of number formats of keys and values for a budget
 *
 * In the first run all layers have the format BASE. In each further run the keys of one layer, or
 * its values, have the format PROBE. The divergence from f32 that this adds, divided by the squared
 * error that PROBE adds, is the sensitivity of this part, that is, of these keys or values. Errors
 * of different parts are nearly independent, so the divergence of a mix is about the sum of
 * sensitivity × error over all parts.
 *
 * All parts begin with the smallest format. The part whose next larger format saves the most
 * divergence for each byte gets this format, again and again, until no larger format fits into the
 * budget. Finally the divergence of the mix is measured.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include <infer/bench.h>
#include <infer/tokenizer.h>

#include "cli/verbs/bench-mix.h"

#define MAX_LAYERS 256u
#define MAX_NAME   4096u

/* The formats of which a mix consists, from the smallest to the largest, and their mean squared
 * errors for normally distributed numbers ÷ the mean square. */
static const struct format {
    const char *name;
    double error;
} formats[] = {
    {"q2_0", 0.115},   {"q3_0", 0.033},   {"turbo4", 0.0094}, {"q4_0", 0.0066},
    {"q5_0", 0.00236}, {"q6_0", 0.00057}, {"q8_0", 0.00003},
};
#define N_FORMATS ARRAY_SIZE(formats)
#define PROBE     3u
#define BASE      6u

enum part { KEYS, VALUES, N_PARTS };
static const char *const part_names[N_PARTS] = {"keys", "values"};

struct layer {
    unsigned format[N_PARTS];    /* in the mix */
    double sensitivity[N_PARTS]; /* nats for an error of 1 */
    bool has[N_FORMATS];         /* whether the layer can have the format */
    uint64_t bytes[N_FORMATS];   /* bytes of the keys of a text, or of its values, beyond those of
                                    the smallest format that the layer can have */
};

struct mix {
    const struct mix_bench_params *params;
    bool recent; /* the first and the newest tokens are kept in more bits, if the model allows it */
    struct layer layers[MAX_LAYERS];
    unsigned n_layers;
    int32_t *text;
    size_t n_text;
    uint64_t bytes;                      /* of a text with the mix */
    uint64_t f16_bytes;                  /* of a text with f16 */
    double predicted;                    /* the divergence of the mix */
    double base;                         /* the divergence with BASE */
    struct inf_perplexity_result result; /* of the mix */
    char name[MAX_NAME];
    struct cli_progress progress;
};

/* Computes the bytes of a text in the format @name. Returns an error of inf_model_kv_size(). */
static int text_bytes(const struct mix *m, const char *name, uint64_t *ret, struct inf_err *reterr)
{
    struct inf_kv_size size;
    const int r = inf_model_kv_size(m->params->model, name, &size, reterr);

    if (r == 0)
        *ret = size.per_token * m->params->n_size + size.windows;
    return r;
}

/* Returns the beginning of the names of all mixes. The format that it names does not matter,
 * because the rest of a name gives each layer a format. */
static const char *prefix(const struct mix *m)
{
    return m->recent ? "q4_0+recent" : "q4_0";
}

/* Writes the name of a format in which all layers have BASE, but one layer has other formats. */
static void name_one(const struct mix *m, unsigned i_layer, unsigned k, unsigned v,
                     char name[MAX_NAME])
{
    snprintf(name, MAX_NAME, "%s/0-%u=%s/%u=%s:%s", prefix(m), m->n_layers - 1, formats[BASE].name,
             i_layer, formats[k].name, formats[v].name);
}

/* Counts the layers with keys and values. */
static int count_layers(struct mix *m)
{
    struct inf_err err;
    char name[64];
    uint64_t bytes;
    int r = 0;

    m->recent = text_bytes(m, "q4_0+recent", &bytes, &err) == 0;
    while (r == 0 && m->n_layers < MAX_LAYERS) {
        snprintf(name, sizeof(name), "f16/%u=f16", m->n_layers);
        r = text_bytes(m, name, &bytes, &err);
        m->n_layers += r == 0;
    }
    if (m->n_layers == 0)
        return cli_error("bench", "the model has no layers with keys and values");
    return r == 0 || r == -EOPNOTSUPP ? CLI_OK : cli_error("bench", "%s", err.text);
}

/* Computes the bytes of a layer in all formats. */
static int measure_bytes(struct mix *m, unsigned i_layer)
{
    struct layer *l = &m->layers[i_layer];
    uint64_t least = 0, bytes;
    char name[MAX_NAME];
    struct inf_err err;

    for (unsigned f = 0; f < N_FORMATS; f++) {
        name_one(m, i_layer, f, f, name);
        l->has[f] = text_bytes(m, name, &bytes, &err) == 0;
        if (!l->has[f])
            continue;
        least = least == 0 ? bytes : least;
        l->bytes[f] = (bytes - least) / 2;
    }
    return l->has[BASE] && l->has[PROBE]
               ? CLI_OK
               : cli_error("bench", "%s", err.text[0] ? err.text : "the model has small heads");
}

static int measure_loss(struct mix *m, const char *name, struct inf_perplexity_result *ret)
{
    const struct mix_bench_params *p = m->params;
    const struct inf_perplexity_params params = {
        .model = p->model,
        .device = p->device,
        .cache_dir = p->cache_dir,
        .isa = p->isa,
        .kv_type = name,
        .n_threads = p->n_threads,
        .n_ctx = p->n_prompt,
        .n_batch = p->n_batch,
        .n_chunks = p->n_chunks,
        .base = p->model,
        .base_kv_type = "f32",
    };
    struct inf_err err;

    if (inf_perplexity(&params, m->text, m->n_text, ret, &err) < 0)
        return cli_error("bench", "%s: %s", name, err.text);
    return CLI_OK;
}

/* Measures the sensitivities of all parts. */
static int measure_parts(struct mix *m)
{
    const double added = formats[PROBE].error - formats[BASE].error;
    struct inf_perplexity_result result;
    char name[MAX_NAME];
    int r;

    name_one(m, 0, BASE, BASE, name);
    r = measure_loss(m, name, &result);
    m->base = r == CLI_OK ? result.divergence.kld.value : 0;
    for (unsigned i = 0; r == CLI_OK && i < m->n_layers * N_PARTS; i++) {
        const unsigned i_layer = i / N_PARTS, part = i % N_PARTS;

        cli_progress(&m->progress, (double)(i + 1) / (double)(m->n_layers * N_PARTS + 2));
        name_one(m, i_layer, part == KEYS ? PROBE : BASE, part == VALUES ? PROBE : BASE, name);
        r = measure_loss(m, name, &result);
        if (r == CLI_OK)
            m->layers[i_layer].sensitivity[part] =
                fmax(result.divergence.kld.value - m->base, 0) / added;
    }
    return r;
}

/* Finds the next larger format of a part that saves the most for each byte and fits into @room.
 * Returns what it saves for each byte; 0: none fits. */
static double best_step(const struct layer *l, enum part part, uint64_t room, unsigned *ret_format)
{
    const unsigned now = l->format[part];
    double best = 0;

    for (unsigned f = now + 1; f < N_FORMATS; f++) {
        const uint64_t more = l->bytes[f] - l->bytes[now];
        const double saved = l->sensitivity[part] * (formats[now].error - formats[f].error);

        if (!l->has[f] || more > room || saved <= best * (double)more)
            continue;
        best = more > 0 ? saved / (double)more : INFINITY;
        *ret_format = f;
    }
    return best;
}

/* Spends the budget. @room: the bytes that the mix may take beyond those of the smallest formats.
 */
static void mix_choose(struct mix *m, uint64_t room)
{
    for (;;) {
        unsigned i_best = 0, format = 0, best_format = 0;
        double best = 0;
        struct layer *l;

        for (unsigned i = 0; i < m->n_layers * N_PARTS; i++) {
            const double gain = best_step(&m->layers[i / N_PARTS], i % N_PARTS, room, &format);

            if (gain <= best)
                continue;
            best = gain;
            i_best = i;
            best_format = format;
        }
        if (best == 0)
            return;
        l = &m->layers[i_best / N_PARTS];
        room -= l->bytes[best_format] - l->bytes[l->format[i_best % N_PARTS]];
        l->format[i_best % N_PARTS] = best_format;
    }
}

/* Writes the name of the mix. Neighboring layers of the same formats are written together. */
static void mix_name(struct mix *m)
{
    size_t n = (size_t)snprintf(m->name, MAX_NAME, "%s", prefix(m));

    for (unsigned i = 0, end; i < m->n_layers && n < MAX_NAME; i = end) {
        const unsigned *f = m->layers[i].format;
        char layers[32];

        for (end = i + 1; end < m->n_layers &&
                          memcmp(m->layers[end].format, f, sizeof(m->layers[i].format)) == 0;)
            end++;
        snprintf(layers, sizeof(layers), end > i + 1 ? "%u-%u" : "%u", i, end - 1);
        n += (size_t)snprintf(m->name + n, MAX_NAME - n, "/%s=%s%s%s", layers, formats[f[0]].name,
                              f[0] == f[1] ? "" : ":", f[0] == f[1] ? "" : formats[f[1]].name);
    }
}

/* Returns the average bits of a number in the mix. */
static double mix_bits(const struct mix *m)
{
    return 16.0 * (double)m->bytes / (double)m->f16_bytes;
}

/* Gives all parts the smallest format that they can have, and computes the bytes of a text. */
static int mix_begin(struct mix *m)
{
    struct inf_err err;

    for (unsigned i = 0; i < m->n_layers; i++)
        for (unsigned part = 0; part < N_PARTS; part++)
            for (m->layers[i].format[part] = 0; !m->layers[i].has[m->layers[i].format[part]];)
                m->layers[i].format[part]++;
    mix_name(m);
    if (text_bytes(m, m->name, &m->bytes, &err) < 0 ||
        text_bytes(m, "f16", &m->f16_bytes, &err) < 0)
        return cli_error("bench", "%s", err.text);
    return CLI_OK;
}

/* Checks that the smallest mix is within the budget. In short texts this may be possible only
 * without copies of the newest tokens. */
static int mix_check(struct mix *m)
{
    int r = mix_begin(m);

    if (r == CLI_OK && m->recent && mix_bits(m) > m->params->bits) {
        m->recent = false;
        r = mix_begin(m);
    }
    if (r == CLI_OK && mix_bits(m) > m->params->bits)
        r = cli_error("bench", "the smallest mix has %.2f bits, which is more than %.2f",
                      mix_bits(m), m->params->bits);
    return r;
}

/* Chooses the mix for the budget. */
static int mix_make(struct mix *m)
{
    const uint64_t most = (uint64_t)(m->params->bits / 16 * (double)m->f16_bytes);
    struct inf_err err;

    mix_choose(m, most > m->bytes ? most - m->bytes : 0);
    mix_name(m);
    if (text_bytes(m, m->name, &m->bytes, &err) < 0)
        return cli_error("bench", "%s", err.text);
    for (unsigned i = 0; i < m->n_layers; i++)
        for (unsigned part = 0; part < N_PARTS; part++)
            m->predicted +=
                m->layers[i].sensitivity[part] * formats[m->layers[i].format[part]].error;
    return CLI_OK;
}

static int print_text(const struct mix *m)
{
    printf("%s, divergence in nats that one part in %s adds, and its format in the mix\n",
           m->params->name, formats[PROBE].name);
    printf("%5s %12s %8s %12s %8s\n", "layer", part_names[KEYS], "", part_names[VALUES], "");
    for (unsigned i = 0; i < m->n_layers; i++) {
        const struct layer *l = &m->layers[i];

        printf("%5u", i);
        for (unsigned part = 0; part < N_PARTS; part++)
            printf(" %12.6f %8s", l->sensitivity[part] * formats[PROBE].error,
                   formats[l->format[part]].name);
        putchar('\n');
    }
    printf("%.2f bits in %" PRIu32 " tokens; divergence %.6f ± %.6f (predicted: %.6f), same top "
           "token %.2f %%\nkv_type: %s\n",
           mix_bits(m), m->params->n_size, m->result.divergence.kld.value,
           m->result.divergence.kld.error, m->predicted, 100 * m->result.divergence.same_top.value,
           m->name);
    return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

static int print_json(const struct mix *m)
{
    json_t *layers = json_array(), *j;
    int bad = 0;

    for (unsigned i = 0; i < m->n_layers; i++) {
        const struct layer *l = &m->layers[i];

        bad |= json_array_append_new(
            layers, json_pack("{s:s, s:f, s:s, s:f}", "keys", formats[l->format[KEYS]].name,
                              "keys_kld", l->sensitivity[KEYS] * formats[PROBE].error, "values",
                              formats[l->format[VALUES]].name, "values_kld",
                              l->sensitivity[VALUES] * formats[PROBE].error));
    }
    j = json_pack("{s:s, s:s, s:i, s:s, s:f, s:{s:f, s:f}, s:f, s:f, s:o}", "model",
                  m->params->name, "device", m->params->device, "tokens", (int)m->params->n_size,
                  "kv_type", m->name, "bits", mix_bits(m), "kld", "value",
                  m->result.divergence.kld.value, "error", m->result.divergence.kld.error,
                  "same_top", m->result.divergence.same_top.value, "ppl", m->result.ppl, "layers",
                  layers);
    if (bad || !j) {
        json_decref(j);
        return cli_error("bench", "the results are not finite numbers");
    }
    bad = json_dumpf(j, stdout, JSON_REAL_PRECISION(6));
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

static int read_text(struct mix *m)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(m->params->model);
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r;

    if (!tok)
        return cli_error("bench", "%s has no tokenizer", m->params->name);
    r = cli_read("bench", m->params->file, &text, &len);
    if (r != CLI_OK)
        return r;
    r = inf_tokenizer_encode(tok, text, len, INF_ENCODE_ADD_SPECIAL, 0, &m->text, &m->n_text);
    return r < 0 ? cli_error("bench", "%s", strerror(-r)) : CLI_OK;
}

int bench_mix(const struct mix_bench_params *params)
{
    struct mix *m = calloc(1, sizeof(*m));
    struct inf_err err;
    int r;

    if (!m)
        return cli_error("bench", "out of memory");
    m->params = params;
    m->progress.label = "measuring";
    r = inf_model_suits(params->model, INF_USE_GENERATE, &err) < 0
            ? cli_error("bench", "%s is not a model of text: %s", params->name, err.text)
            : read_text(m);
    if (r == CLI_OK)
        r = count_layers(m);
    for (unsigned i = 0; r == CLI_OK && i < m->n_layers; i++)
        r = measure_bytes(m, i);
    if (r == CLI_OK)
        r = mix_check(m);
    if (r == CLI_OK)
        r = measure_parts(m);
    if (r == CLI_OK)
        r = mix_make(m);
    if (r == CLI_OK)
        r = measure_loss(m, m->name, &m->result);
    cli_progress_done(&m->progress);
    if (r == CLI_OK)
        r = params->json ? print_json(m) : print_text(m);
    free(m->text);
    free(m);
    return r;
}
