/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens any bytes as a directory in Hugging Face layout, binds the weights of the model, and
 * decodes rows of all matrices. The bytes are config.json up to the first NUL, and then
 * model.safetensors. So the planes of MLX, GPTQ, AWQ, ParoQuant, compressed-tensors, FP8,
 * bitsandbytes and BitNet are bound with any shapes and numbers. Models of Whisper are only bound.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/file.h"
#include "graph/params.h"
#include "model/arch.h"
#include "model/whisper-model.h"
#include "quant/dtype.h"

/* Rows of a matrix that are decoded, and the largest number of columns. */
#define ROWS_MAX 40u
#define COLS_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/sconce-fuzz-XXXXXX", config[64], tensors[64], tokenizer[64];

static void remove_dir(void)
{
    unlink(config);
    unlink(tensors);
    unlink(tokenizer);
    rmdir(dir);
}

/* Replaces a file. A new file is made, because files of models must not change. */
static void put(const char *path, const void *data, size_t n)
{
    FILE *f;

    unlink(path);
    f = fopen(path, "wbe");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        abort();
}

/* Makes the directory that all inputs use in turn. */
static void make_dir(void)
{
    if (config[0])
        return;
    if (!mkdtemp(dir))
        abort();
    snprintf(config, sizeof(config), "%s/config.json", dir);
    snprintf(tensors, sizeof(tensors), "%s/model.safetensors", dir);
    snprintf(tokenizer, sizeof(tokenizer), "%s/tokenizer.json", dir);
    put(tokenizer, "{}", 2); /* models of mlx-whisper need this file, which is not read here */
    atexit(remove_dir);
}

static double decode_rows(const struct weight *w)
{
    float row[COLS_MAX];
    double sum = 0;

    for (uint32_t i = 0; i < MIN(w->rows, ROWS_MAX); i++) {
        weight_decode_row(w, i, row);
        sum += (double)row[0] + (double)row[w->cols - 1];
    }
    return sum;
}

static double read_weight(const struct weight *w)
{
    const uint32_t n = MAX(w->n_experts, 1u);
    double sum = 0;

    if (!w->data || w->cols > COLS_MAX)
        return 0;
    for (uint32_t e = 0; e < MIN(n, 4u); e++) {
        const struct weight one = weight_of_expert(w, n > 1 ? n - 1 - e : 0);

        sum += decode_rows(&one);
    }
    for (uint32_t i = 0; w->turn && i < w->turn->n_rounds * w->turn->width; i++) {
        assert(w->turn->pairs[i] < w->turn->group);
        sum += (double)w->turn->turns[i];
    }
    return sum;
}

static double read_model(const struct model *m)
{
    const size_t n = (size_t)(m->hp->n_layers + 1) * m->arch->desc.n_slots;
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += read_weight(&m->weights[i]);
    return sum;
}

static void open_whisper(const struct format *f)
{
    struct whisper_model *m = NULL;
    struct inf_err err;

    if (whisper_model_open(f, &m, &err) == 0)
        whisper_model_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    struct format *f = NULL;
    struct model *m = NULL;
    volatile double sink;
    struct inf_err err;

    if (!end)
        return 0;
    make_dir();
    put(config, data, (size_t)(end - data));
    put(tensors, end + 1, size - (size_t)(end - data) - 1);
    if (format_open(dir, 0, model_archs(), &f, &err) < 0)
        return 0;
    if (format_whisper(f))
        open_whisper(f);
    else if (format_arch(f) && model_open(f, &m, &err) == 0) {
        sink = read_model(m);
        (void)sink;
        model_close(m);
    }
    format_close(f);
    return 0;
}
