/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The device nodes of GPUs: /dev/dri/renderD*, /dev/nvidia*. */

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
/* Names of the groups that open nodes which others may not, as "render video"; the caller frees
 * it; NULL: out of memory. */
char *gpu_nodes_groups(const struct gpu_node *nodes, size_t n);
/* Whether this process could open it for reading and writing by its mode. */
bool gpu_node_is_open(const struct gpu_node *node);
/* The body of the drop-in that opens these nodes to a service; NULL: out of memory. */
char *gpu_drop_in(bool user, const struct gpu_node *nodes, size_t n);
/* The @i-th node that a drop-in of this kind opens; false past the last one. */
bool gpu_drop_in_node(const char *text, size_t i, char *path, size_t size);
