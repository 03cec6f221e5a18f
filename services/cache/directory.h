/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prepares the directory of the cache.
 *
 * Makes @path and its parent directory if they do not exist. Removes the rights of other users to
 * the files in @path. An older version or another program may have given such rights. Must be
 * called before the process gives up the right to change file modes. -errno.
 */
int directory_prepare(const char *path);
