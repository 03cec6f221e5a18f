/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records sound from a microphone (see microphone.h).
 *
 * parec (PulseAudio, PipeWire) or arecord (ALSA) writes the samples to a pipe, so no sound library
 * is needed. The samples are stored in a memory file, at their offsets in the recording. Samples
 * that are no longer needed are replaced by a hole in that file.
 */
#include "cli/speech/microphone.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "core/err.h"

enum {
    HEADER = 44,
    SAMPLE = 2, /* bytes of a sample */
    MAX_SECONDS = 12 * 3600,
};

struct microphone {
    pid_t pid; /* pid of the recorder; 0: not started */
    int pipe, file;
    uint64_t max; /* bytes to record at most */
    struct sigaction before;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint64_t size; /* bytes received; protected by the lock */
    bool ended;    /* protected by the lock */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    if (interrupted)
        _exit(128 + signal);
    interrupted = 1;
}

static void set_blocked(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(how, &set, NULL);
}

/* Starts the first installed recorder. -ENOENT: none is installed. */
static int microphone_start(int out, pid_t *ret_pid)
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

/* Reads samples until the recorder ends, an interrupt arrives, or the maximum is reached. */
static void *microphone_record(void *data)
{
    struct microphone *mic = data;
    char buf[8192];
    uint64_t all = 0;

    set_blocked(SIG_UNBLOCK);
    while (all < mic->max && !interrupted) {
        const ssize_t n = read(mic->pipe, buf, MIN(sizeof(buf), mic->max - all));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || pwrite(mic->file, buf, (size_t)n, (off_t)all) != n)
            break;
        all += (uint64_t)n;
        pthread_mutex_lock(&mic->lock);
        mic->size = all;
        pthread_cond_signal(&mic->more);
        pthread_mutex_unlock(&mic->lock);
    }
    pthread_mutex_lock(&mic->lock);
    mic->ended = true;
    pthread_cond_signal(&mic->more);
    pthread_mutex_unlock(&mic->lock);
    /* The recorder may still write, but nobody reads its output any more. */
    kill(mic->pid, SIGTERM);
    return NULL;
}

/* Starts the recorder and the recording thread. The recording thread receives SIGINT, which ends
 * its read(). */
static int microphone_begin(struct microphone *mic, struct inf_err *reterr)
{
    const struct sigaction catch = {.sa_handler = on_interrupt};
    _cleanup_close_ int in = -1;
    int fds[2], r;

    mic->file = memfd_create("microphone", MFD_CLOEXEC);
    if (mic->file < 0 || pipe2(fds, O_CLOEXEC) < 0)
        return err_set(reterr, errno, "%s", strerror(errno));
    mic->pipe = fds[0];
    in = fds[1];
    r = microphone_start(in, &mic->pid);
    if (r < 0) {
        mic->pid = 0;
        return err_set(
            reterr, -r,
            "no recording program was found; install parec (from the PulseAudio or PipeWire "
            "tools) or arecord (from the ALSA tools)");
    }
    interrupted = 0;
    sigaction(SIGINT, &catch, &mic->before);
    set_blocked(SIG_BLOCK);
    r = -pthread_create(&mic->thread, NULL, microphone_record, mic);
    mic->has_thread = r == 0;
    return r < 0 ? err_set(reterr, -r, "%s", strerror(-r)) : 0;
}

int microphone_open(unsigned seconds, struct microphone **ret_microphone, struct inf_err *reterr)
{
    _cleanup_(microphone_closep) struct microphone *mic = NEW(struct microphone, 1);
    int r;

    if (!mic)
        return err_set(reterr, ENOMEM, "out of memory");
    mic->pipe = mic->file = -1;
    mic->max = (uint64_t)(seconds ? seconds : MAX_SECONDS) * MICROPHONE_RATE * SAMPLE;
    pthread_mutex_init(&mic->lock, NULL);
    pthread_cond_init(&mic->more, NULL);
    r = microphone_begin(mic, reterr);
    if (r == 0)
        *ret_microphone = STEAL(mic);
    return r;
}

struct microphone *microphone_close(struct microphone *mic)
{
    if (!mic)
        return NULL;
    if (mic->pid)
        kill(mic->pid, SIGTERM);
    if (mic->has_thread)
        pthread_join(mic->thread, NULL);
    if (mic->pid) {
        waitpid(mic->pid, NULL, 0);
        sigaction(SIGINT, &mic->before, NULL);
        set_blocked(SIG_UNBLOCK);
    }
    if (mic->pipe >= 0)
        close(mic->pipe);
    if (mic->file >= 0)
        close(mic->file);
    pthread_cond_destroy(&mic->more);
    pthread_mutex_destroy(&mic->lock);
    free(mic);
    return NULL;
}

bool microphone_wait(struct microphone *mic, uint64_t n, uint64_t *ret_n)
{
    bool ended;

    pthread_mutex_lock(&mic->lock);
    while (!mic->ended && mic->size / SAMPLE < n)
        pthread_cond_wait(&mic->more, &mic->lock);
    ended = mic->ended;
    *ret_n = mic->size / SAMPLE;
    pthread_mutex_unlock(&mic->lock);
    /* The recording thread has ended, so the calling thread receives SIGINT from here on. */
    if (ended)
        set_blocked(SIG_UNBLOCK);
    return ended;
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
    } header = {"RIFF",
                htole32(size + HEADER - 8),
                "WAVEfmt ",
                htole32(16),
                htole16(1),
                htole16(1),
                htole32(MICROPHONE_RATE),
                htole32(SAMPLE * MICROPHONE_RATE),
                htole16(SAMPLE),
                htole16(8 * SAMPLE),
                "data",
                htole32(size)};

    static_assert(sizeof(header) == HEADER, "a WAV header");
    return write(fd, &header, sizeof(header)) == sizeof(header) ? 0 : -errno;
}

int microphone_wav(struct microphone *mic, uint64_t first, uint64_t n, int *ret_fd,
                   uint64_t *ret_size)
{
    _cleanup_close_ int fd = memfd_create("wav", MFD_CLOEXEC);
    uint64_t at = first * SAMPLE, left = n * SAMPLE;
    char buf[65536];
    int r = fd < 0 ? -errno : write_header(fd, (uint32_t)left);

    while (r == 0 && left) {
        const ssize_t got = pread(mic->file, buf, MIN(sizeof(buf), left), (off_t)at);

        if (got <= 0 || write(fd, buf, (size_t)got) != got)
            return got == 0 ? -EIO : -errno;
        at += (uint64_t)got;
        left -= (uint64_t)got;
    }
    if (r < 0)
        return r;
    *ret_size = HEADER + n * SAMPLE;
    *ret_fd = STEAL_FD(fd);
    return 0;
}

void microphone_forget(struct microphone *mic, uint64_t n)
{
    /* If the file system cannot make holes, the samples stay in the file. */
    (void)!fallocate(mic->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(n * SAMPLE));
}
