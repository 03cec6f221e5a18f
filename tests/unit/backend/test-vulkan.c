/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests parts of the Vulkan backend on the first device of this machine: memory, uploads, weight
 * regions, the pipeline cache file, and device losses. Without a device these tests are skipped.
 */
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "backend/vulkan/vulkan-backend.h"
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/memory.h"
#include "backend/vulkan/pipelines.h"
#include "backend/vulkan/quirks.h"
#include "backend/vulkan/regions.h"
#include "backend/vulkan/submit.h"
#include "backend/vulkan/upload.h"
#include "core/file.h"
#include "core/pages.h"
#include "core/rng.h"
#include "lib/test.h"

static struct vkb_instance *instance;

/* Opens the first usable device; skips the test without a device. */
static struct vkb_device *open_device(const char *cache_dir)
{
    struct vkb_device *dev = NULL;
    struct inf_err err = {0};

    for (uint32_t i = 0; instance && i < instance->n_devices && !dev; i++)
        if (!instance->devices[i].unusable)
            ASSERT_OK_ERR(vkb_device_new(instance, &instance->devices[i], cache_dir, &dev, &err),
                          err);
    if (!dev)
        skip();
    return dev;
}

static int open_instance(void **state __attribute__((unused)))
{
    struct inf_err err = {0};

    if (vkb_instance_new(&instance, &err) < 0)
        print_message("skipped: no Vulkan device: %s\n", err.text);
    return 0;
}

static int close_instance(void **state __attribute__((unused)))
{
    instance = vkb_instance_free(instance);
    return 0;
}

/* The number of live allocations of the device. */
static int n_allocations;
static struct vkb_device_fns real;

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *callbacks,
                                               VkDeviceMemory *ret_memory)
{
    n_allocations++;
    return real.AllocateMemory(device, info, callbacks, ret_memory);
}

static VKAPI_ATTR void VKAPI_CALL give_back(VkDevice device, VkDeviceMemory memory,
                                            const VkAllocationCallbacks *callbacks)
{
    n_allocations -= memory != VK_NULL_HANDLE;
    real.FreeMemory(device, memory, callbacks);
}

/* Checks that no two buffers overlap, and that all are aligned. */
static void check_apart(const struct vkb_buffer *buffers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            if (i != j && buffers[i].handle && buffers[j].handle &&
                buffers[i].chunk == buffers[j].chunk)
                assert_true(buffers[i].offset >= buffers[j].offset + buffers[j].size ||
                            buffers[j].offset >= buffers[i].offset + buffers[i].size);
}

/* Fills buffer @i with a pattern of its own, which the buffer must keep as long as it exists. */
static void fill(const struct vkb_buffer *b, uint32_t i)
{
    if (b->map)
        memset(b->map, (int)(i * 37 + 1) & 0xff, b->size);
}

static void check_filled(const struct vkb_buffer *b, uint32_t i)
{
    for (uint64_t at = 0; b->map && at < b->size; at += MAX(b->size / 3, 1u))
        assert_int_equal(((const uint8_t *)b->map)[at], (i * 37 + 1) & 0xff);
}

TEST(buffers_lie_apart_and_memory_is_given_back)
{
    enum { N = 40 };
    struct vkb_device *dev = open_device(NULL);
    struct vkb_buffer buffers[N] = {{0}};
    struct inf_err err = {0};
    struct rng rng;

    real = dev->fn;
    dev->fn.AllocateMemory = allocate;
    dev->fn.FreeMemory = give_back;
    rng_seed(&rng, 5);
    for (uint32_t round = 0; round < 600; round++) {
        const uint32_t i = rng_u32(&rng) % N;

        if (buffers[i].handle) {
            check_filled(&buffers[i], i);
            vkb_buffer_done(dev, &buffers[i]);
        } else {
            const uint64_t size = rng_u32(&rng) % 20 == 0  ? 70ull << 20
                                  : rng_u32(&rng) % 5 == 0 ? 0
                                                           : 1 + rng_u32(&rng) % (4u << 20);

            ASSERT_OK_ERR(
                vkb_buffer_new(dev, (enum vkb_place)(rng_u32(&rng) % 3), size, &buffers[i], &err),
                err);
            assert_true(buffers[i].size >= size);
            fill(&buffers[i], i);
        }
        if (round % 20 == 0)
            check_apart(buffers, N);
        assert_true(n_allocations < N / 2);
    }
    for (uint32_t i = 0; i < N; i++) {
        check_filled(&buffers[i], i);
        vkb_buffer_done(dev, &buffers[i]);
    }
    assert_int_equal(n_allocations, 0);
    vkb_device_free(dev);
}

