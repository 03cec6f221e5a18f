/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recognizes Matryoshka models, whose vectors may be shortened to their first numbers.
 *
 * Shortening works if a model was trained for it (Kusupati et al. 2022, "Matryoshka"). Shortened
 * vectors of other models compare texts badly, and nothing in the answer would show it.
 */

#include <infer/model.h>

/* Returns whether the model @info in @path with the installed name @name is a Matryoshka model: its
 * config.json says so, or its name or architecture is known. A config.json that cannot be read is
 * ignored. */
bool matryoshka_is_known(const char *path, const char *name, const struct inf_model_info *info);
