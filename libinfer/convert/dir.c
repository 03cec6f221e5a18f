/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a model to a directory: writes its shards one after the other, and continues where an
 * interrupted conversion ended.
 *
 * The file "conversion" in the unfinished directory has a digest of everything on which the new
 * files depend, and is locked. If the digest is another one, the shards in the directory that have
 * the names of this conversion's shards are removed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/dir.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "quant/dtype.h"

static const char mark_name[] = "conversion";

struct dir_run {
    struct dir d;
    char *to; /* OUT.part */
    int mark; /* the file "conversion" */
    uint8_t digest[SHA256_BYTES];
    struct workers *workers;
    struct encoder *encoder;
    struct inf_convert_result result;
};

static void run_done(struct dir_run *x)
{
    struct dir *d = &x->d;

    for (size_t i = 0; i < d->n_shards; i++)
        free(d->shards[i].header);
    free(d->shards);
    free(d->entries);
    free(d->index);
    free(d->config_text);
    free(d->tokenizer_text);
    free(d->tokenizer_config);
    json_decref(d->config);
    model_close(d->model);
    format_close(d->format);
    arena_done(&d->arena);
    encoder_free(x->encoder);
    workers_free(x->workers);
    if (x->mark >= 0)
        close(x->mark);
    free(x->to);
}

/* ---- the unfinished directory ---- */

static void run_digest(struct dir_run *x)
{
    const struct dir *d = &x->d;
    const struct file_map *f;
    struct sha256 h;

    sha256_init(&h);
    sha256_add_part(&h, inf_version(), strlen(inf_version()));
    sha256_add_part(&h, d->config_text, strlen(d->config_text));
    for (size_t i = 0; i < d->n_shards; i++)
        sha256_add_part(&h, d->shards[i].header, d->shards[i].header_size);
    for (size_t i = 0; (f = format_file(d->format, i)); i++) {
        sha256_add_part(&h, &f->id.dev, sizeof(f->id.dev));
        sha256_add_part(&h, &f->id.ino, sizeof(f->id.ino));
        sha256_add_part(&h, &f->id.size, sizeof(f->id.size));
        sha256_add_part(&h, &f->id.mtime_ns, sizeof(f->id.mtime_ns));
    }
    sha256_end(&h, x->digest);
}

static int run_errno(const struct dir_run *x, const char *what, struct inf_err *reterr)
{
    const int code = errno;

    return err_set(reterr, code, "%s %.200s: %s", what, x->to, strerror(code));
}

/* Removes the finished and unfinished shards of another conversion from the unfinished directory.
 */
static void remove_shards(const struct dir_run *x)
{
    DIR *dir = opendir(x->to);
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (text_starts_with(e->d_name, "model") &&
            (text_ends_with(e->d_name, ".safetensors") ||
             text_ends_with(e->d_name, ".safetensors.part")))
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
}

