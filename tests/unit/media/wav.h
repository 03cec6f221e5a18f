/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Speech for tests: files of 16-bit mono samples behind a header of 44 bytes or more. */

#include <stddef.h>

/* The samples as -1…1, on the heap; NULL when the file is not such a one. */
float *wav_read(const char *path, size_t *ret_n);
