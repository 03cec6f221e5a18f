/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the system calls of Landlock (see landlock.h).
 *
 * The numbers are those of linux/landlock.h. Rights are bits, in the order in which the kernel
 * introduced them.
 */
#include "common/confine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
    LANDLOCK_VERSION_FLAG = 1,
    LANDLOCK_PATH_BENEATH = 1,
    LANDLOCK_TCP_BIND_CONNECT = 3,
    LANDLOCK_ABSTRACT_AND_SIGNAL = 3,
};

struct landlock_ruleset {
    uint64_t fs, net, scoped;
};

struct landlock_beneath {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

/* Row i stands for bit i. */
static const struct {
    const char *name;
    int abi;
    bool for_files; /* applies to files as well as directories */
} rights[] = {
    {"execute", 1, true},    {"write_file", 1, true},  {"read_file", 1, true},
    {"read_dir", 1, false},  {"remove_dir", 1, false}, {"remove_file", 1, false},
    {"make_char", 1, false}, {"make_dir", 1, false},   {"make_reg", 1, false},
    {"make_sock", 1, false}, {"make_fifo", 1, false},  {"make_block", 1, false},
    {"make_sym", 1, false},  {"refer", 2, false},      {"truncate", 3, true},
    {"ioctl_dev", 5, true},
};

static uint64_t rights_of(int abi, bool files_alone)
{
    uint64_t all = 0;

    for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
        if (rights[i].abi <= abi && (rights[i].for_files || !files_alone))
            all |= UINT64_C(1) << i;
    return all;
}

int landlock_abi(void)
{
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);

    return abi < 0 ? 0 : (int)MIN(abi, LANDLOCK_ABI_USED);
}

uint64_t landlock_right(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
        if (strcmp(rights[i].name, name) == 0)
            return UINT64_C(1) << i;
    return 0;
}

int landlock_new(int abi, bool network)
{
    const struct landlock_ruleset ruleset = {
        .fs = rights_of(abi, false),
        .net = abi >= 4 && !network ? LANDLOCK_TCP_BIND_CONNECT : 0,
        .scoped = abi >= 6 ? LANDLOCK_ABSTRACT_AND_SIGNAL : 0,
    };
    /* A kernel accepts a structure that is longer than the one that it knows, if the part that it
     * does not know is zero. */
    const long fd = syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);

    return fd < 0 ? -errno : (int)fd;
}

int landlock_allow_fd(int ruleset, int abi, int fd, uint64_t allowed)
{
    struct landlock_beneath rule = {.fd = fd};
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    rule.allowed = allowed & rights_of(abi, !S_ISDIR(st.st_mode));
    if (rule.allowed == 0)
        return -EINVAL;
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_PATH_BENEATH, &rule, 0) < 0 ? -errno
                                                                                        : 0;
}

int landlock_allow(int ruleset, int abi, const char *path, uint64_t allowed, int *ret_fd)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    int r;

    if (fd < 0)
        return -errno;
    r = landlock_allow_fd(ruleset, abi, fd, allowed);
    if (r == 0 && ret_fd)
        *ret_fd = STEAL_FD(fd);
    return r;
}

int landlock_restrict(int ruleset)
{
    return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}
