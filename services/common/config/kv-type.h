/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of the number formats that keys and values can be stored in */

#include "core/macros.h"

/* A name for both, or "K:V". */
#define KV_TYPE_RULE "auto, f32, f16, bf16, q8_0, q4_0 or fp8, or two of them as K:V"

bool kv_type_valid(const char *text);
