/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Represents a graph as lists of dispatches.
 *
 * compile.c walks through the graph and decides what is computed together. The files dispatch*.c
 * write the dispatches, once for each class of steps. These files need no open device, because
 * bindings refer to weights by address and to values by node. plan-create.c allocates memory,
 * descriptors and pipelines on a device, and records the commands. Everything that plan-create.c
 * makes can be discarded and made again. run.c replays the commands.
 */

#include "backend/backend.h"
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/regions.h"
#include "core/arena.h"
#include "graph/users.h"

enum vkb_bind_kind {
    VKB_BIND_NONE,
    VKB_BIND_WEIGHT, /* host, size */
    VKB_BIND_GATHER, /* index: a vkb_gather; offset, size */
    VKB_BIND_CONST,  /* offset, size: of the plan's constants */
    VKB_BIND_VALUE,  /* index: a node */
    VKB_BIND_PACKED, /* index: a vkb_pack */
    VKB_BIND_STEP,   /* written by the host before each step */
    VKB_BIND_ROPE,   /* index: a rope table */
    VKB_BIND_KEYS,   /* group, index: a layer of a group of the KV store */
    VKB_BIND_VALUES, /* the same */
    VKB_BIND_STATE,  /* the same; the group is RECURRENT */
    VKB_BIND_PARTS,  /* for attention that is split over the context */
    VKB_BIND_RUNS,   /* largest logit and sum of each run of logits */
    VKB_BIND_TOPS,   /* the largest logits of each row */
};

struct vkb_bind {
    enum vkb_bind_kind kind;
    uint32_t index, group;
    uint64_t offset, size;
    const void *host;
    /* For VKB_BIND_WEIGHT and VKB_BIND_GATHER: the index of the push constant that receives the
     * number of bytes between the binding's start and the weight. This number can be above 0,
     * because bindings must be aligned. */
    uint32_t push_at;
};

enum vkb_count_by {
    VKB_COUNT_FIXED,
    VKB_COUNT_ROWS,   /* rows of the step ÷ n */
    VKB_COUNT_LOGITS, /* rows of logits ÷ n */
    VKB_COUNT_SEQS,   /* sequences ÷ n */
    VKB_COUNT_TILES,  /* tiles of attention ÷ n */
    VKB_COUNT_PARTS,  /* parts of n tokens in the longest context */
    VKB_COUNT_MERGES, /* tiles, if a context has more than one part of n tokens */
    VKB_COUNT_TOPS,   /* rows of logits ÷ n if lists are requested, else none */
};

/* Uints per list of the largest logits: count, log-sum-exp, then pairs of id and value. */
#define VKB_TOP_STRIDE (2u + 2u * TOP_MAX)

struct vkb_count {
    enum vkb_count_by by;
    uint32_t n;     /* VKB_COUNT_FIXED: the count; else the n of enum vkb_count_by */
    uint32_t times; /* factor of what is counted, before the division by n; 0 counts as 1 */
    uint32_t group; /* VKB_COUNT_TILES, VKB_COUNT_MERGES: the group of state */
};

struct vkb_dispatch {
    struct vkb_choice choice;
    struct vkb_bind binds[VKB_SLOTS];
    struct vkb_count count[3];
    uint32_t push[VKB_PUSH_MAX / sizeof(uint32_t)];
    uint32_t push_size; /* bytes */
    bool joins;         /* does not wait for the dispatch before it */
    uint32_t layer;     /* lists are split into segments where the layer changes */
    uint64_t work;      /* bytes of the weights of a product; 0: it is no product */

    VkPipeline pipeline; /* made on the device */
    VkDescriptorSet set;
    VkBufferView views[VKB_SLOTS];
};

/* Commands that are submitted together. */
struct vkb_segment {
    VkCommandBuffer commands;
    uint32_t first, n; /* dispatches */
    /* Estimates of the segment's work, in bytes of weights: for each row of the step, and for each
     * row of logits. */
    uint64_t row_work, logit_work;
};

struct vkb_list {
    struct vkb_dispatch *dispatches;
    uint32_t n, cap;
    struct vkb_segment *segments;
    uint32_t n_segments;
    uint32_t counts_at;   /* index of its first dispatch's workgroup counts in the counts buffer */
    double usec_per_work; /* decaying average of measurements; 0: not measured yet */
};

/* Matrices of experts that are not contiguous in the host's memory, or a weight with planes
 * (graph/weight.h), which becomes blocks (backend/joined.h). The device has the matrices in one
 * buffer, at distances of `stride` bytes. */
struct vkb_gather {
    struct weight w;      /* its arrays are borrowed */
    enum inf_dtype dtype; /* of the blocks */
    uint32_t n;           /* matrices */
    uint64_t row_bytes, bytes, stride;
    struct vkb_buffer buffer; /* zeroed while there is no device */
};

/* A value of the graph: [rows, width] floats. */
struct vkb_value {
    bool made;
    uint32_t width; /* of all slots; a route has the weights of its slots, then their experts */
    uint32_t slots; /* at least 1 */
    bool rows_kept; /* max_logits rows instead of max_rows */
    uint32_t first, last; /* range of stages that need the value */
    uint64_t offset;      /* in the scratch buffer */
};

