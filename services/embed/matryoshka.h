/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the first numbers of a model's vectors are vectors of their own
 *
 * They are when it was trained for that (Kusupati et al. 2022, "Matryoshka"). Of other models the
 * first half of a vector compares texts badly, and nothing in the answer would show it.
 */

#include <infer/model.h>

/* Of the model @info in @path, which people call @name: its config.json says so, or it is of a
 * family that is known for it. A file that cannot be read says nothing. */
bool matryoshka_is_known(const char *path, const char *name, const struct inf_model_info *info);
