/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a process says of its own walls, asked inside of it. */

#include "victim.h"

/* Prints lines "KEY VALUE" on stdout: `interfaces` (names, as the kernel lists them to the
 * process), `mdwe`, `dumpable`, `no-new-privs`, `securebits`. */
int state_print(struct victim *copy);
