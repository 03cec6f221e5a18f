/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the metadata of a repository of Hugging Face's hub, and chooses files (see pull.h).
 *
 * A repository has GGUF files of several quantizations, each in one file or in parts, or
 * safetensors with the files of a tokenizer.
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/pull/pull.h"
#include "common/models/safe-path.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"
#include "core/text.h"

/* Quantizations, from the best to the smallest. Formats larger than Q8_0 take more memory, but
 * their answers are not better. */
static const char *const quants[] = {"Q8_0",   "Q6_K",   "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S",
                                     "IQ4_NL", "IQ4_XS", "Q4_0",   "Q3_K_M", "IQ3_M",  "Q3_K_S",
                                     "IQ2_M",  "Q2_K",   "MXFP4",  "BF16",   "F16",    "F32"};

/* Struct hub has the metadata of a repository while files are chosen. */
struct hub {
    const json_t *files; /* array of objects */
    const char *url, *revision;
    const struct pull_source *source;
    struct pull_plan *plan;
};

static const char *file_name(const struct hub *h, size_t i)
{
    const char *name = json_string_value(json_object_get(json_array_get(h->files, i), "rfilename"));

    return name ? name : "";
}

static uint64_t file_size(const struct hub *h, size_t i)
{
    const json_t *file = json_array_get(h->files, i);
    const json_t *lfs = json_object_get(file, "lfs");
    const json_t *size = json_object_get(lfs ? lfs : file, "size");

    return json_is_integer(size) && json_integer_value(size) >= 0
               ? (uint64_t)json_integer_value(size)
               : UINT64_MAX;
}

static bool is_gguf(const char *name)
{
    return text_ends_with_nocase(name, ".gguf") && strncasecmp(path_base(name), "mmproj", 6) != 0;
}

/* Returns the length of the stem of a GGUF file: its name without .gguf and without the number of
 * its part. */
static size_t stem_length(const char *name)
{
    const size_t len = strlen(name) - strlen(".gguf");
    unsigned part, of;
    int used = 0;

    if (len > 15 && sscanf(name + len - 15, "-%5u-of-%5u%n", &part, &of, &used) == 2 && used == 15)
        return len - 15;
    return len;
}

/* Returns whether the name of a GGUF file has the quantization @quant as a whole word. */
static bool has_quant(const char *name, const char *quant)
{
    const char *base = path_base(name);
    const size_t n = strlen(quant), len = stem_length(base);

    for (size_t i = 0; i + n <= len; i++)
        if (strncasecmp(base + i, quant, n) == 0 && (i == 0 || strchr("-._", base[i - 1])) &&
            (i + n == len || strchr("-.", base[i + n])))
            return true;
    return false;
}

static int put_escaped(struct str *out, const char *text)
{
    int r = 0;

    for (; *text && r == 0; text++) {
        const unsigned char c = (unsigned char)*text;

        r = isalnum(c) || strchr("-._~/", c) ? str_putc(out, (char)c)
                                             : str_printf(out, "%%%02X", c);
    }
    return r;
}

/* Adds the file @i of the repository under the name @name. */
static int add_file(const struct hub *h, size_t i, const char *name, struct inf_err *reterr)
{
    const json_t *file = json_array_get(h->files, i);
    const json_t *lfs = json_object_get(file, "lfs");
    const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
    const char *sha1 = json_string_value(json_object_get(file, "blobId"));
    _cleanup_str_ struct str url = {0};
    struct pull_file add = {.name = name, .size = file_size(h, i)};
    int r = str_printf(&url, "%s/%s/resolve/%s/", h->url, h->source->repo, h->revision);

    if (r < 0 || put_escaped(&url, file_name(h, i)) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if ((sha256 && !sha256_is_text(sha256)) || (lfs && !sha256))
        return err_set(reterr, EBADMSG, "the hub gives no SHA-256 for %.200s", file_name(h, i));
    if (!lfs && (!sha1 || strspn(sha1, "0123456789abcdef") != 40 || sha1[40]))
        return err_set(reterr, EBADMSG, "the hub gives no digest for %.200s", file_name(h, i));
    if (add.size == UINT64_MAX)
        return err_set(reterr, EBADMSG, "the hub gives no size for %.200s", file_name(h, i));
    add.url = url.data;
    add.sha256 = sha256;
    add.sha1 = lfs ? NULL : sha1;
    return pull_plan_add(h->plan, &add, reterr);
}

/* Adds all parts of the GGUF model to which the file @first belongs. */
static int add_gguf(const struct hub *h, size_t first, struct inf_err *reterr)
{
    const char *name = file_name(h, first), *base = path_base(name);
    const size_t stem = stem_length(name), base_stem = stem_length(base);
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(h->files); i++) {
        const char *other = file_name(h, i);

        if (is_gguf(other) && stem_length(other) == stem && strncmp(other, name, stem) == 0)
            r = add_file(h, i, path_base(other), reterr);
    }
    h->plan->is_gguf = true;
    if (!h->plan->name[0])
        snprintf(h->plan->name, sizeof(h->plan->name), "%.*s", (int)base_stem, base);
    return r;
}

/* Returns the total size of all parts of the GGUF model to which the file @first belongs. */
static uint64_t gguf_bytes(const struct hub *h, size_t first)
{
    const char *name = file_name(h, first);
    const size_t stem = stem_length(name);
    uint64_t bytes = 0;

    for (size_t i = 0; i < json_array_size(h->files); i++) {
        const char *other = file_name(h, i);

        if (is_gguf(other) && stem_length(other) == stem && strncmp(other, name, stem) == 0 &&
            !size_add(bytes, file_size(h, i), &bytes))
            return UINT64_MAX;
    }
    return bytes;
}

