/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the access to each endpoint: which requests pass, with which rights, and whose cache they
 * use. */
#include <stdio.h>
#include <time.h>

#include "common/config/config.h"
#include "gateway/gateway.h"

#include "lib/test.h"

enum {
    OWN = 1000,
    UNMAPPED = 65534,
};

/* The parts of a request that auth.c reads. */
struct http_request {
    enum http_door door;
    bool has_uid;
    uid_t uid;
    const char *key;    /* sent as x-api-key; NULL: none */
    const char *bearer; /* the whole header; NULL: none */
    bool is_foreign;    /* sent by a web page */
};

enum http_door http_request_door(const struct http_request *request)
{
    return request->door;
}

bool http_request_peer_uid(const struct http_request *request, uid_t *ret_uid)
{
    *ret_uid = request->uid;
    return request->door == HTTP_DOOR_UNIX && request->has_uid;
}

bool http_request_header(const struct http_request *request, const char *name,
                         struct http_text *ret_value)
{
    const char *value = strcmp(name, "x-api-key") == 0       ? request->key
                        : strcmp(name, "authorization") == 0 ? request->bearer
                                                             : NULL;

    if (value)
        *ret_value = (struct http_text){value, strlen(value)};
    return value != NULL;
}

bool gw_cors_is_foreign(const struct config *config UNUSED, const struct http_request *request)
{
    return request->is_foreign;
}

static struct key_list file_keys;
static struct config *config;
static struct gateway gateway = {.keys = &file_keys, .own_uid = OWN, .unmapped_uid = UNMAPPED};

static int set_up(void **state UNUSED)
{
    ASSERT_OK(config_new(&config));
    gateway.config = config;
    ASSERT_OK(key_list_add(&file_keys, "plain", 5, "Ada", 3, RIGHTS_UNSTATED));
    ASSERT_OK(key_list_add(&file_keys, "ask", 3, "", 0, RIGHT_INFER));
    ASSERT_OK(key_list_add(&file_keys, "graphs", 6, "graphs", 6, RIGHT_OBSERVE));
    ASSERT_OK(key_list_add(&config->gateway.api_keys, "admin", 5, "", 0, RIGHT_MANAGE));
    return 0;
}

static int tear_down(void **state UNUSED)
{
    config = config_free(config);
    key_list_done(&file_keys);
    return 0;
}

static struct http_request by_tcp(const char *key)
{
    return (struct http_request){.door = HTTP_DOOR_TCP, .key = key};
}

static struct http_request by_unix(uid_t uid, const char *key)
{
    return (struct http_request){.door = HTTP_DOOR_UNIX, .has_uid = true, .uid = uid, .key = key};
}

static enum gw_auth check(struct http_request request, struct gw_access *ret_access)
{
    *ret_access = (struct gw_access){.rights = 0xff};
    return gw_auth_check(&gateway, &request, ret_access);
}

/* Checks that the request passes, and has these rights. */
static struct gw_access allowed(struct http_request request, unsigned rights)
{
    struct gw_access access;

    assert_int_equal(check(request, &access), GW_AUTH_PASSES);
    assert_int_equal(access.rights, rights);
    return access;
}

static enum gw_auth refused(struct http_request request)
{
    struct gw_access access;
    const enum gw_auth auth = check(request, &access);

    assert_int_not_equal(auth, GW_AUTH_PASSES);
    assert_int_equal(access.rights, 0xff);
    return auth;
}

TEST(a_key_has_its_rights_and_no_others)
{
    struct gw_access access = allowed(by_tcp("plain"), RIGHT_INFER | RIGHT_OBSERVE);

    assert_true(access.by_key);
    ASSERT_STREQ(access.key_name, "Ada");
    access = allowed(by_tcp("ask"), RIGHT_INFER);
    assert_null(access.key_name);
    allowed(by_tcp("graphs"), RIGHT_OBSERVE);
    allowed(by_tcp("admin"), RIGHT_MANAGE);
    /* A user's own rights are not added to those of a key, or vice versa. */
    allowed(by_unix(1234, "graphs"), RIGHT_OBSERVE);
}

TEST(a_key_that_stands_twice_has_all_its_rights)
{
    ASSERT_OK(key_list_add(&config->gateway.api_keys, "ask", 3, "", 0, RIGHT_OBSERVE));
    allowed(by_tcp("ask"), RIGHT_INFER | RIGHT_OBSERVE);
}

TEST(without_a_key_other_users_may_only_infer)
{
    config->gateway.tcp_access = CONFIG_TCP_OPEN;
    allowed(by_tcp(NULL), RIGHT_INFER);
    allowed(by_unix(1234, NULL), RIGHT_INFER);
    /* An unknown key counts as no key: many clients always send one. */
    assert_false(allowed(by_tcp("none"), RIGHT_INFER).by_key);
    allowed(by_unix(1234, "none"), RIGHT_INFER);
    /* A known key also counts at an endpoint that requires no key. */
    allowed(by_tcp("graphs"), RIGHT_OBSERVE);
}

TEST(root_and_the_owner_may_do_all_by_the_unix_socket)
{
    allowed(by_unix(0, NULL), RIGHTS_ALL);
    allowed(by_unix(OWN, NULL), RIGHTS_ALL);
    allowed(by_unix(OWN, "ask"), RIGHTS_ALL);
}

/* To a gateway in a user namespace, all users that the namespace does not map look like one user.
 * This user must not count as the owner of the gateway. */
TEST(users_who_cannot_be_distinguished_are_not_the_owner)
{
    gateway.own_uid = UNMAPPED;
    allowed(by_unix(UNMAPPED, NULL), RIGHT_INFER);
    gateway.own_uid = OWN;
    allowed((struct http_request){.door = HTTP_DOOR_UNIX, .uid = OWN}, RIGHT_INFER);
}

