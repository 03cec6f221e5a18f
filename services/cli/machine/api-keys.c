/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the file api-keys (see api-keys.h).
 */
#include "cli/machine/api-keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "cli/machine/edits.h"
#include "common/config/key-file.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"

#define API_KEY_PREFIX "sk-sconce-"

enum {
    API_KEY_BYTES = 32,
    API_KEYS_MAX_FILE = 1 << 20,
};

int api_key_new(char ret_key[API_KEY_SIZE])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char bytes[API_KEY_BYTES + 1] = {0};
    char *out = ret_key + strlen(API_KEY_PREFIX);

    if (getrandom(bytes, API_KEY_BYTES, 0) != API_KEY_BYTES)
        return -EIO;
    memcpy(ret_key, API_KEY_PREFIX, strlen(API_KEY_PREFIX));
    /* 256 bits are 43 digits of 6 bits; the lowest bits of the last digit come from the zero byte
     * after the key. */
    for (size_t bit = 0; bit < API_KEY_BYTES * 8; bit += 6) {
        const unsigned pair = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];

        *out++ = digits[pair >> (10 - bit % 8) & 63];
    }
    *out = 0;
    explicit_bzero(bytes, sizeof(bytes));
    return 0;
}

/* Reads the file; "" if it does not exist. */
static int read_text(const char *path, char **ret_text, size_t *ret_len, struct inf_err *reterr)
{
    if (path_exists(path))
        return file_read(path, API_KEYS_MAX_FILE, ret_text, ret_len, reterr);
    *ret_text = strdup("");
    *ret_len = 0;
    return *ret_text ? 0 : err_set(reterr, ENOMEM, "out of memory");
}

int api_keys_load(const char *path, struct key_list *list, struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    const int r = read_text(path, &text, &len, reterr);

    return r < 0 ? r : key_list_parse(list, path, text, len, reterr);
}

bool api_keys_has_name(const struct key_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->keys[i].name, name) == 0)
            return true;
    return false;
}

int api_keys_add(struct edits *e, const char *path, const char *key, const char *name,
                 unsigned rights, struct inf_err *reterr)
{
    _cleanup_free_ char *old = NULL;
    _cleanup_str_ struct str text = {0}, shown = {0};
    char words[RIGHTS_TEXT_SIZE];
    size_t len;
    int r;

    rights_print(rights, words);

    r = read_text(path, &old, &len, reterr);
    if (r < 0)
        return r;
    if (!old[0])
        r = str_puts(&text, "# One API key per line, followed by its rights and an optional name.\n"
                            "# `sconce setup key NAME` adds a key; to revoke one, delete its line "
                            "and restart the gateway.\n");
    else
        r = str_puts(&text, old);
    if (r == 0 && text.data[text.len - 1] != '\n')
        r = str_putc(&text, '\n');
    if (r == 0)
        r = str_printf(&text, "%s rights=%s%s%s\n", key, words, name ? " " : "", name ? name : "");
    if (r == 0)
        r = str_printf(&shown, "…\n%.10s… rights=%s%s%s\n", key, words, name ? " " : "",
                       name ? name : "");
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return edit_replace(e, path, 0600, text.data, shown.data, reterr);
}
