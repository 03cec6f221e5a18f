/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the bytes before the first NUL as modules.json, and the bytes after it as the config.json
 * of each folder and as the files of adapters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "format/impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const folders[] = {"1_Pooling", "2_Dense", "adapters"};
/* The first file is the text before the NUL, all others the text after it. */
static const char *const files[] = {"modules.json", "sentence_bert_config.json",
                                    "1_Pooling/config.json", "2_Dense/config.json",
                                    "adapters/adapter_config.json"};
static char dir[] = "/tmp/fuzz-hf-modules-XXXXXX";

static void leave(void)
{
    char path[96];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        unlink(path);
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, folders[i]);
        rmdir(path);
    }
    rmdir(dir);
}

static void make_folders(void)
{
    static bool made;
    char sub[64];

    if (made)
        return;
    if (!mkdtemp(dir) || atexit(leave) != 0)
        abort();
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(sub, sizeof(sub), "%s/%s", dir, folders[i]);
        if (mkdir(sub, 0700) < 0)
            abort();
    }
    made = true;
}

static void put(const char *name, const uint8_t *data, size_t size)
{
    char *path = path_join(dir, name);
    FILE *f = path ? fopen(path, "w") : NULL;

    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t n = end ? (size_t)(end - data) : size;
    struct format f = {.hp = {.n_ctx_train = 512}};
    struct inf_err err;

    make_folders();
    put(files[0], data, n);
    for (size_t i = 1; i < sizeof(files) / sizeof(files[0]); i++)
        put(files[i], end ? end + 1 : data, end ? size - n - 1 : 0);
    f.dir = dir;
    if (format_read_modules(&f, &err) == 0 && f.hp.embed.n_dense > HPARAMS_MAX_DENSE)
        abort();
    f.hp.embed.n_tasks = 1;
    if (format_read_adapters(&f, &err) == 0 &&
        (f.hp.embed.lora_rank == 0 || f.hp.embed.lora_rank > 4096))
        abort();
    return 0;
}
