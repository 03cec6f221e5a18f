/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a transcription form, part by part.
 *
 * Small parts are collected in a string. The file is written to a memfd, which nobody can change
 * after it is sealed, so another process can map it safely.
 */
#include "audio/form.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "audio/chunking.h"
#include "common/http/multipart.h"
#include "core/str.h"
#include "core/utf8.h"

enum { FORM_MAX_FIELD = 16 * 1024 };

struct form {
    struct audio_params *params;
    struct problem *problem;
    const struct form_field *field; /* the field being read; NULL: the file */
    unsigned seen;                  /* bits of fields */
    bool vad_filter, has_vad_filter;
    struct str text;
};

struct form_field {
    const char *name;
    int (*read)(struct form *form, const char *value, size_t len);
    bool repeats, transcribes_only;
};

static int form_bad(struct form *form, const char *code, const char *format, const char *value)
{
    char text[INF_ERR_BYTES];

    snprintf(text, sizeof(text), format, value);
    return problem_set(form->problem, 400, code, form->field ? form->field->name : "file",
                       "Invalid value for '%s': %s.", form->field ? form->field->name : "file",
                       text);
}

/* --- fields --- */

static int read_text(struct form *form, char **text, const char *value, size_t len)
{
    free(*text);
    *text = strndup(value, len);
    return *text ? 0 : problem_no_memory(form->problem);
}

static int read_bool(struct form *form, bool *ret, const char *value)
{
    if (strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0)
        *ret = true;
    else if (strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0)
        *ret = false;
    else
        return form_bad(form, "invalid_value", "it must be true or false, not '%.50s'", value);
    return 0;
}

static int read_integer(struct form *form, int64_t max, int64_t *ret, const char *value)
{
    char *end, text[64];
    long long n;

    errno = 0;
    n = strtoll(value, &end, 10);
    snprintf(text, sizeof(text), "it must be a whole number from 0 to %lld", (long long)max);
    if (errno || *end || end == value || n < 0 || n > max)
        return form_bad(form, "invalid_value", "%s", text);
    *ret = n;
    return 0;
}

static int field_model(struct form *form, const char *value, size_t len)
{
    return read_text(form, &form->params->model, value, len);
}

static int field_language(struct form *form, const char *value, size_t len)
{
    return read_text(form, &form->params->language, value, len);
}

static int field_prompt(struct form *form, const char *value, size_t len)
{
    return read_text(form, &form->params->prompt, value, len);
}

static int field_hotwords(struct form *form, const char *value, size_t len)
{
    return read_text(form, &form->params->hotwords, value, len);
}

static int field_format(struct form *form, const char *value, size_t len)
{
    static const char *const names[] = {"json", "text", "srt", "vtt", "verbose_json"};

    (void)len;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(value, names[i]) == 0) {
            form->params->format = (enum audio_format)i;
            return 0;
        }
    return form_bad(form, "invalid_value",
                    "'%.50s' is not one of json, text, srt, vtt, verbose_json", value);
}

static int field_temperature(struct form *form, const char *value, size_t len)
{
    char *end;
    const double t = strtod(value, &end);

    (void)len;
    if (*end || end == value || !(t >= 0 && t <= 1))
        return form_bad(form, "invalid_value", "it must be a number from 0 to 1, not '%.50s'",
                        value);
    form->params->temperature = (float)t;
    form->params->has_temperature = true;
    return 0;
}

static int field_granularity(struct form *form, const char *value, size_t len)
{
    (void)len;
    if (strcmp(value, "word") == 0)
        form->params->words = true;
    else if (strcmp(value, "segment") == 0)
        form->params->segments = true;
    else
        return form_bad(form, "invalid_value", "'%.50s' is not one of word, segment", value);
    form->params->has_granularity = true;
    return 0;
}

static int field_stream(struct form *form, const char *value, size_t len)
{
    (void)len;
    return read_bool(form, &form->params->stream, value);
}

static int field_vad_filter(struct form *form, const char *value, size_t len)
{
    (void)len;
    form->has_vad_filter = true;
    return read_bool(form, &form->vad_filter, value);
}

