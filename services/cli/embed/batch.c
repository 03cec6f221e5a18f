/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the requests of `sconce embed` (see batch.h).
 */
#include "cli/embed/batch.h"

#include <errno.h>
#include <string.h>

#include "cli/suite/http-get.h"
#include "common/wire/json.h"
#include "core/err.h"

enum {
    ASK_SECONDS = 600, /* enough to read a large model from a slow disk */
    ASK_TRIES = 60,    /* attempts while the service is overloaded; one per second */
    MAX_WIDTH = 1 << 20,
};

int embed_batch_init(struct embed_batch *batch, const struct embed_ask *ask, size_t cap)
{
    *batch = (struct embed_batch){.ask = ask, .cap = cap};
    batch->lines = NEW(struct embed_line, cap);
    return batch->lines ? 0 : -ENOMEM;
}

void embed_batch_clear(struct embed_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        embed_line_done(&batch->lines[i]);
    free(batch->vectors);
    free(batch->first);
    batch->vectors = NULL;
    batch->first = NULL;
    batch->n = 0;
    batch->width = 0;
    batch->r = 0;
}

void embed_batch_done(struct embed_batch *batch)
{
    if (batch->started)
        pthread_join(batch->thread, NULL);
    embed_batch_clear(batch);
    free(batch->lines);
    *batch = (struct embed_batch){0};
}

static size_t n_texts(const struct embed_batch *batch)
{
    size_t n = 0;

    for (size_t i = 0; i < batch->n; i++)
        n += batch->lines[i].text != NULL;
    return n;
}

static int write_text(struct str *out, const char *name, const char *value)
{
    const int r = value ? str_printf(out, ",\"%s\":", name) : 0;

    return r < 0 || !value ? r : json_put_text(out, value);
}

static int write_request(const struct embed_batch *batch, struct str *out)
{
    const struct embed_ask *ask = batch->ask;
    bool first = true;
    int r = str_puts(out, "{\"encoding_format\":\"base64\",\"input\":[");

    for (size_t i = 0; i < batch->n && r == 0; i++) {
        if (!batch->lines[i].text)
            continue;
        r = first ? 0 : str_putc(out, ',');
        r = r < 0 ? r : json_put_text(out, batch->lines[i].text);
        first = false;
    }
    r = r < 0 ? r : str_putc(out, ']');
    r = r < 0 ? r : write_text(out, "model", ask->model);
    r = r < 0 ? r : write_text(out, "task", ask->task);
    r = r < 0 ? r : write_text(out, "prompt_name", ask->prompt_name);
    if (ask->dimensions && r == 0)
        r = str_printf(out, ",\"dimensions\":%u", ask->dimensions);
    if (ask->truncate && r == 0)
        r = str_puts(out, ",\"truncate\":true");
    if (ask->token_vectors && r == 0)
        r = str_puts(out, ",\"return_multivector\":true");
    return r < 0 ? r : str_putc(out, '}');
}

/* Returns the value of a base64 digit: 0 to 63; -1: not a digit. */
static int letter_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes a base64 text to @width floats; false: the text is invalid or has another length. */
static bool batch_decode(const char *text, size_t len, float *out, uint32_t width)
{
    const size_t size = width * sizeof(float);
    unsigned char *bytes = (unsigned char *)out;
    uint32_t group = 0;
    size_t n = 0;

    while (len > 0 && text[len - 1] == '=')
        len--;
    if (len != DIV_UP(size * 4, 3))
        return false;
    for (size_t i = 0; i < len; i++) {
        const int v = letter_value(text[i]);

        if (v < 0)
            return false;
        group = group << 6 | (uint32_t)v;
        if (i % 4 != 0 && n < size)
            bytes[n++] = (unsigned char)(group >> (6 - i % 4 * 2));
    }
    return n == size;
}

/* Returns the vector of item @i. If the request asks for vectors of tokens, returns the array of
 * the item's vectors. */
static const json_t *item_at(const struct embed_batch *batch, const json_t *data, size_t i)
{
    return json_object_get(json_array_get(data, i),
                           batch->ask->token_vectors ? "embeddings" : "embedding");
}

static size_t item_n(const struct embed_batch *batch, const json_t *item)
{
    return batch->ask->token_vectors ? json_array_size(item) : 1;
}

static const json_t *item_vector(const struct embed_batch *batch, const json_t *item, size_t i)
{
    return batch->ask->token_vectors ? json_array_get(item, i) : item;
}

/* Returns the number of floats in a base64 text; 0: invalid. */
static uint32_t width_of(const json_t *vector)
{
    const char *text = json_string_value(vector);
    const size_t len = json_string_length(vector);
    size_t padding = 0;

    if (len < 4 || len > MAX_WIDTH * 6)
        return 0;
    while (padding < 2 && text[len - 1 - padding] == '=')
        padding++;
    return (uint32_t)((len / 4 * 3 - padding) / sizeof(float));
}

