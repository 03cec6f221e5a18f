/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a plan on a device: its memory, pipelines, descriptors and recorded commands.
 *
 * Other threads compile pipelines while the first thread loads weights.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/joined.h"
#include "backend/vulkan/program.h"
#include "backend/vulkan/submit.h"
#include "core/err.h"

/* The workgroup counts of a dispatch take 4 uints, for alignment. */
#define COUNT_STRIDE (4 * sizeof(uint32_t))
/* A dispatch counts as at least this much work, in bytes of weights. */
#define WORK_MIN (64u << 10)
/* Bytes of joined rows that are uploaded at once. */
#define JOIN_BYTES ((uint64_t)4 << 20)

struct builder {
    struct vkb_device *dev;
    struct plan *plan;
    struct inf_err *reterr;
};

/* The buffer of a binding, its first byte and its size. */
struct range {
    VkBuffer buffer;
    uint64_t offset, size;
};

static uint64_t value_bytes(const struct plan *plan, const struct vkb_value *v)
{
    return (uint64_t)(v->rows_kept ? plan->limits.max_logits : plan->limits.max_rows) * v->width *
           sizeof(float);
}

static struct range rope_range(const struct plan *plan, uint32_t i_rope)
{
    uint64_t at = plan->rope_offset, size = 0;

    for (uint32_t i = 0; i <= i_rope; i++) {
        at += size;
        size =
            ALIGN_UP((uint64_t)plan->limits.max_rows * plan->ropes[i].n_dims * sizeof(float), 256);
    }
    return (struct range){plan->step_buffer.handle, at, size};
}

/* Returns the range of a weight, which may start at any address. *ret_rest is the distance from the
 * start of the binding to the weight. */
static struct range weight_range(const struct builder *b, const struct vkb_bind *bind,
                                 uint32_t *ret_rest)
{
    const struct vkb_buffer *buffer;
    uint64_t at;

    if (bind->kind == VKB_BIND_GATHER) {
        buffer = &b->plan->gathers[bind->index].buffer;
        at = bind->offset;
    } else {
        const struct vkb_region *region = vkb_weights_find(&b->plan->weights, bind->host);

        buffer = &region->buffer;
        at = region->offset + (uint64_t)((const unsigned char *)bind->host - region->host);
    }
    const uint64_t align = MAX(b->dev->info->caps.offset_align, 16u);
    const uint64_t rest = at % align;

    *ret_rest = (uint32_t)rest;
    /* Kernels read 16 bytes at a time, also beyond the last weight if the buffer continues. */
    return (struct range){buffer->handle, at - rest,
                          MIN(ALIGN_UP(bind->size + rest, 16u), buffer->size - (at - rest))};
}

static struct range whole_buffer(const struct vkb_buffer *buffer)
{
    return (struct range){buffer->handle, 0, buffer->size};
}

static struct range range_of(const struct builder *b, const struct vkb_bind *bind,
                             uint32_t *ret_rest)
{
    const struct plan *plan = b->plan;
    const struct kv_store *store = plan->store;

    *ret_rest = 0;
    switch (bind->kind) {
    case VKB_BIND_WEIGHT:
    case VKB_BIND_GATHER:
        return weight_range(b, bind, ret_rest);
    case VKB_BIND_CONST:
        return (struct range){plan->consts_buffer.handle, bind->offset, bind->size};
    case VKB_BIND_VALUE:
        if ((graph_ref)bind->index == plan->input)
            return whole_buffer(&plan->input_buffer);
        return (struct range){plan->scratch.handle, plan->values[bind->index].offset,
                              value_bytes(plan, &plan->values[bind->index])};
    case VKB_BIND_PACKED:
        return whole_buffer(&plan->packed[bind->index]);
    case VKB_BIND_NONE: /* a slot that a kernel declares must be bound even if it is not used */
    case VKB_BIND_STEP:
        return (struct range){plan->step_buffer.handle, 0, plan->rope_offset};
    case VKB_BIND_ROPE:
        return rope_range(plan, bind->index);
    case VKB_BIND_KEYS:
        return whole_buffer(&store->groups[bind->group].buffers[2 * bind->index]);
    case VKB_BIND_VALUES:
        return whole_buffer(&store->groups[bind->group].buffers[2 * bind->index + 1]);
    case VKB_BIND_STATE:
        return whole_buffer(&store->groups[bind->group].buffers[bind->index]);
    case VKB_BIND_PARTS:
        return whole_buffer(&plan->parts);
    case VKB_BIND_RUNS:
        return whole_buffer(&plan->runs);
    case VKB_BIND_TOPS:
        return whole_buffer(&plan->tops);
    }
    assert(false);
    return (struct range){0};
}