static int field_chunking(struct form *form, const char *value, size_t len)
{
    struct inf_err err;
    int r;

    if (strcmp(value, "auto") == 0) {
        form->params->silence = AUDIO_SILENCE_AUTO;
        return 0;
    }
    if (*value != '{')
        return form_bad(form, "unsupported_value", "%s",
                        "it must be 'auto' or an object of type server_vad");
    r = chunking_parse(form->params, value, len, &err);
    if (r == -ENOMEM)
        return problem_no_memory(form->problem);
    return r < 0 ? form_bad(form, "invalid_value", "%s", err.text) : 0;
}

/* Reads a member of chunking_strategy that was sent as a field of its own, such as
 * "chunking_strategy[threshold]". */
static int field_chunking_part(struct form *form, const char *value, size_t len)
{
    const char *part = strchr(form->field->name, '[') + 1;
    struct inf_err err;
    char name[32];

    (void)len;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(part, "]"), part);
    return chunking_set(form->params, name, value, &err) < 0
               ? form_bad(form, "invalid_value", "%s", err.text)
               : 0;
}

static int field_beams(struct form *form, const char *value, size_t len)
{
    int64_t n = 0;
    const int r = read_integer(form, 16, &n, value);

    (void)len;
    form->params->beam_size = (uint32_t)n;
    return r;
}

static int field_best_of(struct form *form, const char *value, size_t len)
{
    int64_t n = 0;
    const int r = read_integer(form, 16, &n, value);

    (void)len;
    form->params->best_of = (uint32_t)n;
    return r;
}

static int field_seed(struct form *form, const char *value, size_t len)
{
    (void)len;
    return read_integer(form, INT64_MAX, &form->params->seed, value);
}

static const struct form_field fields[] = {
    {"model", field_model},
    {"prompt", field_prompt},
    {"response_format", field_format},
    {"temperature", field_temperature},
    {"stream", field_stream},
    {"hotwords", field_hotwords},
    {"beam_size", field_beams},
    {"best_of", field_best_of},
    {"seed", field_seed},
    {"language", field_language, .transcribes_only = true},
    {"timestamp_granularities[]", field_granularity, .repeats = true, .transcribes_only = true},
    {"timestamp_granularities", field_granularity, .repeats = true, .transcribes_only = true},
    {"vad_filter", field_vad_filter},
    {"chunking_strategy", field_chunking, .transcribes_only = true},
    {"chunking_strategy[type]", field_chunking_part, .transcribes_only = true},
    {"chunking_strategy[threshold]", field_chunking_part, .transcribes_only = true},
    {"chunking_strategy[prefix_padding_ms]", field_chunking_part, .transcribes_only = true},
    {"chunking_strategy[silence_duration_ms]", field_chunking_part, .transcribes_only = true},
};

/* --- parts --- */

static int begin_file(struct form *form, const struct multipart_part *part)
{
    form->field = NULL;
    if (form->params->file >= 0)
        return problem_set(form->problem, 400, "invalid_value", "file",
                           "Invalid value for 'file': it is given twice.");
    form->params->file = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (form->params->file < 0)
        return problem_no_memory(form->problem);
    if (part->filename) {
        form->params->filename = strdup(part->filename);
        if (!form->params->filename)
            return problem_no_memory(form->problem);
    }
    return 0;
}

static int on_part(void *user, const struct multipart_part *part)
{
    struct form *form = user;
    size_t i = 0;

    str_clear(&form->text);
    if (strcmp(part->name, "file") == 0)
        return begin_file(form, part);
    while (i < ARRAY_SIZE(fields) && strcmp(part->name, fields[i].name) != 0)
        i++;
    if (i == ARRAY_SIZE(fields) ||
        (fields[i].transcribes_only && form->params->task == INF_AUDIO_TRANSLATE))
        return problem_set(form->problem, 400, "unknown_field", part->name,
                           "Unrecognized request argument supplied: '%.100s'.", part->name);
    form->field = &fields[i];
    if ((form->seen & 1u << i) && !fields[i].repeats)
        return form_bad(form, "invalid_value", "%s", "it is given twice");
    form->seen |= 1u << i;
    return 0;
}

