/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures copies within the memory of a Vulkan device: bench-copy [DEVICE]
 *
 * A kernel copies rows (it multiplies them by a number). The driver's own copy command is not
 * measured, because NVIDIA's driver takes several times as long for it. The time of a short chain
 * of copies is subtracted from that of a long chain, because the first copy reads the host's
 * memory. Prints the speed as a line of JSON. Each byte is read and written, and therefore counts
 * twice.
 */

#include <stdio.h>
#include <string.h>

#include "backend/vulkan/program.h"
#include "core/clock.h"

#define SIZE  (1ull << 30)
#define WIDTH 65536u

enum { N_SHORT = 2, N_LONG = 18 };

/* Returns the seconds of a step that copies @n_rows rows @n times: the shortest of several runs.
 * The result is negative if the device fails. */
static double copy(struct backend *b, uint32_t n_rows, uint32_t n, const float *x)
{
    const uint32_t n_blocks = DIV_UP(n_rows, 64u), last = n_rows - 1;
    const struct kv_layout layout = kv_layout_full(1, 1, 32, 64, CODEC_F16, n_blocks);
    const struct plan_limits limits = {n_rows, 1, 1, n_rows};
    _cleanup_free_ uint32_t *blocks = NEW(uint32_t, n_blocks);
    _cleanup_free_ int32_t *tokens = NEW(int32_t, n_rows);
    _cleanup_free_ float *y = NEW(float, WIDTH);
    const struct batch_seq seq = {0, n_rows, 0, n_blocks, {blocks}};
    const struct batch batch = {n_rows, tokens, 1, &seq, 1, &last, x};
    struct inf_err err = {0};
    double best = -1;
    struct kv_store *store;
    struct graph *g;
    struct plan *plan;
    graph_ref v;

    if (!blocks || !tokens || !y || graph_new(&g) < 0)
        return -1;
    v = graph_input(g, WIDTH);
    for (uint32_t i = 0; i < n; i++)
        v = graph_scale(g, v, 0.5f);
    graph_output(g, graph_rows(g, v));
    if (b->ops->kv_new(b, &layout, &store) < 0 ||
        b->ops->compile(b, g, &limits, store, &plan, &err) < 0) {
        fprintf(stderr, "bench-copy: %s\n", err.text);
        return -1;
    }
    for (int i = 0; i < 6; i++) {
        const uint64_t begin = clock_nsec();
        double seconds;

        if (b->ops->run(b, plan, store, &batch, y, NULL) < 0)
            return -1;
        seconds = (double)(clock_nsec() - begin) * 1e-9;
        /* The first step is not measured: it compiles kernels, and its submissions are short. */
        if (i > 0)
            best = best < 0 ? seconds : MIN(best, seconds);
    }
    b->ops->plan_free(b, plan);
    b->ops->kv_free(b, store);
    graph_free(g);
    return best;
}

int main(int argc, char **argv)
{
    const struct backend_params params = {.device = argc > 1 ? argv[1] : "vulkan", .n_threads = 1};
    struct inf_err err = {0};
    struct backend *b = NULL;
    const struct vkb_device_info *info;
    double seconds[2];
    uint32_t n_rows;
    float *x;

    if (backend_new(&params, &b, &err) < 0 || strcmp(b->ops->name, "vulkan") != 0) {
        fprintf(stderr, "bench-copy: %s\n", b ? "not a Vulkan device" : err.text);
        return 1;
    }
    info = ((struct vkb_backend *)b)->info;
    n_rows = (uint32_t)(MIN(info->caps.kind == VKB_SOFTWARE ? SIZE / 16 : SIZE,
                            MIN(info->caps.heap_size / 16, info->caps.max_range)) /
                        (WIDTH * sizeof(float)));
    x = NEW(float, (size_t)n_rows *WIDTH);
    seconds[0] = x ? copy(b, n_rows, N_SHORT, x) : -1;
    seconds[1] = x ? copy(b, n_rows, N_LONG, x) : -1;
    if (seconds[0] < 0 || seconds[1] < 0)
        return 1;
    printf("{\"device\": \"%s\", \"copy_bytes_s\": %.6g}\n", info->name,
           2.0 * (double)n_rows * WIDTH * sizeof(float) * (N_LONG - N_SHORT) /
               (seconds[1] - seconds[0]));
    free(x);
    backend_free(b);
    return 0;
}
