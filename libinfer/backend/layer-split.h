/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A backend that runs one model on two devices
 *
 * The lower device computes the layers before a border; the upper device computes the other layers
 * and the head. In each step the rows of the residual stream cross the border as floats, so each
 * part's results are exactly those of its device. Each device stores K and V of its own layers, in
 * blocks with the same numbers. layer-fit.h chooses the border.
 */

#include "backend/backend.h"

/* The upper device computes the layers from @i_layer on; 0: all layers, and the lower one only
 * embeds. On success takes ownership of both devices. -ENOMEM. */
int layer_split_new(struct backend **low, struct backend **high, uint32_t i_layer,
                    struct backend **ret_backend);
