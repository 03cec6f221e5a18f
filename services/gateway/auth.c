/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask, by door
 *
 * The unix socket is guarded by its permissions, so it is open unless configured otherwise; TCP has
 * no owner, so it asks for a key unless configured otherwise. Without keys, pages of the web that a
 * browser on this machine shows could send requests, and read the answers where their own name
 * leads to this address; they have an origin, and are let in only when that is named. Keys come as
 * `Authorization: Bearer KEY` (OpenAI) or `x-api-key: KEY` (Anthropic).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/config.h"
#include "common/key-file.h"
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

/* The time depends on the length of what was given alone. */
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
    return door == HTTP_DOOR_TCP ? config->gateway.tcp_access == CONFIG_TCP_KEY
                                 : config->gateway.unix_access == CONFIG_UNIX_KEY;
}

enum gw_auth gw_auth_check(const struct gateway *gateway, const struct http_request *request,
                           const char **ret_key_name)
{
    const struct config *config = gateway->config;
    const enum http_door door = http_request_door(request);
    struct http_text given;
    const char *name = NULL;
    bool passes = false;

    if (!auth_asks_key(config, door))
        return door == HTTP_DOOR_TCP && gw_cors_is_foreign(config, request) ? GW_AUTH_FOREIGN
                                                                            : GW_AUTH_PASSES;
    if (config->gateway.n_api_keys + gateway->keys->n == 0)
        return GW_AUTH_NO_KEYS;
    if (!auth_find_key(request, &given))
        return GW_AUTH_WRONG;
    for (size_t i = 0; i < config->gateway.n_api_keys; i++)
        passes |= auth_equal(given, config->gateway.api_keys[i]);
    for (size_t i = 0; i < gateway->keys->n; i++)
        if (auth_equal(given, gateway->keys->keys[i].key)) {
            passes = true;
            name = gateway->keys->keys[i].name;
        }
    if (!passes)
        return GW_AUTH_WRONG;
    *ret_key_name = name && name[0] ? name : NULL;
    return GW_AUTH_PASSES;
}

/* Half of a digest: more than anybody finds a second key for. */
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

void gw_auth_tenant(const struct gateway *gateway, const struct http_request *request,
                    char ret_tenant[TENANT_SIZE])
{
    const enum http_door door = http_request_door(request);
    struct http_text key;
    uid_t uid;

    if (auth_asks_key(gateway->config, door) && auth_find_key(request, &key))
        auth_tenant_of_key(key, ret_tenant);
    else if (http_request_peer_uid(request, &uid))
        snprintf(ret_tenant, TENANT_SIZE, "uid %u", (unsigned)uid);
    else
        snprintf(ret_tenant, TENANT_SIZE, "tcp");
}
