/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses ggml .bin files.
 *
 * The parser makes one pass over the file. Each read checks the remaining size, and copies the
 * bytes once into private memory, because the file may change under its mapping. The layout is that
 * of whisper.cpp's loaders.
 */
#include "format/whisper/ggml-bin.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "core/file.h"
#include "format/gguf/types.h"

enum {
    MAGIC = 0x67676d6c,
    MAX_COUNT = 1 << 20,
    MAX_LAYERS = 1024,
    MAX_MELS = 1024,
    MAX_TOKEN = 1024,
    MAX_NAME = 256,
    MAX_TENSORS = 1 << 16,
    MAX_VAD_LAYERS = 16,
    WINDOW = 4096, /* bytes that are copied at once; no single read takes more */
};

struct ggml_bin {
    struct file_map file;
    struct arena arena; /* names, tokens, and copies of data that were not aligned */
    enum ggml_bin_kind kind;
    struct ggml_bin_whisper whisper;
    struct ggml_bin_token *tokens;
    size_t n_tokens;
    struct format_tensor *tensors;
    size_t n_tensors, tensors_cap;
    struct map map; /* maps a name to an index into the tensors */
};

struct reader {
    const struct file_map *map;
    uint64_t size, at;
    struct inf_err *reterr;
    uint64_t begin, end; /* range of the file that the window holds */
    unsigned char window[WINDOW];
};

/* Skips @n bytes. Returns false if fewer bytes are left. */
static bool reader_skip(struct reader *rd, uint64_t n)
{
    if (n > rd->size - rd->at) {
        err_set_at(rd->reterr, EBADMSG, rd->size, "truncated file: %llu more bytes are missing",
                   (unsigned long long)(n - (rd->size - rd->at)));
        return false;
    }
    rd->at += n;
    return true;
}

/* Returns the next @n bytes, at most WINDOW, which are valid until the next call. Returns NULL if
 * fewer bytes are left. */
static const unsigned char *reader_take(struct reader *rd, uint32_t n)
{
    const uint64_t at = rd->at;

    assert(n <= WINDOW);
    if (!reader_skip(rd, n))
        return NULL;
    if (at < rd->begin || rd->at > rd->end) {
        const size_t size = (size_t)MIN(rd->size - at, (uint64_t)WINDOW);

        rd->begin = rd->end = 0;
        if (file_map_read(rd->map, at, rd->window, size, rd->reterr) < 0)
            return NULL;
        rd->begin = at;
        rd->end = at + size;
    }
    return rd->window + (at - rd->begin);
}

static bool take_word(struct reader *rd, uint32_t *ret)
{
    const unsigned char *b = reader_take(rd, 4);

    if (b)
        *ret = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return b != NULL;
}

/* Reads a word whose value must be 1 … @max. */
static int take_count(struct reader *rd, const char *what, uint32_t max, uint32_t *ret)
{
    const uint64_t at = rd->at;

    if (!take_word(rd, ret))
        return -EBADMSG;
    if (*ret == 0 || *ret > max)
        return err_set_at(rd->reterr, EBADMSG, at, "%s is %u; it may be 1 … %u", what, *ret, max);
    return 0;
}

static int read_hparams(struct ggml_bin *bin, struct reader *rd)
{
    struct ggml_bin_whisper *w = &bin->whisper;
    uint32_t n_vocab = 0, type;
    const struct {
        const char *what;
        uint32_t *to, max;
    } fields[] = {
        {"n_audio_ctx", &w->n_audio_ctx, MAX_COUNT},
        {"n_audio_state", &w->n_audio_embd, MAX_COUNT},
        {"n_audio_head", &w->n_audio_heads, MAX_COUNT},
        {"n_audio_layer", &w->n_audio_layers, MAX_LAYERS},
        {"n_text_ctx", &w->n_text_ctx, MAX_COUNT},
        {"n_text_state", &w->n_text_embd, MAX_COUNT},
        {"n_text_head", &w->n_text_heads, MAX_COUNT},
        {"n_text_layer", &w->n_text_layers, MAX_LAYERS},
        {"n_mels", &w->n_mels, MAX_MELS},
    };
    int r;

    r = take_count(rd, "n_vocab", MAX_COUNT, &n_vocab);
    w->n_vocab = n_vocab;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++)
        r = take_count(rd, fields[i].what, fields[i].max, fields[i].to);
    if (r < 0)
        return r;
    if (w->n_audio_embd % w->n_audio_heads || w->n_text_embd % w->n_text_heads)
        return err_set(rd->reterr, EBADMSG, "a width is not a multiple of its heads");
    /* Ignore the word for the number format of most weights, because each tensor states its own
     * format. */
    return take_word(rd, &type) ? 0 : -EBADMSG;
}

