/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controls access: decides whether a request may pass, and which rights it has.
 *
 * File permissions guard the unix socket, so its requests need no key by default. TCP has no
 * permissions, so its requests need a key by default. If a socket needs no key, any web page in a
 * browser on this machine can send requests to it: over TCP, or through a port that is forwarded to
 * the unix socket. The page can read the answers if its host name resolves to the gateway's
 * address. Requests of web pages have an Origin header. If such a request has no key, it is
 * accepted only from the gateway's own page and from origins that the configuration names. Clients
 * send a key as `Authorization: Bearer KEY` (OpenAI) or `x-api-key: KEY` (Anthropic).
 *
 * A known key counts on every socket: the request gets the key's rights and the key's tenant (the
 * owner of cached prompts, see gateway.h). An unknown key is ignored where no key is required,
 * because many clients always send one. A request without a known key has only the right to infer.
 * A request that root or the user who runs this gateway sends over a unix socket has all rights,
 * with a known key and without one.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/config/config.h"
#include "core/sha256.h"
#include "gateway/gateway.h"

static bool auth_find_key(const struct http_request *request, struct http_text *ret_key)
{
    static const char scheme[] = "Bearer ";
    struct http_text value;

    if (http_request_header(request, "authorization", &value) && value.len > sizeof(scheme) - 1 &&
        strncasecmp(value.data, scheme, sizeof(scheme) - 1) == 0) {
        ret_key->data = value.data + sizeof(scheme) - 1;
        ret_key->len = value.len - (sizeof(scheme) - 1);
        return true;
    }
    return http_request_header(request, "x-api-key", ret_key);
}

/* Compares two keys in a time that depends only on the length of the given key. */
static bool auth_equal(struct http_text given, const char *key)
{
    const size_t len = strlen(key);
    unsigned diff = given.len != len;

    for (size_t i = 0; i < given.len; i++)
        diff |= (unsigned char)given.data[i] ^ (unsigned char)key[len ? i % len : 0];
    return diff == 0;
}

static bool auth_asks_key(const struct config *config, enum http_door door)
{
    return door == HTTP_DOOR_UNIX ? config->gateway.unix_access == CONFIG_UNIX_KEY
                                  : config->gateway.tcp_access == CONFIG_TCP_KEY;
}

void gw_auth_init(struct gateway *gateway)
{
    FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");

    gateway->own_uid = geteuid();
    /* If a unit hides this file, the kernel's default is used. */
    if (!f || fscanf(f, "%u", &gateway->unmapped_uid) != 1)
        gateway->unmapped_uid = 65534;
    if (f)
        fclose(f);
}

/* Adds the rights and the name of each key in @list that equals the given key. */
static void auth_take_keys(const struct key_list *list, struct http_text given,
                           struct gw_access *access)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct access_key *key = &list->keys[i];

        if (!auth_equal(given, key->key))
            continue;
        access->by_key = true;
        access->rights |= key->rights;
        if (key->name[0])
            access->key_name = key->name;
    }
}

/* Makes the tenant from half of the key's digest, which is enough to make collisions infeasible. */
static void auth_tenant_of_key(struct http_text key, char ret_tenant[TENANT_SIZE])
{
    static const char purpose[] = "sconce tenant";
    uint8_t digest[SHA256_BYTES];
    struct sha256 h;
    int n;

    sha256_init(&h);
    sha256_add_part(&h, purpose, sizeof(purpose) - 1);
    sha256_add_part(&h, key.data, key.len);
    sha256_end(&h, digest);
    n = snprintf(ret_tenant, TENANT_SIZE, "key ");
    for (unsigned i = 0; i < SHA256_BYTES / 2; i++)
        n += snprintf(ret_tenant + n, TENANT_SIZE - (size_t)n, "%02x", digest[i]);
}

/* Finds the user at the other end of a unix socket; false: unknown. All users whom the user
 * namespace of this process does not map have one common id. This id therefore identifies
 * nobody. */
static bool auth_peer(const struct gateway *gateway, const struct http_request *request,
                      uid_t *ret_uid)
{
    return http_request_peer_uid(request, ret_uid) && *ret_uid != gateway->unmapped_uid;
}

static void auth_take_peer(const struct gateway *gateway, const struct http_request *request,
                           struct gw_access *access)
{
    uid_t uid;

    if (http_request_door(request) != HTTP_DOOR_UNIX) {
        snprintf(access->tenant, TENANT_SIZE, "tcp");
    } else if (auth_peer(gateway, request, &uid)) {
        snprintf(access->tenant, TENANT_SIZE, "uid %u", (unsigned)uid);
        if (uid == 0 || uid == gateway->own_uid)
            access->rights = RIGHTS_ALL;
    } else {
        snprintf(access->tenant, TENANT_SIZE, TENANT_ALONE);
    }
}

enum gw_auth gw_auth_check(const struct gateway *gateway, const struct http_request *request,
                           struct gw_access *ret_access)
{
    const struct config *config = gateway->config;
    const enum http_door door = http_request_door(request);
    struct gw_access access = {};
    struct http_text given;

    if (auth_find_key(request, &given)) {
        auth_take_keys(&config->gateway.api_keys, given, &access);
        auth_take_keys(gateway->keys, given, &access);
    }
    if (!access.by_key && auth_asks_key(config, door))
        return config->gateway.api_keys.n + gateway->keys->n ? GW_AUTH_WRONG : GW_AUTH_NO_KEYS;
    if (!access.by_key && gw_cors_is_foreign(config, request))
        return GW_AUTH_FOREIGN;
    if (!access.by_key)
        access.rights = RIGHT_INFER;
    auth_take_peer(gateway, request, &access);
    if (access.by_key)
        auth_tenant_of_key(given, access.tenant);
    *ret_access = access;
    return GW_AUTH_PASSES;
}
