/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Vectors in JSON. All append to a str; -ENOMEM. */

#include "core/str.h"

/* The number with as many digits as it takes to read the same float; null for NaN and infinities.
 */
int vectors_put_float(struct str *out, float value);
/* [0.1,0.2] */
int vectors_put_array(struct str *out, const float *vector, size_t n);
/* "…": the floats as they lie in memory, little-endian, in base64 (RFC 4648, with padding). */
int vectors_put_base64(struct str *out, const float *vector, size_t n);
