/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tokenizer files in a directory, and the type of a single file. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "format/format.h"
#include "format/gguf/gguf.h"
#include "tokenizer/load-config.h"
#include "tokenizer/pipeline.h"

#define MAX_SIZE ((size_t)256 << 20)

int tokenizer_open(const struct format *f, struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    /* If the model also has a directory, its GGUF file contains only weights of Whisper. */
    if (format_gguf(f) && !format_dir(f))
        return tokenizer_open_gguf(format_gguf(f), ret_tok, reterr);
    if (format_bin(f))
        return tokenizer_open_bin(format_bin(f), ret_tok, reterr);
    if (format_dir(f))
        return tokenizer_open_dir(format_dir(f), ret_tok, reterr);
    return err_set(reterr, EINVAL, "the model has no tokenizer");
}

/* Reads the file @name in @dir. If it is missing, *ret_data stays NULL. */
static int read_in(const char *dir, const char *name, char **ret_data, size_t *ret_size,
                   struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(dir, name);

    if (!path)
        return -ENOMEM;
    return path_exists(path) ? file_read(path, MAX_SIZE, ret_data, ret_size, reterr) : 0;
}

/* Finds the file @usual, or else the only file whose name contains @part. *ret_name is NULL if
 * there is no such file. */
static int find_named(const char *dir, const char *usual, const char *part, char **ret_name,
                      struct inf_err *reterr)
{
    _cleanup_free_ char *name = NULL;
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    if (!d)
        return err_set(reterr, errno, "%.150s: %s", dir, strerror(errno));
    while ((e = readdir(d))) {
        const bool exact = strcmp(e->d_name, usual) == 0;

        if (e->d_name[0] == '.' || !strstr(e->d_name, part))
            continue;
        if (exact || n == 0) {
            free(name);
            name = strdup(e->d_name);
        }
        n++;
        if (exact) {
            n = 1;
            break;
        }
    }
    closedir(d);
    if (n > 1)
        return err_set(reterr, EINVAL, "several files match *%s*; name one of them", part);
    if (n == 1 && !name)
        return -ENOMEM;
    *ret_name = STEAL(name);
    return 0;
}

/* Reads the file that find_named() finds. If there is none, *ret_data stays NULL. */
static int read_named(const char *dir, const char *usual, const char *part, char **ret_data,
                      size_t *ret_size, struct inf_err *reterr)
{
    _cleanup_free_ char *name = NULL;
    const int r = find_named(dir, usual, part, &name, reterr);

    return r == 0 && name ? read_in(dir, name, ret_data, ret_size, reterr) : r;
}

static int open_dir(const char *dir, const struct config *config, struct inf_tokenizer **ret_tok,
                    struct inf_err *reterr)
{
    _cleanup_free_ char *json = NULL, *spm = NULL, *vocab = NULL, *merges = NULL, *text = NULL;
    size_t json_len, spm_len, vocab_len, merges_len, text_len;
    int r;

    r = read_in(dir, "tokenizer.json", &json, &json_len, reterr);
    if (r < 0)
        return r;
    if (json)
        return tokenizer_load_json(json, json_len, config, ret_tok, reterr);
    r = read_named(dir, "tokenizer.model", ".model", &spm, &spm_len, reterr);
    if (r == 0 && spm)
        return tokenizer_load_spm(spm, spm_len, config, ret_tok, reterr);
    if (r == 0)
        r = read_in(dir, "vocab.json", &vocab, &vocab_len, reterr);
    if (r == 0)
        r = read_in(dir, "merges.txt", &merges, &merges_len, reterr);
    if (r == 0 && vocab && merges)
        return tokenizer_load_bpe(vocab, vocab_len, merges, merges_len, config, ret_tok, reterr);
    if (r == 0)
        r = read_named(dir, "vocab.txt", "vocab.txt", &text, &text_len, reterr);
    if (r == 0 && text)
        return tokenizer_load_vocab(text, text_len, config, ret_tok, reterr);
    if (r < 0)
        return r;
    return err_set(reterr, ENOENT,
                   "no tokenizer.json, *.model, vocab.json with merges.txt, or vocab.txt");
}

int tokenizer_open_dir(const char *dir, struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    _cleanup_(config_done) struct config config = {0};
    int r = config_read_dir(&config, dir, reterr);

    if (r == 0)
        r = open_dir(dir, &config, ret_tok, reterr);
    if (r < 0 && reterr)
        err_prefix(reterr, "%.120s", dir);
    return r;
}

/* Reads the configuration files beside a single file. */
static int read_siblings(const char *path, struct config *c, struct inf_err *reterr)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

    return dir ? config_read_dir(c, dir, reterr) : -ENOMEM;
}

static int open_gguf(const char *path, struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    int r = gguf_open(path, &g, reterr);

    if (r == 0)
        r = tokenizer_open_gguf(g, ret_tok, reterr);
    if (r < 0)
        return r;
    (*ret_tok)->gguf = STEAL(g);
    return 0;
}

static size_t skip_space(const char *s, size_t len)
{
    size_t i = 0;

    while (i < len && strchr(" \t\r\n", s[i]) && s[i])
        i++;
    return i;
}

int tokenizer_open_file(const char *path, struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    _cleanup_(config_done) struct config config = {0};
    _cleanup_free_ char *data = NULL;
    size_t len, start;
    int r;

    if (file_begins_with(path, "GGUF"))
        return open_gguf(path, ret_tok, reterr);
    r = file_read(path, MAX_SIZE, &data, &len, reterr);
    if (r == 0)
        r = read_siblings(path, &config, reterr);
    if (r < 0)
        return r;
    start = skip_space(data, len);
    if (start < len && data[start] == '{')
        r = tokenizer_load_json(data, len, &config, ret_tok, reterr);
    else if (len > 0 && data[0] == '\n' && strcmp(path + MAX(strlen(path), 4u) - 4, ".txt") != 0)
        /* A SentencePiece model starts with its first piece: field 1, a message. */
        r = tokenizer_load_spm(data, len, &config, ret_tok, reterr);
    else
        r = tokenizer_load_vocab(data, len, &config, ret_tok, reterr);
    if (r < 0 && reterr)
        err_prefix(reterr, "%.120s", path);
    return r;
}
