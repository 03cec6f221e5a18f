/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes files as the audio service does, without the service.
 *
 * decode-files [-j N] [-o DIR] [-s SECONDS] [-w] DECODER FILE...
 *
 * The program starts the decoder, gives it N files at a time, and prints a line when a file ends.
 * The line has the number of the file, and its outcome, result, format, codec and number of
 * samples. -o writes the samples (f32) to DIR/NUMBER.f32. -w reads some samples and then waits
 * forever, so that a child can be examined.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "audio/decoder-client.h"
#include "common/service/loop.h"

static const char *const outcomes[] = {"told", "crashed", "slow", "lost"};
static const char *const results[] = {"ok",     "unknown",  "no-audio", "codec",
                                      "broken", "too-long", "memory"};

struct run {
    char **files;
    int n_files, next, n_running;
    const char *dir;
    uint64_t max_samples;
    bool rests;
    struct loop *loop;
    struct decoder *decoder;
};

struct file {
    struct run *run;
    int number;
    uint64_t n_samples;
    FILE *out;
    struct decoding *decoding;
};

static void start_next(struct run *run);

static bool on_samples(void *user, const float *samples, size_t n)
{
    struct file *file = user;

    if (file->run->rests && file->n_samples > 0)
        return false;
    file->n_samples += n;
    if (file->out)
        fwrite(samples, sizeof(*samples), n, file->out);
    return true;
}

static void on_end(void *user, enum decoding_outcome outcome, const struct decoder_end *end)
{
    struct file *file = user;
    struct run *run = file->run;

    printf("%d %s %s %s %s %llu\n", file->number, outcomes[outcome], results[end->result],
           end->format[0] ? end->format : "-", end->codec[0] ? end->codec : "-",
           (unsigned long long)file->n_samples);
    fflush(stdout);
    if (file->out)
        fclose(file->out);
    free(file);
    run->n_running--;
    start_next(run);
}

/* Copies the file to sealed memory; returns its descriptor, or -1 if the file cannot be read. */
static int spool(const char *path, uint64_t *size)
{
    const int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FILE *f = fopen(path, "rbe");
    char buf[65536];
    size_t n;

    *size = 0;
    while (fd >= 0 && f && (n = fread(buf, 1, sizeof(buf), f)) > 0) {
        if (write(fd, buf, n) != (ssize_t)n)
            return -1;
        *size += n;
    }
    if (!f || fd < 0)
        return -1;
    fclose(f);
    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    return fd;
}

static int start_one(struct run *run, int number)
{
    static const struct decoding_events events = {on_samples, on_end};
    struct decoding_params params = {
        .max_samples = run->max_samples, .max_memory = 256 << 20, .max_cpu_sec = 20};
    struct file *file = calloc(1, sizeof(*file));
    char path[4096];
    int r;

    params.file = spool(run->files[number], &params.size);
    if (!file || params.file < 0) {
        fprintf(stderr, "%s: %s\n", run->files[number], strerror(errno));
        exit(1);
    }
    file->run = run;
    file->number = number;
    if (run->dir) {
        snprintf(path, sizeof(path), "%s/%d.f32", run->dir, number);
        file->out = fopen(path, "wbe");
    }
    r = decoding_start(run->decoder, &params, &events, file, &file->decoding);
    close(params.file);
    if (r < 0) {
        if (file->out)
            fclose(file->out);
        free(file);
    } else {
        run->n_running++;
    }
    return r;
}

static void start_next(struct run *run)
{
    if (run->next < run->n_files && start_one(run, run->next) == 0)
        run->next++;
    else if (run->n_running == 0)
        loop_stop(run->loop);
}

int main(int argc, char **argv)
{
    struct run run = {.max_samples = UINT64_MAX};
    struct decoder_params params = {.stall_usec = 20 * 1000000u};
    struct inf_err err = {};
    int jobs = 1, c;

    while ((c = getopt(argc, argv, "j:o:s:w")) != -1) {
        if (c == 'j')
            jobs = atoi(optarg);
        else if (c == 'o')
            run.dir = optarg;
        else if (c == 's')
            run.max_samples = strtoull(optarg, NULL, 10) * DECODER_RATE;
        else if (c == 'w')
            run.rests = true;
        else
            return 2;
    }
    if (argc - optind < 2)
        return 2;
    params.program = argv[optind];
    run.files = argv + optind + 1;
    run.n_files = argc - optind - 1;
    if (decoder_open(&params, &run.decoder, &err) < 0 || loop_new(&run.loop) < 0 ||
        decoder_attach(run.decoder, run.loop, NULL, NULL) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = 0; i < jobs; i++)
        start_next(&run);
    loop_run(run.loop);
    decoder_close(run.decoder);
    loop_free(run.loop);
    return run.next == run.n_files ? 0 : 1;
}
