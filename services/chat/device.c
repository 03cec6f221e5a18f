/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses and opens the device of the chat service, according to chat.device.
 *
 * "auto" uses a GPU if one of its device nodes is accessible. Under systemd, only the device nodes
 * that `sconce setup gpu` opened are accessible.
 *
 * The policy must be chosen before drivers are loaded, so the nodes determine it. If NVIDIA's
 * control node is accessible, the policy is "chat-nvidia": NVIDIA's driver compiles code in the
 * process, and the Vulkan loader loads this driver even if another GPU is chosen. With another GPU
 * the policy is "chat-gpu", and the loader is told not to load NVIDIA's driver. Without a GPU, the
 * only Vulkan driver is lavapipe, which compiles code for the CPU; its policy is "chat-lavapipe".
 *
 * The units forbid memory that becomes executable, so drivers cannot compile code. `sconce setup
 * gpu` permits such memory only where NVIDIA's driver is present. Therefore lavapipe is used only
 * in tests, which run outside of units.
 */
#include "chat/device.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/misconfigured.h"
#include "core/file.h"
#include "core/pages.h"

static const char policy_cpu[] = "chat", policy_gpu[] = "chat-gpu", policy_nvidia[] = "chat-nvidia",
                  policy_lavapipe[] = "chat-lavapipe";

/* Disables features of Vulkan drivers that computing does not need: layers for displays, the
 * drivers' own cache files, and changes that NVIDIA's driver makes to its own code. The driver radv
 * looks for cache files in XDG_CACHE_HOME. If @nvidia is false, the control node is not accessible:
 * NVIDIA's driver would find no GPU, and the policy would not allow its system calls. Therefore the
 * Vulkan loader is told not to load this driver. Loaders older than 1.3.234 ignore this. */
