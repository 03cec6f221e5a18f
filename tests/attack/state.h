/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds out how a process is confined, by calls that the process itself makes. */

#include "victim.h"

/* Prints lines "KEY VALUE" on stdout: `interfaces` (names, as the kernel lists them to the
 * process), `mdwe`, `dumpable`, `no-new-privs`, `securebits`. */
int state_print(struct victim *copy);
