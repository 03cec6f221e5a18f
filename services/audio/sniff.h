/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recognizes the container of a file by its first bytes.
 *
 * The probing of libavformat would run every demuxer on the file. This code chooses one of a few
 * demuxers, and only this demuxer reads the file.
 */

#include "core/macros.h"

/* Returns the name of libavformat's demuxer ("mov"), static; NULL: unknown. */
const char *sniff_container(const uint8_t *data, size_t size);
