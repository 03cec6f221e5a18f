/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parec (PulseAudio, PipeWire) or arecord (ALSA) writes what it hears to a pipe: no library of
 * sound is needed for that
 */
#include "cli/microphone.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "core/err.h"

enum {
    RATE = 16000,
    HEADER = 44,
    MAX_SECONDS = 12 * 3600,
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* Starts the first recorder that is installed. -ENOENT: none is. */
static int start(int out, pid_t *ret_pid)
{
    static const char *const parec[] = {"parec",        "--raw",          "--rate=16000",
                                        "--channels=1", "--format=s16le", NULL};
    static const char *const arecord[] = {"arecord", "-q",    "-t", "raw", "-f", "S16_LE",
                                          "-r",      "16000", "-c", "1",   NULL};
    const char *const *const recorders[] = {parec, arecord};
    posix_spawn_file_actions_t actions;
    int r = ENOENT;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return -ENOMEM;
    if (posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) == 0)
        for (size_t i = 0; r != 0 && i < ARRAY_SIZE(recorders); i++)
            r = posix_spawnp(ret_pid, recorders[i][0], &actions, NULL,
                             (char *const *)(uintptr_t)recorders[i], environ);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Bytes of sound that came until the end, an interrupt, or @max. */
static uint64_t copy(int from, int to, uint64_t max)
{
    char buf[8192];
    uint64_t all = 0;

    while (all < max && !interrupted) {
        const ssize_t n = read(from, buf, MIN(sizeof(buf), max - all));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || pwrite(to, buf, (size_t)n, (off_t)(HEADER + all)) != n)
            break;
        all += (uint64_t)n;
    }
    return all & ~UINT64_C(1);
}

static int write_header(int fd, uint32_t size)
{
    const struct {
        char riff[4];
        uint32_t all;
        char wave[8];
        uint32_t n_format;
        uint16_t pcm, channels;
        uint32_t rate, bytes;
        uint16_t block, bits;
        char data[4];
        uint32_t size;
    } header = {"RIFF",        htole32(size + HEADER - 8),
                "WAVEfmt ",    htole32(16),
                htole16(1),    htole16(1),
                htole32(RATE), htole32(2 * RATE),
                htole16(2),    htole16(16),
                "data",        htole32(size)};

    static_assert(sizeof(header) == HEADER, "a WAV header");
    return pwrite(fd, &header, sizeof(header), 0) == sizeof(header) ? 0 : -errno;
}

int microphone_record(unsigned seconds, int *ret_fd, uint64_t *ret_size, struct inf_err *reterr)
{
    const struct sigaction catch = {.sa_handler = on_interrupt};
    _cleanup_close_ int file = memfd_create("microphone", MFD_CLOEXEC);
    _cleanup_close_ int out = -1, in = -1;
    struct sigaction before;
    uint64_t size;
    pid_t pid;
    int fds[2], r;

    if (file < 0 || pipe2(fds, O_CLOEXEC) < 0)
        return err_set(reterr, errno, "%s", strerror(errno));
    out = fds[0];
    in = fds[1];
    r = start(in, &pid);
    if (r < 0)
        return err_set(reterr, -r,
                       "no program that records was found; there are parec (of PulseAudio's or "
                       "PipeWire's tools) and arecord (of ALSA's)");
    close(STEAL_FD(in));
    interrupted = 0;
    sigaction(SIGINT, &catch, &before);
    size = copy(out, file, (uint64_t)(seconds ? seconds : MAX_SECONDS) * RATE * 2);
    sigaction(SIGINT, &before, NULL);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    if (!size)
        return err_set(reterr, ENODATA, "the microphone gave no sound");
    r = write_header(file, (uint32_t)size);
    if (r < 0)
        return err_set(reterr, -r, "%s", strerror(-r));
    *ret_size = HEADER + size;
    *ret_fd = STEAL_FD(file);
    return 0;
}
