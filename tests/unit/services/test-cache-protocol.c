/* SPDX-License-Identifier: Apache-2.0 */
/* Tests packets of the cache service: written packets can be read, and invalid packets are
 * rejected. */
#include "common/wire/cache-protocol.h"

#include "lib/test.h"

static struct cache_packet packet;

static const struct cache_head put_head = {
    .version = CACHE_VERSION, .type = CACHE_PUT, .request = 7, .n = 2};

static void begin_put(void)
{
    struct cache_origin origin;

    cache_begin(&packet, &put_head);
    ASSERT_OK(cache_origin_set(
        &origin, &(struct inf_tier_origin){"model", "f16/f16 cpu", "tenant", "session"}));
    cache_put_origin(&packet, &origin);
}

TEST(a_put_is_read_as_it_was_written)
{
    const struct inf_tier_block blocks[2] = {
        {.name = {1}, .index = 3, .offset = 0, .size = 4096, .sum = UINT64_MAX},
        {.name = {2}, .parent = {1}, .index = 4, .offset = 4096, .size = 1, .sum = 5}};
    struct inf_tier_block got[CACHE_MAX_BLOCKS];
    struct cache_origin origin;
    struct cache_head head;
    struct cache_reader r;

    begin_put();
    cache_put_blocks(&packet, blocks, 2);
    ASSERT_OK(cache_read_head(&r, packet.data, packet.len, &head));
    assert_int_equal(head.type, CACHE_PUT);
    assert_false(head.answer);
    assert_int_equal(head.request, 7);
    assert_int_equal(head.n, 2);
    ASSERT_OK(cache_read_origin(&r, &origin));
    ASSERT_STREQ(origin.codec, "f16/f16 cpu");
    ASSERT_STREQ(origin.session, "session");
    ASSERT_OK(cache_read_blocks(&r, head.n, got));
    ASSERT_OK(cache_read_end(&r));
    for (size_t i = 0; i < 2; i++) {
        assert_memory_equal(got[i].name, blocks[i].name, 32);
        assert_memory_equal(got[i].parent, blocks[i].parent, 32);
        assert_int_equal(got[i].index, blocks[i].index);
        assert_int_equal(got[i].offset, blocks[i].offset);
        assert_int_equal(got[i].size, blocks[i].size);
        assert_true(got[i].sum == blocks[i].sum);
    }
}

TEST(each_packet_that_is_cut_is_refused)
{
    const struct inf_tier_block blocks[2] = {{.size = 1}, {.size = 1}};
    struct inf_tier_block got[CACHE_MAX_BLOCKS];
    struct cache_origin origin;
    struct cache_head head;
    struct cache_reader r;

    begin_put();
    cache_put_blocks(&packet, blocks, 2);
    for (size_t n = 0; n < packet.len; n++) {
        int r0 = cache_read_head(&r, packet.data, n, &head);

        if (r0 == 0)
            r0 = cache_read_origin(&r, &origin);
        if (r0 == 0)
            r0 = cache_read_blocks(&r, head.n, got);
        if (r0 == 0)
            r0 = cache_read_end(&r);
        ASSERT_ERROR(r0, EBADMSG);
    }
    /* After a failure all reads fail, even of zero bytes. */
    ASSERT_ERROR(cache_read_end(&r), EBADMSG);
}

TEST(blocks_that_no_file_can_hold_are_refused)
{
    const struct inf_tier_block wrong[] = {{.size = 0},
                                           {.offset = UINT64_MAX, .size = 1},
                                           {.offset = 1, .size = UINT64_MAX},
                                           {.offset = INT64_MAX, .size = 1}};
    struct inf_tier_block got;

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct cache_reader r;

        packet.len = 0;
        cache_put_blocks(&packet, &wrong[i], 1);
        r = (struct cache_reader){packet.data, packet.data + packet.len};
        ASSERT_ERROR(cache_read_blocks(&r, 1, &got), EBADMSG);
        r = (struct cache_reader){packet.data, packet.data + packet.len};
        ASSERT_ERROR(cache_read_blocks(&r, UINT32_MAX, &got), EBADMSG);
    }
}

TEST(another_version_is_distinguished_from_invalid_bytes)
{
    struct cache_head head = put_head, got;
    struct cache_reader r;

    head.version = CACHE_VERSION + 1;
    head.type = 999;
    cache_begin(&packet, &head);
    ASSERT_ERROR(cache_read_head(&r, packet.data, packet.len, &got), EPROTONOSUPPORT);
    assert_int_equal(got.request, 7);
    head.version = CACHE_VERSION;
    cache_begin(&packet, &head);
    ASSERT_ERROR(cache_read_head(&r, packet.data, packet.len, &got), EBADMSG);
    head = put_head;
    head.status = -1;
    cache_begin(&packet, &head);
    ASSERT_ERROR(cache_read_head(&r, packet.data, packet.len, &got), EBADMSG);
    cache_begin(&packet, &put_head);
    packet.data[0] ^= 1;
    ASSERT_ERROR(cache_read_head(&r, packet.data, packet.len, &got), EBADMSG);
}

