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

#include "backend/cpu/exec/program.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/pages.h"

static uint64_t kv_max_blocks(struct backend *b UNUSED, const struct kv_layout *layout UNUSED)
{
    return UINT32_MAX;
}

static int kv_new(struct backend *b UNUSED, const struct kv_layout *layout, uint32_t n_blocks,
                  struct kv_store **ret_store)
{
    struct kv_store *store;
    uint64_t size;
    void *p;

    assert(layout->block_tokens >= KV_BLOCK_MIN && layout->block_tokens <= KV_BLOCK_MAX);
    assert(layout->block_tokens % 16 == 0);

    if (!size_mul(kv_layout_block_bytes(layout), MAX(n_blocks, 1u), &size) || size > SIZE_MAX / 2)
        return -ENOMEM;
    size = MAX(size, 1u); /* a device that has only a part of a model may have no layers */
    store = NEW(struct kv_store, 1);
    if (!store)
        return -ENOMEM;
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    if (p == MAP_FAILED) {
        free(store);
        return -ENOMEM;
    }
    madvise(p, size, MADV_HUGEPAGE); /* only a hint */
    *store = (struct kv_store){
        .data = p,
        .size = size,
        .layout = *layout,
        .n_blocks = n_blocks,
        .block_bytes = kv_layout_block_bytes(layout),
        .codec = {[KV_KEYS] = layout->k, [KV_VALUES] = layout->v},
        .head_bytes = {[KV_KEYS] =
                           codec_head_bytes(layout->k, layout->head_dim) * layout->block_tokens,
                       [KV_VALUES] =
                           codec_head_bytes(layout->v, layout->head_dim) * layout->block_tokens},
    };
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

static void kv_copy(struct backend *b UNUSED, struct kv_store *store, uint32_t dst, uint32_t src)
{
    assert(dst < store->n_blocks && src < store->n_blocks);
    if (dst != src)
        memcpy(store->data + dst * store->block_bytes, store->data + src * store->block_bytes,
               store->block_bytes);
}

static void kv_drop(struct backend *b UNUSED, struct kv_store *store, uint32_t first, uint32_t n)
{
    assert(first <= store->n_blocks && n <= store->n_blocks - first);
    pages_drop(store->data + first * store->block_bytes, n * store->block_bytes);
}

static uint64_t kv_size(const struct backend *b UNUSED, const struct kv_store *store)
{
    return store->block_bytes;
}

static void *kv_bytes(struct backend *b UNUSED, struct kv_store *store, uint32_t block)
{
    assert(block < store->n_blocks);
    return store->data + block * store->block_bytes;
}

static const char *kv_format(const struct backend *b UNUSED)
{
    return "cpu, heads of a layer together, 1, by sconce " SCONCE_VERSION;
}

void *kv_store_head(const struct kv_store *store, enum kv_part part, uint32_t i_layer,
                    uint32_t i_head, uint32_t block)
{
    const uint64_t head = (uint64_t)i_layer * store->layout.n_kv_heads + i_head;

    return store->data + block * store->block_bytes +
           head * (store->head_bytes[KV_KEYS] + store->head_bytes[KV_VALUES]) +
           (part == KV_VALUES ? store->head_bytes[KV_KEYS] : 0);
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
 * precise than products with input rows in int8. On CPUs without AMX, weights packed as F16, which
 * means blocks of int16 (matmul.h), are the best: they are multiplied twice as fast as floats, and
 * are more precise than bfloat16, which some CPUs multiply slower than floats. With input rows in
 * int8, a third of the error comes from the matrices that compute the values of attention, although
 * these matrices are only a twelfth of a layer's products. Therefore these matrices (@values) do
 * not use int8.
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
        flags &= ~(unsigned)(CPU_AVX512_FP16 | CPU_AMX_BF16);

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
    r = workers_new(n_workers, &cpu->workers);
    if (r < 0) {
        free(cpu);
        return err_set(reterr, -r, "cannot start %u threads", n_workers);
    }
    *ret_backend = &cpu->backend;
    return 0;
}
