/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads speech for tests: files of 16-bit mono samples with a header of at least 44 bytes. */

#include <stddef.h>

/* Returns the samples as numbers from -1 to 1, which the caller frees, or NULL if the file has
 * another format. */
float *wav_read(const char *path, size_t *ret_n);
