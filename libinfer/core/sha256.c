/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes SHA-256 with functions of libcrypto that are deprecated. Their replacements allocate a
 * context for each digest, and read a configuration file at their first use.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "core/sha256.h"

void sha256_init(struct sha256 *h)
{
    SHA256_Init(&h->ctx);
}

void sha256_add(struct sha256 *h, const void *data, size_t len)
{
    SHA256_Update(&h->ctx, data, len);
}

void sha256_add_part(struct sha256 *h, const void *data, size_t len)
{
    uint8_t n[8];

    for (unsigned i = 0; i < sizeof(n); i++)
        n[i] = (uint8_t)((uint64_t)len >> 8 * i);
    sha256_add(h, n, sizeof(n));
    sha256_add(h, data, len);
}

void sha256_end(struct sha256 *h, uint8_t ret_digest[SHA256_BYTES])
{
    SHA256_Final(ret_digest, &h->ctx);
}
