/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Hashes for tables and names. Content identity (SHA-256) comes from libcrypto. */

#include <stddef.h>
#include <stdint.h>

/* 64-bit hash, stable across processes and machines: splitmix-style mixing of 8-byte words. */
uint64_t hash_bytes(uint64_t seed, const void *data, size_t len);
/* The same with a seed that is random per process: for tables keyed by untrusted bytes. */
uint64_t hash_seeded(const void *data, size_t len);
