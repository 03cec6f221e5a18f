/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps pipelines in a short list (a model needs a few dozen), and their cache in a file.
 *
 * The file has a header with a hash of the data that follow. It is written under a temporary name
 * and then renamed, so a reader sees a complete file or none. The driver checks the data, which
 * begin with the driver's identity.
 */
#include "backend/vulkan/pipelines.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "backend/vulkan/kernels.h"
#include "backend/vulkan/quirks.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/file.h"
#include "core/hash.h"

#define FILE_MAGIC 0x32706b7665636e6fu /* "oncevkp2" */
#define FILE_MAX   (256u << 20)

#define THREADS_MAX 8u /* threads that compile */

struct file_head {
    uint64_t magic, hash;
    uint64_t complete; /* 1: the file has the kernels that models usually need */
};

struct entry {
    struct entry *next;
    const struct vkb_kernel *kernel;
    uint32_t spec[VKB_SPEC_MAX], n_spec;
    VkPipeline pipeline; /* NULL: not compiled yet */
    VkResult result;
};

struct vkb_pipelines {
    VkPipelineCache cache;
    char *path; /* NULL: there is no cache file */
    struct entry *entries;
    size_t n_missing;    /* entries that are not compiled yet */
    uint64_t saved_hash; /* hash of the data in the file */
    bool dirty, complete;
};

/* Returns a hash of device, driver and shaders, which are all that the compiled code depends
 * on. */
static uint64_t pipelines_identity(const struct vkb_device_info *info)
{
    uint64_t h = hash_bytes(1, info->pipeline_uuid, sizeof(info->pipeline_uuid));

    h = hash_bytes(h, info->name, strlen(info->name));
    h = hash_bytes(h, &info->driver_version, sizeof(info->driver_version));
    for (size_t i = 0; i < vkb_n_kernels(); i++) {
        const struct vkb_kernel *k = vkb_kernel_at(i);

        h = hash_bytes(h, k->packed, k->packed_size);
    }
    return h;
}

/* Reads the driver's data from the file. Sets *ret_data to NULL if the file is missing or
 * damaged. */
static void read_file(struct vkb_pipelines *p, char **ret_data, size_t *ret_size)
{
    struct file_head head;
    size_t size;

    *ret_data = NULL;
    if (!p->path || file_read(p->path, FILE_MAX, ret_data, &size, NULL) < 0)
        return;
    if (size >= sizeof(head))
        memcpy(&head, *ret_data, sizeof(head));
    if (size < sizeof(head) || head.magic != FILE_MAGIC ||
        head.hash != hash_bytes(0, *ret_data + sizeof(head), size - sizeof(head))) {
        free(*ret_data);
        *ret_data = NULL;
        return;
    }
    p->saved_hash = head.hash;
    p->complete = head.complete == 1;
    *ret_size = size - sizeof(head);
}

int vkb_pipelines_new(struct vkb_device *dev, const char *cache_dir,
                      struct vkb_pipelines **ret_pipelines, struct inf_err *reterr)
{
    struct vkb_pipelines *p = NEW(struct vkb_pipelines, 1);
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    char *data = NULL;
    VkResult result;

    if (!p)
        return err_set(reterr, ENOMEM, "out of memory");
    if (cache_dir && asprintf(&p->path, "%s/vulkan-%016llx.pipelines", cache_dir,
                              (unsigned long long)pipelines_identity(dev->info)) < 0) {
        free(p);
        return err_set(reterr, ENOMEM, "out of memory");
    }
    read_file(p, &data, &info.initialDataSize);
    if (data)
        info.pInitialData = data + sizeof(struct file_head);
    result = dev->fn.CreatePipelineCache(dev->handle, &info, NULL, &p->cache);
    free(data);
    if (result != VK_SUCCESS) {
        vkb_pipelines_free(dev, p);
        return vkb_fail(dev, result, "the pipeline cache cannot be created", reterr);
    }
    *ret_pipelines = p;
    return 0;
}

