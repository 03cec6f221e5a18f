/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Device nodes of GPUs (/dev/dri/renderD*, /dev/nvidia*), and the drop-in that opens them to a
 * service */

#include <sys/types.h>

#include <infer/types.h>

#include "core/macros.h"

enum {
    GPU_MAX_NODES = 64,
};

struct gpu_node {
    char path[64]; /* as the service sees it, without the root */
    uid_t uid;
    gid_t gid;
    mode_t mode;
};

/* Fills @nodes, sorted by path. @root "" is this machine. Returns their number. */
size_t gpu_nodes_find(const char *root, struct gpu_node nodes[GPU_MAX_NODES]);
/* The names of the groups that can open nodes that are not open to everybody, such as "render
 * video"; the caller frees it; NULL: out of memory. */
char *gpu_nodes_groups(const struct gpu_node *nodes, size_t n);
/* Whether the mode of the node lets this process open it for reading and writing. */
bool gpu_node_is_open(const struct gpu_node *node);
/* Makes the content of the drop-in that gives a service access to these nodes; NULL: out of
 * memory. */
char *gpu_drop_in(bool user, const struct gpu_node *nodes, size_t n);
/* Finds the @i-th node in such a drop-in; false after the last one. */
bool gpu_drop_in_node(const char *text, size_t i, char *path, size_t size);
