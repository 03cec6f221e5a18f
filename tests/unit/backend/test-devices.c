/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how device names are resolved, in made-up lists of devices and in the list of this machine.
 */
#include "backend/devices.h"

#include "backend/backend.h"
#include "lib/test.h"

static void add(struct inf_device_list *list, const char *name, enum inf_device_kind kind,
                const char *unusable)
{
    struct device_row *row = devices_add(list);

    snprintf(row->name, sizeof(row->name), "%s", name);
    snprintf(row->description, sizeof(row->description), "card of %s", name);
    row->info.kind = kind;
    row->info.unusable = unusable;
}

static void meets(const struct inf_device_list *list, const char *name, const char *expected)
{
    const struct inf_device_info *info = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(devices_find(list, name, &info, &err), err);
    ASSERT_STREQ(info->name, expected);
}

static void fails(const struct inf_device_list *list, const char *name, int code, const char *text)
{
    const struct inf_device_info *info = NULL;
    struct inf_err err = {0};

    ASSERT_ERROR(devices_find(list, name, &info, &err), code);
    assert_null(info);
    ASSERT_CONTAINS(err.text, text);
}

TEST(auto_is_the_first_gpu_that_can_be_used)
{
    static struct inf_device_list list;

    devices_add_cpu(&list);
    meets(&list, NULL, "cpu");
    meets(&list, "auto", "cpu");
    add(&list, "vulkan:0", INF_DEVICE_DISCRETE, "it is too old");
    meets(&list, "auto", "cpu");
    add(&list, "vulkan:1", INF_DEVICE_INTEGRATED, NULL);
    add(&list, "vulkan:2", INF_DEVICE_SOFTWARE, NULL);
    meets(&list, "auto", "vulkan:1");
    meets(&list, "cpu", "cpu");
    meets(&list, "vulkan", "vulkan:1");
    meets(&list, "vulkan:2", "vulkan:2");
    fails(&list, "vulkan:0", EOPNOTSUPP, "vulkan:0 (card of vulkan:0) cannot be used: it is too");
    fails(&list, "vulkan:3", EOPNOTSUPP, "there is cpu, vulkan:1 (card of vulkan:1), vulkan:2");
}

TEST(software_devices_are_used_only_by_name)
{
    static struct inf_device_list list;

    devices_add_cpu(&list);
    add(&list, "vulkan:0", INF_DEVICE_SOFTWARE, NULL);
    meets(&list, "auto", "cpu");
    meets(&list, "vulkan", "vulkan:0");
}

TEST(without_vulkan_the_reason_is_reported)
{
    static struct inf_device_list list;

    devices_add_cpu(&list);
    snprintf(list.why, sizeof(list.why), "no Vulkan driver is installed");
    fails(&list, "vulkan", EOPNOTSUPP, "no Vulkan driver is installed; there is cpu");
}

TEST(other_names_are_unknown)
{
    static struct inf_device_list list;
    static const char *const names[] = {
        "", "abacus", "CPU", "vulkan:", "vulkan:-1", "vulkan:1x", "vulkan:1234", "vulkan0"};

    devices_add_cpu(&list);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        fails(&list, names[i], EINVAL, "there are auto, cpu, vulkan and vulkan:N");
}

TEST(texts_of_drivers_are_made_plain)
{
    char text[8];

    devices_set_text(text, sizeof(text), "a\"b\\\n\x7f");
    ASSERT_STREQ(text, "a?b???");
    devices_set_text(text, sizeof(text), "abcdefghij");
    ASSERT_STREQ(text, "abcdefg");
    devices_set_text(text, sizeof(text), "ab   ");
    ASSERT_STREQ(text, "ab");
}

TEST(a_list_has_an_end)
{
    static struct inf_device_list list;

    for (size_t i = 0; i < DEVICES_MAX; i++)
        assert_non_null(devices_add(&list));
    assert_null(devices_add(&list));
}

TEST(this_machine_has_a_cpu_and_tells_of_vulkan)
{
    struct inf_device_list *list = NULL;
    const struct inf_device_info *info;
    struct inf_err err;
    size_t n = 0;

    ASSERT_OK_ERR(inf_devices(&list, &err), err);
    for (; (info = inf_device_list_at(list, n)); n++) {
        assert_true(n == 0 ? info->kind == INF_DEVICE_CPU : info->kind != INF_DEVICE_CPU);
        assert_true(info->name[0] && info->description[0] && info->driver[0]);
        assert_true(info->memory_total > 0 && info->memory_free <= info->memory_total);
        assert_int_equal(n == 0, info->api == NULL);
    }
    assert_int_equal(n == 1, inf_device_list_why(list) != NULL);
    print_message("%zu devices; %s\n", n, n > 1 ? "" : inf_device_list_why(list));
    assert_null(inf_device_list_free(list));
}

TEST(a_device_is_opened_by_name)
{
    struct inf_device_params params = {.name = "cpu"};
    struct inf_device *device = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(inf_device_open(&params, &device, &err), err);
    ASSERT_STREQ(inf_device_info(device)->name, "cpu");
    assert_null(inf_device_why(device));
    assert_null(inf_device_close(device));
    params.name = NULL;
    ASSERT_OK_ERR(inf_device_open(&params, &device, &err), err);
    assert_true((inf_device_info(device)->kind == INF_DEVICE_CPU) ==
                (inf_device_why(device) != NULL));
    inf_device_close(device);
    params.name = "abacus";
    ASSERT_ERROR(inf_device_open(&params, &device, &err), EINVAL);
    assert_null(inf_device_close(NULL));
}

TEST(a_backend_knows_its_device)
{
    static const char *const names[] = {"cpu", "null"};
    struct inf_err err;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct backend_params params = {.device = names[i], .n_threads = 1};
        struct backend *b = NULL;

        ASSERT_OK_ERR(backend_new(&params, &b, &err), err);
        ASSERT_STREQ(b->device, names[i]);
        backend_free(b);
    }
}

RUN_TESTS(cmocka_unit_test(auto_is_the_first_gpu_that_can_be_used),
          cmocka_unit_test(software_devices_are_used_only_by_name),
          cmocka_unit_test(without_vulkan_the_reason_is_reported),
          cmocka_unit_test(other_names_are_unknown),
          cmocka_unit_test(texts_of_drivers_are_made_plain), cmocka_unit_test(a_list_has_an_end),
          cmocka_unit_test(this_machine_has_a_cpu_and_tells_of_vulkan),
          cmocka_unit_test(a_device_is_opened_by_name),
          cmocka_unit_test(a_backend_knows_its_device))
