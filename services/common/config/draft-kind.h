/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks names of the ways in which the engine drafts tokens (struct inf_engine_params). */

#include "core/macros.h"

#define DRAFT_KIND_RULE "none, auto, ngram, suffix, model, mtp, eagle3, dflash or gemma4-assistant"

bool draft_kind_valid(const char *text);
/* Returns whether drafts of this kind come from a draft model. "auto" uses one if there is one. */
bool draft_kind_uses_model(const char *kind);
