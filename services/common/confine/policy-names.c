/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates the names of constants, errors, phases, architectures and system calls in policies.
 *
 * Only constants with the same value on all architectures of policies are listed, so O_DIRECTORY,
 * for example, is missing. The C library's O_TMPFILE consists of O_DIRECTORY and one more bit. In
 * policies, O_TMPFILE is only this one bit, because the masks of policies need no other.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/prctl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/confine/policy.h"

struct constant {
    const char *name;
    uint64_t value;
};

#define CONSTANT(name)                                                                             \
    {                                                                                              \
#name, (uint64_t)(name)                                                                    \
    }

static const struct constant constants[] = {
    CONSTANT(AF_INET),
    CONSTANT(AF_INET6),
    CONSTANT(AF_NETLINK),
    CONSTANT(AF_UNIX),
    CONSTANT(CLONE_CHILD_CLEARTID),
    CONSTANT(CLONE_CHILD_SETTID),
    CONSTANT(CLONE_FILES),
    CONSTANT(CLONE_FS),
    CONSTANT(CLONE_PARENT_SETTID),
    CONSTANT(CLONE_SETTLS),
    CONSTANT(CLONE_SIGHAND),
    CONSTANT(CLONE_SYSVSEM),
    CONSTANT(CLONE_THREAD),
    CONSTANT(CLONE_VM),
    CONSTANT(FIONREAD),
    CONSTANT(F_ADD_SEALS),
    CONSTANT(F_DUPFD_CLOEXEC),
    CONSTANT(F_GETFD),
    CONSTANT(F_GETFL),
    CONSTANT(F_GETLK),
    CONSTANT(F_GET_SEALS),
    CONSTANT(F_RDLCK),
    CONSTANT(F_SETFD),
    CONSTANT(F_SETFL),
    CONSTANT(F_SETLEASE),
    CONSTANT(F_SETLK),
    CONSTANT(F_SETPIPE_SZ),
    CONSTANT(IPPROTO_IP),
    CONSTANT(IPPROTO_IPV6),
    CONSTANT(IPPROTO_TCP),
    CONSTANT(MADV_DONTNEED),
    CONSTANT(MADV_FREE),
    CONSTANT(MADV_HUGEPAGE),
    CONSTANT(MADV_NOHUGEPAGE),
    CONSTANT(MADV_SEQUENTIAL),
    CONSTANT(MADV_WILLNEED),
    CONSTANT(MAP_ANONYMOUS),
    CONSTANT(MAP_PRIVATE),
    CONSTANT(MAP_SHARED),
    CONSTANT(MFD_ALLOW_SEALING),
    CONSTANT(MFD_CLOEXEC),
    CONSTANT(O_ACCMODE),
    CONSTANT(O_CLOEXEC),
    CONSTANT(O_CREAT),
    CONSTANT(O_NONBLOCK),
    CONSTANT(O_RDONLY),
    CONSTANT(O_RDWR),
    CONSTANT(O_TRUNC),
    {"O_TMPFILE", 020000000},
    CONSTANT(O_WRONLY),
    CONSTANT(PROT_EXEC),
    CONSTANT(PROT_READ),
    CONSTANT(PROT_WRITE),
    CONSTANT(PR_SET_NAME),
    CONSTANT(PR_SET_PDEATHSIG),
    CONSTANT(SIGABRT),
    CONSTANT(SIGCHLD),
    CONSTANT(SIGKILL),
    CONSTANT(SOCK_CLOEXEC),
    CONSTANT(SIOCOUTQ),
    CONSTANT(SOCK_DGRAM),
    CONSTANT(SOCK_NONBLOCK),
    CONSTANT(SOCK_SEQPACKET),
    CONSTANT(SOCK_STREAM),
    CONSTANT(SOL_SOCKET),
    CONSTANT(SO_LINGER),
    CONSTANT(SO_RCVTIMEO),
    CONSTANT(SO_SNDBUF),
    CONSTANT(SO_SNDBUFFORCE),
    CONSTANT(SO_SNDTIMEO),
    CONSTANT(TCGETS),
    CONSTANT(TCP_NODELAY),
};

static const struct constant errors[] = {
    CONSTANT(EACCES), CONSTANT(EAFNOSUPPORT), CONSTANT(EINVAL),
    CONSTANT(ENOSYS), CONSTANT(ENOTSUP),      CONSTANT(EPERM),
};

static const struct {
    const char *name;
    uint32_t token;
} arches[POLICY_N_ARCHES] = {
    [POLICY_X86_64] = {"x86-64", SCMP_ARCH_X86_64},
    [POLICY_ARM64] = {"arm64", SCMP_ARCH_AARCH64},
};

static const struct constant *constant_find(const struct constant *table, size_t n,
                                            const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

static bool constant_term(const char *text, size_t len, uint64_t *ret_value)
{
    const struct constant *c;
    char *end;

    while (len > 0 && *text == ' ')
        text++, len--;
    while (len > 0 && text[len - 1] == ' ')
        len--;
    if (len == 0)
        return false;
    if (text[0] >= '0' && text[0] <= '9') {
        *ret_value = strtoull(text, &end, 0);
        return end == text + len;
    }
    c = constant_find(constants, ARRAY_SIZE(constants), text, len);
    if (c)
        *ret_value = c->value;
    return c;
}

bool policy_constant(const char *text, uint64_t *ret_value)
{
    uint64_t sum = 0, term;

    for (;;) {
        const size_t len = strcspn(text, "|");

        if (!constant_term(text, len, &term))
            return false;
        sum |= term;
        if (!text[len])
            break;
        text += len + 1;
    }
    *ret_value = sum;
    return true;
}

int policy_errno(const char *name)
{
    const struct constant *c = constant_find(errors, ARRAY_SIZE(errors), name, strlen(name));

    return c ? (int)c->value : 0;
}

const char *policy_phase_name(enum policy_phase phase)
{
    return phase == POLICY_START ? "start" : "serve";
}

const char *policy_arch_name(enum policy_arch arch)
{
    return arches[arch].name;
}

uint32_t policy_arch_token(enum policy_arch arch)
{
    return arches[arch].token;
}

int policy_arch_native(enum policy_arch *ret_arch)
{
    const uint32_t token = seccomp_arch_native();

    for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++)
        if (arches[a].token == token) {
            *ret_arch = a;
            return 0;
        }
    return -ENOTSUP;
}

int policy_call_number(const char *name, enum policy_arch arch)
{
    return seccomp_syscall_resolve_name_arch(arches[arch].token, name);
}
