/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests confinement from inside: for each forbidden or allowed action, a process confines itself
 * and then tries the action. Every system call that a policy does not allow is tried by number,
 * with harmless arguments.
 */
#include <fcntl.h>
#include <seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/confine/landlock.h"
#include "common/confine/policy.h"
#include "confined.h"
#include "service-rows.h"

static const char *const services[] = {SERVICE_POLICIES};

static bool was_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static int try_call(const void *arg)
{
    const long *a = arg;

    return syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]) < 0 ? errno : 0;
}

static bool is_mentioned(const struct policy *policy, enum policy_phase phase,
                         enum policy_arch arch, int number)
{
    size_t n;
    const struct policy_rule *rules = policy_rules(policy, phase, &n);

    for (size_t i = 0; i < n; i++)
        if (rules[i].arches[arch] && policy_call_number(rules[i].name, arch) == number)
            return true;
    return false;
}

/* Returns whether a call only probes for a feature of the kernel. The kernel lets such calls pass
 * every filter, and they fail later. */
static bool is_probe(enum policy_arch arch, int number)
{
    return arch == POLICY_X86_64 && (number == 335 || number == 336);
}

TEST(each_call_without_a_rule_kills_the_process)
{
    enum policy_arch arch;

    ASSERT_OK(policy_arch_native(&arch));
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        struct policy *policy = NULL;
        struct inf_err err;

        ASSERT_OK_ERR(policy_load(policy_texts, n_policy_texts, services[i], &policy, &err), err);
        for (int nr = 0; nr <= (int)policy_known(policy); nr++) {
            const long call[7] = {nr, -1, -1, -1, -1, -1, -1};

            if (is_probe(arch, nr) || is_mentioned(policy, POLICY_SERVE, arch, nr))
                continue;
            if (!was_killed(confined(services[i], SEALED, try_call, call)))
                fail_msg("%s survives system call %d", services[i], nr);
        }
        policy_free(policy);
    }
}

TEST(newer_calls_fail_with_enosys)
{
    for (long nr = 451; nr < 1000; nr += 61) {
        const long call[7] = {nr};
        const int status = confined("chat", SEALED, try_call, call);

        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), ENOSYS);
    }
}

static void killed(const char *service, long a, long b, long c, long d)
{
    const long call[7] = {a, b, c, d, -1, 0, 0};

    if (!was_killed(confined(service, SEALED, try_call, call)))
        fail_msg("%s survives call %ld (%ld, %ld, %ld)", service, a, b, c, d);
}

static void gets(const char *service, int error, long a, long b, long c, long d)
{
    const long call[7] = {a, b, c, d, -1, 0, 0};
    const int status = confined(service, SEALED, try_call, call);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != error)
        fail_msg("%s: call %ld (%ld, %ld, %ld) has status %d", service, a, b, c, d, status);
}

/* Checks a call for executable memory, which NVIDIA's driver makes too. With the policy for this
 * driver the call fails; with all other policies it kills the process. */
static void refused(const char *service, long a, long b, long c, long d)
{
    if (strcmp(service, "chat-nvidia") == 0)
        gets(service, EACCES, a, b, c, d);
    else
        killed(service, a, b, c, d);
}