static VkResult make_view(const struct builder *b, const struct range *r, VkFormat format,
                          VkBufferView *ret_view)
{
    const VkBufferViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
        .buffer = r->buffer,
        .format = format,
        .offset = r->offset,
        .range = r->size / 16 * 16,
    };

    return b->dev->fn.CreateBufferView(b->dev->handle, &info, NULL, ret_view);
}

/* Points the descriptors of one dispatch to its buffers. */
static VkResult bind_dispatch(const struct builder *b, struct vkb_dispatch *d)
{
    VkDescriptorBufferInfo buffers[VKB_SLOTS];
    VkWriteDescriptorSet writes[2 * VKB_SLOTS];
    const uint32_t u4 = d->choice.kernel->texel_u4, f4 = d->choice.kernel->texel_f4;
    uint32_t n = 0, rest;

    for (uint32_t i = 0; i < VKB_SLOTS; i++) {
        const bool texel = (u4 | f4) >> i & 1;
        struct range r;

        r = range_of(b, &d->binds[i], &rest);
        if (d->binds[i].kind == VKB_BIND_WEIGHT || d->binds[i].kind == VKB_BIND_GATHER)
            d->push[d->binds[i].push_at] = rest;
        if (texel) {
            const VkResult result = make_view(
                b, &r, u4 >> i & 1 ? VK_FORMAT_R32G32B32A32_UINT : VK_FORMAT_R32G32B32A32_SFLOAT,
                &d->views[i]);

            if (result != VK_SUCCESS)
                return result;
            writes[n++] = (VkWriteDescriptorSet){
                .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                .dstSet = d->set,
                .dstBinding = VKB_SLOTS + i,
                .descriptorCount = 1,
                .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
                .pTexelBufferView = &d->views[i],
            };
        }
        /* A slot that is read as texels may exceed the limit of storage buffers; then it is bound
         * only as texels. */
        if (texel && r.size > b->dev->info->caps.max_range)
            continue;
        buffers[i] = (VkDescriptorBufferInfo){r.buffer, r.offset, r.size};
        writes[n++] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = d->set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &buffers[i],
        };
    }
    b->dev->fn.UpdateDescriptorSets(b->dev->handle, n, writes, 0, NULL);
    return VK_SUCCESS;
}

static uint32_t n_dispatches(const struct plan *plan)
{
    uint32_t n = 0;

    for (int c = 0; c < VKB_CLASS_N; c++)
        n += plan->lists[c].n;
    return n;
}

static int make_sets(const struct builder *b)
{
    const uint32_t n = n_dispatches(b->plan);
    const VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n * VKB_SLOTS},
        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, n * VKB_SLOTS},
    };
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = n,
        .poolSizeCount = ARRAY_SIZE(sizes),
        .pPoolSizes = sizes,
    };
    VkDescriptorSetAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorSetCount = 1,
        .pSetLayouts = &b->dev->set_layout,
    };
    VkResult result;

    result = b->dev->fn.CreateDescriptorPool(b->dev->handle, &pool, NULL, &b->plan->pool);
    allocate.descriptorPool = b->plan->pool;
    for (int c = 0; c < VKB_CLASS_N; c++)
        for (uint32_t i = 0; result == VK_SUCCESS && i < b->plan->lists[c].n; i++) {
            struct vkb_dispatch *d = &b->plan->lists[c].dispatches[i];

            result = b->dev->fn.AllocateDescriptorSets(b->dev->handle, &allocate, &d->set);
            if (result == VK_SUCCESS)
                result = bind_dispatch(b, d);
        }
    return result == VK_SUCCESS
               ? 0
               : vkb_fail(b->dev, result, "descriptors cannot be created", b->reterr);
}