TEST(texts_are_whole_characters_and_tenants_whole)
{
    struct cache_origin origin;
    char text[300];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    memcpy(text + 190, "\xc3\xa4", 2);
    ASSERT_OK(cache_origin_set(&origin, &(struct inf_tier_origin){text, "a\nb", "", NULL}));
    assert_int_equal(strlen(origin.model), 190);
    ASSERT_STREQ(origin.codec, "a?b");
    ASSERT_STREQ(origin.session, "");
    ASSERT_ERROR(cache_origin_set(&origin, &(struct inf_tier_origin){"", "", text, NULL}),
                 ENAMETOOLONG);
}

TEST(texts_with_other_bytes_are_refused)
{
    static const char *const wrong[] = {"\xff", "\n", "\x7f"};
    struct cache_hello hello = {.least = 1, .most = 1, .name = "chat"}, got;
    struct cache_reader r;

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        packet.len = 0;
        memcpy(hello.name, wrong[i], 2);
        cache_put_hello(&packet, &hello);
        r = (struct cache_reader){packet.data, packet.data + packet.len};
        ASSERT_ERROR(cache_read_hello(&r, &got), EBADMSG);
    }
    /* First the name has no terminating NUL. Then it has one, but other bytes follow.
     */
    memset(hello.name, 'x', sizeof(hello.name));
    for (size_t i = 0; i < 2; i++) {
        packet.len = 0;
        cache_put_hello(&packet, &hello);
        r = (struct cache_reader){packet.data, packet.data + packet.len};
        ASSERT_ERROR(cache_read_hello(&r, &got), EBADMSG);
        hello.name[4] = 0;
    }
}

TEST(a_newer_service_may_count_more)
{
    struct cache_status status = {.blocks = 1, .malformed_total = 2, .directory = "/x"}, got;
    struct cache_packet longer = {0};
    struct cache_reader r;

    packet.len = 0;
    cache_put_status(&packet, &status);
    memcpy(longer.data, packet.data, cache_n_counters * 8);
    memcpy(longer.data + (cache_n_counters + 3) * 8, packet.data + cache_n_counters * 8,
           packet.len - cache_n_counters * 8);
    r = (struct cache_reader){longer.data, longer.data + packet.len + 24};
    ASSERT_OK(cache_read_status(&r, (uint32_t)cache_n_counters + 3, &got));
    ASSERT_OK(cache_read_end(&r));
    assert_int_equal(got.blocks, 1);
    assert_int_equal(got.malformed_total, 2);
    ASSERT_STREQ(got.directory, "/x");
}

TEST(found_blocks_are_read)
{
    const struct inf_tier_found found[2] = {{4096, 99}, {1, UINT64_MAX}};
    const uint64_t wrong[] = {0, UINT64_MAX};
    struct inf_tier_found got[CACHE_MAX_NAMES];
    struct cache_reader r;
    uint32_t count;

    packet.len = 0;
    cache_put_count(&packet, 7);
    cache_put_found(&packet, found, 2);
    r = (struct cache_reader){packet.data, packet.data + packet.len};
    ASSERT_OK(cache_read_count(&r, &count));
    assert_int_equal(count, 7);
    ASSERT_OK(cache_read_found(&r, 2, got));
    ASSERT_OK(cache_read_end(&r));
    assert_memory_equal(got, found, sizeof(found));
    r = (struct cache_reader){packet.data, packet.data + packet.len};
    ASSERT_ERROR(cache_read_found(&r, CACHE_MAX_NAMES + 1, got), EBADMSG);
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        packet.len = 0;
        cache_put_found(&packet, &(struct inf_tier_found){wrong[i], 1}, 1);
        r = (struct cache_reader){packet.data, packet.data + packet.len};
        ASSERT_ERROR(cache_read_found(&r, 1, got), EBADMSG);
    }
}

RUN_TESTS(cmocka_unit_test(a_put_is_read_as_it_was_written),
          cmocka_unit_test(each_packet_that_is_cut_is_refused),
          cmocka_unit_test(blocks_that_no_file_can_hold_are_refused),
          cmocka_unit_test(another_version_is_distinguished_from_invalid_bytes),
          cmocka_unit_test(texts_are_whole_characters_and_tenants_whole),
          cmocka_unit_test(texts_with_other_bytes_are_refused),
          cmocka_unit_test(a_newer_service_may_count_more), cmocka_unit_test(found_blocks_are_read))
