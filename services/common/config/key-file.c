/* SPDX-License-Identifier: Apache-2.0 */
/* Parses key files. */
#include "common/config/key-file.h"

#include <errno.h>
#include <string.h>

#include "common/config/config.h"
#include "core/err.h"
#include "core/file.h"

enum {
    KEY_FILE_MAX = 1 << 20,
    KEY_LIST_MAX = 1024,
    KEY_MAX = 512,
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Parses the word "rights=…" if it is at *line. */
static int key_list_rights(const char **line, const char *end, const char *file, unsigned i_line,
                           unsigned *ret_rights, struct inf_err *reterr)
{
    static const char label[] = "rights=";
    const size_t n = sizeof(label) - 1;
    const char *word = *line + n, *stop = word;

    if ((size_t)(end - *line) < n || memcmp(*line, label, n) != 0)
        return 0;
    while (stop < end && !is_blank(*stop))
        stop++;
    if (rights_parse(word, (size_t)(stop - word), ret_rights) < 0)
        return err_set(reterr, EINVAL,
                       "%s:%u: rights= takes words separated by commas: " RIGHTS_LIST, file,
                       i_line);
    while (stop < end && is_blank(*stop))
        stop++;
    *line = stop;
    return 0;
}

static int key_list_line(struct key_list *list, const char *line, size_t len, const char *file,
                         unsigned i_line, struct inf_err *reterr)
{
    const char *end = line + len, *key, *key_end;
    unsigned rights = RIGHTS_UNSTATED;
    int r;

    while (line < end && is_blank(*line))
        line++;
    if (line == end || *line == '#')
        return 0;
    for (key = line; line < end && !is_blank(*line); line++)
        if (*line < 0x21 || *line > 0x7e)
            return err_set(reterr, EINVAL,
                           "%s:%u: a key must consist of printable ASCII characters", file, i_line);
    key_end = line;
    if (key_end - key > KEY_MAX)
        return err_set(reterr, EINVAL, "%s:%u: a key has at most %d characters", file, i_line,
                       KEY_MAX);
    while (line < end && is_blank(*line))
        line++;
    r = key_list_rights(&line, end, file, i_line, &rights, reterr);
    if (r < 0)
        return r;
    while (end > line && is_blank(end[-1]))
        end--;
    if (line < end && *line == '#')
        end = line;
    if (list->n == KEY_LIST_MAX)
        return err_set(reterr, E2BIG, "%s:%u: more than %d keys", file, i_line, KEY_LIST_MAX);
    if (key_list_add(list, key, (size_t)(key_end - key), line, (size_t)(end - line), rights) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return 0;
}

int key_list_parse(struct key_list *list, const char *name, const char *text, size_t len,
                   struct inf_err *reterr)
{
    const char *end = text + len;

    if (memchr(text, 0, len))
        return err_set(reterr, EINVAL, "%s: a key file must be text", name);
    for (unsigned i_line = 1; text < end; i_line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const char *line_end = stop ? stop : end;
        const int r = key_list_line(list, text, (size_t)(line_end - text), name, i_line, reterr);

        if (r < 0)
            return r;
        text = stop ? stop + 1 : end;
    }
    return 0;
}

static int key_list_load_from(struct key_list *list, const char *dir, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(dir, "api-keys"), *text = NULL;
    size_t len;
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    r = file_read(path, KEY_FILE_MAX, &text, &len, reterr);
    return r < 0 ? r : key_list_parse(list, path, text, len, reterr);
}

int key_list_load(struct key_list *list, struct inf_err *reterr)
{
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    _cleanup_free_ char *own = config_user_dir();
    struct inf_err err = {};
    int r = credentials ? key_list_load_from(list, credentials, &err) : -ENOENT;

    /* If `sconce serve` runs in a user's unit, the unit may have credentials, but none named
     * api-keys. The keys are then in the configuration directory. */
    if (r == -ENOENT)
        r = key_list_load_from(list, own ? own : SCONCE_SYSCONFDIR "/sconce", &err);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        *reterr = err;
    return r;
}