TEST(conditions_hold)
{
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        refused(services[i], SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
        refused(services[i], SYS_mprotect, 0, 0, PROT_READ | PROT_WRITE | PROT_EXEC);
        killed(services[i], SYS_tgkill, getpid(), getpid(), SIGABRT);
    }
    for (size_t i = 0; i < 6; i++) {
        static const char *const of[] = {"cache", "chat", "chat-gpu", "gateway", "history", "keep"};
        const char *service = of[i];

        refused(service, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC);
        killed(service, SYS_mprotect, 0, 0, PROT_READ | PROT_EXEC);
        killed(service, SYS_socket, AF_INET, SOCK_STREAM, 0);
        killed(service, SYS_socket, AF_INET6, SOCK_DGRAM, 0);
        killed(service, SYS_socket, AF_NETLINK, SOCK_RAW, 0);
        killed(service, SYS_fcntl, 0, F_SETOWN, getpid());
        killed(service, SYS_fcntl, 0, F_SETLEASE, 0);
        gets(service, EBADF, SYS_fcntl, -1, F_SETFL, 0);
        killed(service, SYS_setsockopt, 0, SOL_SOCKET, SO_REUSEADDR);
        killed(service, SYS_setsockopt, 0, IPPROTO_IP, 64 /* IPT_SO_SET_REPLACE */);
        killed(service, SYS_ioctl, 0, 0x5412 /* TIOCSTI */, 0);
    }
    /* Each service can make sockets of only one type, or no sockets. */
    killed("cache", SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0);
    killed("cache", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    killed("cache", SYS_connect, -1, 0, 0);
    killed("keep", SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0);
    killed("keep", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    killed("keep", SYS_connect, -1, 0, 0);
    killed("history", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    killed("history", SYS_connect, -1, 0, 0);
    killed("history", SYS_memfd_create, (long)"x", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
    killed("gateway", SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0);
    gets("chat", EBADF, SYS_connect, -1, 0, 0);
    gets("chat", 0, SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    killed("chat", SYS_memfd_create, (long)"x", 0, 0);
    gets("chat", 0, SYS_memfd_create, (long)"x", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
    killed("cache", SYS_memfd_create, (long)"x", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
    gets("chat", 0, SYS_mprotect, 0, 0, PROT_READ);
    killed("chat", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    killed("chat", SYS_clone, SIGCHLD, 0, 0);
    killed("chat", SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0);
    killed("chat", SYS_prctl, PR_SET_DUMPABLE, 1, 0);
    killed("gateway", SYS_openat, AT_FDCWD, 0, O_RDONLY);
    for (size_t i = 0; i < 5; i++) {
        static const int flags[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE | O_RDWR};

        killed("chat", SYS_openat, AT_FDCWD, (long)"/dev/null", flags[i]);
    }
    gets("chat", EACCES, SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY);
}

/* The policies for GPUs allow opening device nodes and calling ioctl() on them, but not creating
 * files. */
TEST(conditions_of_drivers_hold)
{
    static const int flags[] = {O_WRONLY, O_RDWR | O_TRUNC, O_RDWR | O_TMPFILE};
    static const char *const of[] = {"chat-gpu", "chat-nvidia"};

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
            killed(of[i], SYS_openat, AT_FDCWD, (long)"/dev/null", flags[k]);
        gets(of[i], EACCES, SYS_openat, AT_FDCWD, (long)"/dev/null", O_WRONLY | O_CREAT);
        gets(of[i], EACCES, SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR | O_CREAT | O_EXCL);
        gets(of[i], EACCES, SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        killed(of[i], SYS_socket, AF_INET, SOCK_STREAM, 0);
        gets(of[i], EACCES, SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR);
        gets(of[i], EACCES, SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY);
        killed(of[i], SYS_ioctl, -1, 0x5412 /* TIOCSTI */, 0);
        killed(of[i], SYS_ioctl, -1, 0x8912 /* SIOCGIFCONF */, 0);
        gets(of[i], EBADF, SYS_ioctl, -1, 0x6442 /* a command of DRM */, 0);
        gets(of[i], EPERM, SYS_sched_setaffinity, 0, 0, 0);
        gets(of[i], EPERM, SYS_memfd_create, 0, 0, 0);
        killed(of[i], SYS_renameat2, AT_FDCWD, (long)"/a", AT_FDCWD);
    }
    gets("chat-lavapipe", 0, SYS_mprotect, 0, 0, PROT_READ | PROT_EXEC);
    killed("chat-lavapipe", SYS_ioctl, -1, 0x6442, 0);
    killed("chat-lavapipe", SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR);
}

/* The policy for NVIDIA's driver allows the driver's calls, or makes them fail. With other policies
 * they kill the process. */
TEST(conditions_of_nvidias_driver_hold)
{
    gets("chat-nvidia", EBADF, SYS_ioctl, -1, 0xc0104629 /* type F */, 0);
    gets("chat-nvidia", EBADF, SYS_ioctl, -1, 0xc0106d00 /* type m */, 0);
    gets("chat-nvidia", EBADF, SYS_ioctl, -1, 0x30000001 /* uvm */, 0);
    gets("chat-nvidia", EPERM, SYS_clone, SIGCHLD, 0, 0);
    killed("chat-gpu", SYS_ioctl, -1, 0xc0104629, 0);
    killed("chat-gpu", SYS_ioctl, -1, 0xc0106d00, 0);
    killed("chat-gpu", SYS_ioctl, -1, 0x30000001, 0);
    killed("chat-gpu", SYS_ioctl, -1, 37 /* a command of uvm */, 0);
    killed("chat-gpu", SYS_clone, SIGCHLD, 0, 0);
#ifdef __x86_64__
    gets("chat-nvidia", EACCES, SYS_unlink, (long)"/dev/char/195:0", 0, 0);
    gets("chat-nvidia", EACCES, SYS_symlink, (long)"../nvidia0", (long)"/dev/char/195:0", 0);
    killed("chat-nvidia", SYS_unlinkat, AT_FDCWD, (long)"/a", 0);
    killed("chat-gpu", SYS_unlink, (long)"/dev/char/195:0", 0, 0);
    killed("chat-gpu", SYS_symlink, (long)"../nvidia0", (long)"/dev/char/195:0", 0);
#endif
}

/* The cache service may create files; Landlock restricts the directories. */
TEST(conditions_of_the_cache_service_hold)
{
    killed("cache", SYS_openat, AT_FDCWD, (long)"/tmp", O_TMPFILE | O_RDWR);
    gets("cache", EACCES, SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY);
    gets("cache", EACCES, SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR | O_CREAT);
    killed("cache", SYS_fcntl, -1, F_ADD_SEALS, 0);
    killed("cache", SYS_renameat2, AT_FDCWD, (long)"/a", AT_FDCWD);
    killed("cache", SYS_clone, SIGCHLD, 0, 0);
}

/* With the default configuration the keep service may not open any file, although its filter allows
 * creating files. */
TEST(conditions_of_the_keep_service_hold)
{
    killed("keep", SYS_openat, AT_FDCWD, (long)"/tmp", O_TMPFILE | O_RDWR);
    gets("keep", EACCES, SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY);
    gets("keep", EACCES, SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR | O_CREAT);
    killed("keep", SYS_memfd_create, (long)"x", 0, 0);
    gets("keep", 0, SYS_memfd_create, (long)"x", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
    killed("keep", SYS_renameat2, AT_FDCWD, (long)"/a", AT_FDCWD);
    killed("keep", SYS_mkdirat, AT_FDCWD, (long)"/a", 0700);
    killed("keep", SYS_clone, SIGCHLD, 0, 0);
}

/* Struct row holds a call and the errno with which it must fail; 0: the call must end the
 * process. */
struct row {
    int error;
    long call[7];
};

static void check_rows(const char *service, enum phase phase, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int status = confined(service, phase, try_call, rows[i].call);
        const bool as_told = rows[i].error
                                 ? WIFEXITED(status) && WEXITSTATUS(status) == rows[i].error
                                 : was_killed(status);

        if (!as_told)
            fail_msg("%s: row %zu of phase %d has status %x", service, i, (int)phase, status);
    }
}

/* NVIDIA's driver tries to get memory that holds code and can be overwritten: it prepares a memfd
 * and maps it as code, and it maps memory that is both writable and executable. With its policy
 * such attempts fail; with other policies they end the process. */
TEST(drivers_get_no_memory_for_code)
{
    const long rx = PROT_READ | PROT_EXEC, rwx = rx | PROT_WRITE;
    const long anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    const int memfd = memfd_create("code", 0);
    const struct row loading[] = {
        {EACCES, {SYS_mmap, 0, 4096, rwx, anonymous, -1, 0}},
        {EACCES, {SYS_mmap, 0, 4096, rwx, anonymous | 0x40 /* MAP_32BIT of x86-64 */, -1, 0}},
        {EACCES, {SYS_mmap, 0, 4096, PROT_WRITE | PROT_EXEC, anonymous, -1, 0}},
        {EACCES, {SYS_mmap, 0, 4096, rwx, MAP_PRIVATE, memfd, 0}},
        {EACCES, {SYS_mmap, 0, 4096, rwx, MAP_SHARED, memfd, 0}},
        {EACCES, {SYS_mmap, 0, 4096, rx, MAP_SHARED, memfd, 0}},
        {EACCES, {SYS_mmap, 0, 4096, rx, MAP_SHARED_VALIDATE, memfd, 0}},
        {EACCES, {SYS_mprotect, 0, 0, rwx}},
        {ENOTSUP, {SYS_fallocate, -1, 0, 0, 4096}},
        {EBADF, {SYS_fstatfs, -1, 0}},
        {EBADF, {SYS_pwrite64, -1, 0, 0, 0}},
        {0, {SYS_mmap, 0, 4096, rx, anonymous, -1, 0}},
        {0, {SYS_mprotect, 0, 0, PROT_EXEC}},
        {0, {SYS_mprotect, 0, 0, rx | PROT_GROWSDOWN}},
    };
    const struct row serving[] = {
        {EACCES, {SYS_mmap, 0, 4096, rwx, anonymous, -1, 0}},
        {0, {SYS_mmap, 0, 4096, rx, MAP_PRIVATE, memfd, 0}},
        {EACCES, {SYS_mmap, 0, 4096, rx, MAP_SHARED, memfd, 0}},
        {EACCES, {SYS_mprotect, 0, 0, rwx}},
        {EPERM, {SYS_fallocate, -1, 0, 0, 4096}},
        {0, {SYS_fstatfs, -1, 0}},
        {0, {SYS_pwrite64, -1, 0, 0, 0}},
        {0, {SYS_mprotect, 0, 0, PROT_EXEC}},
        {0, {SYS_mprotect, 0, 0, rx | PROT_GROWSDOWN}},
    };
    struct row ends[sizeof(loading) / sizeof(loading[0])];

    assert_true(memfd >= 0);
    check_rows("chat-nvidia", STARTED, loading, sizeof(loading) / sizeof(loading[0]));
    check_rows("chat-nvidia", SEALED, serving, sizeof(serving) / sizeof(serving[0]));
    memcpy(ends, loading, sizeof(ends));
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        ends[i].error = 0;
    check_rows("chat", STARTED, ends, sizeof(ends) / sizeof(ends[0]));
    check_rows("chat-gpu", STARTED, ends, sizeof(ends) / sizeof(ends[0]));
    check_rows("embed", STARTED, ends, sizeof(ends) / sizeof(ends[0]));
    /* lavapipe may make memory executable, but no memory that is writable. */
    check_rows("chat-lavapipe", STARTED, ends, 5);
    close(memfd);
}

/* A function that returns 7, as machine code. */
static const unsigned char code[] = {
#ifdef __x86_64__
    0xb8, 7, 0, 0, 0, 0xc3,
#else
    0xe0, 0, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6,
#endif
};

/* Compiles and runs a function twice, as a driver with a compiler does. Returns 7, or 100 plus the
 * error of the first call that fails. */
static int compile(const void *arg)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*function)(void);
    int value = 0;

    (void)arg;
    if (page == MAP_FAILED)
        return 1;
    memcpy(&function, &page, sizeof(function));
    for (int i = 0; i < 2; i++) {
        memcpy(page, code, sizeof(code));
        __builtin___clear_cache(page, page + sizeof(code));
        if (mprotect(page, 4096, PROT_READ | PROT_EXEC) < 0)
            return 100 + errno;
        value = function();
        if (mprotect(page, 4096, PROT_READ | PROT_WRITE) < 0)
            return 100 + errno;
    }
    return munmap(page, 4096) < 0 ? 100 + errno : value;
}

/* In both phases, exactly the policies of drivers with a compiler let a process compile code. */
TEST(only_drivers_with_a_compiler_run_what_they_compile)
{
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        const bool compiles =
            strcmp(services[i], "chat-nvidia") == 0 || strcmp(services[i], "chat-lavapipe") == 0;

        for (enum phase phase = STARTED; phase <= SEALED; phase++) {
            const int status = confined(services[i], phase, compile, NULL);

            if (compiles ? !WIFEXITED(status) || WEXITSTATUS(status) != 7 : !was_killed(status))
                fail_msg("%s: compiling has status %x in phase %d", services[i], status,
                         (int)phase);
        }
    }
}

/* Opens the path @arg for writing, and creates the file if it is missing. */
static int try_create(const void *arg)
{
    const int fd = open(arg, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd >= 0 ? 0 : errno;
}

static void creates(const char *service, enum phase phase, const char *path, int error)
{
    const int status = confined(service, phase, try_create, path);

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), error);
}

TEST(compiled_kernels_are_written_before_the_end_of_the_start)
{
    static const char *const of[] = {"chat-gpu", "chat-nvidia"};
    char path[256], other[256];

    snprintf(path, sizeof(path), "%s/cache", dir);
    ASSERT_OK(mkdir(path, 0700));
    setenv("CACHE_DIRECTORY", path, 1);
    snprintf(path, sizeof(path), "%s/cache/kernels", dir);
    snprintf(other, sizeof(other), "%s/other", dir);
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        creates(of[i], STARTED, path, 0);
        creates(of[i], STARTED, other, EACCES);
        creates(of[i], SEALED, path, EACCES);
        ASSERT_OK(unlink(path));
    }
    assert_true(was_killed(confined("chat", STARTED, try_create, path)));
    /* The service may write files of blocks in every phase, but no other files. */
    creates("cache", SEALED, path, 0);
    creates("cache", SEALED, other, EACCES);
    unsetenv("CACHE_DIRECTORY");
}

#ifdef __x86_64__
static int try_other_abi(const void *arg)
{
    long r = 20; /* the number of getpid() in the 32-bit ABI */

    (void)arg;
    __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
    return 0;
}

TEST(calls_of_other_abis_kill_the_process)
{
    const long x32[7] = {0x40000000 | 39};

    assert_true(was_killed(confined("chat", SEALED, try_other_abi, NULL)));
    assert_true(was_killed(confined("chat", SEALED, try_call, x32)));
    assert_true(was_killed(confined("chat", STARTED, try_other_abi, NULL)));
}
#else
TEST(calls_of_other_abis_kill_the_process)
{
    skip();
}
#endif

static char decoded[3 << 20];

/* Makes the calls of a decoder: allocates memory, reads a file that is already in memory, and
 * writes. */
static int decode(const void *arg)
{
    const int *out = arg;
    char *data = NULL;

    for (size_t size = 1024; size <= sizeof(decoded); size *= 2) {
        data = realloc(data, size);
        if (!data)
            return 1;
        memcpy(data, decoded, size);
    }
    data[0] ^= 1;
    if (write(out[1], data, 1) != 1)
        return 3;
    free(data);
    return 7;
}

TEST(decoder_allocates_writes_and_ends)
{
    int out[2], status;
    char c = 0;

    ASSERT_OK(pipe(out));
    memset(decoded, 'a', sizeof(decoded));
    status = confined("decoder", SEALED, decode, out);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_true(read(out[0], &c, 1) == 1 && c == ('a' ^ 1));
    close(out[0]);
    close(out[1]);
}

static int try_read(const void *arg)
{
    char c;

    return read(*(const int *)arg, &c, 1) == 1 ? 0 : 1;
}

/* A decoder's child must not read from descriptors: its file is in memory before the child calls
 * confine_seal(). Only the parent of the child reads. */
TEST(decoder_reads_nothing)
{
    int in[2];

    ASSERT_OK(pipe(in));
    assert_int_equal(write(in[1], "ab", 2), 2);
    assert_true(was_killed(confined("decoder", SEALED, try_read, in)));
    assert_int_equal(confined("decoder", STARTED, try_read, in), 0);
    close(in[0]);
    close(in[1]);
}

static int try_abort(const void *arg)
{
    (void)arg;
    abort();
}

TEST(a_broken_invariant_still_aborts)
{
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        const int status = confined(services[i], SEALED, try_abort, NULL);

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

/* Calls confine_start() under a filter that makes @call fail with @error. Returns 0 if the process
 * is confined, else the error. */
static int start_without(const char *call, int error, const char *landlock, char *text, size_t size)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    struct config *config = config_here();
    struct inf_err err = {0};
    int r;

    if (seccomp_rule_add(ctx, SCMP_ACT_ERRNO(error), seccomp_syscall_resolve_name(call), 0) < 0 ||
        config_apply(config, "t", landlock, strlen(landlock), &err) < 0 || seccomp_load(ctx) < 0)
        return 1;
    r = confine_start("chat", config, &err);
    snprintf(text, size, "%s", err.text);
    return -r;
}

struct walled {
    const char *call;
    int error;
    const char *config, *text;
};

static int try_start(const void *arg)
{
    const struct walled *w = arg;
    char text[INF_ERR_BYTES];
    const int r = start_without(w->call, w->error, w->config, text, sizeof(text));

    if (!w->text)
        return r;
    return r != 0 && strstr(text, w->text) ? 50 : 51;
}

/* Works like confined(), but @attempt itself confines the process. */
static int alone(int (*attempt)(const void *arg), const void *arg)
{
    const pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(attempt(arg));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_policy_that_cannot_be_applied_stops_the_service)
{
    static const char optional[] = "confinement:\n  landlock: optional\n";
    const struct walled no_landlock = {"landlock_create_ruleset", ENOSYS, "", "no Landlock"};
    const struct walled but_optional = {"landlock_create_ruleset", ENOSYS, optional, NULL};
    const struct walled no_seccomp = {"seccomp", EPERM, optional, "system call"};
    const struct walled no_rule = {"landlock_add_rule", ENOMEM, optional, "Landlock: "};
    const struct walled no_restriction = {"landlock_restrict_self", EPERM, optional, "Landlock: "};

    assert_int_equal(alone(try_start, &no_landlock), 50);
    assert_int_equal(alone(try_start, &but_optional), 0);
    assert_int_equal(alone(try_start, &no_seccomp), 50);
    assert_int_equal(alone(try_start, &no_rule), 50);
    assert_int_equal(alone(try_start, &no_restriction), 50);
}

TEST(older_kernels_get_only_rights_that_they_know)
{
    for (int abi = 1; abi <= landlock_abi(); abi++) {
        const int fd = landlock_new(abi, false);

        ASSERT_OK(fd);
        ASSERT_OK(landlock_allow(fd, abi, "/", UINT64_MAX, NULL));
        ASSERT_OK(landlock_allow(fd, abi, "/proc/self/cgroup", UINT64_MAX, NULL));
        assert_int_equal(landlock_allow(fd, abi, "/nothing/there", UINT64_MAX, NULL), -ENOENT);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_without_a_rule_kills_the_process),
        cmocka_unit_test(newer_calls_fail_with_enosys),
        cmocka_unit_test(conditions_hold),
        cmocka_unit_test(conditions_of_drivers_hold),
        cmocka_unit_test(conditions_of_nvidias_driver_hold),
        cmocka_unit_test(drivers_get_no_memory_for_code),
        cmocka_unit_test(only_drivers_with_a_compiler_run_what_they_compile),
        cmocka_unit_test(conditions_of_the_cache_service_hold),
        cmocka_unit_test(conditions_of_the_keep_service_hold),
        cmocka_unit_test(compiled_kernels_are_written_before_the_end_of_the_start),
        cmocka_unit_test(calls_of_other_abis_kill_the_process),
        cmocka_unit_test(decoder_allocates_writes_and_ends),
        cmocka_unit_test(decoder_reads_nothing),
        cmocka_unit_test(a_broken_invariant_still_aborts),
        cmocka_unit_test(a_policy_that_cannot_be_applied_stops_the_service),
        cmocka_unit_test(older_kernels_get_only_rights_that_they_know),
    };

    return cmocka_run_group_tests(tests, setup_dir, remove_dir);
}
