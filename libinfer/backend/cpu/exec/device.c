/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the CPU backend.
 *
 * The backend owns the worker threads and selects the kernels. A KV store is reserved address
 * space: pages are allocated when blocks are written. Within a block, all data of one layer are
 * adjacent. attn.h describes the layout of a head.
 */
#include "backend/cpu/exec/device.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/exec/exec.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/pages.h"

/* Alignment of the groups in a store: the size of a huge page. */
#define GROUP_ALIGN (2u << 20)

static uint64_t kv_max_blocks(struct backend *b UNUSED, const struct kv_layout *layout UNUSED,
                              uint32_t i_group UNUSED)
{
    return UINT32_MAX;
}

/* Describes the layers of group @i_group. */
static void store_place_layers(struct kv_store *store, uint32_t i_group)
{
    const struct kv_layout *l = &store->layout;
    const struct state_group *g = &l->groups[i_group];
    uint64_t at = 0;

    for (uint32_t i = 0; g->rule != STATE_RECURRENT && i < g->n_layers; i++) {
        const struct state_place place = {i_group, i};
        struct store_layer *layer = &store->groups[i_group].layers[i];

        layer->offset = at;
        for (enum kv_part part = KV_KEYS; part < KV_PART_N; part++) {
            layer->codec[part] = kv_layout_codec(l, place, part == KV_KEYS);
            layer->turned[part] = kv_layout_turned(l, place, part == KV_KEYS);
            layer->head_bytes[part] =
                codec_head_bytes(layer->codec[part], g->head_dim) * l->block_tokens;
            at += layer->head_bytes[part] * g->n_kv_heads;
        }
    }
}

/* Sets the places of the blocks of all groups. *ret_size is the size of the store. Returns false if
 * it is too large. */
static bool store_place_groups(struct kv_store *store, uint64_t *ret_size)
{
    const struct kv_layout *l = &store->layout;
    struct store_layer *layers = store->layers;
    uint64_t at = 0, size;

    for (uint32_t i = 0; i < l->n_groups; i++) {
        const struct state_group *g = &l->groups[i];
        const bool recurrent = g->rule == STATE_RECURRENT;

        store->groups[i] = (struct store_group){
            .first = kv_layout_first(l, i),
            .n_blocks = l->n_blocks[i],
            .block_bytes = kv_layout_block_bytes(l, i),
            .layers = layers,
            .layer_floats = recurrent ? (uint64_t)g->conv_floats + g->matrix_floats : 0,
        };
        layers += recurrent ? 0 : g->n_layers;
        store_place_layers(store, i);
        if (!size_mul(store->groups[i].block_bytes, MAX(l->n_blocks[i], 1u), &size) ||
            size > SIZE_MAX / 4 || at > SIZE_MAX / 4)
            return false;
        at += ALIGN_UP(size, (uint64_t)GROUP_ALIGN);
    }
    *ret_size = MAX(at, 1u); /* a device that has only a part of a model may have no layers */
    return at <= SIZE_MAX / 2;
}

static int kv_new(struct backend *b UNUSED, const struct kv_layout *layout,
                  struct kv_store **ret_store)
{
    struct kv_store *store;
    uint64_t size, at = 0;
    size_t n_layers = 0;
    void *p;

    assert(layout->block_tokens >= KV_BLOCK_MIN && layout->block_tokens <= KV_BLOCK_MAX);
    assert(layout->block_tokens % 16 == 0);

    for (uint32_t i = 0; i < layout->n_groups; i++)
        n_layers += layout->groups[i].n_layers;
    store = calloc(1, sizeof(*store) + n_layers * sizeof(store->layers[0]));
    if (!store)
        return -ENOMEM;
    store->layout = *layout;
    if (!store_place_groups(store, &size)) {
        free(store);
        return -ENOMEM;
    }
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    if (p == MAP_FAILED) {
        free(store);
        return -ENOMEM;
    }
    madvise(p, size, MADV_HUGEPAGE); /* only a hint */
    store->data = p;
    store->size = size;
    for (uint32_t i = 0; i < layout->n_groups; i++) {
        store->groups[i].data = store->data + at;
        at += ALIGN_UP(store->groups[i].block_bytes * MAX(layout->n_blocks[i], 1u),
                       (uint64_t)GROUP_ALIGN);
    }
    *ret_store = store;
    return 0;
}

