/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks names of the number formats in which keys and values can be stored. */

#include "core/macros.h"

/* A text is one name for keys and values, or "K:V" with a name for each. "+recent" may follow, and
 * then the types of some layers as "/LAYERS=TYPE". */
#define KV_TYPE_RULE                                                                               \
    "auto, f32, f16, bf16, q8_0, q4_0, q3_0, q2_0, fp8 or one of the others that sconce.yaml(5) "  \
    "lists, or two of them as K:V; +recent may follow rotated ones such as q4_0, and after that "  \
    "the types of some layers as /LAYERS=TYPE"

/* Returns whether @text has this form. The engine checks whether the model supports the formats. */
bool kv_type_valid(const char *text);