TEST(an_endpoint_that_requires_a_key_accepts_nothing_else)
{
    config->gateway.unix_access = CONFIG_UNIX_KEY;
    assert_int_equal(refused(by_tcp(NULL)), GW_AUTH_WRONG);
    assert_int_equal(refused(by_tcp("wrong")), GW_AUTH_WRONG);
    assert_int_equal(refused(by_tcp("as")), GW_AUTH_WRONG);
    assert_int_equal(refused(by_tcp("")), GW_AUTH_WRONG);
    assert_int_equal(refused(by_unix(0, NULL)), GW_AUTH_WRONG);
    assert_int_equal(refused((struct http_request){.door = HTTP_DOOR_TCP, .bearer = "Basic ask"}),
                     GW_AUTH_WRONG);
    allowed((struct http_request){.door = HTTP_DOOR_TCP, .bearer = "bearer ask"}, RIGHT_INFER);
    key_list_done(&file_keys);
    key_list_done(&config->gateway.api_keys);
    assert_int_equal(refused(by_tcp("plain")), GW_AUTH_NO_KEYS);
}

/* Makes 40 runs of 1000 checks. Returns the processor time of the fastest run, in nanoseconds. */
static int64_t time_of(const char *key)
{
    int64_t best = INT64_MAX;

    for (int i = 0; i < 40; i++) {
        struct timespec from, to;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        for (int k = 0; k < 1000; k++)
            refused(by_tcp(key));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        best = MIN(best, (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec);
    }
    return best;
}

/* A comparison that stops at the first wrong byte needs a tenth of the time for a key whose
 * beginning is wrong. */
TEST(comparing_keys_takes_equal_time_wherever_they_differ)
{
    char key[513], early[513], late[513];
    int64_t a, b;

    memset(key, 'k', 512);
    key[512] = '\0';
    memcpy(early, key, sizeof(key));
    memcpy(late, key, sizeof(key));
    early[0] = late[511] = 'x';
    key_list_done(&file_keys);
    ASSERT_OK(key_list_add(&file_keys, key, 512, "", 0, RIGHTS_ALL));
    a = time_of(early);
    b = time_of(late);
    if (a > 2 * b || b > 2 * a)
        fail_msg("%lld and %lld ns", (long long)a, (long long)b);
}

TEST(web_pages_need_a_key_at_an_open_port)
{
    struct http_request page = by_tcp(NULL);

    page.is_foreign = true;
    config->gateway.tcp_access = CONFIG_TCP_OPEN;
    assert_int_equal(refused(page), GW_AUTH_FOREIGN);
    page.key = "none";
    assert_int_equal(refused(page), GW_AUTH_FOREIGN);
    page.key = "ask";
    allowed(page, RIGHT_INFER);
    /* A program may forward a TCP port to the unix socket, so requests of web pages may arrive
     * there, too. */
    page.door = HTTP_DOOR_UNIX;
    allowed(page, RIGHT_INFER);
    page.key = NULL;
    assert_int_equal(refused(page), GW_AUTH_FOREIGN);
}

TEST(keys_and_users_have_caches_of_their_own)
{
    char first[TENANT_SIZE];

    config->gateway.tcp_access = CONFIG_TCP_OPEN;
    memcpy(first, allowed(by_tcp("ask"), RIGHT_INFER).tenant, sizeof(first));
    assert_memory_equal(first, "key ", 4);
    assert_null(strstr(first, "ask"));
    /* The same key at another endpoint is the same tenant; another key is another tenant. */
    ASSERT_STREQ(allowed(by_unix(1234, "ask"), RIGHT_INFER).tenant, first);
    assert_string_not_equal(allowed(by_tcp("graphs"), RIGHT_OBSERVE).tenant, first);
    ASSERT_STREQ(allowed(by_unix(1234, NULL), RIGHT_INFER).tenant, "uid 1234");
    ASSERT_STREQ(allowed(by_unix(0, NULL), RIGHTS_ALL).tenant, "uid 0");
    ASSERT_STREQ(allowed(by_unix(1234, "none"), RIGHT_INFER).tenant, "uid 1234");
    ASSERT_STREQ(allowed(by_tcp(NULL), RIGHT_INFER).tenant, "tcp");
}

TEST(users_who_cannot_be_distinguished_share_no_cache)
{
    ASSERT_STREQ(allowed(by_unix(UNMAPPED, NULL), RIGHT_INFER).tenant, TENANT_ALONE);
    ASSERT_STREQ(allowed((struct http_request){.door = HTTP_DOOR_UNIX}, RIGHT_INFER).tenant,
                 TENANT_ALONE);
}

#define ACCESS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

RUN_TESTS(ACCESS_TEST(a_key_has_its_rights_and_no_others),
          ACCESS_TEST(a_key_that_stands_twice_has_all_its_rights),
          ACCESS_TEST(without_a_key_other_users_may_only_infer),
          ACCESS_TEST(root_and_the_owner_may_do_all_by_the_unix_socket),
          ACCESS_TEST(users_who_cannot_be_distinguished_are_not_the_owner),
          ACCESS_TEST(an_endpoint_that_requires_a_key_accepts_nothing_else),
          ACCESS_TEST(comparing_keys_takes_equal_time_wherever_they_differ),
          ACCESS_TEST(web_pages_need_a_key_at_an_open_port),
          ACCESS_TEST(keys_and_users_have_caches_of_their_own),
          ACCESS_TEST(users_who_cannot_be_distinguished_share_no_cache))
