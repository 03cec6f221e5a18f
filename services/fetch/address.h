/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Distinguishes public addresses of the internet from those of the machine and of local
 * networks. */

#include <stdbool.h>

struct sockaddr;

/* Returns whether @address may belong to a server on the internet. The special-purpose registries
 * of RFC 6890 list the addresses that cannot belong to one: private, of this machine, link-local,
 * shared by a provider, multicast, reserved, and for documentation and tests. IPv6 addresses that
 * contain an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) are not public either. */
bool address_is_public(const struct sockaddr *address);