/* Reads a buffer back, whether or not the host can map it. */
static void check_holds(struct vkb_device *dev, const struct vkb_buffer *b, uint64_t offset,
                        const void *expected, uint64_t size)
{
    const VkBufferCopy copy = {.srcOffset = offset, .size = size};
    struct vkb_buffer back;
    struct inf_err err = {0};
    VkCommandBuffer c;

    ASSERT_OK_ERR(vkb_buffer_new(dev, VKB_READBACK, size, &back, &err), err);
    c = vkb_once_begin(dev);
    assert_non_null(c);
    dev->fn.CmdCopyBuffer(c, b->handle, back.handle, 1, &copy);
    ASSERT_OK(vkb_once_end(dev, c));
    assert_memory_equal(back.map, expected, size);
    vkb_buffer_done(dev, &back);
}

static uint8_t *random_bytes(size_t n)
{
    uint8_t *p = malloc(n);
    struct rng rng;

    assert_non_null(p);
    rng_seed(&rng, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(rng_u32(&rng) >> 24);
    return p;
}

/* Uploads more than the ring holds, so that each of its buffers is reused. */
TEST(uploads_go_through_the_ring)
{
    enum { SIZE = (100 << 20) + 12 };
    struct vkb_device *dev = open_device(NULL);
    uint8_t *data = random_bytes(SIZE);
    struct vkb_buffer b, unseen;
    struct inf_err err = {0};
    struct vkb_ring ring;

    ASSERT_OK_ERR(vkb_ring_init(dev, &ring, &err), err);
    ASSERT_OK_ERR(vkb_buffer_new(dev, VKB_ON_DEVICE, SIZE + 64, &b, &err), err);
    /* Without a mapping, the buffer is like those of devices whose memory the host cannot map. */
    unseen = b;
    unseen.map = NULL;
    ASSERT_OK(vkb_upload(dev, &ring, &unseen, 32, data, SIZE));
    ASSERT_OK(vkb_upload(dev, &ring, &unseen, 0, data, 20));
    vkb_ring_done(dev, &ring);
    check_holds(dev, &b, 32, data, SIZE);
    check_holds(dev, &b, 0, data, 20);
    vkb_buffer_done(dev, &b);
    vkb_device_free(dev);
    free(data);
}

TEST(pages_of_the_host_are_read_in_place)
{
    const size_t page = pages_size(), size = 3 * page + 100;
    struct vkb_device *dev = open_device(NULL);
    struct vkb_buffer b;
    uint64_t offset;
    uint8_t *p;
    int r;

    p = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    for (size_t i = 0; i < 8 * page; i++)
        p[i] = (uint8_t)(i * i >> 7);
    assert_int_equal(mprotect(p, 8 * page, PROT_READ), 0);
    r = vkb_buffer_import(dev, p + 2 * page + 18, size, &b, &offset);
    if (r == 0) {
        check_holds(dev, &b, offset, p + 2 * page + 18, size);
        vkb_buffer_done(dev, &b);
    } else {
        assert_int_equal(r, -EOPNOTSUPP);
    }
    munmap(p, 8 * page);
    vkb_device_free(dev);
}

TEST(weights_are_joined_without_pages_of_others)
{
    static const unsigned char *base = (const unsigned char *)0x100000;
    const size_t scale = pages_size() / 0x1000; /* the numbers are for pages of 0x1000 bytes */
    static const struct {
        uint32_t at, size;
    } parts[] = {{0x8000, 0x100},  {0, 0x1800},       {0x1810, 0x200},  {0x3000, 0x10},
                 {0x3000, 0x1000}, {0x20000, 0x5000}, {0x24000, 0x100}, {0x25000, 0x100}};
    struct vkb_weights w = {0};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        ASSERT_OK(vkb_weights_add(&w, base + parts[i].at * scale, parts[i].size * scale));
    vkb_weights_join(&w, 0x5000 * scale);
    /* The parts at 0 and 0x1810 share a page, and 0x3000 is not the page after it. With the part at
     * 0x25000 the region at 0x20000 would exceed the maximum size. */
    assert_int_equal(w.n, 5);
    assert_ptr_equal(w.regions[0].host, base);
    assert_int_equal(w.regions[0].size, 0x1a10 * scale);
    assert_ptr_equal(w.regions[1].host, base + 0x3000 * scale);
    assert_int_equal(w.regions[1].size, 0x1000 * scale);
    assert_ptr_equal(w.regions[2].host, base + 0x8000 * scale);
    assert_ptr_equal(w.regions[3].host, base + 0x20000 * scale);
    assert_int_equal(w.regions[3].size, 0x5000 * scale);
    assert_ptr_equal(w.regions[4].host, base + 0x25000 * scale);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        const unsigned char *part = base + parts[i].at * scale;
        const struct vkb_region *r = vkb_weights_find(&w, part);

        assert_true(r->host <= part);
        assert_true(part + parts[i].size * scale <= r->host + r->size);
    }
    vkb_weights_done(&w);
}

