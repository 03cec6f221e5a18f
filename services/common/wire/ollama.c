/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes what all endpoints of Ollama's API share (see ollama.h). */
#include "common/wire/ollama.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "common/wire/fields.h"
#include "common/wire/json.h"

/* The names of all options. The option num_ctx and the options after it say how Ollama runs a
 * model. They have no effect here, because the configuration says how models run; docs/http-api.md
 * lists these options. */
static const char *const option_names[] = {
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "num_predict",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "num_ctx",
    "num_keep",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "num_gqa",
    "numa",
    "low_vram",
    "f16_kv",
    "logits_all",
    "vocab_only",
    "use_mmap",
    "use_mlock",
    "penalize_newline",
    "tfs_z",
    "rope_frequency_base",
    "rope_frequency_scale",
    "embedding_only",
    NULL,
};

/* Reads a duration such as "1h30m", and returns it in seconds; NAN: @text is not a duration. A
 * number without a unit is a number of seconds. */
static double duration_read(const char *text)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3},
                 {"s", 1},     {"m", 60},    {"h", 3600}};
    const double sign = *text == '-' ? -1 : 1;
    double sum = 0;

    text += *text == '-' || *text == '+';
    if (!*text)
        return NAN;
    while (*text) {
        const size_t n = strspn(text, "0123456789.");
        char *end;
        double value;
        size_t i = 0;

        if (!n)
            return NAN;
        value = strtod(text, &end);
        if (end != text + n)
            return NAN;
        if (!*end)
            return sum == 0 ? sign * value : NAN;
        /* "ms" stands before "m" in the table, because "m" is also the beginning of "ms". */
        while (i < ARRAY_SIZE(units) && strncmp(end, units[i].name, strlen(units[i].name)) != 0)
            i++;
        if (i == ARRAY_SIZE(units))
            return NAN;
        sum += value * units[i].seconds;
        text = end + strlen(units[i].name);
    }
    return sign * sum;
}

int ollama_read_keep_alive(json_t *body, uint64_t *ret_usec, struct problem *problem)
{
    const json_t *value = field_find(body, "keep_alive");
    double seconds;

    if (!value)
        return 0;
    if (json_is_number(value))
        seconds = json_number_value(value);
    else if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
        seconds = duration_read(json_string_value(value));
    else
        return field_wrong_type("keep_alive", "a number of seconds or a text such as \"5m\"", value,
                                problem);
    if (isnan(seconds))
        return problem_set(problem, 400, "invalid_value", "keep_alive",
                           "Invalid value for 'keep_alive': it must be a number of seconds, or a "
                           "text such as \"5m\" or \"1h30m\".");
    *ret_usec = seconds < 0 || seconds > 1e12 ? OLLAMA_FOREVER : (uint64_t)(seconds * 1e6);
    return 1;
}

int ollama_open_options(json_t *body, json_t **ret_options, struct problem *problem)
{
    json_t *options = field_find(body, "options"), *value;
    _cleanup_json_ json_t *all = json_object();
    char path[128];
    const char *key;

    if (options && !json_is_object(options))
        return field_wrong_type("options", "an object", options, problem);
    if (!all)
        return problem_no_memory(problem);
    if (options && fields_known(options, "options.", option_names, problem) < 0)
        return -EINVAL;
    json_object_foreach(options, key, value)
    {
        snprintf(path, sizeof(path), "options.%s", key);
        if (json_object_set(all, path, value) < 0)
            return problem_no_memory(problem);
    }
    *ret_options = STEAL(all);
    return 0;
}

int ollama_put_time(struct str *out, int64_t sec, long nsec)
{
    const time_t time = (time_t)sec;
    struct tm tm;

    if (!gmtime_r(&time, &tm))
        return str_puts(out, "\"0001-01-01T00:00:00Z\"");
    return str_printf(out, "\"%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ\"", tm.tm_year + 1900,
                      tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, nsec / 1000);
}

int ollama_put_now(struct str *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ollama_put_time(out, now.tv_sec, now.tv_nsec);
}

int ollama_put_name(struct str *out, const char *name)
{
    int r = json_put_text(out, name);

    if (r < 0 || strchr(name, ':'))
        return r;
    out->len--;
    return str_puts(out, ":latest\"");
}