static void kv_free(struct backend *b UNUSED, struct kv_store *store)
{
    if (!store)
        return;
    munmap(store->data, store->size);
    free(store);
}

/* Returns the group of @block. */
static const struct store_group *group_of(const struct kv_store *store, uint32_t block)
{
    const struct store_group *g = &store->groups[kv_layout_group(&store->layout, block)];

    assert(block >= g->first && block - g->first < g->n_blocks);
    return g;
}

/* Returns the address of a block of group @g. */
static unsigned char *block_at(const struct store_group *g, uint32_t block)
{
    return g->data + (block - g->first) * g->block_bytes;
}

static void kv_copy(struct backend *b UNUSED, struct kv_store *store, uint32_t dst, uint32_t src)
{
    const struct store_group *g = group_of(store, dst);

    assert(g == group_of(store, src));
    if (dst != src)
        memcpy(block_at(g, dst), block_at(g, src), g->block_bytes);
}

static void kv_drop(struct backend *b UNUSED, struct kv_store *store, uint32_t first, uint32_t n)
{
    const struct store_group *g = group_of(store, first);

    assert(n <= g->n_blocks - (first - g->first));
    pages_drop(block_at(g, first), n * g->block_bytes);
}

static uint64_t kv_size(const struct backend *b UNUSED, const struct kv_store *store,
                        uint32_t block)
{
    return group_of(store, block)->block_bytes;
}

static void *kv_bytes(struct backend *b UNUSED, struct kv_store *store, uint32_t block)
{
    return block_at(group_of(store, block), block);
}

/* The results of attention in tiles differ in the last bits from those of other kernels, and so do
 * the keys and values of all layers but the first. */
static const char *kv_format(const struct backend *b)
{
    if (strcmp(attn_pick(((const struct cpu_backend *)b)->flags_many)->name, "amx") == 0)
        return "cpu, heads of a layer together, attention in tiles, 2, by sconce " SCONCE_VERSION;
    return "cpu, heads of a layer together, 2, by sconce " SCONCE_VERSION;
}

void *kv_store_head(const struct kv_store *store, enum kv_part part, struct state_place place,
                    uint32_t i_head, uint32_t block)
{
    const struct store_group *g = &store->groups[place.i_group];
    const struct store_layer *layer = kv_store_layer(store, place);
    const uint64_t keys = layer->head_bytes[KV_KEYS], values = layer->head_bytes[KV_VALUES];

    assert(block >= g->first && block - g->first < g->n_blocks);
    return block_at(g, block) + layer->offset + i_head * (keys + values) +
           (part == KV_VALUES ? keys : 0);
}

float *kv_store_state(const struct kv_store *store, struct state_place place, uint32_t block)
{
    const struct store_group *g = &store->groups[place.i_group];

    assert(block >= g->first && block - g->first < g->n_blocks);
    return (float *)block_at(g, block) + place.i_layer * g->layer_floats;
}

static void cpu_free(struct backend *b)
{
    struct cpu_backend *cpu = CONTAINER_OF(b, struct cpu_backend, backend);

    workers_free(cpu->workers);
    free(cpu);
}

static void cpu_parallel(struct backend *b, workers_fn fn, void *arg)
{
    workers_run(CONTAINER_OF(b, struct cpu_backend, backend)->workers, fn, arg);
}

static unsigned n_threads(const struct backend *b)
{
    return workers_count(((const struct cpu_backend *)b)->workers);
}

static const char *cpu_isa(const struct backend *b)
{
    return cpu_rung_name(((const struct cpu_backend *)b)->flags);
}

