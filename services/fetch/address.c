/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which addresses are public, by the special-purpose registries of RFC 6890 (see
 * address.h). */
#include "fetch/address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/macros.h"

/* Networks of IPv4 that are not public, in host byte order. */
static const struct {
    uint32_t net;
    unsigned bits;
} special4[] = {
    {0x00000000, 8},  /* this network */
    {0x0a000000, 8},  /* private */
    {0x64400000, 10}, /* shared by a provider */
    {0x7f000000, 8},  /* this machine */
    {0xa9fe0000, 16}, /* link-local, and services of clouds */
    {0xac100000, 12}, /* private */
    {0xc0000000, 24}, /* assignments of protocols */
    {0xc0000200, 24}, /* documentation */
    {0xc0586300, 24}, /* relays of 6to4 */
    {0xc0a80000, 16}, /* private */
    {0xc6120000, 15}, /* measurements */
    {0xc6336400, 24}, /* documentation */
    {0xcb007100, 24}, /* documentation */
    {0xe0000000, 4},  /* multicast */
    {0xf0000000, 4},  /* reserved, and broadcast */
};

static bool is_public4(uint32_t address)
{
    for (size_t i = 0; i < ARRAY_SIZE(special4); i++)
        if ((address ^ special4[i].net) >> (32 - special4[i].bits) == 0)
            return false;
    return true;
}

/* Networks below 2000::/3, the only public network of IPv6, that are not public. */
static const struct {
    uint8_t net[6];
    unsigned bits;
} special6[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23}, /* assignments of protocols, Teredo among them */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
    {{0x20, 0x02}, 16},             /* 6to4, which contains an IPv4 address */
    {{0x3f, 0xff}, 20},             /* documentation */
};

static bool begins_with(const uint8_t *address, const uint8_t *net, unsigned bits)
{
    const uint8_t mask = (uint8_t)(0xff00 >> bits % 8);

    return memcmp(address, net, bits / 8) == 0 &&
           (bits % 8 == 0 || ((address[bits / 8] ^ net[bits / 8]) & mask) == 0);
}

static bool is_public6(const uint8_t address[16])
{
    if (address[0] >> 5 != 1)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(special6); i++)
        if (begins_with(address, special6[i].net, special6[i].bits))
            return false;
    return true;
}

bool address_is_public(const struct sockaddr *address)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (address->sa_family == AF_INET) {
        memcpy(&in, address, sizeof(in));
        return is_public4(ntohl(in.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6)
        return false;
    memcpy(&in6, address, sizeof(in6));
    return is_public6(in6.sin6_addr.s6_addr);
}
