/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes vectors in JSON. All functions append to @out and return 0 or -ENOMEM. */

#include "core/str.h"

/* Writes a number that reads back as the same float; null for NaN and infinities. */
int vectors_put_float(struct str *out, float value);
/* Writes an array, such as [0.1,0.2]. */
int vectors_put_array(struct str *out, const float *vector, size_t n);
/* Writes a string with the floats in little-endian byte order, encoded in base64 (RFC 4648, with
 * padding). */
int vectors_put_base64(struct str *out, const float *vector, size_t n);
