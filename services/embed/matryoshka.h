/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Matryoshka models: models whose vectors may be shortened to their first numbers
 *
 * This works if a model was trained for it (Kusupati et al. 2022, "Matryoshka"). With other models
 * the first half of a vector compares texts badly, and nothing in the answer would show it.
 */

#include <infer/model.h>

/* Whether the model @info in @path with the installed name @name qualifies: its config.json says
 * so, or it belongs to a family that is known for it. A file that cannot be read counts as no. */
bool matryoshka_is_known(const char *path, const char *name, const struct inf_model_info *info);
