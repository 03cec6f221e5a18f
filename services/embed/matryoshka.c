/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes Matryoshka models by their names, their architectures and their config.json. */
#include "embed/matryoshka.h"

#include <string.h>

#include "common/wire/json.h"
#include "core/file.h"
#include "core/macros.h"

enum {
    MATRYOSHKA_MAX_FILE = 4 << 20,
    MATRYOSHKA_MAX_NAME = 256,
};

/* Parts of the names of Matryoshka models, in the form that keep_letters() gives to a name. */
static const char *const families[] = {
    "qwen3embedding",           "embeddinggemma",           "nomicembedtextv15",
    "nomicembedtextv2",         "modernbertembed",          "jinaembeddingsv3",
    "jinaembeddingsv4",         "jinaembeddingsv5",         "snowflakearcticembedmv15",
    "snowflakearcticembedmv20", "snowflakearcticembedlv20", "mxbaiembedlargev1",
};

/* All models of these architectures are Matryoshka models. */
static const char *const archs[] = {"gemma-embedding", "jina-embeddings-v4"};

/* Copies only letters, in lower case, and digits, because the same name is written with different
 * blanks, dashes, dots and capitals. */
static void keep_letters(const char *name, char out[MATRYOSHKA_MAX_NAME])
{
    size_t n = 0;

    for (; *name && n + 1 < MATRYOSHKA_MAX_NAME; name++) {
        const char c = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;

        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
    }
    out[n] = '\0';
}

static bool is_of_family(const char *name)
{
    char letters[MATRYOSHKA_MAX_NAME];

    keep_letters(name, letters);
    for (size_t i = 0; i < ARRAY_SIZE(families); i++)
        if (strstr(letters, families[i]))
            return true;
    return false;
}

/* Returns whether config.json has a key that vLLM reads, or the key of jina-embeddings-v4. */
static bool config_says(const char *path)
{
    static const char *const lists[] = {"matryoshka_dimensions", "matryoshka_dims"};
    _cleanup_free_ char *file = path_is_dir(path) ? path_join(path, "config.json") : NULL;
    _cleanup_free_ char *text = NULL;
    _cleanup_json_ json_t *config = NULL;
    struct inf_err why = {};
    size_t len;

    if (!file || file_read(file, MATRYOSHKA_MAX_FILE, &text, &len, &why) < 0 ||
        json_parse(text, len, &config, &why) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (json_array_size(json_object_get(config, lists[i])) > 0)
            return true;
    return json_is_true(json_object_get(config, "is_matryoshka"));
}

bool matryoshka_is_known(const char *path, const char *name, const struct inf_model_info *info)
{
    const char *base = path_base(path);

    for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
        if (strcmp(info->arch, archs[i]) == 0)
            return true;
    return is_of_family(name) || is_of_family(base) || is_of_family(info->name) ||
           config_says(path);
}
