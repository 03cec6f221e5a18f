/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the machine: GPUs, security features of the kernel, and disk space.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/gpu-nodes.h"
#include "cli/machine/units.h"
#include "cli/setup/setup.h"
#include "common/config/config.h"
#include "core/file.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

enum {
    LANDLOCK_ASK_VERSION = 1,
    DISK_LEAST = 16 << 20, /* bytes that must be free on a disk */
};

/* Checks that the drop-in @text of `sconce setup gpu` opens exactly the device nodes that exist. */
static void check_drop_in(struct doctor *d, const struct doctor_side *side, const char *text,
                          const struct gpu_node *nodes, size_t n)
{
    const char *command = doctor_text("%ssconce setup gpu %s%s", doctor_sudo(side),
                                      places_option(&side->places), n ? "" : " --off");
    char path[64];

    for (size_t i = 0; gpu_drop_in_node(text, i, path, sizeof(path)); i++)
        if (!gpu_nodes_contain(nodes, n, path))
            doctor_tell(d, FINDING_BROKEN, "gpu", command,
                        "%s does not exist, but %s chat service is configured to use it", path,
                        doctor_whose(side));
    for (size_t i = 0; i < n; i++)
        if (!gpu_drop_in_contains(text, nodes[i].path))
            doctor_tell(d, FINDING_ADVICE, "gpu", command,
                        "%s exists, but %s chat service has no access to it", nodes[i].path,
                        doctor_whose(side));
}

/* If the drop-in @text opens NVIDIA's nodes, checks that the unit permits what the driver needs. */
static void check_code(struct doctor *d, const struct doctor_side *side, const char *text,
                       const char *device)
{
    const bool is_auto = !device || strcmp(device, "auto") == 0;
    const bool permitted = gpu_drop_in_permits_code(text);
    struct unit_state s;

    if (!gpu_drop_in_contains(text, GPU_NVIDIA_NODE) || (device && strcmp(device, "cpu") == 0))
        return;
    if (side->units && units_state(side->units, SETUP_CHAT, &s) ? !s.denies_code : permitted)
        return;
    doctor_tell(d, is_auto ? FINDING_ADVICE : FINDING_BROKEN, "gpu",
                permitted ? NULL
                          : doctor_text("%ssconce setup gpu %s", doctor_sudo(side),
                                        places_option(&side->places)),
                "NVIDIA's driver compiles code, but %s chat service may not make memory "
                "executable%s, so it %s",
                doctor_whose(side),
                permitted ? " (MemoryDenyWriteExecute= in another file than 50-gpu.conf)" : "",
                is_auto ? "computes on the CPU" : "refuses all requests");
}

static void check_node_modes(struct doctor *d, const struct gpu_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        _cleanup_free_ char *groups = NULL;

        if (gpu_node_is_open(&nodes[i]))
            continue;
        groups = gpu_nodes_groups(&nodes[i], 1);
        doctor_tell(d, FINDING_BROKEN, "gpu",
                    groups && groups[0]
                        ? doctor_text("sudo usermod -aG %s \"$(id -un)\"", doctor_quote(groups))
                        : NULL,
                    "you have no permission to open %s: its mode is %04o%s", nodes[i].path,
                    (unsigned)nodes[i].mode & 07777,
                    groups && groups[0] ? " (log in again after joining the group)" : "");
    }
}

/* Returns the command that installs a Vulkan driver for these nodes; NULL: the name of the package
 * is not known for this distribution. */
static const char *driver_command(const struct gpu_node *nodes, size_t n)
{
    const char *package = gpu_nodes_nvidia(nodes, n) ? "nvidia-vulkan-icd" : "mesa-vulkan-drivers";

    return path_exists("/usr/bin/apt-get")
               ? doctor_text("sudo apt-get install libvulkan1 %s", package)
               : NULL;
}

enum vulkan {
    VULKAN_UNSEEN, /* this process has no access to a GPU, so drivers would find none */
    VULKAN_NONE,
    VULKAN_GPU,
};

/* Checks whether a GPU of this machine has a Vulkan driver. @text is the name of the device, or the
 * reason why there is none. */
static enum vulkan find_vulkan(char *text, size_t size)
{
    struct inf_device_list *list = NULL;
    const struct inf_device_info *info;
    struct inf_err err;
    enum vulkan found = VULKAN_NONE;

    if (!inf_device_has_gpu(&err) || inf_devices(&list, &err) < 0)
        return VULKAN_UNSEEN;
    if (inf_device_list_find(list, "auto", &info, &err) == 0 && info->kind != INF_DEVICE_CPU) {
        found = VULKAN_GPU;
        snprintf(text, size, "%s (%s)", info->name, info->description);
    } else {
        snprintf(text, size, "%s",
                 inf_device_list_why(list) ? inf_device_list_why(list)
                                           : "no installed driver supports it");
    }
    inf_device_list_free(list);
    return found;
}

/* Checks that a driver supports the GPU to which the service has access. */
static void check_driver(struct doctor *d, const struct gpu_node *nodes, size_t n)
{
    char text[400];

    if (n > 0 && find_vulkan(text, sizeof(text)) == VULKAN_NONE)
        doctor_tell(d, FINDING_ADVICE, "gpu", driver_command(nodes, n),
                    "the chat service has access to %s, but computes on the CPU: %s", nodes[0].path,
                    text);
}

static void advise_gpu(struct doctor *d, const struct doctor_side *side)
{
    char text[400];

    if (find_vulkan(text, sizeof(text)) == VULKAN_GPU)
        doctor_tell(
            d, FINDING_ADVICE, "gpu",
            doctor_text("%ssconce setup gpu %s", doctor_sudo(side), places_option(&side->places)),
            "%s can compute, but %s chat service has no access to it", text, doctor_whose(side));
}