/*
 * Chooses the format of the weights for products of many rows. AMX tiles are the fastest, and more
 * precise than products with input rows in int8. On CPUs without AMX, the best format is weights
 * packed as F16, which are stored as blocks of int16 (matmul.h). They are multiplied twice as fast
 * as floats, and are more precise than bfloat16, which some CPUs multiply slower than floats. With
 * input rows in int8, a third of the error comes from the matrices that compute the values of
 * attention, although these matrices are only a twelfth of a layer's products. Therefore these
 * matrices (@values) do not use int8.
 */
static struct product_format product_format(const struct backend *b, enum inf_dtype dtype,
                                            bool values)
{
    const struct matmul_ops *ops = matmul_ops_get(((const struct cpu_backend *)b)->flags_many);
    const bool is_half = dtype == INF_DTYPE_F16 || dtype == INF_DTYPE_BF16;

    if (matmul_packs(ops, INF_DTYPE_BF16) && dtype <= INF_DTYPE_Q8_0)
        return (struct product_format){dtype == INF_DTYPE_F32 ? INF_DTYPE_F32 : INF_DTYPE_BF16,
                                       true};
    if (matmul_packs(ops, INF_DTYPE_F16) && (is_half || (dtype == INF_DTYPE_Q8_0 && values)))
        return (struct product_format){INF_DTYPE_F16, true};
    if (dtype == INF_DTYPE_Q8_0 && values)
        return (struct product_format){INF_DTYPE_F32, false};
    return (struct product_format){dtype, false};
}

/* Chooses BF16 only on CPUs with AMX, whose tiles multiply BF16 faster than any other format.
 * Vector instructions multiply BF16 no faster than floats. */
static enum codec many_codec(const struct backend *b)
{
    return ((const struct cpu_backend *)b)->flags_many & CPU_AMX_BF16 ? CODEC_BF16 : CODEC_F32;
}

static const struct backend_ops cpu_ops = {
    .name = "cpu",
    .kv_max_blocks = kv_max_blocks,
    .kv_new = kv_new,
    .kv_free = kv_free,
    .kv_copy = kv_copy,
    .kv_drop = kv_drop,
    .kv_size = kv_size,
    .kv_bytes = kv_bytes,
    .kv_format = kv_format,
    .compile = program_compile,
    .plan_free = program_free,
    .plan_rest = program_rest,
    .product_format = product_format,
    .many_codec = many_codec,
    .run = exec_run,
    .run_part = exec_run_part,
    .accept = exec_accept,
    .max_drafted = exec_max_drafted,
    .free = cpu_free,
    .parallel = cpu_parallel,
    .n_threads = n_threads,
    .isa = cpu_isa,
};

int cpu_backend_new(const struct backend_params *params, struct backend **ret_backend,
                    struct inf_err *reterr)
{
    const unsigned n_workers = params->n_threads > 0 ? params->n_threads : cpu_count();
    struct cpu_backend *cpu;
    unsigned flags;
    int r;

    r = cpu_rung_flags(params->isa, &flags);
    if (r == -EOPNOTSUPP)
        return err_set(reterr, EOPNOTSUPP, "this CPU has no %s", params->isa);
    if (r < 0)
        return err_set(reterr, -r, "unknown instruction set %s", params->isa);
    if (params->exact)
        flags = (flags & ~(unsigned)(CPU_AVX512_FP16 | CPU_AMX_BF16)) | MATMUL_FLOATS;

    cpu = NEW(struct cpu_backend, 1);
    if (!cpu)
        return err_set(reterr, ENOMEM, "out of memory");
    cpu->flags_many = flags;
    if (!params->many_rows && (!params->isa || strcmp(params->isa, "auto") == 0))
        flags &= ~(unsigned)CPU_AMX_BF16;
    cpu->backend.ops = &cpu_ops;
    cpu->flags = flags;
    cpu->fuse = true;
    cpu->elem = elem_pick(flags);
    cpu->watch = params->watch;
    r = workers_new(n_workers, &cpu->workers);
    if (r < 0) {
        free(cpu);
        return err_set(reterr, -r, "cannot start %u threads", n_workers);
    }
    *ret_backend = &cpu->backend;
    return 0;
}
