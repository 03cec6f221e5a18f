/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the digest of a file while another process writes it (see store.h).
 *
 * That process is not trusted: it could change bytes that have been read already. Therefore a
 * second pass, which runs after that process has ended, compares the file with the bytes that were
 * read. Both passes compute a GMAC (NIST SP 800-38D) with a random key that only this process
 * knows. libcrypto computes GMAC several times as fast as SHA-256, so the second pass takes less
 * time than a whole digest would.
 *
 * The second pass reads a mapping of the file, because this saves a copy. Entering the pages of a
 * large file into the page tables takes as long as the GMAC itself, so the mapping is made while
 * the file grows, and its pages are entered as they arrive. Nothing is read through the mapping
 * before the other process has ended: it could cut the file short, and reading beyond its end would
 * end this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/sha256.h"

enum {
    GROWING_STEP = 256 << 10, /* in bytes: stays in the cache between its two computations */
    GROWING_KEY = 16,
    GROWING_TAG = 16,
};

struct store_growing {
    int fd;
    char *path;
    uint8_t key[GROWING_KEY];
    EVP_CIPHER_CTX *mac;
    struct sha256 hash;
    uint64_t size;                /* bytes that were read */
    uint8_t *map;                 /* [map_size] the file; NULL: it is not mapped yet */
    uint64_t map_size, n_entered; /* bytes whose pages are in the page tables */
    uint8_t *step;                /* [GROWING_STEP] */
};

/* Begins a GMAC. Each key is used for one file, so the nonce may be zero. */
static EVP_CIPHER_CTX *mac_new(const uint8_t key[GROWING_KEY])
{
    static const uint8_t nonce[12];
    EVP_CIPHER_CTX *mac = EVP_CIPHER_CTX_new();

    if (mac && EVP_EncryptInit_ex(mac, EVP_aes_128_gcm(), NULL, key, nonce) != 1) {
        EVP_CIPHER_CTX_free(mac);
        return NULL;
    }
    return mac;
}

static int mac_add(EVP_CIPHER_CTX *mac, const uint8_t *bytes, size_t n)
{
    int len;

    return EVP_EncryptUpdate(mac, NULL, &len, bytes, (int)n) == 1 ? 0 : -EIO;
}

static int mac_end(EVP_CIPHER_CTX *mac, uint8_t ret_tag[GROWING_TAG])
{
    uint8_t none[GROWING_TAG];
    int len;

    return EVP_EncryptFinal_ex(mac, none, &len) == 1 &&
                   EVP_CIPHER_CTX_ctrl(mac, EVP_CTRL_AEAD_GET_TAG, GROWING_TAG, ret_tag) == 1
               ? 0
               : -EIO;
}

struct store_growing *store_growing_new(const char *path)
{
    struct store_growing *g = NEW(struct store_growing, 1);

    if (!g)
        return NULL;
    g->fd = -1;
    g->path = strdup(path);
    g->step = NEW(uint8_t, GROWING_STEP);
    if (!g->path || !g->step || getrandom(g->key, sizeof(g->key), 0) != sizeof(g->key))
        return store_growing_free(g);
    g->mac = mac_new(g->key);
    if (!g->mac)
        return store_growing_free(g);
    sha256_init(&g->hash);
    return g;
}

struct store_growing *store_growing_free(struct store_growing *g)
{
    if (!g)
        return NULL;
    if (g->fd >= 0)
        close(g->fd);
    if (g->map)
        munmap(g->map, g->map_size);
    EVP_CIPHER_CTX_free(g->mac);
    free(g->step);
    free(g->path);
    explicit_bzero(g->key, sizeof(g->key));
    free(g);
    return NULL;
}

/* Maps the file, which has its full size from the beginning. */
static void growing_map(struct store_growing *g)
{
    struct stat st;
    void *map;

    if (g->map || fstat(g->fd, &st) < 0 || st.st_size <= 0)
        return;
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, g->fd, 0);
    if (map == MAP_FAILED)
        return;
    g->map = map;
    g->map_size = (uint64_t)st.st_size;
}

