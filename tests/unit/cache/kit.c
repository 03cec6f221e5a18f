/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cache/kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cache/record.h"
#include "cache/segment.h"
#include "core/rng.h"
#include "lib/test.h"

enum { NAMES_MAX = 1024 };

const struct store_origin kit_origin = {"model", "f16/f16 cpu", "", NULL};

void kit_init(struct kit *k)
{
    snprintf(k->dir, sizeof(k->dir), "%s/test-cache-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(k->dir));
    k->params = (struct store_params){.path = k->dir};
    k->store = NULL;
}

void kit_done(struct kit *k)
{
    char command[128];

    kit_close(k);
    snprintf(command, sizeof(command), "rm -r %s", k->dir);
    assert_int_equal(system(command), 0);
}

void kit_open(struct kit *k)
{
    struct inf_err err;

    ASSERT_OK_ERR(store_open(&k->params, &k->store, &err), err);
}

void kit_close(struct kit *k)
{
    k->store = store_close(k->store);
}

void kit_name(uint32_t chain, uint32_t index, uint8_t ret_name[STORE_NAME_BYTES])
{
    struct rng rng;

    rng_seed(&rng, (uint64_t)chain << 32 | index);
    for (int i = 0; i < STORE_NAME_BYTES; i += 4) {
        const uint32_t v = rng_u32(&rng);

        memcpy(ret_name + i, &v, 4);
    }
}

uint64_t kit_bytes(uint32_t chain, uint32_t index, uint64_t most, uint8_t *ret_bytes)
{
    struct rng rng;
    uint64_t size;

    rng_seed(&rng, ~((uint64_t)chain << 32 | index));
    size = 1 + rng_u32(&rng) % most;
    for (uint64_t i = 0; i < size; i += 4) {
        const uint32_t v = rng_u32(&rng);

        memcpy(ret_bytes + i, &v, size - i < 4 ? size - i : 4);
    }
    return size;
}

int kit_blocks(uint32_t chain, uint32_t first, uint32_t n, uint64_t most,
               struct store_block *ret_blocks)
{
    const int fd = memfd_create("blocks", MFD_CLOEXEC);
    uint8_t *bytes;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(n * most)), 0);
    bytes = mmap(NULL, n * most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    for (uint32_t i = 0; i < n; i++) {
        struct store_block *b = &ret_blocks[i];

        *b = (struct store_block){.index = first + i, .offset = i * most};
        kit_name(chain, first + i, b->name);
        if (first + i > 0)
            kit_name(chain, first + i - 1, b->parent);
        b->size = kit_bytes(chain, first + i, most, bytes + b->offset);
        b->sum = record_sum(bytes + b->offset, b->size);
    }
    munmap(bytes, n * most);
    return fd;
}

int kit_put(struct kit *k, const struct store_origin *origin, uint32_t chain, uint32_t first,
            uint32_t n, uint64_t most)
{
    struct store_block blocks[NAMES_MAX];
    const int fd = kit_blocks(chain, first, n, most, blocks);
    const int r = store_put(k->store, origin, fd, blocks, n);

    close(fd);
    return r;
}

/* Returns whether the bytes at @place match their checksum. Increments *ret_wrong if the checksum
 * matches but the bytes are not those of the block. */
static bool read_place(struct kit *k, const struct store_place *place, uint32_t chain,
                       uint32_t index, uint64_t most, uint32_t *ret_wrong)
{
    struct segment_file *file = NULL;
    uint8_t *have = malloc(place->size + 1), *want = malloc(most + 4);
    uint64_t size;
    bool ok = store_segment_file(k->store, place->segment, &file) == 0 &&
              pread(file->fd, have, place->size, (off_t)place->offset) == (ssize_t)place->size &&
              record_sum(have, place->size) == place->sum;

    size = kit_bytes(chain, index, most, want);
    if (ok && (size != place->size || memcmp(have, want, size) != 0))
        ++*ret_wrong;
    segment_file_unref(file);
    free(have);
    free(want);
    return ok;
}

int kit_find(struct kit *k, uint32_t chain, uint32_t n, uint64_t most, uint32_t *ret_wrong)
{
    uint8_t names[NAMES_MAX][STORE_NAME_BYTES];
    struct store_place places[NAMES_MAX];
    int found;

    for (uint32_t i = 0; i < n; i++)
        kit_name(chain, i, names[i]);
    found = store_find(k->store, &kit_origin, names, n, false, places);
    for (int i = 0; i < found; i++)
        if (!read_place(k, &places[i], chain, (uint32_t)i, most, ret_wrong)) {
            store_reject(k->store, names[i]);
            return i;
        }
    return found;
}

uint64_t kit_disk(const struct kit *k, const char *name)
{
    char path[128];
    struct dirent *entry;
    uint64_t bytes = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%s", k->dir, name);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        struct stat st;

        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
    }
    closedir(dir);
    return bytes;
}