static void check_side(struct doctor *d, const struct doctor_side *side,
                       const struct gpu_node *nodes, size_t n)
{
    _cleanup_free_ char *path = places_drop_in(&side->places, SETUP_CHAT, "50-gpu.conf");
    _cleanup_free_ char *text = NULL;
    const char *device = side->config ? side->config->chat.device : NULL;
    const bool is_auto = !device || strcmp(device, "auto") == 0;
    size_t len;

    if (!path)
        return;
    if (file_read(path, 65536, &text, &len, NULL) >= 0) {
        check_drop_in(d, side, text, nodes, n);
        check_code(d, side, text, device);
        if (side->places.user)
            check_node_modes(d, nodes, n);
        check_driver(d, nodes, n);
    } else if (is_auto) {
        advise_gpu(d, side);
    } else if (strcmp(device, "cpu") != 0) {
        doctor_tell(d, FINDING_BROKEN, "gpu",
                    n ? doctor_text("%ssconce setup gpu %s", doctor_sudo(side),
                                    places_option(&side->places))
                      : NULL,
                    "chat.device is \"%s\", but %s", device,
                    n ? "the chat service has no access to a GPU"
                      : "this machine has no GPU; \"auto\" uses the CPU");
    }
}

void doctor_devices(struct doctor *d)
{
    struct gpu_node nodes[GPU_MAX_NODES];
    const size_t n = gpu_nodes_find("", nodes);

    for (size_t i = 0; i < d->n_sides; i++)
        if (d->sides[i].used)
            check_side(d, &d->sides[i], nodes, n);
}

/* Reads a number from a file in /proc/sys; returns @absent if the file contains no number or does
 * not exist. */
static long machine_setting(const char *path, long absent)
{
    FILE *f = fopen(path, "re");
    long value = absent;

    if (f && fscanf(f, "%ld", &value) != 1)
        value = absent;
    if (f)
        fclose(f);
    return value;
}

static void check_landlock(struct doctor *d)
{
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_ASK_VERSION);
    const char *why = errno == EPERM ? "a filter, for example of a container, refuses Landlock"
                      : errno == EOPNOTSUPP
                          ? "Landlock was not enabled at boot (it is missing in lsm=)"
                          : "this kernel has no Landlock";

    if (version > 0)
        return;
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];
        _cleanup_free_ char *dir = path_join(side->places.config_dir, "sconce.d");
        const char *file = dir ? doctor_text("%s/50-landlock.yaml", dir) : "";

        if (!side->config || side->config->confinement.landlock != CONFIG_LANDLOCK_REQUIRED)
            continue;
        doctor_tell(
            d, FINDING_BROKEN, "kernel",
            doctor_text("%smkdir -p %s && printf 'confinement:\\n  landlock: optional\\n' "
                        "| %stee %s",
                        doctor_sudo(side), doctor_quote(dir ? dir : ""), doctor_sudo(side),
                        doctor_quote(file)),
            "%s; the services refuse all requests unless the configuration allows this, and then "
            "run without this protection",
            why);
    }
}

/* Checks that user namespaces are available, because a user's systemd needs a user namespace to set
 * up the sandbox of a service. */
static void check_namespaces(struct doctor *d)
{
    if (machine_setting("/proc/sys/user/max_user_namespaces", 1) == 0)
        doctor_tell(
            d, FINDING_BROKEN, "kernel", "sudo sysctl user.max_user_namespaces=16384",
            "user namespaces are disabled (user.max_user_namespaces is 0): your services cannot "
            "be sandboxed and do not start");
    if (machine_setting("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
        doctor_tell(d, FINDING_BROKEN, "kernel", "sudo sysctl kernel.unprivileged_userns_clone=1",
                    "only root can create user namespaces (kernel.unprivileged_userns_clone is 0): "
                    "your services do not start");
    if (machine_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        doctor_tell(d, FINDING_ADVICE, "kernel",
                    "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
                    "AppArmor restricts user namespaces; if your services do not start, this is "
                    "the reason");
}

void doctor_kernel(struct doctor *d)
{
    if (prctl(PR_GET_SECCOMP) < 0 && errno == EINVAL)
        doctor_tell(d, FINDING_BROKEN, "kernel", NULL,
                    "this kernel has no seccomp: the services do not start");
    check_landlock(d);
    for (size_t i = 0; i < d->n_sides; i++)
        if (d->sides[i].places.user && d->sides[i].used)
            check_namespaces(d);
}

static void check_disk(struct doctor *d, const char *path, const char *what)
{
    struct statvfs fs;

    if (!path || statvfs(path, &fs) < 0 || fs.f_blocks == 0)
        return;
    if ((uint64_t)fs.f_bavail * fs.f_frsize < DISK_LEAST)
        doctor_tell(d, FINDING_BROKEN, "disk", doctor_text("df -h %s", doctor_quote(path)),
                    "the disk of %s is full: %s", path, what);
    else if (fs.f_files && fs.f_favail == 0)
        doctor_tell(d, FINDING_BROKEN, "disk", doctor_text("df -i %s", doctor_quote(path)),
                    "the file system of %s has no free inodes: %s", path, what);
}

void doctor_disks(struct doctor *d)
{
    const char *home = getenv("HOME");

    check_disk(d, "/tmp", "commands that start a service of their own store its socket there");
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];
        const char *run = getenv("XDG_RUNTIME_DIR");

        if (side->places.user) {
            check_disk(d, run, "sockets are stored there");
            check_disk(d, home, "keys, settings and your history are stored there");
        } else {
            check_disk(d, "/run", "sockets are stored there");
            check_disk(d, "/var/lib", "models are stored there");
        }
    }
}
