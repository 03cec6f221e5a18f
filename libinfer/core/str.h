/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growing byte string
 *
 * Zeroed memory is an empty str. Appending may fail with -ENOMEM; the str is then unchanged. If
 * data is not NULL, it is NUL-terminated; it may also contain NUL bytes.
 */

#include "core/macros.h"

struct str {
    char *data;
    size_t len, cap;
};

int str_reserve(struct str *s, size_t more);
int str_append(struct str *s, const void *data, size_t len);
int str_puts(struct str *s, const char *text);
int str_putc(struct str *s, char c);
int str_printf(struct str *s, const char *format, ...) PRINTF(2, 3);
/* Drops the first @n bytes of @s, which must have at least @n. */
void str_cut(struct str *s, size_t n);
void str_clear(struct str *s); /* keeps the memory */
void str_done(struct str *s);
/* Takes the bytes out of @s, which is empty afterwards. The caller owns the result, which is NULL
 * only if memory is short. */
char *str_take(struct str *s, size_t *ret_len);

#define _cleanup_str_ _cleanup_(str_done)
