/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What attacks aim at, beside files: ports that listen here, memory of a neighbour, a listener. */

#include "attack.h"

/* Opens the ports, which live as long as this program. */
int scene_open_ports(struct scene *scene);
/* "ADDRESS:PORT" of a listener outside of this machine, in place of one here. */
int scene_set_out(struct scene *scene, const char *address);
/* A readable address of the neighbour. */
int scene_find_memory(struct scene *scene);
/* The first TCP listener among the descriptors of @pid. -ENOENT: it has none. */
int scene_find_listener(pid_t pid, int *ret_fd);
/* A TCP listener of our own, for the stand-ins that inherit from us. */
int scene_make_listener(int *ret_fd);