void vkb_pipelines_free(struct vkb_device *dev, struct vkb_pipelines *p)
{
    struct entry *e, *next;

    if (!p)
        return;
    for (e = p->entries; e; e = next) {
        next = e->next;
        dev->fn.DestroyPipeline(dev->handle, e->pipeline, NULL);
        free(e);
    }
    dev->fn.DestroyPipelineCache(dev->handle, p->cache, NULL);
    free(p->path);
    free(p);
}

/* Returns the code of a kernel, which the caller frees; NULL if memory is short. */
static uint32_t *kernel_code(const struct vkb_kernel *k)
{
    _cleanup_free_ uint32_t *code = malloc(k->code_size);
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)k->packed,
        .avail_in = (uInt)k->packed_size,
        .next_out = (Bytef *)code,
        .avail_out = (uInt)k->code_size,
    };
    int r;

    if (!code || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return NULL;
    r = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return r == Z_STREAM_END ? STEAL(code) : NULL;
}

static VkResult kernel_module(struct vkb_device *dev, const struct vkb_kernel *k,
                              VkShaderModule *ret_module)
{
    _cleanup_free_ uint32_t *code = kernel_code(k);
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = k->code_size,
        .pCode = code,
    };

    return code ? dev->fn.CreateShaderModule(dev->handle, &info, NULL, ret_module)
                : VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VkResult compile_entry(struct vkb_device *dev, struct entry *e)
{
    VkSpecializationMapEntry map[VKB_SPEC_MAX];
    const VkSpecializationInfo spec = {
        .mapEntryCount = e->n_spec,
        .pMapEntries = map,
        .dataSize = e->n_spec * sizeof(uint32_t),
        .pData = e->spec,
    };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = dev->info->caps.subgroup_size,
    };
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = dev->info->caps.subgroup_control ? &size : NULL,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .pName = "main",
                .pSpecializationInfo = &spec,
            },
        .layout = dev->layout,
    };
    VkResult result;

    /* Kernels that are compiled for a subgroup size need full subgroups. */
    if (dev->info->caps.subgroup_control && e->spec[0] % size.requiredSubgroupSize == 0)
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    for (uint32_t i = 0; i < e->n_spec; i++)
        map[i] = (VkSpecializationMapEntry){i, i * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)};
    result = kernel_module(dev, e->kernel, &info.stage.module);
    if (result != VK_SUCCESS)
        return result;
    result = dev->fn.CreateComputePipelines(dev->handle, dev->pipelines->cache, 1, &info, NULL,
                                            &e->pipeline);
    dev->fn.DestroyShaderModule(dev->handle, info.stage.module, NULL);
    return result;
}

/* Returns the entry of a pipeline; NULL: it was not added. */
static struct entry *entry_find(const struct vkb_pipelines *p, const struct vkb_choice *choice)
{
    for (struct entry *e = p->entries; e; e = e->next)
        if (e->kernel == choice->kernel && e->n_spec == choice->n_spec &&
            memcmp(e->spec, choice->spec, choice->n_spec * sizeof(*choice->spec)) == 0)
            return e;
    return NULL;
}

int vkb_pipeline_add(struct vkb_device *dev, const struct vkb_choice *choice,
                     struct inf_err *reterr)
{
    struct vkb_pipelines *p = dev->pipelines;
    struct entry *e;

    assert(choice->n_spec <= VKB_SPEC_MAX);
    if (entry_find(p, choice))
        return 0;
    e = NEW(struct entry, 1);
    if (!e)
        return err_set(reterr, ENOMEM, "out of memory");
    e->kernel = choice->kernel;
    e->n_spec = choice->n_spec;
    memcpy(e->spec, choice->spec, choice->n_spec * sizeof(*choice->spec));
    e->next = p->entries;
    p->entries = e;
    p->n_missing++;
    return 0;
}

/* The entries that threads compile: each thread takes the next entry. */
struct entry_queue {
    struct vkb_device *dev;
    struct entry **entries;
    size_t n;
    _Atomic size_t next;
};

static void *entry_queue_run(void *arg)
{
    struct entry_queue *q = arg;

    for (size_t i = atomic_fetch_add(&q->next, 1); i < q->n; i = atomic_fetch_add(&q->next, 1))
        q->entries[i]->result = compile_entry(q->dev, q->entries[i]);
    return NULL;
}