static void record_barrier(const struct builder *b, VkCommandBuffer c, VkPipelineStageFlags to,
                           VkAccessFlags access)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = access,
    };

    b->dev->fn.CmdPipelineBarrier(
        c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, to, 0, 1, &memory,
        0, NULL, 0, NULL);
}

static void record_dispatch(const struct builder *b, VkCommandBuffer c,
                            const struct vkb_dispatch *d, uint32_t i_count)
{
    const struct vkb_device_fns *fn = &b->dev->fn;

    if (!d->joins)
        record_barrier(b, c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                       VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    fn->CmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, d->pipeline);
    fn->CmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, b->dev->layout, 0, 1, &d->set, 0,
                              NULL);
    if (d->push_size > 0)
        fn->CmdPushConstants(c, b->dev->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, d->push_size,
                             d->push);
    fn->CmdDispatchIndirect(c, b->plan->counts.handle, i_count * COUNT_STRIDE);
}

static VkResult record_segment(const struct builder *b, const struct vkb_list *list,
                               struct vkb_segment *s)
{
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = b->dev->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const struct vkb_device_fns *fn = &b->dev->fn;
    VkResult result;

    result = fn->AllocateCommandBuffers(b->dev->handle, &allocate, &s->commands);
    if (result == VK_SUCCESS)
        result = fn->BeginCommandBuffer(s->commands, &begin);
    if (result != VK_SUCCESS)
        return result;
    for (uint32_t i = s->first; i < s->first + s->n; i++)
        record_dispatch(b, s->commands, &list->dispatches[i], list->counts_at + i);
    /* The last segment of a step makes its results visible to the host. */
    if (s->first + s->n == list->n)
        record_barrier(b, s->commands, VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                       VK_ACCESS_HOST_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT);
    return fn->EndCommandBuffer(s->commands);
}

/* Adds the work of a dispatch to that of its segment. Dispatches without weights, such as norms and
 * attention, count like a small matrix. */
static void count_work(struct vkb_segment *s, const struct vkb_dispatch *d)
{
    const uint64_t work = MAX(d->work, WORK_MIN);

    if (d->count[1].by == VKB_COUNT_LOGITS)
        s->logit_work += work;
    else
        s->row_work += work;
}

/* Makes one segment per layer. */
static int make_segments(struct plan *plan, struct vkb_list *list)
{
    if (!list->segments)
        list->segments = arena_zalloc(&plan->arena, list->n * sizeof(*list->segments));
    if (!list->segments)
        return -ENOMEM;
    list->n_segments = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        if (i == 0 || list->dispatches[i].layer != list->dispatches[i - 1].layer)
            list->segments[list->n_segments++] = (struct vkb_segment){.first = i};
        list->segments[list->n_segments - 1].n++;
        count_work(&list->segments[list->n_segments - 1], &list->dispatches[i]);
    }
    return 0;
}

static int record_lists(const struct builder *b)
{
    struct plan *plan = b->plan;
    VkResult result = VK_SUCCESS;
    int r = 0;

    for (int c = 0; r == 0 && c < VKB_CLASS_N; c++)
        r = make_segments(plan, &plan->lists[c]);
    if (r < 0)
        return r;
    for (int c = 0; c < VKB_CLASS_N; c++)
        for (uint32_t i = 0; result == VK_SUCCESS && i < plan->lists[c].n_segments; i++)
            result = record_segment(b, &plan->lists[c], &plan->lists[c].segments[i]);
    return result == VK_SUCCESS
               ? 0
               : vkb_fail(b->dev, result, "commands cannot be recorded", b->reterr);
}

struct compile_job {
    const struct builder *b;
    struct inf_err err;
    int r;
};

