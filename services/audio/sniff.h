/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recognizes the container of a file by its first bytes.
 *
 * libavformat's own probing runs every demuxer on the file. Here one of a few demuxers is chosen,
 * and no other reads the file.
 */

#include "core/macros.h"

/* Returns the name of libavformat's demuxer ("mov"), static; NULL: unknown. */
const char *sniff_container(const uint8_t *data, size_t size);
