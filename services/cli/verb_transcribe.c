/* SPDX-License-Identifier: Apache-2.0 */
/* sconce transcribe: the text of files of sound, or of what a microphone hears */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/dictation.h"
#include "core/err.h"

static const char help[] =
    "Usage: sconce transcribe [OPTION]... FILE... | --mic\n"
    "Writes what is said in files of sound, by the audio service; text comes as it is heard.\n\n"
    "  -f, --format FORMAT  txt, srt, vtt or json (txt)\n"
    "  -m, --model NAME     the model (as configured)\n"
    "  --language NAME      that is spoken, such as en or german (what is heard first)\n"
    "  --translate          to English\n"
    "  --words              times of words, with json\n"
    "  --prompt TEXT        what was said before\n"
    "  --hotwords TEXT      words that are likely\n"
    "  --vad                skip silence, where the service has weights for that\n"
    "  --mic                record until Ctrl-C instead of reading files; text comes meanwhile\n"
    "  --seconds N          record for so long\n"
    "  --address WHERE      ADDR:PORT or unix:PATH of the gateway (the user's, else the system's)\n"
    "  --key KEY            API key ($SCONCE_API_KEY)\n";

enum {
    OPTION_LANGUAGE = 256,
    OPTION_TRANSLATE,
    OPTION_WORDS,
    OPTION_PROMPT,
    OPTION_HOTWORDS,
    OPTION_VAD,
    OPTION_MIC,
    OPTION_SECONDS,
    OPTION_ADDRESS,
    OPTION_KEY,
};

struct request {
    struct speech_ask ask;
    bool mic;
    uint64_t seconds;
};

static int failed(const struct request *q, const char *name, int r, const struct inf_err *err)
{
    if (r == -ECONNREFUSED || r == -ENOENT)
        return cli_error("transcribe",
                         "no gateway listens at %s; `sconce serve` starts one, `sconce doctor` "
                         "finds out why there is none",
                         q->ask.address);
    return cli_error("transcribe", "%s: %s", name, err->text[0] ? err->text : strerror(-r));
}

