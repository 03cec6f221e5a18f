/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the output files of `sconce embed` (see store.h).
 */
#include "cli/embed/store.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/embed/lines.h"
#include "common/wire/json.h"
#include "common/wire/vectors.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

enum {
    NPY_HEAD = 128, /* size of the header in bytes, for any number of rows */
    PART_MAX = 4096,
};

static const char npy_magic[] = "\x93NUMPY\x01\x00";

/* Writes the header with the current number of rows; keeps the file position. */
static int write_head(struct embed_store *store)
{
    char text[NPY_HEAD + 1];
    const int at = 10;
    int n;

    memset(text, ' ', sizeof(text));
    memcpy(text, npy_magic, 8);
    text[8] = NPY_HEAD - at;
    text[9] = 0;
    n = snprintf(text + at, sizeof(text) - at,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, %u), }",
                 (unsigned long long)store->n_rows, store->width);
    text[at + n] = ' ';
    text[NPY_HEAD - 1] = '\n';
    if (fseeko(store->file, 0, SEEK_SET) < 0 || fwrite(text, 1, NPY_HEAD, store->file) != NPY_HEAD)
        return -EIO;
    return fseeko(store->file, 0, SEEK_END) < 0 ? -EIO : 0;
}

/* Computes the number of rows of an incomplete array from the size of its file, since the header
 * was written before the rows. Removes an incomplete last row. */
static int continue_npy(struct embed_store *store, uint64_t size)
{
    char head[NPY_HEAD + 1] = {0};
    unsigned long long rows;
    uint64_t end;
    const char *shape;

    if (size < NPY_HEAD)
        return ftruncate(fileno(store->file), 0) < 0 ? -errno : 0;
    if (fread(head, 1, NPY_HEAD, store->file) != NPY_HEAD || memcmp(head, npy_magic, 8) != 0)
        return -EBADMSG;
    shape = strstr(head + 10, "'shape': (");
    if (!shape || sscanf(shape, "'shape': (%llu, %u)", &rows, &store->width) != 2 || !store->width)
        return -EBADMSG;
    store->n_rows = (size - NPY_HEAD) / (store->width * sizeof(float));
    end = NPY_HEAD + store->n_rows * store->width * sizeof(float);
    if (ftruncate(fileno(store->file), (off_t)end) < 0 || fseeko(store->file, 0, SEEK_END) < 0)
        return -errno;
    return 0;
}

/* Counts the complete lines of an incomplete output, and removes an incomplete last line. */
static int continue_json(struct embed_store *store)
{
    off_t whole = 0, at = 0;
    int c;

    while ((c = getc(store->file)) != EOF) {
        at++;
        if (c != '\n')
            continue;
        whole = at;
        store->n_rows++;
    }
    if (ferror(store->file))
        return -EIO;
    if (ftruncate(fileno(store->file), whole) < 0 || fseeko(store->file, whole, SEEK_SET) < 0)
        return -errno;
    return 0;
}

/* Checks that OUTPUT.part has the description @work. -EEXIST: it has another description, or it
 * does not exist, which means that the output is complete. */
static int check_part(const struct embed_store *store, const char *path, const char *work,
                      struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    size_t len;

    if (!path_exists(store->part))
        return err_set(reterr, EEXIST, "%s exists and is complete; --anew replaces it", path);
    if (file_read(store->part, PART_MAX, &text, &len, reterr) < 0)
        return -EIO;
    text[strcspn(text, "\n")] = 0;
    if (strcmp(text, work) != 0)
        return err_set(
            reterr, EEXIST,
            "%s was started with other input or options; --anew starts it again. They were: %s",
            path, text);
    return 0;
}

static int write_part(const struct embed_store *store, const char *work, struct inf_err *reterr)
{
    FILE *f = fopen(store->part, "we");
    bool bad = !f || fprintf(f, "%s\n", work) < 0;

    if (f && fclose(f) != 0)
        bad = true;
    return bad ? err_set(reterr, EIO, "%s: %s", store->part, strerror(errno)) : 0;
}

static int continue_file(struct embed_store *store, const char *path, const char *work,
                         struct inf_err *reterr)
{
    struct stat st;
    int r = check_part(store, path, work, reterr);