static int write_file(struct form *form, const char *data, size_t len)
{
    while (len) {
        const ssize_t n = write(form->params->file, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return problem_no_memory(form->problem);
        data += n;
        len -= (size_t)n;
        form->params->size += (uint64_t)n;
    }
    return 0;
}

static int on_data(void *user, const char *data, size_t len)
{
    struct form *form = user;

    if (!form->field)
        return write_file(form, data, len);
    if (form->text.len + len > FORM_MAX_FIELD)
        return form_bad(form, "value_too_long", "%s", "it is longer than 16 KiB");
    return str_append(&form->text, data, len) < 0 ? problem_no_memory(form->problem) : 0;
}

static int on_end(void *user)
{
    static const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    struct form *form = user;

    if (!form->field)
        return fcntl(form->params->file, F_ADD_SEALS, seals) < 0 ? problem_no_memory(form->problem)
                                                                 : 0;
    if (!form->text.len)
        return 0;
    if (memchr(form->text.data, 0, form->text.len) || !utf8_valid(form->text.data, form->text.len))
        return form_bad(form, "invalid_value", "%s", "it is not text in UTF-8");
    return form->field->read(form, form->text.data, form->text.len);
}

/* --- the form --- */

/* Checks that `vad_filter` and `chunking_strategy` agree. */
static int check_silence(struct form *form)
{
    struct audio_params *p = form->params;
    const struct inf_audio_vad none = {0};

    if (memcmp(&p->vad, &none, sizeof(none)) != 0 && p->silence != AUDIO_SILENCE_SKIPPED)
        return problem_set(form->problem, 400, "missing_field", "chunking_strategy[type]",
                           "Missing required parameter: 'chunking_strategy[type]'.");
    if (!form->has_vad_filter)
        return 0;
    if (!form->vad_filter && p->silence != AUDIO_SILENCE_USUAL)
        return problem_set(form->problem, 400, "invalid_value", "vad_filter",
                           "Invalid value for 'vad_filter': false cannot be combined with "
                           "'chunking_strategy'.");
    p->silence = form->vad_filter ? AUDIO_SILENCE_SKIPPED : AUDIO_SILENCE_KEPT;
    return 0;
}

static int check_form(struct form *form)
{
    struct audio_params *p = form->params;
    struct problem *problem = form->problem;

    if (p->file < 0)
        return problem_set(problem, 400, "missing_field", "file",
                           "Missing required parameter: 'file'.");
    if (!p->size)
        return problem_set(problem, 400, "audio_empty", "file", "The audio file is empty.");
    if (p->has_granularity && p->format != AUDIO_VERBOSE)
        return problem_set(problem, 400, "invalid_value", "timestamp_granularities[]",
                           "Invalid value for 'timestamp_granularities[]': it is possible only "
                           "with response_format verbose_json.");
    if (p->stream && p->format != AUDIO_JSON && p->format != AUDIO_TEXT)
        return problem_set(problem, 400, "invalid_value", "stream",
                           "Invalid value for 'stream': it is possible only with response_format "
                           "json or text.");
    if (!p->has_granularity)
        p->segments = true;
    return check_silence(form);
}

int form_read(struct audio_params *params, enum inf_audio_task task, struct http_text type,
              struct http_text body, struct problem *problem)
{
    static const struct multipart_events events = {on_part, on_data, on_end};
    _cleanup_(multipart_freep) struct multipart *multipart = NULL;
    struct form form = {.params = params, .problem = problem};
    struct inf_err err = {};
    int r;

    *params = (struct audio_params){.task = task, .file = -1, .seed = -1};
    *problem = (struct problem){0};
    r = multipart_new(type.data ? type.data : "", type.len, &events, &form, &multipart, &err);
    if (r == 0)
        r = multipart_feed(multipart, body.data, body.len, &err);
    if (r == 0)
        r = multipart_finish(multipart, &err);
    str_done(&form.text);
    if (r < 0 && !problem->status)
        return r == -ENOMEM ? problem_no_memory(problem)
                            : problem_set(problem, 400, "invalid_form", NULL,
                                          "The body of your request is not a form: %s.", err.text);
    return r < 0 ? r : check_form(&form);
}

void form_done(struct audio_params *params)
{
    free(params->model);
    free(params->language);
    free(params->prompt);
    free(params->hotwords);
    free(params->filename);
    if (params->file >= 0)
        close(params->file);
    *params = (struct audio_params){.file = -1};
}
