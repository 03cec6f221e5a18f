/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce transcribe: converts speech from files or a microphone to text, with the audio service
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/speech/dictation.h"
#include "cli/suite/http-get.h"
#include "cli/suite/own-service.h"
#include "core/err.h"
#include "core/file.h"

static const char help[] =
    "Usage: sconce transcribe [OPTION]... FILE... | --mic\n"
    "Converts speech in sound files to text, with the audio service, and prints it as it "
    "arrives.\n\n"
    "  -f, --format FORMAT  txt, srt, vtt or json (default: txt)\n"
    "  -m, --model MODEL    the model, a name or a path (default: as configured)\n"
    "  --language NAME      the spoken language, such as en or german (default: detected)\n"
    "  --translate          translate to English\n"
    "  --words              add times of words, with json\n"
    "  --prompt TEXT        text that precedes the speech\n"
    "  --hotwords TEXT      words that are likely to occur\n"
    "  --vad                skip silence, if the service has the weights for it\n"
    "  --mic                record until Ctrl-C instead of reading files; text appears meanwhile\n"
    "  --seconds N          record for this number of seconds\n"
    "  --address WHERE      " HTTP_ADDRESS_FORMS " of the gateway\n"
    "                       (default: the user's, else the system's)\n"
    "  --key KEY            API key (default: $SCONCE_API_KEY)\n" CLI_MODELS_HELP
    "\nThe service is started for this command alone if no gateway answers, if MODEL\n"
    "is a path, or if --models or --config is given.\n";

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

enum { MAX_SECONDS = 43200 }; /* length of the longest recording */

struct request {
    struct speech_ask ask;
    struct cli_models models;
    bool mic;
    uint64_t seconds;
    int n_files;
    char **files;
};

static int transcribe_failed(const struct request *q, const char *name, int r,
                             const struct inf_err *err)
{
    if (cli_tell_no_gateway("transcribe", q->ask.address, r))
        return CLI_FAILED;
    return cli_error("transcribe", "%s: %s", name, err->text[0] ? err->text : strerror(-r));
}

static int one_file(const struct request *q, const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *name = path_base(path);
    struct inf_err err = {0};
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_error("transcribe", "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return cli_error("transcribe", "%s is not a file", path);
    r = speech_ask(&q->ask, fd, (uint64_t)st.st_size, name, stdout, &err);
    return r < 0 ? transcribe_failed(q, path, r, &err) : CLI_OK;
}

static int transcribe_files(const struct request *q)
{
    int status = CLI_OK;

    for (int i = 0; i < q->n_files; i++) {
        if (q->n_files > 1)
            printf("%s==> %s <==\n", i ? "\n" : "", q->files[i]);
        fflush(stdout);
        if (one_file(q, q->files[i]) != CLI_OK)
            status = CLI_FAILED;
    }
    return status;
}

/* Waits until the recording ends, and requests all its text in one answer. */
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

static int transcribe_microphone(const struct request *q)
{
    _cleanup_(microphone_closep) struct microphone *mic = NULL;
    struct inf_err err = {0};
    int r;

    r = microphone_open((unsigned)q->seconds, &mic, &err);
    if (r < 0)
        return cli_error("transcribe", "%s", err.text);
    fprintf(stderr, q->seconds ? "Recording.\n" : "Recording; Ctrl-C stops it.\n");
    r = strcmp(q->ask.format, "text") == 0 ? dictation_run(&q->ask, mic, stdout, &err)
                                           : ask_at_end(q, mic, &err);
    return r < 0 ? transcribe_failed(q, "microphone", r, &err) : CLI_OK;
}

/* Returns the API's name of the format @name; NULL: unknown format. */
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

/* Handles one option; false: invalid, after printing an error. */
static bool take_option(struct request *q, int c, const char *arg)
{
    switch (c) {
    case 'f':
        q->ask.format = format_of(arg);
        if (!q->ask.format)
            return cli_usage("transcribe", "-f, --format must be txt, srt, vtt or json, not \"%s\"",
                             arg),
                   false;
        return true;
    case 'm':
        q->ask.model = arg;
        return true;
    case OPTION_LANGUAGE:
        q->ask.language = arg;
        return true;
    case OPTION_TRANSLATE:
        return q->ask.translate = true;
    case OPTION_WORDS:
        return q->ask.words = true;
    case OPTION_PROMPT:
        q->ask.prompt = arg;
        return true;
    case OPTION_HOTWORDS:
        q->ask.hotwords = arg;
        return true;
    case OPTION_VAD:
        return q->ask.skip_silence = true;
    case OPTION_MIC:
        return q->mic = true;
    case OPTION_SECONDS:
        if (!cli_number(arg, MAX_SECONDS, &q->seconds))
            return cli_usage("transcribe", "--seconds must be a number up to %d, not \"%s\"",
                             MAX_SECONDS, arg),
                   false;
        return true;
    case OPTION_ADDRESS:
        if (!http_address_is_good(arg))
            return cli_usage("transcribe", "--address must be %s, not \"%s\"", HTTP_ADDRESS_FORMS,
                             arg),
                   false;
        q->ask.address = arg;
        return true;
    case OPTION_KEY:
        q->ask.key = arg;
        return true;
    default:
        return cli_models_option(&q->models, c, arg) ||
               (cli_usage("transcribe", "wrong option"), false);
    }
}

/* Reads the options. Returns CLI_OK; CLI_USAGE after printing an error; -1: --help was given. */
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
                                            CLI_MODELS_OPTIONS,
                                            {0}};
    int c;

    while ((c = getopt_long(argc, argv, "f:m:h", options, NULL)) != -1) {
        if (c == 'h')
            return -1;
        if (!take_option(q, c, optarg))
            return CLI_USAGE;
    }
    q->files = argv + optind;
    q->n_files = argc - optind;
    if (q->ask.words && (strcmp(q->ask.format, "verbose_json") != 0 || q->ask.translate))
        return cli_usage("transcribe",
                         "--words needs -f json, and cannot be used with --translate");
    if (q->ask.language && q->ask.translate)
        return cli_usage("transcribe", "--language cannot be used with --translate");
    if (q->ask.address && (q->models.n_dirs || q->models.config))
        return cli_usage("transcribe", "--models and --config cannot be used with --address");
    if (q->seconds && !q->mic)
        return cli_usage("transcribe", "--seconds needs --mic");
    if (q->mic == (q->n_files > 0))
        return cli_usage("transcribe",
                         q->mic ? "--mic takes no files" : "name a file, or use --mic");
    return CLI_OK;
}

static int transcribe_at(const char *address, const char *model, void *data)
{
    struct request *q = data;

    q->ask.address = address;
    q->ask.model = model;
    return q->mic ? transcribe_microphone(q) : transcribe_files(q);
}

int verb_transcribe(int argc, char **argv)
{
    struct request q = {.ask = {.key = getenv("SCONCE_API_KEY"), .format = "text"}};
    const int r = read_options(argc, argv, &q);
    const struct own_service own = {"transcribe", &service_rows[SERVICE_AUDIO], &q.models,
                                    q.ask.model};
    _cleanup_free_ char *address = NULL;

    if (r != CLI_OK)
        return r < 0 ? cli_help(help) : r;
    address = q.ask.address ? strdup(q.ask.address) : cli_find_gateway();
    if (!address)
        return cli_error("transcribe", "out of memory");
    if (!q.ask.address && own_service_is_needed(&own, address))
        return own_service_run(&own, transcribe_at, &q);
    return transcribe_at(address, q.ask.model, &q);
}
