/* SPDX-License-Identifier: Apache-2.0 */
/* Computes digests of files (see store.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/store/store.h"
#include "core/err.h"
#include "core/sha256.h"

enum {
    DIGEST_STEP = 1 << 20, /* in bytes */
};

void store_digest_text(const uint8_t digest[SHA256_BYTES], char ret[STORE_DIGEST + 1])
{
    for (unsigned i = 0; i < SHA256_BYTES; i++)
        snprintf(ret + (size_t)2 * i, 3, "%02x", digest[i]);
}

int store_digest(const char *path, void (*progress)(void *data, uint64_t bytes), void *data,
                 char ret_digest[STORE_DIGEST + 1], uint64_t *ret_size, struct inf_err *reterr)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    _cleanup_free_ uint8_t *step = NEW(uint8_t, DIGEST_STEP);
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    uint64_t size = 0;
    struct stat st;
    ssize_t n = -1;

    if (!step)
        return err_set(reterr, ENOMEM, "out of memory");
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(reterr, errno, "%s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(reterr, EINVAL, "%s is not a regular file", path);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    sha256_init(&hash);
    while ((n = read(fd, step, DIGEST_STEP)) > 0) {
        sha256_add(&hash, step, (size_t)n);
        size += (uint64_t)n;
        if (progress)
            progress(data, (uint64_t)n);
    }
    if (n < 0)
        return err_set(reterr, errno, "%s cannot be read: %s", path, strerror(errno));
    sha256_end(&hash, digest);
    store_digest_text(digest, ret_digest);
    *ret_size = size;
    return 0;
}
