/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory of kept blocks, as its owner wants it
 *
 * Makes @path, and the directory that it is in, if they are not there, and takes from others what
 * rights they have to the files in it, which an older version or another program left them. To be
 * called before the process gives up changing rights of files. -errno.
 */
int directory_prepare(const char *path);