/* Layout of the step buffer, in uints: see shaders/lib/step.glsl. Each group of state has its own
 * tiles and blocks. */
struct vkb_step_layout {
    uint32_t tokens, row_pos, row_seq, logit_rows, seq_first, seq_rows, tiles, blocks, end;
    uint32_t max_tiles, max_blocks;
};

struct plan {
    struct vkb_backend *vkb;
    struct plan *next; /* in the backend's list */
    struct plan_limits limits;
    struct kv_store *store; /* borrowed */
    struct arena arena;
    uint32_t n_stages, n_values;
    struct vkb_value *values;
    graph_ref output, input; /* input: none for whole models */
    uint32_t output_width;
    /* For attention in each group of state; 0: there is none. */
    uint32_t tile_rows[STATE_GROUPS_MAX][VKB_CLASS_N];
    uint64_t parts_size; /* bytes */
    uint64_t packed_size[VKB_PACK_N];
    struct rope_params *ropes;
    uint32_t n_ropes;
    struct vkb_list lists[VKB_CLASS_N];
    struct vkb_weights weights;
    struct vkb_gather *gathers;
    uint32_t n_gathers, cap_gathers;
    float *consts; /* small vectors as floats */
    uint64_t n_consts, cap_consts;
    struct vkb_step_layout step;
    uint64_t scratch_size, rope_offset, rope_size; /* ropes follow the step's uints */
    uint64_t tops_size, runs_size;

    /* Made on the device; all zero while there is no device. */
    struct vkb_buffer scratch, step_buffer, counts, consts_buffer, parts, tops, readback,
        input_buffer, runs, packed[VKB_PACK_N];
    VkDescriptorPool pool;
    uint32_t rows_now; /* limit of rows of a step that keeps submissions short */
};

/* Holds a group of state. The blocks of a group have the numbers first … first + n_blocks - 1 in
 * the store, and count from 0 on the device. */
struct vkb_group {
    uint32_t first, n_blocks;
    uint64_t block_bytes; /* bytes of a block in all buffers */
    /* [n_buffers]: K, then V of each layer; RECURRENT: the state of each layer. */
    struct vkb_buffer *buffers;
    uint64_t *bytes; /* [n_buffers] bytes of a block in each of them */
    uint32_t n_buffers;
};

struct kv_store {
    struct vkb_backend *vkb;
    struct kv_store *next; /* in the backend's list */
    struct kv_layout layout;
    struct vkb_group groups[STATE_GROUPS_MAX];
    /* Staging buffer for one block with the data of all layers. Created at the first transfer. */
    struct vkb_buffer staging;
};

struct vkb_backend {
    struct backend base;
    struct vkb_instance *in;
    const struct vkb_device_info *info;
    struct vkb_device *dev; /* NULL while the device is lost */
    char *cache_dir;
    bool cache_read_only;
    uint64_t submit_usec; /* limit of a submission's time; 0: none */
    struct plan *plans;
    struct kv_store *stores;
    struct workers *workers; /* for host work between steps */
    struct vkb_fault fault;
    char kv_format[sizeof(((struct vkb_device_info *)0)->name) + 128];
};

/* compile.c: check() of struct backend_ops. */
int vkb_check(struct backend *b, const struct graph *g, struct inf_err *reterr);
/* order.c: makes a copy of @g in which nodes prepare the inputs of matrices that have an order of
 * columns (quant/coded.h). *ret_graph is NULL if no matrix has one. The copy borrows from @g and
 * from @arena. */
int vkb_order(const struct graph *g, struct arena *arena, struct graph **ret_graph,
              struct inf_err *reterr);
/* Makes the part of a plan that needs no open device. */
int vkb_compile(struct plan *plan, const struct graph *g, struct inf_err *reterr);
void vkb_plan_done(struct plan *plan);
/* Adds a small weight, with all rows of all experts, to the constants, as floats. *ret_bind refers
 * to it. A weight without data gives an empty binding. Returns 0 or -ENOMEM. */
int vkb_const_add(struct plan *plan, const struct weight *w, struct vkb_bind *ret_bind);
/* Adds @n floats to the constants. *ret_floats is valid until the next constants are added. Returns
 * 0 or -ENOMEM. */
int vkb_const_floats(struct plan *plan, uint64_t n, float **ret_floats, struct vkb_bind *ret_bind);

/* plan-create.c */
int vkb_plan_create(struct vkb_device *dev, struct plan *plan, struct inf_err *reterr);
void vkb_plan_destroy(struct vkb_device *dev, struct plan *plan);

/* kv.c */
int vkb_store_create(struct vkb_device *dev, struct kv_store *store, struct inf_err *reterr);
void vkb_store_destroy(struct vkb_device *dev, struct kv_store *store);

/* run.c */
int vkb_run(struct backend *b, struct plan *plan, struct kv_store *store, const struct batch *batch,
            float *logits, struct top_row *tops);
int vkb_logits(struct backend *b, struct plan *plan, uint32_t i, float *ret_row);
/* Runs all dispatches without rows, and so computes nothing. Drivers that defer compiling to the
 * first use then compile now, while the process still has the rights for it. */
int vkb_warm_up(struct plan *plan);
