/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "cli/edits.h"
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
    /* 256 bits are 43 digits of 6; the last digit's lowest bits come from the zero byte. */
    for (size_t bit = 0; bit < API_KEY_BYTES * 8; bit += 6) {
        const unsigned pair = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];

        *out++ = digits[pair >> (10 - bit % 8) & 63];
    }
    *out = 0;
    explicit_bzero(bytes, sizeof(bytes));
    return 0;
}

/* The next line with a key: points @ret_key and @ret_name (length 0: none) into @text and returns
 * where to go on; NULL at the end. */
static const char *next_key(const char *text, const char **ret_key, size_t *ret_len,
                            const char **ret_name, size_t *ret_name_len)
{
    while (*text) {
        const char *end = text + strcspn(text, "\n"), *next = *end ? end + 1 : end;

        text += strspn(text, " \t\r");
        *ret_key = text;
        *ret_len = strcspn(text, " \t\r\n");
        if (text < end && *text != '#') {
            text += *ret_len;
            text += strspn(text, " \t\r");
            for (; end > text && strchr(" \t\r", end[-1]); end--)
                ;
            *ret_name = text;
            *ret_name_len = *text == '#' || text >= end ? 0 : (size_t)(end - text);
            return next;
        }
        text = next;
    }
    return NULL;
}

char *api_keys_first(const char *text)
{
    const char *key, *name;
    size_t len, name_len;

    return next_key(text, &key, &len, &name, &name_len) ? strndup(key, len) : NULL;
}

size_t api_keys_count(const char *text)
{
    const char *key, *name;
    size_t len, name_len, n = 0;

    while ((text = next_key(text, &key, &len, &name, &name_len)))
        n++;
    return n;
}

bool api_keys_has_name(const char *text, const char *wanted)
{
    const char *key, *name;
    size_t len, name_len;

    while ((text = next_key(text, &key, &len, &name, &name_len)))
        if (name_len == strlen(wanted) && strncmp(name, wanted, name_len) == 0)
            return true;
    return false;
}

int api_keys_read(const char *path, char **ret_text, struct inf_err *reterr)
{
    size_t len;

    if (!path_exists(path)) {
        *ret_text = strdup("");
        return *ret_text ? 0 : err_set(reterr, ENOMEM, "out of memory");
    }
    return file_read(path, API_KEYS_MAX_FILE, ret_text, &len, reterr);
}

int api_keys_add(struct edits *e, const char *path, const char *key, const char *name,
                 struct inf_err *reterr)
{
    _cleanup_free_ char *old = NULL;
    _cleanup_str_ struct str text = {0}, shown = {0};
    int r;

    r = api_keys_read(path, &old, reterr);
    if (r < 0)
        return r;
    if (!old[0])
        r = str_puts(&text, "# One API key per line, with a name behind it if you like.\n"
                            "# `sconce setup key NAME` adds one; to withdraw one, delete its line "
                            "and restart the gateway.\n");
    else
        r = str_puts(&text, old);
    if (r == 0 && text.data[text.len - 1] != '\n')
        r = str_putc(&text, '\n');
    if (r == 0)
        r = str_printf(&text, "%s%s%s\n", key, name ? " " : "", name ? name : "");
    if (r == 0)
        r = str_printf(&shown, "…\n%.10s…%s%s\n", key, name ? " " : "", name ? name : "");
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return edit_replace(e, path, 0600, text.data, shown.data, reterr);
}