/* Locks the unfinished directory, and compares its digest with that of this conversion. */
static int run_claim(struct dir_run *x, bool created, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(x->to, mark_name);
    uint8_t there[SHA256_BYTES];

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    x->mark = open(path, O_RDWR | (created ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (x->mark < 0 && errno == ENOENT)
        return err_set(reterr, EEXIST, "%.200s exists, and no conversion wrote it", x->to);
    if (x->mark < 0)
        return run_errno(x, "opening", reterr);
    if (flock(x->mark, LOCK_EX | LOCK_NB) < 0)
        return err_set(reterr, EBUSY, "another process writes %.200s", x->to);
    if (pread(x->mark, there, sizeof(there), 0) == (ssize_t)sizeof(there) &&
        memcmp(there, x->digest, sizeof(there)) == 0)
        return 0;
    remove_shards(x);
    if (pwrite(x->mark, x->digest, sizeof(x->digest), 0) != (ssize_t)sizeof(x->digest))
        return run_errno(x, "writing", reterr);
    return 0;
}

static int run_begin(struct dir_run *x, struct inf_err *reterr)
{
    const struct inf_convert_params *p = x->d.params;
    bool created;
    int r;

    if (path_exists(p->out))
        return err_set(reterr, ENOTEMPTY, "%.200s exists; a directory is not replaced", p->out);
    if (asprintf(&x->to, "%s.part", p->out) < 0) {
        x->to = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    created = mkdir(x->to, 0777) == 0;
    if (!created && errno != EEXIST)
        return run_errno(x, "making", reterr);
    run_digest(x);
    r = run_claim(x, created, reterr);
    if (r < 0)
        return r;
    r = workers_new(p->n_threads > 0 ? p->n_threads : cpu_count(), &x->workers);
    if (r < 0)
        return err_set(reterr, -r, "no threads: %s", strerror(-r));
    return encoder_new(x->workers, &x->encoder, reterr);
}

/* Writes the files other than shards, and gives the directory its final name. */
static int run_finish(struct dir_run *x, struct inf_err *reterr)
{
    _cleanup_free_ char *mark = path_join(x->to, mark_name);
    int r = dir_write_files(&x->d, x->to, reterr);

    if (r < 0)
        return r;
    if (!mark)
        return err_set(reterr, ENOMEM, "out of memory");
    unlink(mark);
    if (renameat2(AT_FDCWD, x->to, AT_FDCWD, x->d.params->out, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EINVAL && !path_exists(x->d.params->out) && rename(x->to, x->d.params->out) == 0)
        return 0;
    return run_errno(x, "renaming", reterr);
}

/* ---- tensors ---- */

static const char *type_name(const struct dir *d, const struct dir_entry *e)
{
    if (e->to.group > 0)
        return dtype_info(e->to.dtype)->label;
    if (e->kept)
        return d->type.layout == DIR_AWQ ? "AWQ" : "GPTQ";
    return e->raw ? e->raw->type_name : dtype_info(e->floats)->label;
}

static bool is_copied(const struct dir_entry *e)
{
    return e->kept || (e->to.group == 0 && e->raw && !e->add_one);
}

static uint64_t bytes_from(const struct dir_entry *e)
{
    return e->raw ? e->raw->size : weight_bytes(&e->w);
}

static uint64_t bytes_to(const struct dir_entry *e)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < e->n_parts; i++)
        n += e->parts[i].size;
    return n;
}

/* Tells the caller about entry @i. */
static int run_report(struct dir_run *x, size_t i, bool resumed, double error,
                      struct inf_err *reterr)
{
    const struct inf_convert_params *p = x->d.params;
    const struct dir_entry *e = &x->d.entries[i];
    struct inf_convert_tensor told = {
        .name = e->name,
        .from = e->raw ? e->raw->type_name : dtype_info(e->w.dtype)->label,
        .to = type_name(&x->d, e),
        .bytes_from = bytes_from(e),
        .bytes_to = bytes_to(e),
        .i = i,
        .n = x->d.n,
        .copied = is_copied(e),
        .resumed = resumed,
        .error = error,
    };

    if (e->raw) {
        told.n_dims = e->raw->n_dims;
        memcpy(told.dims, e->raw->dims, sizeof(told.dims));
    } else {
        told.n_dims = e->w.n_experts > 0 ? 3 : e->vector ? 1 : 2;
        told.dims[0] = e->w.cols;
        told.dims[1] = e->w.rows;
        told.dims[2] = MAX(e->w.n_experts, 1u);
    }
    x->result.bytes_from += told.bytes_from;
    x->result.bytes_to += told.bytes_to;
    x->result.n_elems +=
        told.dims[0] * MAX(told.dims[1], 1u) * MAX(told.dims[2], 1u) * MAX(told.dims[3], 1u);
    x->result.n_requantized +=
        (e->quantized && !e->kept) ||
        (e->to.group > 0 && !e->kept && dtype_info(e->w.dtype)->block_elems > 1);
    x->result.n_fallback += e->to.group == 0 && e->w.data && !e->small && !e->kept &&
                            x->d.type.form.group > 0 && e->w.rows > 1;
    if (p->tensor && !p->tensor(p->tensor_data, &told))
        return err_set(reterr, ECANCELED, "the conversion was interrupted");
    if (p->progress)
        p->progress(p->progress_data,
                    (double)x->result.bytes_to / (double)MAX(x->d.total_size, 1u));
    return 0;
}

static int run_shard_open(struct dir_run *x, const struct dir_shard *s, const char *path,
                          struct part **ret, uint64_t *ret_n_done, struct inf_err *reterr)
{
    struct part_params params = {
        .target = path, .header = s->header, .header_size = s->header_size, .total = s->total};

    memcpy(params.digest, x->digest, sizeof(params.digest));
    return part_open(&params, ret, ret_n_done, reterr);
}

/* Writes those entries of a shard that the file does not have yet. */
static int run_shard(struct dir_run *x, const struct dir_shard *s, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(x->to, s->name);
    _cleanup_(part_closep) struct part *part = NULL;
    uint64_t n_done = s->n;
    int r = path ? 0 : err_set(reterr, ENOMEM, "out of memory");

    if (r == 0 && !path_exists(path))
        r = run_shard_open(x, s, path, &part, &n_done, reterr);
    for (size_t i = 0; r == 0 && i < s->n; i++) {
        double error = 0;

        if (i >= n_done)
            r = dir_write_entry(&x->d, &x->d.entries[s->first + i], x->encoder, part, &error,
                                reterr);
        if (r == 0 && i >= n_done)
            r = part_done(part, i + 1, reterr);
        if (r == 0)
            r = run_report(x, s->first + i, i < n_done, error, reterr);
    }
    return r == 0 && part ? part_finish(part, reterr) : r;
}

static int run_all(struct dir_run *x, struct inf_err *reterr)
{
    const struct file_map *f;
    int r = 0;

    for (size_t i = 0; x->d.params->dry_run && r == 0 && i < x->d.n; i++)
        r = run_report(x, i, false, 0, reterr);
    if (r < 0 || x->d.params->dry_run)
        return r;
    r = run_begin(x, reterr);
    for (size_t i = 0; r == 0 && i < x->d.n_shards; i++)
        r = run_shard(x, &x->d.shards[i], reterr);
    for (size_t i = 0; r == 0 && (f = format_file(x->d.format, i)); i++)
        r = file_map_check(f, reterr);
    return r == 0 ? run_finish(x, reterr) : r;
}

int dir_convert(const struct inf_convert_params *params, struct inf_convert_result *ret_result,
                struct inf_err *reterr)
{
    struct dir_run x = {.d.params = params, .mark = -1};
    int r = 0;

    if (!params->path || (!params->out && !params->dry_run))
        r = err_set(reterr, EINVAL, "no path was given");
    else if (params->imatrix || params->output_type || params->embedding_type || params->pure)
        r = err_set(reterr, EINVAL,
                    "an importance matrix, and types of head and embedding, are only for GGUF "
                    "files; --tensor-type gives tensors other formats");
    else if (!dir_type_find(params->type, &x.d.type))
        r = err_set(reterr, EINVAL, "there is no type \"%.32s\"", params->type);
    if (r == 0)
        r = dir_list(&x.d, reterr);
    if (r == 0)
        r = dir_choose(&x.d, reterr);
    if (r == 0)
        r = dir_plan(&x.d, reterr);
    if (r == 0)
        r = dir_make_config(&x.d, reterr);
    if (r == 0)
        r = run_all(&x, reterr);
    if (r == 0) {
        x.result.n_tensors = x.d.n;
        x.result.file_bytes = x.d.total_size;
        *ret_result = x.result;
    }
    run_done(&x);
    return r;
}
