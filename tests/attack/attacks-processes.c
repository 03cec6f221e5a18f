/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks other processes, and tries to execute new programs.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "attack.h"

static uint64_t arguments(struct victim *v)
{
    const uint64_t argv[2] = {victim_text(v, "true"), 0};

    return victim_put(v, argv, sizeof(argv));
}

static int exec_sh(struct victim *v, const struct scene *s UNUSED)
{
    return (int)CALL(v, SYS_execve, victim_text(v, "/bin/sh"), arguments(v), 0);
}

/* Struct program is a program that needs no other file. If it were executed, it would crash at its
 * first instruction. */
struct program {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
};

static int program_make(struct program *ret)
{
    _cleanup_close_ int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct program p = {};

    if (pread(self, &p.header, sizeof(p.header), 0) != sizeof(p.header))
        return -EIO;
    p.header.e_type = ET_EXEC;
    p.header.e_phoff = sizeof(p.header);
    p.header.e_phnum = 1;
    p.header.e_shnum = 0;
    p.segment = (Elf64_Phdr){
        .p_type = PT_LOAD,
        .p_flags = PF_R | PF_X,
        .p_vaddr = 0x400000,
        .p_filesz = sizeof(p),
        .p_memsz = sizeof(p),
        .p_align = 0x1000,
    };
    p.header.e_entry = p.segment.p_vaddr;
    *ret = p;
    return 0;
}

/* Executes a program that is in no file system. */
static int exec_memfd(struct victim *v, const struct scene *s UNUSED)
{
    struct program program;
    long fd, r;

    r = program_make(&program);
    if (r < 0)
        return (int)r;
    fd = CALL(v, SYS_memfd_create, victim_text(v, "program"), MFD_CLOEXEC);
    if (fd < 0)
        return (int)fd;
    r = CALL(v, SYS_write, (uint64_t)fd, victim_put(v, &program, sizeof(program)), sizeof(program));
    if (r < 0)
        return (int)r;
    return (int)CALL(v, SYS_execveat, (uint64_t)fd, victim_text(v, ""), arguments(v), 0,
                     AT_EMPTY_PATH);
}

static int trace(struct victim *v, const struct scene *s)
{
    if (!s->neighbor)
        return ATTACK_ABSENT;
    return (int)CALL(v, SYS_ptrace, PTRACE_SEIZE, (uint64_t)s->neighbor, 0, 0);
}

static int read_memory(struct victim *v, const struct scene *s)
{
    char bytes[16] = {};
    struct iovec there = {(void *)s->neighbor_address, sizeof(bytes)}, here;
    long n;

    if (!s->neighbor)
        return ATTACK_ABSENT;
    here = (struct iovec){(void *)victim_put(v, bytes, sizeof(bytes)), sizeof(bytes)};
    n = CALL(v, SYS_process_vm_readv, (uint64_t)s->neighbor, victim_put(v, &here, sizeof(here)), 1,
             victim_put(v, &there, sizeof(there)), 1, 0);
    return n < 0 ? (int)n : 0;
}

static int open_memory(struct victim *v, const struct scene *s)
{
    char path[64];
    long fd;

    if (!s->neighbor)
        return ATTACK_ABSENT;
    snprintf(path, sizeof(path), "/proc/%d/mem", s->neighbor);
    fd = attack_open(v, path, O_RDONLY);
    return fd < 0 ? (int)fd : 0;
}

static int take_descriptor(struct victim *v, const struct scene *s)
{
    long fd;

    if (!s->neighbor)
        return ATTACK_ABSENT;
    fd = CALL(v, SYS_pidfd_open, (uint64_t)s->neighbor, 0);
    if (fd < 0)
        return (int)fd;
    fd = CALL(v, SYS_pidfd_getfd, (uint64_t)fd, 0, 0);
    return fd < 0 ? (int)fd : 0;
}

/* Signal 0 only checks the permission. */
static int signal_neighbor(struct victim *v, const struct scene *s)
{
    if (!s->neighbor)
        return ATTACK_ABSENT;
    return (int)CALL(v, SYS_kill, (uint64_t)s->neighbor, 0);
}

static int new_process(struct victim *v, const struct scene *s UNUSED)
{
    const long pid = CALL(v, SYS_clone, CLONE_PARENT | SIGCHLD);

    return pid < 0 ? (int)pid : 0;
}

static int become_root(struct victim *v, const struct scene *s UNUSED)
{
    return (int)CALL(v, SYS_setuid, 0);
}

static int new_user_namespace(struct victim *v, const struct scene *s UNUSED)
{
    return (int)CALL(v, SYS_unshare, CLONE_NEWUSER);
}

static int new_network_namespace(struct victim *v, const struct scene *s UNUSED)
{
    return (int)CALL(v, SYS_unshare, CLONE_NEWNET);
}

static int join_namespace(struct victim *v, const struct scene *s)
{
    long fd;

    if (!s->neighbor)
        return ATTACK_ABSENT;
    fd = CALL(v, SYS_pidfd_open, (uint64_t)s->neighbor, 0);
    return fd < 0 ? (int)fd : (int)CALL(v, SYS_setns, (uint64_t)fd, CLONE_NEWNET | CLONE_NEWNS);
}

const struct attack attacks_processes[] = {
    {"exec", "run a shell", exec_sh},
    {"exec-memfd", "run a program out of memory", exec_memfd},
    {"ptrace", "trace a neighbor", trace},
    {"vm-read", "read a neighbor's memory", read_memory},
    {"proc-mem", "open a neighbor's memory as a file", open_memory},
    {"getfd", "take a descriptor of a neighbor", take_descriptor},
    {"kill", "send a neighbor a signal", signal_neighbor},
    {"fork", "start a process", new_process},
    {"setuid", "become root", become_root},
    {"unshare-user", "make a user namespace", new_user_namespace},
    {"unshare-net", "make a network namespace", new_network_namespace},
    {"setns", "join a neighbor's namespaces", join_namespace},
    {},
};
