/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes another process execute system calls, through ptrace.
 *
 * The program counter of a thread is set to a system call instruction in the vDSO, which every
 * process has, so no code needs to be written. Arguments are written to the far end of the thread's
 * stack, whose bytes are restored afterwards. PTRACE_SYSCALL stops the thread before and after the
 * call. In the end the thread is released from a stop in the kernel's signal code, so that the
 * kernel restarts the call that this program interrupted, as after any signal.
 */
#include "victim.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "registers.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif

#define SCRATCH_SIZE  8192
#define PATIENCE_USEC 5000000
#define OPTIONS                                                                                    \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |      \
     PTRACE_O_TRACEEXEC)

struct victim {
    pid_t pid;
    bool is_copy;
    bool dead;
    bool replaced;
    int killed_by;
    pid_t child; /* the process that the last call created */
    uint64_t trap;
    struct user_regs_struct saved;
    uint64_t scratch;
    size_t scratch_size, used;
    unsigned char *kept; /* the former content of the scratch memory */
};

/* Waits for the next stop or the end. Returns 0 and the status at a stop, else -ESRCH or -ETIME. */
static int victim_wait(struct victim *v, int *ret_status)
{
    const struct timespec pause = {.tv_nsec = 100 * 1000};
    int status;

    for (int waited = 0; waited < PATIENCE_USEC; waited += 100) {
        const pid_t pid = waitpid(v->pid, &status, __WALL | WNOHANG);

        if (pid == v->pid && WIFSTOPPED(status)) {
            *ret_status = status;
            return 0;
        }
        if (pid == v->pid || (pid < 0 && errno == ECHILD)) {
            v->dead = true;
            v->killed_by = pid > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
            return -ESRCH;
        }
        nanosleep(&pause, NULL);
    }
    return -ETIME;
}

static int registers_read(struct victim *v, struct user_regs_struct *regs)
{
    struct iovec vec = {regs, sizeof(*regs)};

    return ptrace(PTRACE_GETREGSET, v->pid, NT_PRSTATUS, &vec) < 0 ? -errno : 0;
}

static int registers_write(struct victim *v, struct user_regs_struct *regs)
{
    struct iovec vec = {regs, sizeof(*regs)};

    return ptrace(PTRACE_SETREGSET, v->pid, NT_PRSTATUS, &vec) < 0 ? -errno : 0;
}

static int is_event(int status)
{
    return status >> 16;
}

/* Runs to the next entry to or exit from a system call; stops for other reasons are only
 * recorded. */
static int victim_run_to_edge(struct victim *v)
{
    unsigned long message;
    int status, r;

    for (;;) {
        if (ptrace(PTRACE_SYSCALL, v->pid, 0, 0) < 0)
            return -errno;
        r = victim_wait(v, &status);
        if (r < 0)
            return r;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            return 0;
        switch (is_event(status)) {
        case PTRACE_EVENT_FORK:
        case PTRACE_EVENT_VFORK:
        case PTRACE_EVENT_CLONE:
            if (ptrace(PTRACE_GETEVENTMSG, v->pid, 0, &message) == 0)
                v->child = (pid_t)message;
            break;
        case PTRACE_EVENT_EXEC:
            v->replaced = true;
            break;
        default:
            break;
        }
    }
}

/* Finds the last mapping of the process with this name, and its bounds. */
static int mapping_find(pid_t pid, const char *name, uint64_t *ret_start, uint64_t *ret_end)
{
    _cleanup_free_ char *line = NULL;
    size_t size = 0;
    char path[64];
    uint64_t start, end;
    int r = -ENOENT;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    f = fopen(path, "re");
    if (!f)
        return -errno;
    while (getline(&line, &size, f) > 0) {
        if (strstr(line, name) && sscanf(line, "%lx-%lx", &start, &end) == 2) {
            *ret_start = start;
            *ret_end = end;
            r = 0;
        }
    }
    fclose(f);
    return r;
}

