/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prepares the targets that are not files: ports of this machine, memory of the neighbor (another
 * process), and a TCP listener. */

#include "attack.h"

/* Opens the ports, which stay open as long as this program runs. */
int scene_open_ports(struct scene *scene);
/* Replaces the local TCP target by a listener on another machine. @address: its "ADDRESS:PORT". */
int scene_set_out(struct scene *scene, const char *address);
/* Finds a readable address in the memory of the neighbor. */
int scene_find_memory(struct scene *scene);
/* Finds the first TCP listener among the descriptors of @pid. -ENOENT: it has none. */
int scene_find_listener(pid_t pid, int *ret_fd);
/* Makes a TCP listener in this program; stand-ins (see standin.h) inherit the listener. */
int scene_make_listener(int *ret_fd);