    if (r < 0)
        return r;
    store->file = fopen(path, "r+e");
    if (!store->file || fstat(fileno(store->file), &st) < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    r = store->npy ? continue_npy(store, (uint64_t)st.st_size) : continue_json(store);
    return r < 0 ? err_set(reterr, -r, "%s cannot be continued: %s", path, strerror(-r)) : 0;
}

int embed_store_open(struct embed_store *store, const char *path, const char *work, bool anew,
                     struct inf_err *reterr)
{
    const size_t n = path ? strlen(path) : 0;
    int r;

    *store = (struct embed_store){0};
    if (!path) {
        store->file = stdout;
        return 0;
    }
    store->npy = n > 4 && text_ends_with(path, ".npy");
    if (asprintf(&store->part, "%s.part", path) < 0) {
        store->part = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    if (path_exists(path) && !anew)
        return continue_file(store, path, work, reterr);
    r = write_part(store, work, reterr);
    if (r < 0)
        return r;
    store->file = fopen(path, "w+e");
    return store->file ? 0 : err_set(reterr, errno, "%s: %s", path, strerror(errno));
}

int embed_found_put(struct str *out, const struct embed_found *found)
{
    int r = found->of_tokens ? str_putc(out, '[') : 0;

    for (size_t i = 0; i < found->n && r == 0; i++) {
        r = i ? str_putc(out, ',') : 0;
        r = r < 0 ? r : vectors_put_array(out, found->vectors + i * found->width, found->width);
    }
    return r < 0 || !found->of_tokens ? r : str_putc(out, ']');
}

static int put_json(struct embed_store *store, const struct embed_line *line,
                    const struct embed_found *found)
{
    const char *name = !found->vectors ? "error" : found->of_tokens ? "embeddings" : "embedding";
    _cleanup_str_ struct str out = {0};
    int r = str_printf(&out, "{\"line\":%llu", (unsigned long long)line->number);

    if (line->id && r == 0)
        r = str_printf(&out, ",\"id\":%s", line->id);
    r = r < 0 ? r : str_printf(&out, ",\"%s\":", name);
    if (r == 0)
        r = found->vectors ? embed_found_put(&out, found) : json_put_text(&out, line->error);
    r = r < 0 ? r : str_puts(&out, "}\n");
    if (r < 0)
        return r;
    return fwrite(out.data, 1, out.len, store->file) == out.len ? 0 : -EIO;
}

static int put_nan(struct embed_store *store)
{
    const float nothing = NAN;

    for (uint32_t i = 0; i < store->width; i++)
        if (fwrite(&nothing, sizeof(nothing), 1, store->file) != 1)
            return -EIO;
    return 0;
}

static int put_npy(struct embed_store *store, const float *vector, uint32_t width)
{
    int r = 0;

    if (vector && !store->width) {
        store->width = width;
        r = write_head(store);
        for (; store->n_unsized > 0 && r == 0; store->n_unsized--)
            r = put_nan(store);
    }
    if (!vector && !store->width) {
        store->n_unsized++;
        return 0;
    }
    if (vector && width != store->width)
        return -EMSGSIZE;
    if (r == 0 && !vector)
        r = put_nan(store);
    else if (r == 0 && fwrite(vector, sizeof(float), width, store->file) != width)
        r = -EIO;
    return r;
}

int embed_store_put(struct embed_store *store, const struct embed_line *line,
                    const struct embed_found *found)
{
    int r;

    assert(!store->npy || !found->of_tokens);
    r = store->npy ? put_npy(store, found->vectors, found->width) : put_json(store, line, found);
    store->n_rows += r == 0;
    return r;
}

int embed_store_finish(struct embed_store *store)
{
    int r = 0;

    if (store->npy)
        r = write_head(store);
    if (fflush(store->file) != 0)
        return -EIO;
    if (r == 0 && store->part && unlink(store->part) < 0)
        r = -errno;
    return r;
}

void embed_store_done(struct embed_store *store)
{
    if (store->file && store->file != stdout)
        fclose(store->file);
    free(store->part);
    *store = (struct embed_store){0};
}