static int memory_read(pid_t pid, uint64_t address, void *buf, size_t size)
{
    const struct iovec here = {buf, size};
    const struct iovec there = {(void *)address, size};

    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

static int memory_write(pid_t pid, uint64_t address, const void *data, size_t size)
{
    const struct iovec here = {(void *)data, size};
    const struct iovec there = {(void *)address, size};

    return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

static int victim_find_trap(struct victim *v)
{
    _cleanup_free_ unsigned char *code = NULL;
    const unsigned char *at;
    uint64_t start, end;
    int r;

    r = mapping_find(v->pid, "[vdso]", &start, &end);
    if (r < 0)
        return r;
    code = malloc(end - start);
    if (!code)
        return -ENOMEM;
    r = memory_read(v->pid, start, code, end - start);
    if (r < 0)
        return r;
    at = memmem(code, end - start, registers_trap, registers_trap_size);
    if (!at)
        return -ENOEXEC;
    v->trap = start + (uint64_t)(at - code);
    return 0;
}

static int victim_find_scratch(struct victim *v)
{
    uint64_t start, end;
    int r;

    r = mapping_find(v->pid, "[stack]", &start, &end);
    if (r < 0)
        return r;
    v->scratch = start;
    v->scratch_size = SCRATCH_SIZE;
    v->kept = malloc(SCRATCH_SIZE);
    return v->kept ? memory_read(v->pid, start, v->kept, SCRATCH_SIZE) : -ENOMEM;
}

static int victim_interrupt(struct victim *v)
{
    int status;

    return ptrace(PTRACE_INTERRUPT, v->pid, 0, 0) < 0 ? -errno : victim_wait(v, &status);
}

int victim_open(pid_t pid, struct victim **ret_victim)
{
    _cleanup_(victim_freep) struct victim *v = NEW(struct victim, 1);
    int r;

    if (!v)
        return -ENOMEM;
    if (ptrace(PTRACE_SEIZE, pid, 0, OPTIONS | PTRACE_O_SUSPEND_SECCOMP) < 0)
        return -errno;
    v->pid = pid;
    r = victim_interrupt(v);
    if (r < 0)
        return r;
    r = registers_read(v, &v->saved);
    if (r < 0)
        return r;
    r = victim_find_trap(v);
    if (r < 0)
        return r;
    r = victim_find_scratch(v);
    if (r < 0)
        return r;
    *ret_victim = STEAL(v);
    return 0;
}

int victim_copy(struct victim *v, bool filtered, struct victim **ret_copy)
{
    const int options = OPTIONS | PTRACE_O_EXITKILL | (filtered ? 0 : PTRACE_O_SUSPEND_SECCOMP);
    _cleanup_(victim_freep) struct victim *copy = NEW(struct victim, 1);
    int status, r;
    long pid;

    if (!copy)
        return -ENOMEM;
    pid = CALL(v, SYS_clone, CLONE_PARENT | SIGCHLD);
    if (pid < 0)
        return (int)pid;
    /* The result of the call is the PID in the process's own namespace, so it is not used here. */
    copy->pid = v->child;
    copy->is_copy = true;
    copy->trap = v->trap;
    copy->saved = v->saved;
    copy->scratch = v->scratch;
    copy->scratch_size = v->scratch_size;
    r = victim_wait(copy, &status);
    if (r < 0)
        return r;
    if (ptrace(PTRACE_SETOPTIONS, copy->pid, 0, options) < 0)
        return -errno;
    prlimit(copy->pid, RLIMIT_CORE, &(struct rlimit){0, 0}, NULL);
    *ret_copy = STEAL(copy);
    return 0;
}

int victim_set_filtered(struct victim *v)
{
    return ptrace(PTRACE_SETOPTIONS, v->pid, 0, OPTIONS) < 0 ? -errno : 0;
}

/* Restores the thread and releases it from a stop in the kernel's signal code. */
static void victim_release(struct victim *v)
{
    int status;

    if (v->kept)
        memory_write(v->pid, v->scratch, v->kept, SCRATCH_SIZE);
    if (v->trap) {
        ptrace(PTRACE_INTERRUPT, v->pid, 0, 0);
        ptrace(PTRACE_CONT, v->pid, 0, 0);
        if (victim_wait(v, &status) == 0)
            registers_write(v, &v->saved);
    }
    ptrace(PTRACE_DETACH, v->pid, 0, 0);
}

struct victim *victim_free(struct victim *v)
{
    int status;

    if (!v)
        return NULL;
    if (v->pid && !v->dead && !v->is_copy)
        victim_release(v);
    if (v->is_copy && v->child) {
        kill(v->child, SIGKILL);
        waitpid(v->child, &status, __WALL);
    }
    if (v->pid && !v->dead && v->is_copy) {
        kill(v->pid, SIGKILL);
        while (victim_wait(v, &status) == 0)
            ptrace(PTRACE_CONT, v->pid, 0, 0);
    }
    free(v->kept);
    free(v);
    return NULL;
}

/* Returns whether a filter killed the process. In this case SIGSYS is pending at the exit from the
 * call. */
static bool is_doomed(const struct victim *v)
{
    struct __ptrace_peeksiginfo_args args = {.nr = 8};
    siginfo_t pending[8];
    const long n = ptrace(PTRACE_PEEKSIGINFO, v->pid, &args, pending);

    for (long i = 0; i < n; i++) {
        if (pending[i].si_signo == SIGSYS)
            return true;
    }
    return false;
}

static int victim_run_to_end(struct victim *v)
{
    int status, r = 0;

    while (r == 0 && ptrace(PTRACE_CONT, v->pid, 0, 0) == 0)
        r = victim_wait(v, &status);
    return r < 0 ? r : -EIO;
}

long victim_call(struct victim *v, long nr, const uint64_t args[static 6])
{
    struct user_regs_struct regs = v->saved;
    int r;

    if (v->dead || v->replaced)
        return -ESRCH;
    registers_set_call(&regs, v->trap, nr, args);
    r = registers_write(v, &regs);
    if (r < 0)
        return r;
    v->child = 0;
    /* The first stop is the entry to the call, and the second stop is the exit from the call. */
    for (int edge = 0; edge < 2; edge++) {
        r = victim_run_to_edge(v);
        if (r < 0)
            return r;
        if (v->replaced)
            return 0;
    }
    if (is_doomed(v))
        return victim_run_to_end(v);
    r = registers_read(v, &regs);
    return r < 0 ? r : registers_result(&regs);
}

int victim_killed_by(const struct victim *v)
{
    return v->killed_by;
}

bool victim_is_replaced(const struct victim *v)
{
    return v->replaced;
}

uint64_t victim_put(struct victim *v, const void *data, size_t size)
{
    const uint64_t address = v->scratch + ALIGN_UP(v->used, 16);

    if (ALIGN_UP(v->used, 16) + size > v->scratch_size ||
        memory_write(v->pid, address, data, size) < 0)
        return 0;
    v->used = ALIGN_UP(v->used, 16) + size;
    return address;
}

uint64_t victim_text(struct victim *v, const char *text)
{
    return victim_put(v, text, strlen(text) + 1);
}

int victim_get(struct victim *v, uint64_t address, void *buf, size_t size)
{
    return memory_read(v->pid, address, buf, size);
}

void victim_set_scratch(struct victim *v, uint64_t address, size_t size)
{
    free(STEAL(v->kept));
    v->scratch = address;
    v->scratch_size = size;
    v->used = 0;
}

pid_t victim_pid(const struct victim *v)
{
    return v->pid;
}
