/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Targets of attacks that are not files: listening ports, memory of a neighbor, a listener. */

#include "attack.h"

/* Opens the ports, which stay open as long as this program runs. */
int scene_open_ports(struct scene *scene);
/* @address: "ADDRESS:PORT" of a listener on another machine, which replaces the local one. */
int scene_set_out(struct scene *scene, const char *address);
/* Finds a readable address in the memory of the neighbor. */
int scene_find_memory(struct scene *scene);
/* Finds the first TCP listener among the descriptors of @pid. -ENOENT: it has none. */
int scene_find_listener(pid_t pid, int *ret_fd);
/* Makes a TCP listener of our own, which stand-ins inherit. */
int scene_make_listener(int *ret_fd);
