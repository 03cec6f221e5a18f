/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Computes SHA-256 with libcrypto, to identify content across processes and machines. Allocates
 * nothing. */

#include <openssl/sha.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

struct sha256 {
    SHA256_CTX ctx;
};

void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t len);
/* Adds the length of the data and then the data, so that the border between two parts affects the
 * digest. */
void sha256_add_part(struct sha256 *h, const void *data, size_t len);
void sha256_end(struct sha256 *h, uint8_t ret_digest[SHA256_BYTES]);