static void *compile_all(void *arg)
{
    struct compile_job *job = arg;
    struct vkb_device *dev = job->b->dev;
    struct plan *plan = job->b->plan;

    for (int c = 0; c < VKB_CLASS_N; c++)
        for (uint32_t i = 0; job->r == 0 && i < plan->lists[c].n; i++)
            job->r = vkb_pipeline_add(dev, &plan->lists[c].dispatches[i].choice, &job->err);
    if (job->r == 0)
        job->r = vkb_pipelines_compile(dev, &job->err);
    for (int c = 0; c < VKB_CLASS_N; c++)
        for (uint32_t i = 0; job->r == 0 && i < plan->lists[c].n; i++) {
            struct vkb_dispatch *d = &plan->lists[c].dispatches[i];

            d->pipeline = vkb_pipeline_find(dev, &d->choice);
        }
    return NULL;
}

/* Joins the rows of matrix @i of a gather (struct vkb_gather) to blocks, and uploads them in
 * portions. */
static int load_joined(const struct builder *b, struct vkb_ring *ring, const struct vkb_gather *g,
                       uint32_t i)
{
    const struct weight w = weight_of_expert(&g->w, i);
    const uint32_t n = (uint32_t)MIN(MAX(JOIN_BYTES / g->row_bytes, 1u), w.rows);
    _cleanup_free_ uint8_t *rows = malloc(n * g->row_bytes);
    int r = 0;

    if (!rows)
        return err_set(b->reterr, ENOMEM, "out of memory");
    for (uint32_t first = 0; r == 0 && first < w.rows; first += n) {
        const uint32_t now = MIN(n, w.rows - first);

        joined_rows(&w, g->dtype, first, now, rows);
        r = vkb_upload(b->dev, ring, &g->buffer, i * g->stride + first * g->row_bytes, rows,
                       now * g->row_bytes);
    }
    return r;
}

static int load_gathers(const struct builder *b, struct vkb_ring *ring)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < b->plan->n_gathers; i++) {
        struct vkb_gather *g = &b->plan->gathers[i];

        r = vkb_buffer_new(b->dev, VKB_ON_DEVICE, g->n * g->stride, &g->buffer, b->reterr);
        for (uint32_t j = 0; r == 0 && j < g->n; j++)
            r = g->w.planes[WEIGHT_SCALES] ? load_joined(b, ring, g, j)
                                           : vkb_upload(b->dev, ring, &g->buffer, j * g->stride,
                                                        g->w.experts[j], g->bytes);
    }
    return r;
}

/* Loads weights and constants while other threads compile. */
static int load_and_compile(const struct builder *b)
{
    struct compile_job job = {.b = b};
    struct vkb_ring ring = {.next = 0};
    struct plan *plan = b->plan;
    pthread_t thread;
    bool beside;
    int r = 0;

    beside = pthread_create(&thread, NULL, compile_all, &job) == 0;
    if (!b->dev->info->caps.unified)
        r = vkb_ring_init(b->dev, &ring, b->reterr);
    if (r == 0)
        r = vkb_weights_load(b->dev, &plan->weights, &ring, b->reterr);
    if (r == 0)
        r = load_gathers(b, &ring);
    if (r == 0)
        r = vkb_buffer_new(b->dev, VKB_ON_DEVICE, plan->n_consts * sizeof(float),
                           &plan->consts_buffer, b->reterr);
    if (r == 0)
        r = vkb_upload(b->dev, &ring, &plan->consts_buffer, 0, plan->consts,
                       plan->n_consts * sizeof(float));
    vkb_ring_done(b->dev, &ring);
    if (beside)
        pthread_join(thread, NULL);
    else
        compile_all(&job);
    if (r == 0 && job.r < 0) {
        r = job.r;
        if (b->reterr)
            *b->reterr = job.err;
    }
    return r;
}

static int make_buffer(const struct builder *b, enum vkb_place place, uint64_t size,
                       struct vkb_buffer *buffer)
{
    const int r = vkb_buffer_new(b->dev, place, size, buffer, b->reterr);

    if (r == 0 && buffer->map)
        memset(buffer->map, 0, buffer->size);
    return r;
}