static void set_environment(const char *cache_dir, bool nvidia)
{
    const struct {
        const char *name, *value;
    } rows[] = {
        {"VK_LOADER_LAYERS_DISABLE", "~implicit~"}, {"NODEVICE_SELECT", "1"},
        {"MESA_SHADER_CACHE_DISABLE", "true"},      {"__GL_SHADER_DISK_CACHE", "0"},
        {"__GL_WRITE_TEXT_SECTION", "0"},           {"XDG_CACHE_HOME", cache_dir ? cache_dir : "/"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        setenv(rows[i].name, rows[i].value, 1);
    if (!nvidia)
        setenv("VK_LOADER_DRIVERS_DISABLE", "*nvidia*", 1);
}

/* The arguments of chat_fill(), which the process beside the service calls (chat/filler.h). */
struct chat_fill {
    struct options *options;
    const struct chat_device *device;
};

/* Compiles and stores the kernels that models usually need. The process is confined in the same way
 * as the service during its start. */
static void chat_fill(void *data)
{
    const struct chat_fill *fill = data;
    const struct chat_device *d = fill->device;
    const struct inf_device_params params = {
        .name = fill->options->config->chat.device,
        .cache_dir = d->cache_dir,
        .fill_cache = true,
    };
    struct inf_device *device;
    struct inf_err err;

    if (!misconfigured_confine(d->policy, fill->options))
        return;
    set_environment(d->cache_dir, d->policy == policy_nvidia);
    inf_device_open(&params, &device, &err);
}

/* Returns whether this process may open the node through which NVIDIA's driver finds GPUs. */
static bool has_nvidia(void)
{
    return access("/dev/nvidiactl", R_OK | W_OK) == 0;
}

static bool may_make_executable(void)
{
    const size_t size = pages_size();
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool may;

    if (page == MAP_FAILED)
        return false;
    may = mprotect(page, size, PROT_READ | PROT_EXEC) == 0;
    munmap(page, size);
    return may;
}

static int set_wrong(struct options *options, const char *format, const char *device,
                     const char *why)
{
    char text[INF_ERR_BYTES + 256];

    snprintf(text, sizeof(text), format, device, why);
    return options_set_wrong(options, text);
}

static int refuse_lavapipe(struct options *options, const char *name, const char *no_gpu)
{
    return set_wrong(
        options,
        "chat.device is %s, and %s; without a GPU, Vulkan makes memory executable, which "
        "the unit forbids. `sconce setup gpu` gives the service access to GPUs; "
        "\"auto\" uses the CPU if there is no GPU",
        name, no_gpu);
}

/* Handles a sandbox that forbids what NVIDIA's driver needs: "auto" uses the CPU, and any other
 * value of chat.device is an error. */
static int refuse_nvidia(struct chat_device *d, struct options *options, const char *name)
{
    static const char why[] =
        "NVIDIA's driver compiles code in the service, and the unit forbids memory that becomes "
        "executable; `sconce setup gpu` permits it where this driver is present";

    if (strcmp(name, "auto") != 0)
        return set_wrong(options, "chat.device is %s, but %s", name, why);
    d->why = strdup(why);
    return d->why ? 0 : -ENOMEM;
}

int chat_device_choose(struct chat_device *d, struct options *options)
{
    const char *name = options->config->chat.device ? options->config->chat.device : "auto";
    const bool is_auto = strcmp(name, "auto") == 0;
    struct inf_err err = {0};
    const char *policy;
    bool gpu;

    d->policy = policy_cpu;
    d->filler.fd = -1;
    if (options->wrong || strcmp(name, "cpu") == 0)
        return 0;
    gpu = inf_device_has_gpu(&err);
    if (!gpu && is_auto) {
        d->why = strdup(err.text);
        return d->why ? 0 : -ENOMEM;
    }
    policy = !gpu ? policy_lavapipe : has_nvidia() ? policy_nvidia : policy_gpu;
    if (policy != policy_gpu && !may_make_executable())
        return gpu ? refuse_nvidia(d, options, name) : refuse_lavapipe(options, name, err.text);
    d->policy = policy;
    d->cache_dir = config_cache_dir();
    if (d->cache_dir)
        path_make_dirs(d->cache_dir, 0700);
    if (d->cache_dir && policy != policy_lavapipe)
        filler_start(&d->filler, chat_fill, &(struct chat_fill){options, d});
    return 0;
}

/* Blocks SIGTERM and SIGINT, which the event loop reads from a signalfd. Threads that drivers start
 * inherit the mask. Without it, one of these threads could receive the signals. */
static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static int refuse_software(struct chat_device *d, struct options *options)
{
    const struct inf_device_info *info = inf_device_info(d->device);
    const int r =
        set_wrong(options,
                  "chat.device is %s, but %s computes on the CPU, and the sandbox of this "
                  "service is made for a GPU; \"cpu\" is faster",
                  info->name, info->description);

    d->device = inf_device_close(d->device);
    return r;
}

int chat_device_open(struct chat_device *d, struct options *options)
{
    const bool vulkan = d->policy != policy_cpu;
    const struct inf_device_params params = {
        .name = vulkan ? options->config->chat.device : "cpu",
        .cache_dir = d->cache_dir,
    };
    const struct inf_device_info *info;
    struct inf_err err = {0};
    const char *why;
    int r;

    if (options->wrong)
        return 0;
    if (vulkan)
        set_environment(d->cache_dir, d->policy == policy_nvidia);
    block_signals();
    r = inf_device_open(&params, &d->device, &err);
    if (r < 0)
        return set_wrong(options, "chat.device is %s: %s", params.name ? params.name : "auto",
                         err.text);
    info = inf_device_info(d->device);
    if (info->kind == INF_DEVICE_SOFTWARE && d->policy != policy_lavapipe)
        return refuse_software(d, options);
    snprintf(d->text, sizeof(d->text), info->kind == INF_DEVICE_CPU ? "%s" : "%s (%s)", info->name,
             info->description);
    if (inf_device_lacks_kernels(d->device)) {
        log_info("another process compiles kernels for %s, for the next start", info->name);
        filler_go(&d->filler);
    }
    filler_done(&d->filler);
    why = d->why ? d->why : inf_device_why(d->device);
    log_info("computing on %s%s%s", d->text, why ? ": " : "", why ? why : "");
    return 0;
}

void chat_device_done(struct chat_device *d)
{
    d->device = inf_device_close(d->device);
    filler_done(&d->filler);
    free(d->cache_dir);
    free(d->why);
    d->cache_dir = d->why = NULL;
}

const char *chat_device_name(const struct chat_device *d)
{
    return inf_device_info(d->device)->name;
}
