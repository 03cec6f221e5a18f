/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries to make memory executable, and to use parts of the kernel that no service needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/memfd.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/timex.h>

#include "attack.h"

#define PAGE 4096
/* Results are mapped addresses. Only results in the last page of the address space are errors. */
#define IS_ERROR(r) ((r) < 0 && (r) > -PAGE)

static long map(struct victim *v, int prot, int flags, long fd)
{
    return CALL(v, SYS_mmap, 0, PAGE, (uint64_t)prot, (uint64_t)flags, (uint64_t)fd, 0);
}

static int map_writable_code(struct victim *v, const struct scene *s UNUSED)
{
    const long at = map(v, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    return IS_ERROR(at) ? (int)at : 0;
}

/* JIT compilers work this way: they write code into memory, and then make it executable. */
static int protect_code(struct victim *v, const struct scene *s UNUSED)
{
    const long at = map(v, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    if (IS_ERROR(at))
        return (int)at;
    return (int)CALL(v, SYS_mprotect, (uint64_t)at, PAGE, PROT_READ | PROT_EXEC);
}

static int protect_code_by_key(struct victim *v, const struct scene *s UNUSED)
{
    const long at = map(v, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    if (IS_ERROR(at))
        return (int)at;
    return (int)CALL(v, SYS_pkey_mprotect, (uint64_t)at, PAGE, PROT_READ | PROT_EXEC, (uint64_t)-1);
}

/* Sets a personality in which every readable page is executable. */
static int readable_is_code(struct victim *v, const struct scene *s UNUSED)
{
    long r = CALL(v, SYS_personality, READ_IMPLIES_EXEC);

    if (r < 0)
        return (int)r;
    r = map(v, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return IS_ERROR(r) ? (int)r : 0;
}

/* Writes code to a memory file and maps the file: no address is ever both writable and
 * executable. */
static int map_memfd_code(struct victim *v, const struct scene *s UNUSED)
{
    const unsigned char code[16] = {0xc3};
    const long fd = CALL(v, SYS_memfd_create, victim_text(v, "code"), MFD_CLOEXEC);
    long r;

    if (fd < 0)
        return (int)fd;
    r = CALL(v, SYS_write, (uint64_t)fd, victim_put(v, code, sizeof(code)), sizeof(code));
    if (r < 0)
        return (int)r;
    r = map(v, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
    return IS_ERROR(r) ? (int)r : 0;
}

static int mount_files(struct victim *v, const struct scene *s UNUSED)
{
    /* There is no such file system, so a process that may mount file systems gets ENODEV, and
     * nothing is mounted. */
    const uint64_t type = victim_text(v, "sconce-none");
    const long r = CALL(v, SYS_mount, type, victim_text(v, "/"), type, MS_NOSUID, 0);

    return r == -ENODEV ? 0 : (int)r;
}

static int load_bpf(struct victim *v, const struct scene *s UNUSED)
{
    const union bpf_attr map_of_one = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
    const long fd = CALL(v, SYS_bpf, BPF_MAP_CREATE, victim_put(v, &map_of_one, sizeof(map_of_one)),
                         sizeof(map_of_one));

    return fd < 0 ? (int)fd : 0;
}

/* Opens performance events of every process on CPU 0. */
static int observe_machine(struct victim *v, const struct scene *s UNUSED)
{
    const struct perf_event_attr event = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(event), .config = PERF_COUNT_SW_CPU_CLOCK};
    const long fd = CALL(v, SYS_perf_event_open, victim_put(v, &event, sizeof(event)), (uint64_t)-1,
                         0, (uint64_t)-1, 0);

    return fd < 0 ? (int)fd : 0;
}

static int io_uring(struct victim *v, const struct scene *s UNUSED)
{
    const struct io_uring_params params = {};
    const long fd = CALL(v, SYS_io_uring_setup, 1, victim_put(v, &params, sizeof(params)));

    return fd < 0 ? (int)fd : 0;
}

static int userfaultfd(struct victim *v, const struct scene *s UNUSED)
{
    const long fd = CALL(v, SYS_userfaultfd, O_CLOEXEC);

    return fd < 0 ? (int)fd : 0;
}

static int keyring(struct victim *v, const struct scene *s UNUSED)
{
    const uint64_t type = victim_text(v, "user");
    /* -2 is KEY_SPEC_PROCESS_KEYRING. */
    const long key = CALL(v, SYS_add_key, type, type, type, 4, (uint64_t)-2);

    return key < 0 ? (int)key : 0;
}

static int set_clock(struct victim *v, const struct scene *s UNUSED)
{
    /* The tick is invalid, so a process that may set the clock gets EINVAL, and the clock does not
     * change. */
    const struct timex timex = {.modes = ADJ_TICK};
    const long r = CALL(v, SYS_adjtimex, victim_put(v, &timex, sizeof(timex)));

    return r == -EINVAL ? 0 : (int)r;
}

static int load_module(struct victim *v, const struct scene *s UNUSED)
{
    /* This is not a module: the kernel rejects it for its format, or before reading it. */
    const long r = CALL(v, SYS_init_module, victim_text(v, "none"), 4, victim_text(v, ""));

    return r == -ENOEXEC ? 0 : (int)r;
}

const struct attack attacks_memory[] = {
    {"map-rwx", "map memory to write and execute", map_writable_code},
    {"protect-rx", "make written memory executable", protect_code},
    {"pkey-rx", "make written memory executable by a key", protect_code_by_key},
    {"read-implies-exec", "let all readable memory be code", readable_is_code},
    {"map-memfd", "map a written memory file as code", map_memfd_code},
    {},
};

const struct attack attacks_kernel[] = {
    {"mount", "mount a file system", mount_files},
    {"bpf", "create a BPF map", load_bpf},
    {"perf", "observe every process", observe_machine},
    {"io-uring", "make an io_uring", io_uring},
    {"userfaultfd", "handle page faults", userfaultfd},
    {"keyring", "add a key to the kernel's keyring", keyring},
    {"clock", "set the clock", set_clock},
    {"module", "load a kernel module", load_module},
    {},
};
