/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the device nodes of GPUs (see gpu-nodes.h).
 */
#include "cli/machine/gpu-nodes.h"

#include <dirent.h>
#include <fnmatch.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/str.h"

/* The device nodes that Vulkan needs to compute with each driver. Nodes for displays, power
 * settings and partitions are not in the list. policy/landlock/fragments has the same list. */
static const struct {
    const char *dir, *pattern;
} rows[] = {
    {"/dev/dri", "renderD[0-9]*"}, {"/dev", "nvidia[0-9]*"},   {"/dev", "nvidiactl"},
    {"/dev", "nvidia-uvm"},        {"/dev", "nvidia-modeset"},
};

static void gpu_nodes_take(const char *root, const char *dir, const char *name,
                           struct gpu_node *nodes, size_t *n)
{
    char path[4096];
    struct stat st;
    struct gpu_node *node = &nodes[*n];

    snprintf(path, sizeof(path), "%s%s/%s", root, dir, name);
    if (*n == GPU_MAX_NODES || lstat(path, &st) < 0 || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
        return;
    if ((size_t)snprintf(node->path, sizeof(node->path), "%s/%s", dir, name) >= sizeof(node->path))
        return;
    node->uid = st.st_uid;
    node->gid = st.st_gid;
    node->mode = st.st_mode;
    ++*n;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct gpu_node *)a)->path, ((const struct gpu_node *)b)->path);
}

size_t gpu_nodes_find(const char *root, struct gpu_node nodes[GPU_MAX_NODES])
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char path[4096];
        const struct dirent *e;
        DIR *d;

        snprintf(path, sizeof(path), "%s%s", root, rows[i].dir);
        d = opendir(path);
        while (d && (e = readdir(d)))
            if (fnmatch(rows[i].pattern, e->d_name, 0) == 0)
                gpu_nodes_take(root, rows[i].dir, e->d_name, nodes, &n);
        if (d)
            closedir(d);
    }
    qsort(nodes, n, sizeof(*nodes), by_path);
    return n;
}

char *gpu_nodes_groups(const struct gpu_node *nodes, size_t n)
{
    _cleanup_str_ struct str out = {0};

    if (str_puts(&out, "") < 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct group *g;
        bool known = false;

        /* No user should join root's group, so a node of that group needs a udev rule instead. */
        if ((nodes[i].mode & 06) == 06 || (nodes[i].mode & 060) != 060 || nodes[i].gid == 0)
            continue;
        for (size_t k = 0; k < i; k++)
            known |= nodes[k].gid == nodes[i].gid && (nodes[k].mode & 06) != 06;
        g = known ? NULL : getgrgid(nodes[i].gid);
        if (g && str_printf(&out, "%s%s", out.len ? " " : "", g->gr_name) < 0)
            return NULL;
    }
    return str_take(&out, NULL);
}

bool gpu_node_is_open(const struct gpu_node *node)
{
    gid_t groups[1024];
    const int n = getgroups((int)ARRAY_SIZE(groups), groups);

    if (geteuid() == 0 || (node->mode & 06) == 06)
        return true;
    if (node->uid == geteuid())
        return (node->mode & 0600) == 0600;
    if ((node->mode & 060) != 060)
        return false;
    if (node->gid == getegid())
        return true;
    for (int i = 0; i < n; i++)
        if (groups[i] == node->gid)
            return true;
    return false;
}

bool gpu_nodes_contain(const struct gpu_node *nodes, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(nodes[i].path, path) == 0)
            return true;
    return false;
}

bool gpu_nodes_nvidia(const struct gpu_node *nodes, size_t n)
{
    return gpu_nodes_contain(nodes, n, GPU_NVIDIA_NODE);
}

static const char permits_code[] = "\nMemoryDenyWriteExecute=no\n";

char *gpu_drop_in(bool user, const struct gpu_node *nodes, size_t n)
{
    _cleanup_free_ char *groups = gpu_nodes_groups(nodes, n);
    _cleanup_str_ struct str out = {0};
    int r = groups
                ? str_puts(&out, "# Gives the service access to these devices and no others: they\n"
                                 "# are bound into the private /dev of PrivateDevices=.\n"
                                 "[Service]\n")
                : -1;

    for (size_t i = 0; i < n && r == 0; i++)
        r = str_printf(&out, "BindPaths=-%s\nDeviceAllow=%s rw\n", nodes[i].path, nodes[i].path);
    /* A user's service already has the user's groups. */
    if (r == 0 && !user && groups[0])
        r = str_printf(&out, "SupplementaryGroups=%s\n", groups);
    if (r == 0 && gpu_nodes_nvidia(nodes, n))
        r = str_printf(&out,
                       "# NVIDIA's driver compiles code in the service. The policy of the service "
                       "forbids memory\n# that is writable and executable at once.%s",
                       permits_code);
    if (r == 0)
        r = str_puts(&out,
                     "# Drivers read the amount of memory and the settings of their kernel "
                     "modules\n# in /proc. The policy of the service allows no other files there.\n"
                     "ProcSubset=all\n"
                     "# The directory of compiled kernels, which the next start reuses.\n"
                     "CacheDirectory=sconce\nCacheDirectoryMode=0700\n");
    return r < 0 ? NULL : str_take(&out, NULL);
}

bool gpu_drop_in_node(const char *text, size_t i, char *path, size_t size)
{
    static const char key[] = "DeviceAllow=";

    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, key, sizeof(key) - 1) != 0 || i-- > 0)
            continue;
        line += sizeof(key) - 1;
        snprintf(path, size, "%.*s", (int)strcspn(line, " \t\n"), line);
        return true;
    }
    return false;
}

bool gpu_drop_in_contains(const char *text, const char *path)
{
    char node[64];

    for (size_t i = 0; gpu_drop_in_node(text, i, node, sizeof(node)); i++)
        if (strcmp(node, path) == 0)
            return true;
    return false;
}

bool gpu_drop_in_permits_code(const char *text)
{
    return strstr(text, permits_code) != NULL;
}