/* Counts the vectors of each of @n items. */
static int take_counts(struct embed_batch *batch, const json_t *data, size_t n)
{
    batch->first = NEW(size_t, n + 1);
    if (!batch->first)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const size_t n_vectors = item_n(batch, item_at(batch, data, i));

        if (n_vectors == 0)
            return -EBADMSG;
        batch->first[i + 1] = batch->first[i] + n_vectors;
    }
    return 0;
}

static int take_item(struct embed_batch *batch, const json_t *item, size_t i)
{
    for (size_t j = batch->first[i]; j < batch->first[i + 1]; j++) {
        const json_t *vector = item_vector(batch, item, j - batch->first[i]);

        if (!json_is_string(vector) ||
            !batch_decode(json_string_value(vector), json_string_length(vector),
                          batch->vectors + j * batch->width, batch->width))
            return -EBADMSG;
    }
    return 0;
}

static int take_vectors(struct embed_batch *batch, const json_t *answer)
{
    const json_t *data = json_object_get(answer, "data");
    const size_t n = json_array_size(data);
    int r = 0;

    if (n != n_texts(batch))
        return -EBADMSG;
    batch->width = width_of(item_vector(batch, item_at(batch, data, 0), 0));
    if (!batch->width || batch->width > MAX_WIDTH)
        return -EBADMSG;
    r = take_counts(batch, data, n);
    if (r < 0)
        return r;
    batch->vectors = NEW(float, batch->first[n] * batch->width);
    if (!batch->vectors)
        return -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++)
        r = take_item(batch, item_at(batch, data, i), i);
    return r;
}

/* Marks the line that the service refused; false: the error is not about a line. */
static bool batch_mark(struct embed_batch *batch, const json_t *error)
{
    const char *param = json_string_value(json_object_get(error, "param"));
    const char *message = json_string_value(json_object_get(error, "message"));
    unsigned which;

    if (!param || sscanf(param, "input[%u]", &which) != 1)
        return false;
    for (size_t i = 0; i < batch->n; i++) {
        struct embed_line *line = &batch->lines[i];

        if (!line->text || which-- > 0)
            continue;
        snprintf(line->error, sizeof(line->error), "%s",
                 message ? message : "the service refused it");
        free(line->text);
        line->text = NULL;
        return true;
    }
    return false;
}

/* Sends one request. Returns 1 if it must be sent again without a line that was refused. -EAGAIN:
 * the service is overloaded, so the request must be sent again later. */
static int ask_once(struct embed_batch *batch)
{
    _cleanup_str_ struct str request = {0}, body = {0};
    _cleanup_json_ json_t *answer = NULL;
    struct inf_err err = {0};
    const json_t *error;
    const char *message;
    int status, r;

    if (n_texts(batch) == 0)
        return 0;
    if (write_request(batch, &request) < 0)
        return err_set(&batch->err, ENOMEM, "out of memory");
    status = http_post(batch->ask->address, "/v1/embeddings", batch->ask->key, request.data,
                       ASK_SECONDS, &body, &batch->err);
    if (status < 0)
        return status;
    r = json_parse(body.data ? body.data : "", body.len, &answer, &err);
    if (r < 0)
        return err_set(&batch->err, -r, "the answer of %s is not JSON", batch->ask->address);
    if (status == 200) {
        r = take_vectors(batch, answer);
        return r < 0 ? err_set(&batch->err, -r, "the answer of %s has no vectors",
                               batch->ask->address)
                     : 0;
    }
    error = json_object_get(answer, "error");
    message = json_string_value(json_object_get(error, "message"));
    if (status == 400 && batch_mark(batch, error))
        return 1;
    if (status == 429)
        return -EAGAIN;
    return err_set(&batch->err, EPROTO, "%.400s", message ? message : "the request was refused");
}

static void *ask_thread(void *arg)
{
    struct embed_batch *batch = arg;
    unsigned n_tries = 0;

    do {
        batch->r = ask_once(batch);
        if (batch->r == -EAGAIN && ++n_tries < ASK_TRIES) {
            sleep(1);
            batch->r = 1;
        }
    } while (batch->r > 0);
    if (batch->r == -EAGAIN)
        err_set(&batch->err, EAGAIN, "the service is overloaded");
    return NULL;
}

int embed_batch_start(struct embed_batch *batch)
{
    const int r = -pthread_create(&batch->thread, NULL, ask_thread, batch);

    batch->started = r == 0;
    return r;
}

int embed_batch_wait(struct embed_batch *batch)
{
    pthread_join(batch->thread, NULL);
    batch->started = false;
    return batch->r;
}
