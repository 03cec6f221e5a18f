/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names KV blocks, and finds them by name.
 *
 * All names are made in this file. Blocks on disk outlive the program that named them. Therefore a
 * change of how names are computed, or of what kernels compute for the same weights, must also
 * change VERSION, which is the first input of the hash of the origin.
 */
#include "kv/prefix.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "core/hash.h"

#define VERSION "sconce kv 2"

static void add_text(struct sha256 *h, const char *text)
{
    sha256_add_part(h, text ? text : "", text ? strlen(text) : 0);
}

void kv_name_origin(const struct kv_origin *origin, struct kv_name *ret_name)
{
    const uint32_t block_tokens = htole32(origin->block_tokens);
    struct sha256 h;

    sha256_init(&h);
    add_text(&h, VERSION);
    sha256_add(&h, &origin->model, sizeof(origin->model));
    add_text(&h, origin->numbers);
    add_text(&h, origin->device);
    add_text(&h, origin->isa);
    sha256_add(&h, &block_tokens, sizeof(block_tokens));
    sha256_end(&h, ret_name->bytes);
}

void kv_name_root(const struct kv_name *origin, const char *tenant, const char *salt,
                  size_t salt_len, struct kv_name *ret_root)
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, origin, sizeof(*origin));
    add_text(&h, tenant);
    sha256_add_part(&h, salt, salt_len);
    sha256_end(&h, ret_root->bytes);
}

static void add_tokens(struct sha256 *h, const int32_t *tokens, uint32_t n)
{
    uint32_t words[64];

    for (uint32_t i = 0; i < n; i += ARRAY_SIZE(words)) {
        const uint32_t n_words = MIN(n - i, (uint32_t)ARRAY_SIZE(words));

        for (uint32_t k = 0; k < n_words; k++)
            words[k] = htole32((uint32_t)tokens[i + k]);
        sha256_add(h, words, n_words * sizeof(words[0]));
    }
}

void kv_name_blocks(const struct kv_name *parent, const int32_t *tokens, uint32_t block_tokens,
                    uint32_t n, struct kv_name *ret_names)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sha256 h;

        sha256_init(&h);
        sha256_add(&h, i > 0 ? &ret_names[i - 1] : parent, sizeof(*parent));
        add_tokens(&h, tokens + (size_t)i * block_tokens, block_tokens);
        sha256_end(&h, ret_names[i].bytes);
    }
}

void kv_name_group(const struct kv_name *name, uint32_t i_group, struct kv_name *ret_name)
{
    static const char label[] = "group";
    const uint32_t number = htole32(i_group);
    struct kv_name copy = *name;
    struct sha256 h;

    if (i_group > 0) {
        sha256_init(&h);
        sha256_add(&h, name, sizeof(*name));
        sha256_add(&h, label, sizeof(label) - 1);
        sha256_add(&h, &number, sizeof(number));
        sha256_end(&h, copy.bytes);
    }
    *ret_name = copy;
}

void kv_name_stored(const uint8_t digest[SHA256_BYTES], const char *format,
                    const struct kv_name *name, struct kv_name *ret_name)
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, digest, SHA256_BYTES);
    add_text(&h, format);
    sha256_add(&h, name, sizeof(*name));
    sha256_end(&h, ret_name->bytes);
}

int kv_prefix_init(struct kv_prefix *p, const uint32_t *n_blocks, uint32_t n_groups)
{
    uint32_t n = 0;
    uint64_t n_heads = 1;

    *p = (struct kv_prefix){.n_groups = n_groups};
    for (uint32_t i = 0; i < n_groups; i++) {
        n += n_blocks[i];
        p->ends[i] = n;
        p->idle[i] = (struct prefix_idle){KV_NO_BLOCK, KV_NO_BLOCK, 0};
    }
    while (n_heads < n)
        n_heads *= 2;
    p->entries = NEW(struct prefix_entry, n);
    p->heads = NEW(uint32_t, n_heads);
    p->n_blocks = n;
    p->mask = (uint32_t)(n_heads - 1);
    if (!p->entries || !p->heads) {
        kv_prefix_done(p);
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < n_heads; i++)
        p->heads[i] = KV_NO_BLOCK;
    return 0;
}

void kv_prefix_done(struct kv_prefix *p)
{
    free(p->entries);
    free(p->heads);
    *p = (struct kv_prefix){0};
}

/* Clients choose tokens, and by trying many tokens they can choose some bits of a name. Therefore
 * the hash that selects a name's hash chain has a random seed per process, so that clients cannot
 * put many names into one hash chain. */
static uint32_t *head_of(const struct kv_prefix *p, const struct kv_name *name, uint32_t i_group)
{
    return &p->heads[(hash_seeded(name, sizeof(*name)) + i_group) & p->mask];
}

/* Returns whether @block is a block of group @i_group. */
static bool is_in_group(const struct kv_prefix *p, uint32_t block, uint32_t i_group)
{
    return block < p->ends[i_group] && (i_group == 0 || block >= p->ends[i_group - 1]);
}

uint32_t kv_prefix_find(const struct kv_prefix *p, const struct kv_name *name, uint32_t i_group)
{
    uint32_t block = *head_of(p, name, i_group);

    while (block != KV_NO_BLOCK &&
           !(kv_name_equal(&p->entries[block].name, name) && is_in_group(p, block, i_group)))
        block = p->entries[block].next_hash;
    return block;
}

void kv_prefix_put(struct kv_prefix *p, const struct kv_name *name, uint32_t depth, uint32_t block)
{
    uint32_t *head = head_of(p, name, kv_prefix_group(p, block));
    struct prefix_entry *e = &p->entries[block];

    assert(!e->named && depth > 0);
    *e = (struct prefix_entry){.name = *name, .named = true, .depth = depth, .next_hash = *head};
    *head = block;
    p->n_named++;
}

void kv_prefix_remove(struct kv_prefix *p, uint32_t block)
{
    struct prefix_entry *e = &p->entries[block];
    uint32_t *at = head_of(p, &e->name, kv_prefix_group(p, block));

    assert(e->named);
    while (*at != block)
        at = &p->entries[*at].next_hash;
    *at = e->next_hash;
    e->named = false;
    p->n_named--;
}

void kv_prefix_rest(struct kv_prefix *p, uint32_t block)
{
    struct prefix_idle *idle = &p->idle[kv_prefix_group(p, block)];
    struct prefix_entry *e = &p->entries[block];

    assert(e->named);
    e->older = idle->youngest;
    e->younger = KV_NO_BLOCK;
    if (idle->youngest != KV_NO_BLOCK)
        p->entries[idle->youngest].younger = block;
    else
        idle->oldest = block;
    idle->youngest = block;
    idle->n++;
}

void kv_prefix_wake(struct kv_prefix *p, uint32_t block)
{
    struct prefix_idle *idle = &p->idle[kv_prefix_group(p, block)];
    struct prefix_entry *e = &p->entries[block];

    assert(e->named && idle->n > 0);
    if (e->older != KV_NO_BLOCK)
        p->entries[e->older].younger = e->younger;
    else
        idle->oldest = e->younger;
    if (e->younger != KV_NO_BLOCK)
        p->entries[e->younger].older = e->older;
    else
        idle->youngest = e->older;
    idle->n--;
}

uint32_t kv_prefix_evict(struct kv_prefix *p, uint32_t i_group)
{
    const uint32_t block = p->idle[i_group].oldest;

    kv_prefix_wake(p, block);
    kv_prefix_remove(p, block);
    return block;
}
