/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the task of a model by words at the beginning of its files (see task.h).
 *
 * GGUF writers put the keys of the model before those of its tokenizer, so the words are within the
 * first kilobytes.
 */
#include "common/models/task.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/file.h"

#define TASK_PIECE ((size_t)32 << 10)

/* Types of values in GGUF files. */
enum { GGUF_U32 = 4, GGUF_STRING = 8 };

static uint32_t read_u32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Returns the value of a key that ends with @key. NULL: there is no such key, or @data does not
 * have all @size bytes of its value. */
static const char *gguf_value(const char *data, size_t len, const char *key, uint32_t type,
                              size_t size)
{
    const size_t n = strlen(key);
    const char *at = memmem(data, len, key, n);

    if (!at || (size_t)(data + len - at) < n + sizeof(type) + size || read_u32(at + n) != type)
        return NULL;
    return at + n + sizeof(type);
}

/* Returns whether the file's architecture is an encoder. */
static bool gguf_is_encoder(const char *data, size_t len)
{
    static const char *const names[] = {"bert", "embedding", "t5encoder"};
    const char *value = gguf_value(data, len, "general.architecture", GGUF_STRING, 8 + 32);

    for (size_t i = 0; value && i < ARRAY_SIZE(names); i++)
        if (memmem(value + 8, MIN(read_u32(value), 32u), names[i], strlen(names[i])))
            return true;
    return false;
}

/* Returns whether the file has tensors with the names of Hugging Face's Whisper. Such files have no
 * architecture key. */
static bool gguf_is_whisper(const char *data, size_t len)
{
    static const char tensor[] = "model.encoder.";

    return !memmem(data, len, "general.architecture", 20) &&
           memmem(data, len, tensor, sizeof(tensor) - 1);
}

enum models_task models_task_of_gguf(const char *data, size_t len)
{
    static const enum models_task of_poolings[] = {MODELS_CHAT, MODELS_EMBED, MODELS_EMBED,
                                                   MODELS_EMBED, MODELS_RERANK};
    const char *pooling = gguf_value(data, len, ".pooling_type", GGUF_U32, sizeof(uint32_t));
    const uint32_t i = pooling ? read_u32(pooling) : 0;

    if (i > 0 && i < ARRAY_SIZE(of_poolings))
        return of_poolings[i];
    if (gguf_is_whisper(data, len))
        return MODELS_SPEECH;
    return gguf_is_encoder(data, len) ? MODELS_EMBED : MODELS_CHAT;
}

enum models_task models_task_of_config(const char *data, size_t len)
{
    static const char key[] = "\"architectures\"";
    static const struct {
        const char *word;
        enum models_task task;
    } rows[] = {
        {"WhisperForConditionalGeneration", MODELS_SPEECH},
        {"ForSequenceClassification", MODELS_RERANK},
        {"ForCausalLM", MODELS_CHAT},
        {"ForConditionalGeneration", MODELS_CHAT},
        {"Model\"", MODELS_EMBED},
        {"HF_ColBERT", MODELS_EMBED},
        {"ForMaskedLM", MODELS_EMBED},
    };
    const char *at = memmem(data, len, key, sizeof(key) - 1);
    const char *end = at ? memchr(at, ']', (size_t)(data + len - at)) : NULL;

    for (size_t i = 0; end && i < ARRAY_SIZE(rows); i++)
        if (memmem(at, (size_t)(end - at), rows[i].word, strlen(rows[i].word)))
            return rows[i].task;
    return MODELS_CHAT;
}

/* Reads the first bytes of a file; 0: it is empty or unreadable. */
static size_t read_piece(const char *path, char *piece)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd < 0 ? -1 : pread(fd, piece, TASK_PIECE, 0);

    return n > 0 ? (size_t)n : 0;
}

static enum models_task task_of_directory(const char *path, char *piece)
{
    _cleanup_free_ char *modules = path_join(path, "modules.json");
    _cleanup_free_ char *config = path_join(path, "config.json");

    /* If an embedding model is based on a decoder, its config.json names only the decoder. Such a
     * model is recognized by the file modules.json of sentence-transformers. */
    if (modules && path_exists(modules))
        return MODELS_EMBED;
    return config ? models_task_of_config(piece, read_piece(config, piece)) : MODELS_CHAT;
}

static bool says_rerank(const char *name)
{
    for (; *name; name++)
        if (strncasecmp(name, "rerank", 6) == 0)
            return true;
    return false;
}

enum models_task models_task_find(const char *name, const char *path, const char *kind)
{
    _cleanup_free_ char *piece = malloc(TASK_PIECE);
    enum models_task task;

    if (strcmp(kind, "ggml") == 0)
        return MODELS_SPEECH;
    if (!piece)
        return MODELS_CHAT;
    task = strcmp(kind, "gguf") == 0 ? models_task_of_gguf(piece, read_piece(path, piece))
                                     : task_of_directory(path, piece);
    /* Decoders that rank with the words "yes" and "no" differ from other decoders only in their
     * name. */
    return says_rerank(name) ? MODELS_RERANK : task;
}

const char *models_task_name(enum models_task task)
{
    static const char *const names[] = {[MODELS_CHAT] = "chat",
                                        [MODELS_EMBED] = "embedding",
                                        [MODELS_RERANK] = "rerank",
                                        [MODELS_SPEECH] = "speech"};

    return names[task];
}
