/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shows the progress of a pull on standard error: percent, rate and time left. On a terminal one
 * line is updated; otherwise a new line is printed every two seconds. */

#include "core/macros.h"

struct pull_show {
    const char *what; /* name of the model */
    uint64_t all;     /* bytes of all files; UINT64_MAX: unknown */
    uint64_t before;  /* bytes of the files that are complete */
    uint64_t now;     /* bytes of the current file that have arrived */
    uint64_t start_bytes, start_usec, shown_usec;
    bool quiet, is_terminal, is_drawn;
};

/* Tells that @bytes of the current file have arrived. @size is the size of the file; UINT64_MAX:
 * unknown. @data is a struct pull_show. */
void pull_show_bytes(void *data, uint64_t bytes, uint64_t size);
/* Tells that the current file, which has @bytes, is complete. */
void pull_show_file(struct pull_show *show, uint64_t bytes);
/* Tells that @bytes more were verified. @data is a struct pull_show. */
void pull_show_verified(void *data, uint64_t bytes);
/* Starts to count from 0 again, with the label @what. */
void pull_show_restart(struct pull_show *show, const char *what);
void pull_show_done(struct pull_show *show);
