/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the files beside the shards of a new directory: config.json, the index of the shards, and
 * copies of the model's other small files, such as those of the tokenizer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/dir.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "quant/dtype.h"

/* The limit of a copied file in bytes. No file of a tokenizer is larger. */
#define COPY_MAX ((off_t)256 << 20)

/* ---- config.json ---- */

static const char *mode_name(enum inf_dtype dtype)
{
    return dtype == INF_DTYPE_FP4_PLANES     ? "mxfp4"
           : dtype == INF_DTYPE_NVFP4_PLANES ? "nvfp4"
           : dtype == INF_DTYPE_MXFP8        ? "mxfp8"
                                             : "affine";
}

static json_t *form_json(struct dir_form form)
{
    return json_pack("{s:I, s:I, s:s}", "group_size", (json_int_t)form.group, "bits",
                     (json_int_t)dtype_info(form.dtype)->planes->bits, "mode",
                     mode_name(form.dtype));
}

static bool form_is(struct dir_form a, struct dir_form b)
{
    return a.dtype == b.dtype && a.group == b.group;
}

/* Returns the form that most matrices have; group 0: no matrix is quantized. */
static struct dir_form most_form(const struct dir *d)
{
    struct dir_form most = {INF_DTYPE_INVALID, 0};
    size_t n_most = 0;

    for (size_t i = 0; i < d->n; i++) {
        size_t n = 0;

        for (size_t j = 0; d->entries[i].to.group > 0 && j < d->n; j++)
            n += form_is(d->entries[i].to, d->entries[j].to);
        if (n > n_most) {
            n_most = n;
            most = d->entries[i].to;
        }
    }
    return most;
}

/* Describes the matrices as mlx-lm does: the form that most matrices have, and a member for each
 * matrix that has another form. */
static json_t *mlx_settings(const struct dir *d)
{
    const struct dir_form most =
        d->type.form.group > 0 && !d->type.mixed ? d->type.form : most_form(d);
    json_t *settings = most.group > 0 ? form_json(most) : NULL;

    for (size_t i = 0; settings && i < d->n; i++) {
        const struct dir_entry *e = &d->entries[i];

        if (e->to.group > 0 && !form_is(e->to, most))
            json_object_set_new(settings, e->name, form_json(e->to));
        else if (e->to.group == 0 && e->w.data && e->w.rows > 1)
            json_object_set_new(settings, e->name, json_false());
    }
    return settings;
}

/* Describes the matrices as the programs of GPTQ and AWQ do. */
static json_t *words_settings(const struct dir *d)
{
    bool symmetric = true;
    const struct dir_entry *first = NULL;
    uint32_t group;

    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i].kept && !first)
            first = &d->entries[i];
    assert(first);
    group = dir_group(first);
    for (size_t i = 0; i < d->n && symmetric; i++)
        symmetric = !d->entries[i].kept ||
                    repack_has_zero(&d->entries[i].repack, 1u << (first->repack.bits - 1));
    if (d->type.layout == DIR_AWQ)
        return json_pack("{s:s, s:s, s:I, s:I, s:b}", "quant_method", "awq", "version", "gemm",
                         "bits", (json_int_t)first->repack.bits, "group_size",
                         group > 0 ? (json_int_t)group : -1, "zero_point", 1);
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:b}", "quant_method", "gptq", "checkpoint_format",
                     "gptq", "bits", (json_int_t)first->repack.bits, "group_size",
                     group > 0 ? (json_int_t)group : -1, "desc_act", 0, "sym", symmetric);
}

int dir_make_config(struct dir *d, struct inf_err *reterr)
{
    static const char *const old[] = {"quantization", "quantization_config", "compression_config",
                                      "_name_or_path"};
    json_t *text = json_object_get(d->config, "text_config"), *settings;

    for (size_t i = 0; i < ARRAY_SIZE(old); i++) {
        json_object_del(d->config, old[i]);
        json_object_del(text, old[i]);
    }
    settings = d->type.layout == DIR_MLX ? mlx_settings(d) : words_settings(d);
    if (settings && d->type.layout == DIR_MLX)
        json_object_set(d->config, "quantization", settings);
    if (settings)
        json_object_set_new(d->config, "quantization_config", settings);
    d->config_text = json_dumps(d->config, JSON_INDENT(4) | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    return d->config_text ? 0 : err_set(reterr, ENOMEM, "out of memory");
}

/* ---- files ---- */

static int write_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        const ssize_t k = write(fd, data, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -errno;
        data += k;
        n -= (size_t)k;
    }
    return 0;
}

static int write_text(const char *to, const char *name, const char *data, size_t n,
                      struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(to, name);
    _cleanup_close_ int fd = -1;
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    r = fd < 0 ? -errno : write_all(fd, data, n);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r == 0 ? 0 : err_set(reterr, -r, "writing %.200s: %s", path, strerror(-r));
}

/* Returns whether a file of the model is copied: all but weights, their index, config.json, hidden
 * files, and quantize_config.json, which describes the old quantization. */
static bool is_carried(const char *name)
{
    static const char *const ends[] = {".safetensors", ".safetensors.index.json",
                                       ".bin",         ".pt",
                                       ".pth",         ".gguf",
                                       ".part",        ".h5",
                                       ".onnx",        ".msgpack"};

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (text_ends_with(name, ends[i]))
            return false;
    return name[0] != '.' && strcmp(name, "config.json") != 0 &&
           strcmp(name, "quantize_config.json") != 0;
}

static int copy_file(const char *from, const char *to, const char *name, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(from, name), *data = NULL;
    struct stat st;
    size_t n = 0;
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!is_carried(name) || stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > COPY_MAX)
        return 0;
    r = file_read(path, (size_t)COPY_MAX, &data, &n, reterr);
    return r == 0 ? write_text(to, name, data, n, reterr) : r;
}

static int copy_files(const char *path, const char *to, struct inf_err *reterr)
{
    DIR *from = opendir(path);
    struct dirent *e;
    int r = 0;

    if (!from)
        return err_set(reterr, errno, "%.160s: %s", path, strerror(errno));
    while (r == 0 && (e = readdir(from)))
        r = copy_file(path, to, e->d_name, reterr);
    closedir(from);
    return r;
}

int dir_write_files(const struct dir *d, const char *to, struct inf_err *reterr)
{
    int r = d->tokenizer_text ? 0 : copy_files(d->params->path, to, reterr);

    if (r == 0 && d->tokenizer_text)
        r = write_text(to, "tokenizer.json", d->tokenizer_text, strlen(d->tokenizer_text), reterr);
    if (r == 0 && d->tokenizer_text)
        r = write_text(to, "tokenizer_config.json", d->tokenizer_config,
                       strlen(d->tokenizer_config), reterr);
    if (r == 0)
        r = write_text(to, "config.json", d->config_text, strlen(d->config_text), reterr);
    if (r == 0)
        r = write_text(to, "model.safetensors.index.json", d->index, strlen(d->index), reterr);
    return r;
}