static int one_file(const struct request *q, const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct inf_err err = {0};
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_error("transcribe", "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return cli_error("transcribe", "%s is no file", path);
    r = speech_ask(&q->ask, fd, (uint64_t)st.st_size, name, stdout, &err);
    return r < 0 ? failed(q, path, r, &err) : CLI_OK;
}

static int files(const struct request *q, int n, char **paths)
{
    int status = CLI_OK;

    for (int i = 0; i < n; i++) {
        if (n > 1)
            printf("%s==> %s <==\n", i ? "\n" : "", paths[i]);
        fflush(stdout);
        if (one_file(q, paths[i]) != CLI_OK)
            status = CLI_FAILED;
    }
    return status;
}

/* All of it in one answer, when it ends. */
static int ask_at_end(const struct request *q, struct microphone *mic, struct inf_err *reterr)
{
    _cleanup_close_ int fd = -1;
    uint64_t n = 0, size = 0;
    int r;

    microphone_wait(mic, UINT64_MAX, &n);
    if (!n)
        return err_set(reterr, ENODATA, "the microphone gave no sound");
    r = microphone_wav(mic, 0, n, &fd, &size);
    return r < 0 ? err_set(reterr, -r, "%s", strerror(-r))
                 : speech_ask(&q->ask, fd, size, "microphone.wav", stdout, reterr);
}

static int microphone(const struct request *q)
{
    _cleanup_(microphone_closep) struct microphone *mic = NULL;
    struct inf_err err = {0};
    int r;

    r = microphone_open((unsigned)q->seconds, &mic, &err);
    if (r < 0)
        return cli_error("transcribe", "%s", err.text);
    fprintf(stderr, q->seconds ? "Recording.\n" : "Recording; Ctrl-C ends it.\n");
    r = strcmp(q->ask.format, "text") == 0 ? dictation_run(&q->ask, mic, stdout, &err)
                                           : ask_at_end(q, mic, &err);
    return r < 0 ? failed(q, "microphone", r, &err) : CLI_OK;
}

/* The API's name of a format; NULL: there is none. */
static const char *format_of(const char *name)
{
    static const struct {
        const char *name, *format;
    } rows[] = {{"txt", "text"},
                {"text", "text"},
                {"srt", "srt"},
                {"vtt", "vtt"},
                {"json", "verbose_json"}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strcmp(name, rows[i].name) == 0)
            return rows[i].format;
    return NULL;
}

/* CLI_OK; CLI_USAGE, which was told; -1: help was asked for. */
static int read_options(int argc, char **argv, struct request *q)
{
    static const struct option options[] = {{"format", required_argument, NULL, 'f'},
                                            {"model", required_argument, NULL, 'm'},
                                            {"language", required_argument, NULL, OPTION_LANGUAGE},
                                            {"translate", no_argument, NULL, OPTION_TRANSLATE},
                                            {"words", no_argument, NULL, OPTION_WORDS},
                                            {"prompt", required_argument, NULL, OPTION_PROMPT},
                                            {"hotwords", required_argument, NULL, OPTION_HOTWORDS},
                                            {"vad", no_argument, NULL, OPTION_VAD},
                                            {"mic", no_argument, NULL, OPTION_MIC},
                                            {"seconds", required_argument, NULL, OPTION_SECONDS},
                                            {"address", required_argument, NULL, OPTION_ADDRESS},
                                            {"key", required_argument, NULL, OPTION_KEY},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int c;

    while ((c = getopt_long(argc, argv, "f:m:h", options, NULL)) != -1) {
        if (c == 'f') {
            q->ask.format = format_of(optarg);
            if (!q->ask.format)
                return cli_usage("transcribe", "'%s' is none of txt, srt, vtt, json", optarg);
        } else if (c == 'm')
            q->ask.model = optarg;
        else if (c == OPTION_LANGUAGE)
            q->ask.language = optarg;
        else if (c == OPTION_TRANSLATE)
            q->ask.translate = true;
        else if (c == OPTION_WORDS)
            q->ask.words = true;
        else if (c == OPTION_PROMPT)
            q->ask.prompt = optarg;
        else if (c == OPTION_HOTWORDS)
            q->ask.hotwords = optarg;
        else if (c == OPTION_VAD)
            q->ask.skip_silence = true;
        else if (c == OPTION_MIC)
            q->mic = true;
        else if (c == OPTION_SECONDS) {
            if (!cli_number(optarg, 43200, &q->seconds))
                return cli_usage("transcribe", "'%s' is no number of seconds", optarg);
        } else if (c == OPTION_ADDRESS)
            q->ask.address = optarg;
        else if (c == OPTION_KEY)
            q->ask.key = optarg;
        else
            return c == 'h' ? -1 : cli_usage("transcribe", "wrong option");
    }
    if (q->ask.words && (strcmp(q->ask.format, "verbose_json") != 0 || q->ask.translate))
        return cli_usage("transcribe", "--words goes with -f json, and not with --translate");
    if (q->ask.language && q->ask.translate)
        return cli_usage("transcribe", "--language does not go with --translate");
    if (q->mic == (optind < argc))
        return cli_usage("transcribe", q->mic ? "--mic takes no files" : "no file is named");
    return CLI_OK;
}

int verb_transcribe(int argc, char **argv)
{
    _cleanup_free_ char *gateway = cli_find_gateway();
    struct request q = {
        .ask = {.address = gateway, .key = getenv("SCONCE_API_KEY"), .format = "text"}};
    const int r = read_options(argc, argv, &q);

    if (r != CLI_OK)
        return r < 0 ? cli_help(help) : r;
    if (!gateway)
        return cli_error("transcribe", "out of memory");
    return q.mic ? microphone(&q) : files(&q, argc - optind, argv + optind);
}
