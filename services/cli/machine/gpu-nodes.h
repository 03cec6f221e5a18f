/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the device nodes of GPUs (/dev/dri/renderD*, /dev/nvidia*), and makes the drop-in that
 * gives a service access to them. */

#include <sys/types.h>

#include <infer/types.h>

#include "core/macros.h"

/* The node through which NVIDIA's driver finds GPUs. */
#define GPU_NVIDIA_NODE "/dev/nvidiactl"

enum {
    GPU_MAX_NODES = 64,
};

struct gpu_node {
    char path[64]; /* path of the node, without the root */
    uid_t uid;
    gid_t gid;
    mode_t mode;
};

/* Fills @nodes, sorted by path, and returns their number. @root "" is this machine. */
size_t gpu_nodes_find(const char *root, struct gpu_node nodes[GPU_MAX_NODES]);
/* Returns the names of the groups that can open those nodes that are not open to all users, such as
 * "render video". The caller frees the text; NULL: out of memory. */
char *gpu_nodes_groups(const struct gpu_node *nodes, size_t n);
/* Returns whether this process may open the node for reading and writing. */
bool gpu_node_is_open(const struct gpu_node *node);
/* Returns whether the node @path is among the nodes. */
bool gpu_nodes_contain(const struct gpu_node *nodes, size_t n, const char *path);
/* Returns whether NVIDIA's driver is present. This driver compiles code in the process that uses
 * it. */
bool gpu_nodes_nvidia(const struct gpu_node *nodes, size_t n);
/* Makes the content of the drop-in that gives a service access to these nodes; NULL: out of
 * memory. If NVIDIA's driver is present, the drop-in permits memory that becomes executable. */
char *gpu_drop_in(bool user, const struct gpu_node *nodes, size_t n);
/* Finds the path of node @i in the drop-in @text; false after the last node. */
bool gpu_drop_in_node(const char *text, size_t i, char *path, size_t size);
/* Returns whether the drop-in @text gives access to the node @path. */
bool gpu_drop_in_contains(const char *text, const char *path);
/* Returns whether the drop-in @text permits memory that becomes executable. */
bool gpu_drop_in_permits_code(const char *text);
