/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the programs of sconce that other programs of it start. */

/* Returns the path of the program sconce-@name, which the caller frees: in the build tree, beside
 * the `bin` of a relocated installation, or where the build installs programs. NULL: it is not
 * installed, or there is no memory. */
char *program_find(const char *name);