/* Makes some pipelines. */
static void compile_some(struct vkb_device *dev)
{
    const size_t n = MIN(vkb_n_kernels(), 4u);
    struct inf_err err = {0};

    for (size_t i = 0; i < n; i++) {
        const struct vkb_choice choice = {.kernel = vkb_kernel_at(i), .spec = {8, 1}, .n_spec = 2};
        VkPipeline first;

        assert_true(vkb_pipeline_find(dev, &choice) == VK_NULL_HANDLE);
        ASSERT_OK_ERR(vkb_pipeline_add(dev, &choice, &err), err);
        ASSERT_OK_ERR(vkb_pipelines_compile(dev, &err), err);
        first = vkb_pipeline_find(dev, &choice);
        assert_true(first != VK_NULL_HANDLE);
        ASSERT_OK_ERR(vkb_pipeline_add(dev, &choice, &err), err);
        ASSERT_OK_ERR(vkb_pipelines_compile(dev, &err), err);
        assert_true(vkb_pipeline_find(dev, &choice) == first);
    }
    vkb_pipelines_save(dev);
}

/* Returns the path of the only file of a directory, or NULL if the directory is empty. */
static char *only_file(const char *dir)
{
    char *path = NULL;
    struct dirent *e;
    DIR *d = opendir(dir);

    assert_non_null(d);
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') {
            assert_null(path);
            path = path_join(dir, e->d_name);
        }
    closedir(d);
    return path;
}

