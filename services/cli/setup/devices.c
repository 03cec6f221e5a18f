/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce setup gpu: gives the chat service, and only it, access to the GPU nodes of this machine
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/machine/gpu-nodes.h"
#include "cli/machine/manager.h"
#include "cli/setup/setup.h"
#include "core/err.h"

static const struct manager_job restart_chat[] = {{"TryRestartUnit", SETUP_CHAT}};

/* Prints which nodes this user may not open, and which group the user must join: a user's service
 * has the user's groups. */
static void tell_groups(const struct gpu_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        _cleanup_free_ char *groups = NULL;

        if (gpu_node_is_open(&nodes[i]))
            continue;
        groups = gpu_nodes_groups(&nodes[i], 1);
        if (groups && groups[0])
            printf("You have no permission to open %s yet. Run: sudo usermod -aG %s \"$USER\"\n"
                   "Then log in again and restart your systemd (or the machine).\n",
                   nodes[i].path, groups);
        else
            printf("You have no permission to open %s, and no group has it: its mode is %04o.\n",
                   nodes[i].path, (unsigned)nodes[i].mode & 07777);
    }
}

/* Prints the GPU that the chat service will use, if this process has access to a GPU. */
static void tell_drivers(void)
{
    struct inf_device_list *list = NULL;
    const struct inf_device_info *info;
    struct inf_err err;

    if (!inf_device_has_gpu(&err) || inf_devices(&list, &err) < 0)
        return;
    if (inf_device_list_find(list, "auto", &info, &err) == 0 && info->kind != INF_DEVICE_CPU)
        printf("The chat service computes on %s (%s, %s).\n", info->name, info->description,
               info->driver);
    else
        printf("The chat service uses the CPU until a Vulkan driver is installed. The Debian "
               "packages are\n"
               "mesa-vulkan-drivers for AMD and Intel, nvidia-vulkan-icd for NVIDIA.%s%s%s\n",
               inf_device_list_why(list) ? " (" : "",
               inf_device_list_why(list) ? inf_device_list_why(list) : "",
               inf_device_list_why(list) ? ")" : "");
    inf_device_list_free(list);
}

int setup_gpu(struct setup *s, int argc, char **argv)
{
    _cleanup_free_ char *path = places_drop_in(&s->places, SETUP_CHAT, "50-gpu.conf"), *body = NULL;
    struct gpu_node nodes[GPU_MAX_NODES];
    const size_t n = s->off ? 0 : gpu_nodes_find("", nodes);
    struct inf_err err;
    int r;

    if (argc > 1)
        return cli_usage("setup", "unexpected argument \"%s\"", argv[1]);
    if (!s->off && n == 0)
        return cli_error("setup",
                         "there is no GPU here: neither /dev/dri/renderD* nor /dev/nvidia*");
    body = gpu_drop_in(s->places.user, nodes, n);
    if (!path || !body)
        return cli_error("setup", "out of memory");
    r = s->off ? edit_remove(&s->edits, path, &err) : edit_generate(&s->edits, path, body, &err);
    if (r >= 0 && s->edits.n_changes)
        r = manager_reload(s->manager, &err);
    if (r >= 0 && s->edits.n_changes && !s->no_start)
        r = manager_run(s->manager, restart_chat, ARRAY_SIZE(restart_chat), &err);
    if (r < 0)
        return setup_failed(s, &err);
    setup_tell_offline(s);
    if (s->off)
        puts("The chat service has no access to a GPU.");
    for (size_t i = 0; i < n; i++)
        printf("The chat service has access to: %s\n", nodes[i].path);
    if (gpu_nodes_nvidia(nodes, n))
        puts("The chat service may make memory executable, because NVIDIA's driver compiles code.");
    if (s->places.user)
        tell_groups(nodes, n);
    if (n > 0 && !s->places.root[0])
        tell_drivers();
    return CLI_OK;
}
