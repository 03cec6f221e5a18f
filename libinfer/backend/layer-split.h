/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One model on two devices
 *
 * The lower device computes the layers before a border, the upper one those from it on and the
 * head. In each step the rows that cross the border, the residual stream, are handed from one to
 * the other as floats, so results are those of the devices, and no third thing. Each keeps K and V
 * of its own layers, in blocks of the same numbers. layer-fit.h says where the border best lies.
 */

#include "backend/backend.h"

/* Layers from @i_layer on go to the upper device; 0: all, and the lower one only embeds. On
 * success both devices are taken over. -ENOMEM. */
int layer_split_new(struct backend **low, struct backend **high, uint32_t i_layer,
                    struct backend **ret_backend);
