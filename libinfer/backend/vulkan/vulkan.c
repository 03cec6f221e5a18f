/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the Vulkan backend: its table of operations, its creation, and the reopening of a lost
 * device.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/vulkan-backend.h"
#include "backend/vulkan/kv.h"
#include "backend/vulkan/quirks.h"
#include "backend/vulkan/submit.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/file.h"

#define SUBMIT_USEC 50000u /* a longer submission makes a desktop stutter */
#define FIRST_ROWS  64u

static int vkb_plan_new(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                        struct kv_store *store, struct plan **ret_plan, struct inf_err *reterr)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    struct plan *plan = NEW(struct plan, 1);
    int r;

    if (!plan)
        return -ENOMEM;
    plan->vkb = vkb;
    plan->limits = *limits;
    plan->store = store;
    /* This limit holds until times are measured. */
    plan->rows_now = vkb->submit_usec > 0 ? MIN(limits->max_rows, FIRST_ROWS) : limits->max_rows;
    r = vkb->dev ? vkb_compile(plan, g, reterr) : -ENODEV;
    if (r == 0)
        r = vkb_plan_create(vkb->dev, plan, reterr);
    if (r < 0) {
        vkb_plan_done(plan);
        free(plan);
        return r;
    }
    plan->next = vkb->plans;
    vkb->plans = plan;
    *ret_plan = plan;
    return 0;
}

static void vkb_plan_free(struct backend *b, struct plan *plan)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    struct plan **at = &vkb->plans;

    while (*at != plan)
        at = &(*at)->next;
    *at = plan->next;
    if (vkb->dev)
        vkb_plan_destroy(vkb->dev, plan);
    vkb_plan_done(plan);
    free(plan);
}

/* Does nothing, because device memory cannot be returned page by page. */
static void vkb_plan_rest(struct backend *b, struct plan *plan)
{
    (void)b;
    (void)plan;
}

static void drop_device(struct vkb_backend *vkb)
{
    struct vkb_device *dev = vkb->dev;

    if (!dev)
        return;
    dev->fn.DeviceWaitIdle(dev->handle);
    for (struct plan *plan = vkb->plans; plan; plan = plan->next)
        vkb_plan_destroy(dev, plan);
    for (struct kv_store *store = vkb->stores; store; store = store->next)
        vkb_store_destroy(dev, store);
    vkb->dev = vkb_device_free(dev);
}

static int open_device(struct vkb_backend *vkb, struct inf_err *reterr)
{
    int r;

    r = vkb_device_new(vkb->in, vkb->info, vkb->cache_dir, &vkb->dev, reterr);
    if (r < 0)
        return r;
    vkb->dev->cache_read_only = vkb->cache_read_only;
    for (struct kv_store *store = vkb->stores; r == 0 && store; store = store->next)
        r = vkb_store_create(vkb->dev, store, reterr);
    for (struct plan *plan = vkb->plans; r == 0 && plan; plan = plan->next)
        r = vkb_plan_create(vkb->dev, plan, reterr);
    if (r < 0)
        drop_device(vkb);
    else
        vkb->dev->fault = &vkb->fault;
    return r;
}

static int vkb_recover(struct backend *b, struct inf_err *reterr)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);

    drop_device(vkb);
    return open_device(vkb, reterr);
}

static void vkb_free(struct backend *b)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);

    assert(!vkb->plans && !vkb->stores);
    vkb->dev = vkb_device_free(vkb->dev);
    vkb->in = vkb_instance_free(vkb->in);
    vkb->workers = workers_free(vkb->workers);
    free(vkb->cache_dir);
    free(vkb);
}

static void vkb_parallel(struct backend *b, workers_fn fn, void *arg)
{
    workers_run(CONTAINER_OF(b, struct vkb_backend, base)->workers, fn, arg);
}

/* Returns the free memory, less a tenth for a display, or for a driver that counts differently. */
static uint64_t vkb_free_memory(struct backend *b)
{
    const struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    uint64_t total, left;

    if (vkb->info->caps.kind == VKB_SOFTWARE)
        return UINT64_MAX;
    vkb_memory(vkb->in, vkb->info, &total, &left);
    return left / 10 * 9;
}

