/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the key table of the configuration, one line per key:
 *
 *   section.name TAB type TAB minimum TAB maximum TAB default
 *
 * Sizes are in bytes and times in microseconds. The entries of a list are separated by spaces. For
 * a choice, the words stand in place of the minimum, and the maximum is empty.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/config/table.h"

static const char *const type_names[] = {
    [KEY_STRING] = "text", [KEY_STRINGS] = "list", [KEY_API_KEYS] = "list", [KEY_U32] = "number",
    [KEY_BYTES] = "size",  [KEY_USEC] = "time",    [KEY_CHOICE] = "choice", [KEY_SAMPLING] = "real",
};

static void print_default(const struct config_key *key, const struct config *config)
{
    const void *field = (const char *)config + key->offset;
    const char *text;

    switch (key->type) {
    case KEY_STRINGS:
        for (size_t i = 0; i < *(const size_t *)((const char *)config + key->n_offset); i++)
            printf("%s%s", i ? " " : "", (*(char **const *)field)[i]);
        break;
    case KEY_API_KEYS: /* keys have no default */
        break;
    case KEY_CHOICE:
        printf("%s", key->choices[*(const unsigned *)field]);
        break;
    case KEY_SAMPLING: /* no default: sources that are used after the configuration set the value */
        break;
    case KEY_U32:
        printf("%" PRIu32, *(const uint32_t *)field);
        break;
    case KEY_BYTES:
    case KEY_USEC:
        printf("%" PRIu64, *(const uint64_t *)field);
        break;
    default:
        text = *(char *const *)field;
        printf("%s", text ? text : "");
    }
}

static void print_range(const struct config_key *key)
{
    if (key->type == KEY_CHOICE) {
        for (size_t i = 0; key->choices[i]; i++)
            printf("%s%s", i ? " " : "", key->choices[i]);
        putchar('\t');
    } else if (key->type == KEY_SAMPLING) {
        printf("%.17g\t%.17g", sampling_rows[key->n_offset].min, sampling_rows[key->n_offset].max);
    } else {
        printf("%" PRIu64 "\t%" PRIu64, key->min, key->max);
    }
}

int main(void)
{
    _cleanup_(config_freep) struct config *config = NULL;

    if (config_new(&config) < 0)
        return 1;
    for (size_t i = 0; i < config_n_keys; i++) {
        printf("%s.%s\t%s\t", config_keys[i].section, config_keys[i].name,
               type_names[config_keys[i].type]);
        print_range(&config_keys[i]);
        putchar('\t');
        print_default(&config_keys[i], config);
        putchar('\n');
    }
    return 0;
}
