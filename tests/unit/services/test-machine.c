/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "cli/machine/audit-line.h"
#include "cli/machine/gpu-nodes.h"
#include "cli/machine/ports.h"
#include "cli/machine/sandbox.h"
#include "lib/tempdir.h"

static void put(const char *name, const char *text, mode_t mode)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0755);
        *p = '/';
    }
    f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

TEST(refused_system_calls_are_named_by_their_architecture)
{
    static const char text[] =
        "audit: type=1326 audit(1795185573.270:285): auid=4294967295 uid=64165 gid=64165 "
        "ses=4294967295 pid=8519 comm=\"sconce-gateway\" "
        "exe=\"/usr/libexec/sconce/sconce-gateway\" sig=31 arch=c000003e syscall=41 compat=0 "
        "ip=0x7f5fa99c4f60 code=0x80000000";
    struct audit_line line;

    audit_line_parse(text, &line);
    assert_int_equal(line.kind, REFUSAL_SYSCALL);
    ASSERT_STREQ(line.program, "sconce-gateway");
    ASSERT_STREQ(line.call, "socket");
    audit_line_parse("audit: type=1326 audit(1.2:3): comm=\"sconce-chat\" sig=31 arch=c00000b7 "
                     "syscall=198",
                     &line);
    ASSERT_STREQ(line.call, "socket");
    ASSERT_STREQ(line.program, "sconce-chat");
    audit_line_parse("SECCOMP auid=1 comm=\"sconce-chat\" arch=c000003e syscall=9999", &line);
    assert_int_equal(line.kind, REFUSAL_SYSCALL);
    ASSERT_STREQ(line.call, "9999");
}

TEST(other_lines_are_no_refusals)
{
    static const char *const lines[] = {
        "",
        "audit: type=1327 audit(1.2:3): proctitle=7C",
        "audit: type=1326",
        "x=type=1326",
        "audit: type=1400 audit(1.2:3): apparmor=\"STATUS\" operation=\"profile_load\"",
        "audit: type=1326 comm=\"unterminated"};
    struct audit_line line;

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        audit_line_parse(lines[i], &line);
        assert_int_equal(line.kind, REFUSAL_NONE);
    }
}

TEST(refusals_of_apparmor_say_what)
{
    struct audit_line line;

    audit_line_parse("audit: type=1400 audit(1.2:3): apparmor=\"DENIED\" operation=\"open\" "
                     "profile=\"sconce-chat\" name=\"/etc/shadow\" pid=1 comm=\"sconce-chat\" "
                     "requested_mask=\"r\" denied_mask=\"r\"",
                     &line);
    assert_int_equal(line.kind, REFUSAL_APPARMOR);
    ASSERT_STREQ(line.what, "open /etc/shadow");
    ASSERT_STREQ(line.program, "sconce-chat");
}

TEST(listeners_in_the_way_are_found_in_lines)
{
    struct port_owner o;

    assert_true(port_line("   0: 0100007F:1C62 00000000:0000 0A 00000000:00000000 00:00000000 "
                          "00000000  1000        0 14437 1 0000 100 0 0 10 0",
                          7266, &o));
    assert_int_equal(o.uid, 1000);
    assert_int_equal(o.inode, 14437);
    assert_true(port_line("   1: 00000000:1C62 00000000:0000 0A 0:0 00:0 0 33 0 7 1", 7266, &o));
    assert_true(port_line("   1: 00000000000000000000000000000000:1C62 "
                          "00000000000000000000000000000000:0000 0A 0:0 00:0 0 33 0 7 1",
                          7266, &o));
    /* These lines have another port, a connection, another address, and IPv6's loopback address.
     * The last one is the heading. */
    assert_false(port_line("   0: 0100007F:1C63 00000000:0000 0A 0:0 00:0 0 0 0 1 1", 7266, &o));
    assert_false(port_line("   0: 0100007F:1C62 0100007F:8000 01 0:0 00:0 0 0 0 1 1", 7266, &o));
    assert_false(port_line("   0: 0201A8C0:1C62 00000000:0000 0A 0:0 00:0 0 0 0 1 1", 7266, &o));
    assert_false(port_line("   0: 00000000000000000000000001000000:1C62 "
                           "00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 1 1",
                           7266, &o));
    assert_false(port_line("  sl  local_address rem_address   st tx_queue rx_queue", 7266, &o));
}