static uint32_t vkb_max_rows(struct backend *b UNUSED, const struct plan *plan)
{
    return plan->rows_now;
}

static unsigned vkb_n_threads(const struct backend *b)
{
    return workers_count(CONTAINER_OF(b, struct vkb_backend, base)->workers);
}

static const char *vkb_isa(const struct backend *b UNUSED)
{
    return "vulkan";
}

static const struct backend_ops vkb_ops = {
    .name = "vulkan",
    .memory = vkb_free_memory,
    .kv_check = vkb_kv_check,
    .kv_max_blocks = vkb_kv_max_blocks,
    .kv_new = vkb_kv_new,
    .kv_free = vkb_kv_free,
    .kv_copy = vkb_kv_copy,
    .kv_drop = vkb_kv_drop,
    .kv_size = vkb_kv_size,
    .kv_export = vkb_kv_export,
    .kv_import = vkb_kv_import,
    .kv_format = vkb_kv_format,
    .check = vkb_check,
    .compile = vkb_plan_new,
    .plan_free = vkb_plan_free,
    .plan_rest = vkb_plan_rest,
    .run = vkb_run,
    .logits = vkb_logits,
    .max_rows = vkb_max_rows,
    .recover = vkb_recover,
    .free = vkb_free,
    .parallel = vkb_parallel,
    .n_threads = vkb_n_threads,
    .isa = vkb_isa,
};

/* Returns the number of the first usable device. If there is none, returns 0; opening device 0 then
 * fails with the reason. */
static unsigned long first_usable(const struct vkb_instance *in)
{
    for (uint32_t i = 0; i < in->n_devices; i++)
        if (!in->devices[i].unusable)
            return i;
    return 0;
}

/* Finds a device by name. "vulkan" is the first usable device, and "vulkan:N" is device N, counted
 * from 0. */
static int find_device(struct vkb_backend *vkb, const char *name, struct inf_err *reterr)
{
    unsigned long i = first_usable(vkb->in);
    char *end;

    if (name[strlen("vulkan")] == ':') {
        i = strtoul(name + strlen("vulkan:"), &end, 10);
        if (*end || end == name + strlen("vulkan:"))
            return err_set(reterr, EINVAL, "%.40s: there must be a number after the colon", name);
    }
    if (i >= vkb->in->n_devices)
        return err_set(reterr, EOPNOTSUPP, "there is no device %.40s: %u Vulkan device%s", name,
                       vkb->in->n_devices, vkb->in->n_devices == 1 ? " is there" : "s are there");
    vkb->info = &vkb->in->devices[i];
    snprintf(vkb->base.device, sizeof(vkb->base.device), "vulkan:%lu", i);
    return 0;
}

int vkb_backend_new(const struct backend_params *params, struct backend **ret_backend,
                    struct inf_err *reterr)
{
    struct vkb_backend *vkb = NEW(struct vkb_backend, 1);
    int r;

    if (!vkb)
        return err_set(reterr, ENOMEM, "out of memory");
    vkb->base.ops = &vkb_ops;
    r = workers_new(params->n_threads > 0 ? params->n_threads : cpu_count(), &vkb->workers);
    if (r == 0 && params->cache_dir) {
        if (!params->cache_read_only)
            path_make_dirs(params->cache_dir, 0700);
        vkb->cache_read_only = params->cache_read_only;
        vkb->cache_dir = strdup(params->cache_dir);
        r = vkb->cache_dir ? 0 : -ENOMEM;
    }
    if (r < 0)
        err_set(reterr, -r, "out of memory");
    if (r == 0)
        r = vkb_instance_new(&vkb->in, reterr);
    if (r == 0)
        r = find_device(vkb, params->device, reterr);
    if (r == 0)
        r = open_device(vkb, reterr);
    if (r < 0) {
        vkb_free(&vkb->base);
        return r;
    }
    vkb_kv_describe(vkb);
    vkb->submit_usec = vkb->info->caps.kind == VKB_SOFTWARE ? 0 : SUBMIT_USEC;
    if (vkb_pretend.submit_usec > 0)
        vkb->submit_usec = vkb_pretend.submit_usec;
    *ret_backend = &vkb->base;
    return 0;
}
