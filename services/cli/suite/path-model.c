/* SPDX-License-Identifier: Apache-2.0 */
/* Writes manifests for models that are given by their paths (see path-model.h). */
#include "cli/suite/path-model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"
#include "core/file.h"
#include "core/str.h"
#include "core/text.h"

char *path_model_name(const char *path)
{
    const char *base = path_base(path);
    size_t len = strlen(base);
    unsigned part, of;
    int used = 0;

    if (len > 5 && text_ends_with_nocase(base, ".gguf"))
        len -= 5;
    else if (len > 4 && text_ends_with_nocase(base, ".bin"))
        len -= 4;
    if (len > 15 && sscanf(base + len - 15, "-%5u-of-%5u%n", &part, &of, &used) == 2 && used == 15)
        len -= 15;
    return strndup(base, len);
}

int path_model_write(const char *file, const char *path, const char *name, const char *alias)
{
    _cleanup_str_ struct str text = {0};
    FILE *f;
    int r = str_puts(&text, "{\"name\": ");

    r = r < 0 ? r : json_put_text(&text, name);
    r = r < 0 ? r : str_puts(&text, ", \"path\": ");
    r = r < 0 ? r : json_put_text(&text, path);
    if (r == 0 && alias) {
        r = str_puts(&text, ", \"aliases\": [");
        r = r < 0 ? r : json_put_text(&text, alias);
        r = r < 0 ? r : str_putc(&text, ']');
    }
    r = r < 0 ? r : str_puts(&text, "}\n");
    if (r < 0)
        return r;
    f = fopen(file, "wex");
    if (!f)
        return -errno;
    fputs(text.data, f);
    return fclose(f) != 0 ? -errno : 0;
}