TEST(an_owner_is_found_by_its_descriptors)
{
    struct port_owner o;
    char path[256], text[300];

    put("proc/net/tcp",
        "  sl  local_address\n"
        "   0: 0100007F:1C62 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1\n",
        0644);
    put("proc/42/comm", "nginx\n", 0644);
    snprintf(path, sizeof(path), "%s/proc/42/fd", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/proc/42/fd/6", dir);
    assert_int_equal(symlink("socket:[77]", path), 0);
    assert_true(port_find_owner(dir, 7266, &o));
    assert_int_equal(o.pid, 42);
    port_describe(&o, text, sizeof(text));
    ASSERT_STREQ(text, "nginx (pid 42) of user root");
    assert_false(port_find_owner(dir, 7267, &o));
}

TEST(gpus_are_their_nodes_and_nothing_else)
{
    struct gpu_node nodes[GPU_MAX_NODES];
    size_t n;

    assert_int_equal(gpu_nodes_find(dir, nodes), 0);
    put("dev/dri/renderD128", "", 0660);
    put("dev/dri/card0", "", 0660);
    put("dev/dri/by-path/pci-render", "", 0660);
    put("dev/kfd", "", 0666);
    put("dev/nvidia0", "", 0666);
    put("dev/nvidiactl", "", 0666);
    put("dev/nvidia-caps/nvidia-cap1", "", 0600);
    put("dev/nvme0", "", 0600);
    n = gpu_nodes_find(dir, nodes);
    assert_int_equal(n, 3);
    ASSERT_STREQ(nodes[0].path, "/dev/dri/renderD128");
    ASSERT_STREQ(nodes[1].path, "/dev/nvidia0");
    ASSERT_STREQ(nodes[2].path, "/dev/nvidiactl");
    assert_true(gpu_nodes_contain(nodes, 3, "/dev/nvidia0"));
    assert_false(gpu_nodes_contain(nodes, 3, "/dev/nvidia1"));
    assert_true(gpu_nodes_nvidia(nodes, 3));
    assert_false(gpu_nodes_nvidia(nodes, 2));
}

TEST(the_drop_in_opens_exactly_the_nodes)
{
    /* Group 1 is the group daemon on every system. A device of the group root adds no group. */
    const struct gpu_node nodes[] = {
        {"/dev/dri/renderD128", 0, 1, 0660},
        {"/dev/dri/renderD129", 0, 0, 0660},
        {"/dev/nvidia0", 0, 1, 0666},
    };
    _cleanup_free_ char *machine = gpu_drop_in(false, nodes, 3), *own = gpu_drop_in(true, nodes, 3);
    char path[64];

    ASSERT_CONTAINS(machine, "\nBindPaths=-/dev/dri/renderD128\n");
    ASSERT_CONTAINS(machine, "\nDeviceAllow=/dev/nvidia0 rw\n");
    ASSERT_CONTAINS(machine, "\nSupplementaryGroups=daemon\n");
    assert_null(strstr(own, "SupplementaryGroups"));
    ASSERT_CONTAINS(machine, "\nCacheDirectory=sconce\n");
    ASSERT_CONTAINS(own, "\nProcSubset=all\n");
    assert_true(gpu_drop_in_node(machine, 0, path, sizeof(path)));
    ASSERT_STREQ(path, "/dev/dri/renderD128");
    assert_true(gpu_drop_in_node(machine, 2, path, sizeof(path)));
    ASSERT_STREQ(path, "/dev/nvidia0");
    assert_false(gpu_drop_in_node(machine, 3, path, sizeof(path)));
    assert_false(gpu_drop_in_node("", 0, path, sizeof(path)));
    assert_true(gpu_drop_in_contains(own, "/dev/dri/renderD129"));
    assert_false(gpu_drop_in_contains(own, "/dev/dri/renderD12"));
}

/* NVIDIA's driver finds GPUs through its control node and compiles code. Without this node, and for
 * other drivers, no memory may become executable. */
TEST(the_drop_in_permits_code_only_with_nvidias_driver)
{
    const struct gpu_node nodes[] = {
        {"/dev/dri/renderD128", 0, 1, 0666},
        {"/dev/nvidia0", 0, 1, 0666},
        {"/dev/nvidiactl", 0, 1, 0666},
    };

    for (size_t n = 0; n <= 3; n++)
        for (unsigned user = 0; user < 2; user++) {
            _cleanup_free_ char *text = gpu_drop_in(user, nodes, n);

            assert_int_equal(gpu_drop_in_permits_code(text), n == 3);
            assert_int_equal(strstr(text, "MemoryDenyWriteExecute") != NULL, n == 3);
        }
    assert_false(gpu_drop_in_permits_code("[Service]\n# MemoryDenyWriteExecute=no\n"));
    assert_false(gpu_drop_in_permits_code("[Service]\nMemoryDenyWriteExecute=yes\n"));
}

TEST(the_longer_of_two_rules_wins)
{
    struct sandbox s = {0};

    sandbox_add(&s, "/home", true);
    sandbox_add(&s, "/home/alice/models", false);
    sandbox_add(&s, "/home/alice/models/secret", true);
    sandbox_add(&s, "/srv", true);
    sandbox_add(&s, "/srv", false);
    assert_true(sandbox_hides(&s, "/home/alice"));
    assert_true(sandbox_hides(&s, "/home/alice/modelsx"));
    assert_false(sandbox_hides(&s, "/home/alice/models"));
    assert_false(sandbox_hides(&s, "/home/alice/models/a.gguf"));
    assert_true(sandbox_hides(&s, "/home/alice/models/secret/b"));
    assert_false(sandbox_hides(&s, "/srv/models"));
    assert_false(sandbox_hides(&s, "/usr/share/sconce/models"));
    assert_false(sandbox_hides(&s, "/homes"));
    sandbox_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_system_calls_are_named_by_their_architecture),
        cmocka_unit_test(other_lines_are_no_refusals),
        cmocka_unit_test(refusals_of_apparmor_say_what),
        cmocka_unit_test(listeners_in_the_way_are_found_in_lines),
        cmocka_unit_test_setup_teardown(an_owner_is_found_by_its_descriptors, tempdir_make,
                                        tempdir_remove),
        cmocka_unit_test_setup_teardown(gpus_are_their_nodes_and_nothing_else, tempdir_make,
                                        tempdir_remove),
        cmocka_unit_test(the_drop_in_opens_exactly_the_nodes),
        cmocka_unit_test(the_drop_in_permits_code_only_with_nvidias_driver),
        cmocka_unit_test(the_longer_of_two_rules_wins),
    };

    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