/* Enters the pages of the bytes that were read into the page tables. Unlike an access, this ends in
 * an error and not in a signal if the file has been cut short. */
static void growing_enter(struct store_growing *g)
{
    const uint64_t end = MIN(g->size, g->map_size) / GROWING_STEP * GROWING_STEP;

    if (g->map && g->n_entered < end &&
        madvise(g->map + g->n_entered, end - g->n_entered, MADV_POPULATE_READ) == 0)
        g->n_entered = end;
}

void store_growing_read(struct store_growing *g, uint64_t size)
{
    ssize_t n = 1;

    if (!g || g->size >= size)
        return;
    if (g->fd < 0)
        g->fd = open(g->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    while (g->fd >= 0 && n > 0 && g->size < size) {
        n = pread(g->fd, g->step, MIN((uint64_t)GROWING_STEP, size - g->size), (off_t)g->size);
        if (n > 0 && mac_add(g->mac, g->step, (size_t)n) == 0) {
            sha256_add(&g->hash, g->step, (size_t)n);
            g->size += (uint64_t)n;
        }
    }
    if (g->fd >= 0) {
        growing_map(g);
        growing_enter(g);
    }
}

/* Returns whether the mapping is that of the complete file @path. */
static bool growing_is_mapped(const struct store_growing *g, const char *path)
{
    struct stat mapped, named;

    return g->map && fstat(g->fd, &mapped) == 0 && stat(path, &named) == 0 &&
           mapped.st_dev == named.st_dev && mapped.st_ino == named.st_ino &&
           (uint64_t)named.st_size == g->map_size;
}

/* Computes the GMAC of @size bytes. */
static int mac_bytes(const struct store_growing *g, const uint8_t *bytes, uint64_t size,
                     void (*progress)(void *data, uint64_t bytes), void *data,
                     uint8_t ret_tag[GROWING_TAG])
{
    EVP_CIPHER_CTX *mac = mac_new(g->key);
    int r = mac ? 0 : -ENOMEM;

    for (uint64_t at = 0; r == 0 && at < size; at += GROWING_STEP) {
        const size_t n = (size_t)MIN((uint64_t)GROWING_STEP, size - at);

        r = mac_add(mac, bytes + at, n);
        if (progress)
            progress(data, n);
    }
    if (r == 0)
        r = mac_end(mac, ret_tag);
    EVP_CIPHER_CTX_free(mac);
    return r;
}

/* Computes the GMAC of the whole file, which nobody writes any more. */
static int mac_file(const struct store_growing *g, const char *path,
                    void (*progress)(void *data, uint64_t bytes), void *data, uint64_t *ret_size,
                    uint8_t ret_tag[GROWING_TAG])
{
    struct file_map map = {0};
    int r;

    if (growing_is_mapped(g, path)) {
        *ret_size = g->map_size;
        return mac_bytes(g, g->map, g->map_size, progress, data, ret_tag);
    }
    r = file_map_open(path, &map, NULL);
    if (r < 0)
        return r;
    *ret_size = map.size;
    r = mac_bytes(g, map.data, map.size, progress, data, ret_tag);
    file_map_done(&map);
    return r;
}

int store_growing_end(struct store_growing *g, const char *path,
                      void (*progress)(void *data, uint64_t bytes), void *data,
                      char ret_digest[STORE_DIGEST + 1], uint64_t *ret_size)
{
    uint8_t first[GROWING_TAG], second[GROWING_TAG], digest[SHA256_BYTES];
    uint64_t size = 0;

    if (g->size == 0)
        return STORE_GROWING_DIFFERS;
    store_growing_read(g, UINT64_MAX);
    if (mac_end(g->mac, first) < 0 || mac_file(g, path, progress, data, &size, second) < 0)
        return STORE_GROWING_DIFFERS;
    if (size != g->size || memcmp(first, second, GROWING_TAG) != 0)
        return STORE_GROWING_DIFFERS;
    sha256_end(&g->hash, digest);
    store_digest_text(digest, ret_digest);
    *ret_size = size;
    return 0;
}