static void put_file(const char *path, const char *data, size_t size)
{
    FILE *f;

    unlink(path);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* Whatever the file contains, the device opens, and leaves a valid file. */
TEST(pipelines_are_kept_in_a_file_that_may_be_torn)
{
    char dir[] = "/tmp/sconce-pipelines-XXXXXX", *path, *data, *again;
    size_t size, size_again;
    struct inf_err err = {0};
    struct vkb_device *dev;

    assert_non_null(mkdtemp(dir));
    dev = open_device(dir);
    compile_some(dev);
    vkb_device_free(dev);
    path = only_file(dir);
    if (!path) {
        print_message("this driver keeps nothing\n");
        rmdir(dir);
        return;
    }
    ASSERT_OK_ERR(file_read(path, 1 << 28, &data, &size, &err), err);
    for (unsigned damage = 0; damage < 5; damage++) {
        char *bad = malloc(size);

        assert_non_null(bad);
        memcpy(bad, data, size);
        if (damage == 1)
            bad[size / 2] ^= 1;
        if (damage == 2)
            memset(bad, 0, size);
        put_file(path, bad, damage == 3 ? size / 3 : damage == 4 ? 0 : size);
        free(bad);
        dev = open_device(dir);
        compile_some(dev);
        vkb_device_free(dev);
        ASSERT_OK_ERR(file_read(path, 1 << 28, &again, &size_again, &err), err);
        assert_int_equal(size_again, size);
        free(again);
    }
    unlink(path);
    assert_null(only_file(dir));
    /* If the directory was deleted, compiling only takes longer. */
    rmdir(dir);
    dev = open_device(dir);
    compile_some(dev);
    vkb_device_free(dev);
    free(data);
    free(path);
}

/* The pipelines that all models need are compiled once, and the file's header marks it complete. */
TEST(a_held_device_fills_the_cache_once)
{
    char dir[] = "/tmp/sconce-pipelines-XXXXXX", *path;
    struct vkb_held *held = NULL;
    struct vkb_device *dev;
    struct inf_err err = {0};
    struct stat st;

    if (!instance)
        skip();
    assert_non_null(mkdtemp(dir));
    vkb_pretend.discrete = true;
    ASSERT_OK_ERR(vkb_hold("vulkan:0", dir, false, &held, &err), err);
    assert_null(vkb_release(held));
    assert_null(only_file(dir));
    ASSERT_OK_ERR(vkb_hold("vulkan:0", dir, true, &held, &err), err);
    vkb_release(held);
    vkb_pretend.discrete = false;
    path = only_file(dir);
    assert_non_null(path);
    /* The file is not opened for writing again. */
    ASSERT_OK(stat(path, &st));
    assert_int_equal(st.st_mode & 0777, 0400);
    dev = open_device(dir);
    assert_true(vkb_pipelines_are_complete(dev));
    vkb_device_free(dev);
    ASSERT_ERROR(vkb_hold("vulkan:99", dir, true, &held, &err), EOPNOTSUPP);
    unlink(path);
    rmdir(dir);
    free(path);
}

TEST(a_lost_device_reports_the_loss_until_it_is_reopened)
{
    struct vkb_device *dev = open_device(NULL);
    struct vkb_fault fault = {.rng = 1, .rate = 1};
    VkCommandBuffer c;

    c = vkb_once_begin(dev);
    assert_non_null(c);
    ASSERT_OK(vkb_once_end(dev, c));
    c = vkb_once_begin(dev);
    assert_non_null(c);
    dev->fault = &fault;
    ASSERT_ERROR(vkb_once_end(dev, c), ENODEV);
    assert_true(dev->lost);
    fault.rate = 0;
    assert_null(vkb_once_begin(dev));
    ASSERT_ERROR(vkb_submit(dev, NULL, 0), ENODEV);
    ASSERT_ERROR(vkb_wait(dev, 1), ENODEV);
    vkb_device_free(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_lie_apart_and_memory_is_given_back),
        cmocka_unit_test(uploads_go_through_the_ring),
        cmocka_unit_test(pages_of_the_host_are_read_in_place),
        cmocka_unit_test(weights_are_joined_without_pages_of_others),
        cmocka_unit_test(pipelines_are_kept_in_a_file_that_may_be_torn),
        cmocka_unit_test(a_held_device_fills_the_cache_once),
        cmocka_unit_test(a_lost_device_reports_the_loss_until_it_is_reopened),
    };

    return cmocka_run_group_tests(tests, open_instance, close_instance);
}
