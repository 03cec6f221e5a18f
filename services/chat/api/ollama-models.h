/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes models in the format of Ollama's API. */

#include <infer/model.h>

#include "core/str.h"

/* Writes "details":{…}. @info NULL: the model is not open, and only its format is known. -ENOMEM.
 */
int ollama_put_details(struct str *out, const char *format, const struct inf_model_info *info);
