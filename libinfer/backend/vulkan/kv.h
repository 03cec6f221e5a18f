/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the KV functions of backend_ops, which keep the state of sequences (graph/state.h) on
 * the device. */

#include "backend/vulkan/program.h"

int vkb_kv_check(struct backend *b, const struct kv_layout *layout, struct inf_err *reterr);
uint64_t vkb_kv_max_blocks(struct backend *b, const struct kv_layout *layout, uint32_t i_group);
int vkb_kv_new(struct backend *b, const struct kv_layout *layout, struct kv_store **ret_store);
void vkb_kv_free(struct backend *b, struct kv_store *store);
void vkb_kv_copy(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src);
void vkb_kv_drop(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n);
uint64_t vkb_kv_size(const struct backend *b, const struct kv_store *store, uint32_t block);
int vkb_kv_export(struct backend *b, struct kv_store *store, uint32_t block, void *to);
int vkb_kv_import(struct backend *b, struct kv_store *store, uint32_t block, const void *from);
const char *vkb_kv_format(const struct backend *b);
/* Sets the text that vkb_kv_format() returns. The text names the driver, because drivers round
 * differently. */
void vkb_kv_describe(struct vkb_backend *vkb);
