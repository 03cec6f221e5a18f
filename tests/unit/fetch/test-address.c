/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "lib/test.h"

static bool is_public(const char *text)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    struct sockaddr_in in = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return address_is_public((const struct sockaddr *)&in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return address_is_public((const struct sockaddr *)&in6);
}

TEST(only_public_addresses_are_allowed)
{
    static const char *const good[] = {
        "1.1.1.1",         "8.8.8.8",         "9.255.255.255", "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",     "126.1.1.1",       "128.0.0.1",     "169.253.1.1",     "172.15.0.1",
        "172.32.0.1",      "192.0.1.1",       "192.167.1.1",   "198.17.1.1",      "198.20.0.1",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::1",  "2001:4860::8888",
    };
    static const char *const bad[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:8.8.8.8",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::a00:1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "3fff::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "4000::1",
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!is_public(good[i]))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (is_public(bad[i]))
            fail_msg("%s is allowed", bad[i]);
}

TEST(other_families_are_refused)
{
    const struct sockaddr_un local = {.sun_family = AF_UNIX};

    assert_false(address_is_public((const struct sockaddr *)&local));
}

RUN_TESTS(cmocka_unit_test(only_public_addresses_are_allowed),
          cmocka_unit_test(other_families_are_refused))
