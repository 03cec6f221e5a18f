/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses and opens the device of the chat service, according to chat.device.
 *
 * "auto" uses a GPU if one of its device nodes is accessible. Under systemd, only the device nodes
 * that `sconce setup gpu` opened are accessible. Without a GPU, the only Vulkan driver is lavapipe,
 * which generates machine code for the CPU. Units forbid generated code, so only tests outside of
 * units use lavapipe.
 */
#include "chat/device.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"

/* Disables features of Vulkan drivers and layers that computing does not need: layers for displays,
 * the drivers' own cache files, and code that NVIDIA's driver writes over its own. The driver radv
 * looks for cache files in XDG_CACHE_HOME. */
static void set_environment(const char *cache_dir)
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
}

static bool may_make_executable(void)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool may;

    if (page == MAP_FAILED)
        return false;
    may = mprotect(page, size, PROT_READ | PROT_EXEC) == 0;
    munmap(page, size);
    return may;
}

/* Makes @dir and missing directories above it. */
static void make_directory(char *dir)
{
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(dir, 0700);
        *p = '/';
    }
    mkdir(dir, 0700);
}

static int set_wrong(struct options *options, const char *format, const char *device,
                     const char *why)
{
    char text[512];

    snprintf(text, sizeof(text), format, device, why);
    return options_set_wrong(options, text);
}

int chat_device_choose(struct chat_device *d, struct options *options)
{
    const char *name = options->config->chat.device ? options->config->chat.device : "auto";
    const bool is_auto = strcmp(name, "auto") == 0;
    struct inf_err err = {0};
    bool gpu;

    d->policy = "chat";
    if (options->wrong || strcmp(name, "cpu") == 0)
        return 0;
    gpu = inf_device_has_gpu(&err);
    if (!gpu && is_auto) {
        d->why = strdup(err.text);
        return d->why ? 0 : -ENOMEM;
    }
    if (!gpu && !may_make_executable())
        return set_wrong(
            options,
            "chat.device is %s, and %s; without a GPU, Vulkan makes memory executable, which "
            "the unit forbids. `sconce setup gpu` gives the service access to GPUs; "
            "\"auto\" uses the CPU if there is no GPU",
            name, err.text);
    d->policy = gpu ? "chat-gpu" : "chat-lavapipe";
    d->cache_dir = config_cache_dir();
    if (d->cache_dir)
        make_directory(d->cache_dir);
    return 0;
}

/* The loop reads SIGTERM and SIGINT from a signalfd. Threads of drivers inherit the mask that this
 * function sets. Without this mask they could receive the signals. */
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
    const bool vulkan = strcmp(d->policy, "chat") != 0;
    const struct inf_device_params params = {
        .name = vulkan ? options->config->chat.device : "cpu",
        .cache_dir = d->cache_dir,
        .fill_cache = true,
    };
    const struct inf_device_info *info;
    struct inf_err err = {0};
    const char *why;
    int r;

    if (options->wrong)
        return 0;
    if (vulkan)
        set_environment(d->cache_dir);
    block_signals();
    r = inf_device_open(&params, &d->device, &err);
    if (r < 0)
        return set_wrong(options, "chat.device is %s: %s", params.name ? params.name : "auto",
                         err.text);
    info = inf_device_info(d->device);
    if (info->kind == INF_DEVICE_SOFTWARE && strcmp(d->policy, "chat-lavapipe") != 0)
        return refuse_software(d, options);
    snprintf(d->text, sizeof(d->text), info->kind == INF_DEVICE_CPU ? "%s" : "%s (%s)", info->name,
             info->description);
    why = d->why ? d->why : inf_device_why(d->device);
    log_info("computing on %s%s%s", d->text, why ? ": " : "", why ? why : "");
    return 0;
}

void chat_device_done(struct chat_device *d)
{
    d->device = inf_device_close(d->device);
    free(d->cache_dir);
    free(d->why);
    d->cache_dir = d->why = NULL;
}

const char *chat_device_name(const struct chat_device *d)
{
    return inf_device_info(d->device)->name;
}