/* Compiles all entries of @q. The caller is one of the threads. Software devices compile when they
 * dispatch a kernel for the first time, so one thread is enough. */
static void entry_queue_drain(struct entry_queue *q)
{
    const bool software = q->dev->info->caps.kind == VKB_SOFTWARE && !vkb_pretend.discrete;
    const size_t n_threads = software ? 1 : MIN(q->n, MIN((size_t)cpu_count(), THREADS_MAX));
    pthread_t threads[THREADS_MAX];
    size_t n = 0;

    while (n + 1 < n_threads && pthread_create(&threads[n], NULL, entry_queue_run, q) == 0)
        n++;
    entry_queue_run(q);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

/* Removes the entries that were not compiled, and reports the failure of one of them. */
static int entries_settle(struct vkb_device *dev, struct inf_err *reterr)
{
    struct vkb_pipelines *p = dev->pipelines;
    int r = 0;

    for (struct entry **at = &p->entries, *e = *at; e; e = *at) {
        if (e->pipeline) {
            at = &e->next;
            continue;
        }
        r = vkb_fail(dev, e->result, e->kernel->name, reterr);
        *at = e->next;
        free(e);
    }
    return r;
}

int vkb_pipelines_compile(struct vkb_device *dev, struct inf_err *reterr)
{
    struct vkb_pipelines *p = dev->pipelines;
    struct entry_queue q = {.dev = dev};

    if (p->n_missing == 0)
        return 0;
    q.entries = NEW(struct entry *, p->n_missing);
    if (!q.entries)
        return err_set(reterr, ENOMEM, "out of memory");
    for (struct entry *e = p->entries; e; e = e->next)
        if (!e->pipeline)
            q.entries[q.n++] = e;
    entry_queue_drain(&q);
    free(q.entries);
    p->n_missing = 0;
    p->dirty = true;
    return entries_settle(dev, reterr);
}

VkPipeline vkb_pipeline_find(const struct vkb_device *dev, const struct vkb_choice *choice)
{
    const struct entry *e = entry_find(dev->pipelines, choice);

    return e ? e->pipeline : VK_NULL_HANDLE;
}

/* Writes the whole file or nothing. An existing file is never opened for writing; the new file
 * replaces it. */
static bool write_file(const char *path, const struct file_head *head, const void *data,
                       size_t size)
{
    _cleanup_free_ char *tmp = NULL;
    bool ok;
    int fd;

    if (asprintf(&tmp, "%s.%ld", path, (long)getpid()) < 0) {
        tmp = NULL;
        return false;
    }
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    if (fd < 0)
        return false;
    ok = write(fd, head, sizeof(*head)) == (ssize_t)sizeof(*head) &&
         write(fd, data, size) == (ssize_t)size;
    ok &= close(fd) == 0;
    ok = ok && rename(tmp, path) == 0;
    if (!ok)
        unlink(tmp);
    return ok;
}

bool vkb_pipelines_are_stored(const struct vkb_device *dev)
{
    return dev->pipelines->path && !dev->cache_read_only;
}

bool vkb_pipelines_are_complete(const struct vkb_device *dev)
{
    return dev->pipelines->complete;
}

void vkb_pipelines_set_complete(struct vkb_device *dev)
{
    dev->pipelines->complete = true;
    dev->pipelines->saved_hash = 0;
    dev->pipelines->dirty = true;
}

void vkb_pipelines_save(struct vkb_device *dev)
{
    struct vkb_pipelines *p = dev->pipelines;
    struct file_head head = {.magic = FILE_MAGIC, .complete = p->complete};
    size_t size = 0;
    char *data;

    if (!p->dirty || !vkb_pipelines_are_stored(dev))
        return;
    p->dirty = false;
    if (dev->fn.GetPipelineCacheData(dev->handle, p->cache, &size, NULL) != VK_SUCCESS || size == 0)
        return;
    data = malloc(size);
    if (!data)
        return;
    if (dev->fn.GetPipelineCacheData(dev->handle, p->cache, &size, data) == VK_SUCCESS) {
        head.hash = hash_bytes(0, data, size);
        if (head.hash != p->saved_hash && write_file(p->path, &head, data, size))
            p->saved_hash = head.hash;
    }
    free(data);
}
