/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which container a file is, by its first bytes
 *
 * libavformat's own guessing lets every demuxer that it has look at the file. This one names one
 * of a few, and no other is asked.
 */

#include "core/macros.h"

/* The name of libavformat's demuxer ("mov"), static; NULL: unknown. */
const char *sniff_container(const uint8_t *data, size_t size);