/* Skips the mel filters, because they follow from the number of mel bins. */
static int skip_filters(struct reader *rd)
{
    uint32_t n_mels = 0, n_bins = 0;
    int r;

    r = take_count(rd, "the number of filters", MAX_MELS, &n_mels);
    if (r == 0)
        r = take_count(rd, "the length of filters", MAX_COUNT, &n_bins);
    if (r < 0)
        return r;
    return reader_skip(rd, (uint64_t)n_mels * n_bins * sizeof(float)) ? 0 : -EBADMSG;
}

static int read_vocab(struct ggml_bin *bin, struct reader *rd)
{
    uint32_t n = 0;
    int r;

    r = take_count(rd, "the size of the vocabulary", bin->whisper.n_vocab, &n);
    if (r < 0)
        return r;
    bin->tokens = NEW(struct ggml_bin_token, n);
    if (!bin->tokens)
        return err_set(rd->reterr, ENOMEM, "out of memory");
    for (; bin->n_tokens < n; bin->n_tokens++) {
        struct ggml_bin_token *token = &bin->tokens[bin->n_tokens];
        const unsigned char *text;

        if (!take_word(rd, &token->len))
            return -EBADMSG;
        if (token->len > MAX_TOKEN)
            return err_set_at(rd->reterr, EBADMSG, rd->at,
                              "a token has %u bytes; at most %d are read", token->len, MAX_TOKEN);
        text = reader_take(rd, token->len);
        if (!text)
            return -EBADMSG;
        token->text = arena_strndup(&bin->arena, (const char *)text, token->len);
        if (!token->text)
            return err_set(rd->reterr, ENOMEM, "out of memory");
    }
    return 0;
}

/* Reads the header of a VAD (voice activity detection) model: name, version, samples per step,
 * samples of context, and layers. The code that uses the model checks the shapes of its
 * tensors. */
static int read_vad(struct reader *rd)
{
    static const char name[] = "silero-16k";
    uint32_t len = 0, n_layers = 0;
    const unsigned char *text;
    int r;

    if (!take_word(rd, &len))
        return -EBADMSG;
    text = len == sizeof(name) - 1 ? reader_take(rd, len) : NULL;
    if (!text || memcmp(text, name, len) != 0)
        return err_set_at(rd->reterr, EBADMSG, 8, "not a Silero model for 16 kHz");
    if (!reader_skip(rd, 5 * sizeof(uint32_t)))
        return -EBADMSG;
    r = take_count(rd, "the number of layers", MAX_VAD_LAYERS, &n_layers);
    if (r < 0)
        return r;
    return reader_skip(rd, ((uint64_t)n_layers * 3 + 4) * sizeof(uint32_t)) ? 0 : -EBADMSG;
}

static int read_header(struct ggml_bin *bin, struct reader *rd)
{
    uint32_t magic = 0, first;
    int r;

    if (!take_word(rd, &magic))
        return -EBADMSG;
    if (magic != MAGIC)
        return err_set_at(rd->reterr, EBADMSG, 0, "not a .bin file of ggml");
    if (!take_word(rd, &first))
        return -EBADMSG;
    rd->at -= sizeof(first);
    /* In a VAD model the first word is the length of a name, which is short; in a Whisper model it
     * is the size of the vocabulary, which is large. */
    if (first < 64) {
        bin->kind = GGML_BIN_VAD;
        return read_vad(rd);
    }
    r = read_hparams(bin, rd);
    if (r == 0)
        r = skip_filters(rd);
    return r < 0 ? r : read_vocab(bin, rd);
}

