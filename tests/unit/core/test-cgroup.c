/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how limits of control groups are read from directories in the kernel's layout, and how many
 * processors these limits and the affinity leave.
 */
#include "lib/test.h"

#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/cgroup.h"
#include "core/cpu.h"
#include "core/macros.h"

static char root[64];

/* Writes a file below the root, and creates the directories that it needs. */
static void put(const char *path, const char *text)
{
    char name[512];
    FILE *f;

    snprintf(name, sizeof(name), "%s%s", root, path);
    for (char *at = strchr(name + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(name, 0777);
        *at = '/';
    }
    f = fopen(name, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void begin(const char *groups)
{
    snprintf(root, sizeof(root), "/tmp/test-cgroup-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("/proc/self/cgroup", groups);
}

static void end(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

TEST(the_smallest_quota_of_the_unified_hierarchy_holds)
{
    begin("0::/a.slice/b.service\n");
    assert_true(cgroup_cpus(root) == 0);
    put("/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n");
    assert_true(cgroup_cpus(root) == 0);
    put("/sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n");
    assert_true(cgroup_cpus(root) == 1.5);
    put("/sys/fs/cgroup/a.slice/b.service/cpu.max", "200000 50000\n");
    assert_true(cgroup_cpus(root) == 1.5);
    put("/sys/fs/cgroup/a.slice/b.service/cpu.max", "5000 20000\n");
    assert_true(cgroup_cpus(root) == 0.25);
    /* In a container the root of the mount is a group as well. */
    put("/sys/fs/cgroup/cpu.max", "1000 10000\n");
    assert_true(cgroup_cpus(root) == 0.1);
    end();
}

TEST(version_one_has_files_of_its_own)
{
    begin("12:pids:/x\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/\n2:memory:/docker/abc\n"
          "1:name=systemd:/x\n0::/\n");
    assert_true(cgroup_cpus(root) == 0);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    assert_true(cgroup_cpus(root) == 0);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000\n");
    assert_true(cgroup_cpus(root) == 2.5);
    /* In a container /proc/self/cgroup may name a path of the host that does not exist there. In
     * this case the root of the mount is the group of this process. */
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(cgroup_cpus(root) == 0.5);
    /* Files of another hierarchy are ignored. */
    put("/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "1000\n");
    put("/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n");
    assert_true(cgroup_cpus(root) == 0.5);
    end();
}

TEST(files_that_make_no_sense_are_no_limits)
{
    static const char *const texts[] = {"", "max\n", "100\n", "100 0\n", "-5 100\n", "x y\n", "\n"};

    begin("nonsense\n:\n::\n0:\n0::/g\n");
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        put("/sys/fs/cgroup/g/cpu.max", texts[i]);
        assert_true(cgroup_cpus(root) == 0);
    }
    end();
    snprintf(root, sizeof(root), "/nowhere");
    assert_true(cgroup_cpus(root) == 0);
    assert_true(cgroup_memory(root) == UINT64_MAX);
}

TEST(memory_has_limits_in_both_versions)
{
    begin("2:memory:/m\n0::/a/b\n");
    assert_true(cgroup_memory(root) == UINT64_MAX);
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.max", "3000000\n");
    assert_true(cgroup_memory(root) == 3000000);
    put("/sys/fs/cgroup/a/b/memory.high", "2000000\n");
    assert_true(cgroup_memory(root) == 2000000);
    put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1000000\n");
    assert_true(cgroup_memory(root) == 1000000);
    assert_true(memory_bytes() > 0);
    end();
}

TEST(a_share_of_processors_is_the_affinity_or_the_quota)
{
    begin("0::/g\n");
    assert_true(cpu_share(root) >= 1);
    put("/sys/fs/cgroup/g/cpu.max", "50000 100000\n");
    assert_true(cpu_share(root) == 0.5);
    put("/sys/fs/cgroup/g/cpu.max", "1000000000 100000\n");
    assert_true(cpu_share(root) == cpu_share("/nowhere"));
    end();
    assert_in_range(cpu_count() - cpu_whole_count(), 0, 1);
    assert_true(cpu_count() >= 1);
}

static void count_on_one_cpu(void)
{
    cpu_set_t all, one;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        _exit(77);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        _exit(77);
    _exit(cpu_count() == 1 && cpu_share("/nowhere") == 1 ? 0 : 1);
}

TEST(affinity_counts)
{
    int status;
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        count_on_one_cpu();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

RUN_TESTS(cmocka_unit_test(the_smallest_quota_of_the_unified_hierarchy_holds),
          cmocka_unit_test(version_one_has_files_of_its_own),
          cmocka_unit_test(files_that_make_no_sense_are_no_limits),
          cmocka_unit_test(memory_has_limits_in_both_versions),
          cmocka_unit_test(a_share_of_processors_is_the_affinity_or_the_quota),
          cmocka_unit_test(affinity_counts))
