/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares a backend that runs one model on two devices.
 *
 * The lower device computes the layers before a border between two layers; the upper device
 * computes the other layers and the head. In each step the rows of the residual stream cross the
 * border as floats, so each device computes exactly the same results as if it ran the whole model.
 * Each device stores K and V of its own layers, in blocks with the same numbers. layer-fit.h
 * chooses the border.
 */

#include "backend/backend.h"

/* Creates a backend from two devices. *@high computes the layers from @i_layer on. If @i_layer is
 * 0, *@high computes all layers, and *@low only looks up embeddings. @n_low: how many layers of
 * each group of state *@low has (graph_layers_below()). On success the new backend owns both
 * devices. Returns 0 or -ENOMEM. */
int layer_split_new(struct backend **low, struct backend **high, uint32_t i_layer,
                    const uint32_t n_low[STATE_GROUPS_MAX], struct backend **ret_backend);