static int reserve_tensor(struct ggml_bin *bin, struct inf_err *reterr)
{
    if (bin->n_tensors == MAX_TENSORS)
        return err_set(reterr, EBADMSG, "more than %d tensors", MAX_TENSORS);
    if (ARRAY_GROW(bin->tensors, bin->tensors_cap, bin->n_tensors + 1) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return 0;
}

static int read_dims(struct reader *rd, struct format_tensor *t, uint32_t n_dims,
                     uint64_t *ret_n_elems)
{
    uint64_t n = 1;

    if (n_dims > FORMAT_MAX_DIMS)
        return err_set_at(rd->reterr, EBADMSG, rd->at, "a tensor has %u dimensions", n_dims);
    t->n_dims = MAX(n_dims, 1);
    for (uint32_t i = 0; i < FORMAT_MAX_DIMS; i++) {
        uint32_t dim = 1;

        if (i < n_dims && !take_word(rd, &dim))
            return -EBADMSG;
        t->dims[i] = dim;
        if (dim == 0 || !size_mul(n, dim, &n) || n > INT64_MAX)
            return err_set_at(rd->reterr, EBADMSG, rd->at, "the dimensions of a tensor overflow");
    }
    *ret_n_elems = n;
    return 0;
}

static int read_name(struct ggml_bin *bin, struct reader *rd, struct format_tensor *t, uint32_t len)
{
    const unsigned char *name;

    if (len == 0 || len > MAX_NAME)
        return err_set_at(rd->reterr, EBADMSG, rd->at, "a tensor's name has %u bytes", len);
    name = reader_take(rd, len);
    if (!name)
        return -EBADMSG;
    if (memchr(name, 0, len))
        return err_set_at(rd->reterr, EBADMSG, rd->at, "a tensor's name has a zero byte");
    t->name = t->file_name = arena_strndup(&bin->arena, (const char *)name, len);
    return t->name ? 0 : err_set(rd->reterr, ENOMEM, "out of memory");
}

/* Finds the data of a tensor, and copies them if they are not aligned. F32 needs four bytes;
 * elements and scales of the other formats need two. */
static int place_data(struct ggml_bin *bin, struct reader *rd, struct format_tensor *t)
{
    const size_t align = t->dtype == INF_DTYPE_F32 ? 4 : 2;
    const uint64_t at = rd->at;
    void *copy;

    if (!reader_skip(rd, t->size))
        return -EBADMSG;
    t->data = rd->map->data + at;
    if ((uintptr_t)t->data % align == 0)
        return 0;
    copy = arena_alloc(&bin->arena, t->size);
    if (!copy)
        return err_set(rd->reterr, ENOMEM, "out of memory");
    t->data = copy;
    return file_map_read(rd->map, at, copy, t->size, rd->reterr);
}

static int set_type(struct reader *rd, struct format_tensor *t, uint32_t id, uint64_t n_elems)
{
    const struct ggml_type *type = ggml_type(id);

    if (!type)
        return err_set(rd->reterr, EBADMSG, "tensor %.64s has the unknown number format %u",
                       t->name, id);
    if (t->dims[0] % type->block_elems)
        return err_set(rd->reterr, EBADMSG, "tensor %.64s: rows are not whole blocks of %s",
                       t->name, type->name);
    t->type_name = type->name;
    t->dtype = type->dtype;
    if (!size_mul(n_elems / type->block_elems, type->block_bytes, &t->size))
        return err_set(rd->reterr, EBADMSG, "tensor %.64s: its dimensions overflow", t->name);
    return 0;
}

static int read_tensor(struct ggml_bin *bin, struct reader *rd)
{
    struct format_tensor *t = &bin->tensors[bin->n_tensors];
    uint32_t n_dims = 0, len = 0, type = 0;
    uint64_t n_elems = 0;
    int r;

    *t = (struct format_tensor){0};
    if (!take_word(rd, &n_dims) || !take_word(rd, &len) || !take_word(rd, &type))
        return -EBADMSG;
    r = read_dims(rd, t, n_dims, &n_elems);
    if (r == 0)
        r = read_name(bin, rd, t, len);
    if (r == 0)
        r = set_type(rd, t, type, n_elems);
    if (r == 0)
        r = place_data(bin, rd, t);
    if (r < 0)
        return r;
    r = map_put(&bin->map, t->name, len, bin->n_tensors);
    if (r < 0)
        return err_set(rd->reterr, ENOMEM, "out of memory");
    if (r == MAP_EXISTS)
        return err_set(rd->reterr, EBADMSG, "tensor %.64s occurs twice", t->name);
    bin->n_tensors++;
    return 0;
}

static int parse_map(const struct file_map *map, struct ggml_bin **ret_bin, struct inf_err *reterr)
{
    _cleanup_(ggml_bin_closep) struct ggml_bin *bin = NEW(struct ggml_bin, 1);
    struct reader rd = {.map = map, .size = map->size, .reterr = reterr};
    int r;

    if (!bin)
        return err_set(reterr, ENOMEM, "out of memory");
    r = read_header(bin, &rd);
    while (r == 0 && rd.at < rd.size) {
        r = reserve_tensor(bin, reterr);
        if (r == 0)
            r = read_tensor(bin, &rd);
    }
    if (r < 0)
        return r;
    *ret_bin = STEAL(bin);
    return 0;
}

int ggml_bin_parse(const void *data, uint64_t size, struct ggml_bin **ret_bin,
                   struct inf_err *reterr)
{
    return parse_map(&(struct file_map){.data = data, .size = size}, ret_bin, reterr);
}

bool ggml_bin_probe(const char *path)
{
    return file_begins_with(path, "lmgg");
}

int ggml_bin_open(const char *path, struct ggml_bin **ret_bin, struct inf_err *reterr)
{
    struct file_map file = {0};
    struct ggml_bin *bin;
    int r;

    r = file_map_open(path, &file, reterr);
    if (r < 0)
        return r;
    r = parse_map(&file, &bin, reterr);
    if (r < 0) {
        file_map_done(&file);
        err_prefix(reterr, "%.96s", path_base(path));
        return r;
    }
    bin->file = file;
    *ret_bin = bin;
    return 0;
}

struct ggml_bin *ggml_bin_close(struct ggml_bin *bin)
{
    if (!bin)
        return NULL;
    map_done(&bin->map);
    free(bin->tokens);
    free(bin->tensors);
    file_map_done(&bin->file);
    arena_done(&bin->arena);
    free(bin);
    return NULL;
}

enum ggml_bin_kind ggml_bin_kind(const struct ggml_bin *bin)
{
    return bin->kind;
}

const struct ggml_bin_whisper *ggml_bin_whisper(const struct ggml_bin *bin)
{
    assert(bin->kind == GGML_BIN_WHISPER);
    return &bin->whisper;
}

const struct ggml_bin_token *ggml_bin_tokens(const struct ggml_bin *bin, size_t *ret_n)
{
    *ret_n = bin->n_tokens;
    return bin->tokens;
}

const struct file_map *ggml_bin_file(const struct ggml_bin *bin)
{
    return &bin->file;
}

size_t ggml_bin_n(const struct ggml_bin *bin)
{
    return bin->n_tensors;
}

const struct format_tensor *ggml_bin_at(const struct ggml_bin *bin, size_t i)
{
    assert(i < bin->n_tensors);
    return &bin->tensors[i];
}

const struct format_tensor *ggml_bin_find(const struct ggml_bin *bin, const char *name)
{
    uint64_t i;

    return map_find(&bin->map, name, strlen(name), &i) ? &bin->tensors[i] : NULL;
}