/* Returns the index of the first GGUF file with @quant; the number of files: there is none. */
static size_t find_quant(const struct hub *h, const char *quant)
{
    size_t i = 0;

    while (i < json_array_size(h->files) &&
           !(is_gguf(file_name(h, i)) && has_quant(file_name(h, i), quant)))
        i++;
    return i;
}

/* Chooses a file by its name or its quantization. */
static int choose_named(const struct hub *h, struct inf_err *reterr)
{
    const size_t n = json_array_size(h->files);
    const char *what = h->source->selector;
    char list[300] = "";
    size_t i = 0;

    while (i < n && strcmp(file_name(h, i), what) != 0)
        i++;
    if (i == n)
        i = find_quant(h, what);
    if (i < n && is_gguf(file_name(h, i)))
        return add_gguf(h, i, reterr);
    for (i = 0; i < n; i++)
        if (is_gguf(file_name(h, i)))
            text_list_add(list, sizeof(list), file_name(h, i));
    return err_set(reterr, ENOENT, "%s has no GGUF file \"%s\"; it has %s", h->source->repo, what,
                   list[0] ? list : "none");
}

/* Chooses the best quantization that leaves room for conversations. */
static int choose_quant(const struct hub *h, uint64_t memory, struct inf_err *reterr)
{
    const size_t n = json_array_size(h->files);
    size_t any = n, smallest = n;

    for (size_t i = 0; i < n; i++)
        if (is_gguf(file_name(h, i)) && any == n)
            any = i;
    for (size_t q = 0; q < sizeof(quants) / sizeof(quants[0]); q++) {
        const size_t i = find_quant(h, quants[q]);

        if (i == n)
            continue;
        if (gguf_bytes(h, i) <= memory / 10 * 6) {
            snprintf(h->plan->why, sizeof(h->plan->why),
                     "%s is the best quantization of the repository that takes at most 60 %% of "
                     "this machine's memory",
                     quants[q]);
            return add_gguf(h, i, reterr);
        }
        if (smallest == n || gguf_bytes(h, i) < gguf_bytes(h, smallest))
            smallest = i;
    }
    if (smallest < n)
        return err_set(
            reterr, ENOSPC,
            "no quantization of the repository leaves room for conversations in this machine's "
            "memory; the smallest is %.200s: name it after a colon to fetch it anyway",
            file_name(h, smallest));
    return any < n ? add_gguf(h, any, reterr) : err_set(reterr, ENOENT, "there is no GGUF file");
}

/* Returns whether a file belongs to a model in safetensors. */
static bool is_part(const char *name)
{
    static const char *const patterns[] = {"*.safetensors", "*.json",           "*.jinja",
                                           "*.model",       "merges.txt",       "*vocab.txt",
                                           "?_*/*.json",    "?_*/*.safetensors"};

    if (fnmatch("consolidated*", name, 0) == 0 || fnmatch("adapter_*", name, 0) == 0)
        return false;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (fnmatch(patterns[i], name, FNM_PATHNAME | FNM_PERIOD) == 0)
            return true;
    return false;
}

static int choose_directory(const struct hub *h, struct inf_err *reterr)
{
    bool has_config = false, has_weights = false;
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(h->files); i++) {
        const char *name = file_name(h, i);

        if (!is_part(name))
            continue;
        has_config |= strcmp(name, "config.json") == 0;
        has_weights |= text_ends_with(name, ".safetensors");
        r = add_file(h, i, name, reterr);
    }
    if (r == 0 && (!has_config || !has_weights))
        return err_set(reterr, ENOENT, "%s has neither GGUF files nor config.json with safetensors",
                       h->source->repo);
    if (!h->plan->name[0])
        snprintf(h->plan->name, sizeof(h->plan->name), "%s", h->source->repo);
    return r;
}

static int hub_choose(const struct hub *h, uint64_t memory, struct inf_err *reterr)
{
    if (h->source->selector[0])
        return choose_named(h, reterr);
    for (size_t i = 0; i < json_array_size(h->files); i++)
        if (is_gguf(file_name(h, i)))
            return choose_quant(h, memory, reterr);
    return choose_directory(h, reterr);
}

static const char *plan_copy(struct pull_plan *plan, const char *text)
{
    return text ? arena_strndup(&plan->arena, text, strlen(text)) : NULL;
}

int hub_read(const char *text, size_t len, const char *hub, const struct pull_source *source,
             uint64_t memory, struct pull_plan *plan, struct inf_err *reterr)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *files = json_object_get(root, "siblings");
    const char *revision = json_string_value(json_object_get(root, "sha"));
    const struct hub h = {files, hub, revision, source, plan};
    int r;

    if (!json_is_array(files) || !revision || !path_is_safe(revision) || strchr(revision, '/')) {
        json_decref(root);
        return err_set(reterr, EBADMSG, "the hub's answer about %s cannot be read", source->repo);
    }
    r = hub_choose(&h, memory, reterr);
    plan->revision = plan_copy(plan, revision);
    plan->licence = plan_copy(
        plan, json_string_value(json_object_get(json_object_get(root, "cardData"), "license")));
    if (plan->is_gguf)
        snprintf(plan->alias, sizeof(plan->alias), "%.150s%s%.140s", source->repo,
                 source->selector[0] ? ":" : "", source->selector);
    json_decref(root);
    return r;
}
