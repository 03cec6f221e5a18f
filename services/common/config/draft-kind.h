/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks names of the ways in which the engine drafts tokens (struct inf_engine_params). */

#include "core/macros.h"

#define DRAFT_KIND_RULE "none, auto, ngram, suffix, model or mtp"

bool draft_kind_valid(const char *text);
