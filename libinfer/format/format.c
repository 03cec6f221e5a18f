/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a model of any format, and gives access to its contents.
 */
#include "format/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "format/impl.h"

bool format_is_pickle(const char *path)
{
    static const char *const ends[] = {".bin", ".pth", ".pt", ".ckpt", ".pkl"};

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (text_ends_with(path, ends[i]))
            return true;
    return false;
}

int format_refuse_pickle(const char *name, struct inf_err *reterr)
{
    return err_set(reterr, EOPNOTSUPP,
                   "%.160s: pickled weights of PyTorch are not supported, because reading them can "
                   "run code; use the model's *.safetensors files or a GGUF file",
                   name);
}

int format_open(const char *path, unsigned flags, const struct arch_list *archs,
                struct format **ret_format, struct inf_err *reterr)
{
    _cleanup_(format_closep) struct format *f = NULL;
    int r;

    f = NEW(struct format, 1);
    if (!f)
        return err_set(reterr, ENOMEM, "out of memory");
    f->archs = archs;
    if (path_is_dir(path)) {
        f->kind = "safetensors";
        r = format_read_dir(f, path, flags, reterr);
    } else if (text_ends_with(path, ".safetensors") && path_exists(path)) {
        r = err_set(reterr, EINVAL,
                    "%.160s: open its directory instead, which has config.json as well", path);
    } else if (ggml_bin_probe(path)) {
        f->kind = "ggml";
        r = format_read_bin(f, path, reterr);
    } else if (format_is_pickle(path) && path_exists(path)) {
        r = format_refuse_pickle(path, reterr);
    } else {
        f->kind = "gguf";
        r = format_read_gguf(f, path, flags, reterr);
    }
    if (r < 0)
        return r;
    *ret_format = STEAL(f);
    return 0;
}

struct format *format_close(struct format *f)
{
    if (!f)
        return NULL;
    map_done(&f->map);
    free(f->tensors);
    gguf_close(f->gguf);
    ggml_bin_close(f->bin);
    for (size_t i = 0; i < f->n_shards; i++)
        safetensors_close(f->shards[i]);
    free(f->shards);
    free(f->dir);
    arena_done(&f->arena);
    free(f);
    return NULL;
}

int format_reserve(struct format *f, size_t n, struct inf_err *reterr)
{
    f->tensors = NEW(const struct format_tensor *, n);
    if (!f->tensors || map_reserve(&f->map, n) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return 0;
}

int format_add(struct format *f, const struct format_tensor *t, struct inf_err *reterr)
{
    int r;

    r = map_put(&f->map, t->name, strlen(t->name), f->n_tensors);
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (r == MAP_EXISTS)
        return err_set(reterr, EBADMSG, "tensor %.64s occurs twice", t->file_name);
    f->tensors[f->n_tensors++] = t;
    return 0;
}

const char *format_kind(const struct format *f)
{
    return f->kind;
}

const struct hparams *format_hparams(const struct format *f)
{
    return &f->hp;
}

const struct arch_desc *format_arch(const struct format *f)
{
    return f->desc;
}

size_t format_n_tensors(const struct format *f)
{
    return f->n_tensors;
}

const struct format_tensor *format_tensor_at(const struct format *f, size_t i)
{
    assert(i < f->n_tensors);
    return f->tensors[i];
}

const struct file_map *format_file(const struct format *f, size_t i)
{
    if (f->gguf)
        return gguf_file(f->gguf, i);
    if (f->bin)
        return i == 0 ? ggml_bin_file(f->bin) : NULL;
    return i < f->n_shards ? safetensors_file(f->shards[i]) : NULL;
}

const struct format_tensor *format_find(const struct format *f, const char *name)
{
    size_t i;

    return format_find_index(f, name, &i) ? f->tensors[i] : NULL;
}

bool format_find_index(const struct format *f, const char *name, size_t *ret_i)
{
    uint64_t i;

    if (!map_find(&f->map, name, strlen(name), &i))
        return false;
    *ret_i = i;
    return true;
}

bool format_expert_name(const char *name, uint32_t i_expert, char *out, size_t size)
{
    const char *end = strstr(name, "_exps.");

    return end && (size_t)snprintf(out, size, "%.*s.%u.%s", (int)(end - name), name, i_expert,
                                   end + strlen("_exps.")) < size;
}

const struct gguf *format_gguf(const struct format *f)
{
    return f->gguf;
}

const struct ggml_bin *format_bin(const struct format *f)
{
    return f->bin;
}

const struct whisper_config *format_whisper(const struct format *f)
{
    return f->whisper;
}

const char *format_dir(const struct format *f)
{
    return f->dir;
}

const char *format_chat_template(const struct format *f, size_t *ret_len)
{
    if (ret_len)
        *ret_len = f->chat_template_len;
    return f->chat_template;
}

bool format_meta(const struct format *f, size_t i, const char **ret_key, const char **ret_value)
{
    if (i >= f->n_meta)
        return false;
    *ret_key = f->meta[i].key;
    *ret_value = f->meta[i].value;
    return true;
}