static int make_buffers(const struct builder *b)
{
    struct plan *plan = b->plan;
    const uint64_t input_size =
        plan->input >= 0 ? value_bytes(plan, &plan->values[plan->input]) : 0;
    const struct {
        struct vkb_buffer *buffer;
        enum vkb_place place;
        uint64_t size;
    } all[] = {
        {&plan->scratch, VKB_ON_DEVICE, plan->scratch_size},
        {&plan->parts, VKB_ON_DEVICE, plan->parts_size},
        {&plan->step_buffer, VKB_UPLOAD, plan->rope_offset + plan->rope_size},
        {&plan->counts, VKB_UPLOAD, n_dispatches(plan) * COUNT_STRIDE},
        {&plan->runs, VKB_ON_DEVICE, plan->runs_size},
        {&plan->tops, VKB_READBACK, plan->tops_size},
        {&plan->input_buffer, VKB_UPLOAD, input_size},
        {&plan->readback, VKB_READBACK, (uint64_t)plan->output_width * sizeof(float)},
    };
    uint32_t at = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
        r = make_buffer(b, all[i].place, all[i].size, all[i].buffer);
    for (int i = 0; r == 0 && i < VKB_PACK_N; i++)
        if (plan->packed_size[i] > 0)
            r = make_buffer(b, VKB_ON_DEVICE, plan->packed_size[i], &plan->packed[i]);
    if (r < 0)
        return r;
    for (int c = 0; c < VKB_CLASS_N; c++) {
        plan->lists[c].counts_at = at;
        at += plan->lists[c].n;
    }
    return 0;
}

int vkb_plan_create(struct vkb_device *dev, struct plan *plan, struct inf_err *reterr)
{
    const struct builder b = {dev, plan, reterr};
    int r;

    r = make_buffers(&b);
    if (r == 0)
        r = load_and_compile(&b);
    if (r == 0)
        r = make_sets(&b);
    if (r == 0)
        r = record_lists(&b);
    if (r == 0)
        r = vkb_warm_up(plan);
    if (r < 0) {
        vkb_plan_destroy(dev, plan);
        return r;
    }
    vkb_pipelines_save(dev);
    return 0;
}

static void drop_list(struct vkb_device *dev, struct vkb_list *list)
{
    for (uint32_t i = 0; i < list->n_segments; i++)
        if (list->segments[i].commands)
            dev->fn.FreeCommandBuffers(dev->handle, dev->commands, 1, &list->segments[i].commands);
    list->n_segments = 0;
    for (uint32_t i = 0; i < list->n; i++)
        for (uint32_t j = 0; j < ARRAY_SIZE(list->dispatches[i].views); j++) {
            dev->fn.DestroyBufferView(dev->handle, list->dispatches[i].views[j], NULL);
            list->dispatches[i].views[j] = VK_NULL_HANDLE;
        }
}

void vkb_plan_destroy(struct vkb_device *dev, struct plan *plan)
{
    struct vkb_buffer *buffers[] = {&plan->scratch,       &plan->parts,        &plan->step_buffer,
                                    &plan->counts,        &plan->tops,         &plan->readback,
                                    &plan->consts_buffer, &plan->input_buffer, &plan->runs};

    for (int c = 0; c < VKB_CLASS_N; c++)
        drop_list(dev, &plan->lists[c]);
    dev->fn.DestroyDescriptorPool(dev->handle, plan->pool, NULL);
    plan->pool = VK_NULL_HANDLE;
    for (size_t i = 0; i < ARRAY_SIZE(buffers); i++)
        if (buffers[i]->handle)
            vkb_buffer_done(dev, buffers[i]);
    for (int i = 0; i < VKB_PACK_N; i++)
        if (plan->packed[i].handle)
            vkb_buffer_done(dev, &plan->packed[i]);
    for (uint32_t i = 0; i < plan->n_gathers; i++)
        if (plan->gathers[i].buffer.handle)
            vkb_buffer_done(dev, &plan->gathers[i].buffer);
    vkb_weights_unload(dev, &plan->weights);
}
