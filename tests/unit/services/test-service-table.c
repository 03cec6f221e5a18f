/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the table of services that the C programs use. */
#include <string.h>

#include "common/config/config.h"
#include "common/config/service-table.h"
#include "lib/test.h"

static void test_rows_are_named_after_the_service(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SERVICES; i++) {
        const struct service_row *row = &service_rows[i];
        char text[64];

        assert_ptr_equal(service_row_find(row->name), row);
        snprintf(text, sizeof(text), "sconce-%s", row->name);
        ASSERT_STREQ(row->program, text);
        snprintf(text, sizeof(text), "sconce-%s.service", row->name);
        ASSERT_STREQ(row->unit, text);
        snprintf(text, sizeof(text), "%s.sock", row->name);
        ASSERT_STREQ(row->socket, text);
    }
    assert_null(service_row_find("chat-gpu"));
    assert_null(service_row_find(""));
}

static void test_each_unit_has_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SERVICE_UNITS; i++)
        assert_non_null(service_row_of_unit(service_units[i]));
    assert_ptr_equal(service_row_of_unit("sconce-gateway-tcp.socket"),
                     &service_rows[SERVICE_GATEWAY]);
    assert_ptr_equal(service_row_of_unit("sconce-chat.service"), &service_rows[SERVICE_CHAT]);
    assert_ptr_equal(service_row_of_unit("sconce-fetch@.service"), &service_rows[SERVICE_STORE]);
    assert_null(service_row_of_unit("sconce-fetching.service"));
    assert_null(service_row_of_unit("sconce.target"));
    assert_null(service_row_of_unit("sconce-chats.service"));
}

/* `sconce doctor` reports a masked unit of these services as broken. */
static void test_chats_need_the_gateway_and_the_chat_service(void **state)
{
    (void)state;
    for (unsigned i = 0; i < N_SERVICES; i++)
        assert_int_equal(service_rows[i].is_needed, i == SERVICE_GATEWAY || i == SERVICE_CHAT);
    ASSERT_STREQ(service_rows[SERVICE_GATEWAY].socket_unit, "sconce-gateway.socket");
}

/* `sconce serve` stops services in the order of the table, so no client outlives its server. */
static void test_services_stand_before_those_that_they_connect_to(void **state)
{
    (void)state;
    for (unsigned i = 0; i < N_SERVICES; i++)
        for (unsigned k = 0; k <= i; k++)
            assert_false(service_row_connects(&service_rows[i], k));
    for (size_t i = 0; i < N_BACKENDS; i++) {
        const size_t id = (size_t)(service_backends[i] - service_rows);

        assert_true(service_backends[i]->has_routes);
        assert_true(service_row_connects(&service_rows[SERVICE_GATEWAY], id));
    }
}

static void test_rows_find_their_section_of_the_configuration(void **state)
{
    static const char text[] = "chat:\n  idle_timeout: 7s\naudio:\n  max_body: 1MiB\n";
    struct config *config;
    struct inf_err err;

    (void)state;
    assert_int_equal(config_new(&config), 0);
    ASSERT_OK_ERR(config_apply(config, "test", text, sizeof(text) - 1, &err), err);
    assert_int_equal(service_row_idle_usec(&service_rows[SERVICE_CHAT], config), 7000000);
    assert_int_equal(service_row_idle_usec(&service_rows[SERVICE_CACHE], config),
                     config->cache.idle_timeout_usec);
    assert_int_equal(service_row_max_body(&service_rows[SERVICE_AUDIO], config), 1 << 20);
    assert_int_equal(service_row_max_body(&service_rows[SERVICE_CHAT], config), 0);
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_named_after_the_service),
        cmocka_unit_test(test_each_unit_has_a_row),
        cmocka_unit_test(test_chats_need_the_gateway_and_the_chat_service),
        cmocka_unit_test(test_services_stand_before_those_that_they_connect_to),
        cmocka_unit_test(test_rows_find_their_section_of_the_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
