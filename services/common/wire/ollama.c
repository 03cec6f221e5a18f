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

/* Adds @count units of @unit nanoseconds to *sum, and the decimal fraction of a unit whose digits
 * are at @fraction. Returns false if the sum is above INT64_MAX, as in Go. */
static bool duration_add(uint64_t count, uint64_t unit, const char *fraction, uint64_t *sum)
{
    uint64_t ns;
    double part = 0, scale = (double)unit;

    for (; *fraction >= '0' && *fraction <= '9'; fraction++) {
        scale /= 10;
        part += (*fraction - '0') * scale;
    }
    /* A thousandth of a nanosecond is more than the rounding errors of the additions. */
    return size_mul(count, unit, &ns) && size_add(ns, (uint64_t)(part + 1e-3), &ns) &&
           size_add(*sum, ns, sum) && *sum <= INT64_MAX;
}

/* Returns the nanoseconds of the unit with which @text begins; 0: it begins with none. *ret_len is
 * the length of the unit's name. */
static uint64_t duration_unit(const char *text, size_t *ret_len)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
                 {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000}};

    *ret_len = strcspn(text, "0123456789.");
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (strlen(units[i].name) == *ret_len && memcmp(units[i].name, text, *ret_len) == 0)
            return units[i].ns;
    return 0;
}

/* Reads a duration as time.ParseDuration() of Go does, such as "1h30m", ".5s" or "500ms". A whole
 * number without a unit is a number of seconds, as in Ollama's setting OLLAMA_KEEP_ALIVE. Returns
 * false if @text is not a duration. */
static bool duration_read(const char *text, bool *ret_negative, uint64_t *ret_ns)
{
    static const char digits[] = "0123456789";
    uint64_t sum = 0;

    *ret_negative = *text == '-';
    text += *text == '-' || *text == '+';
    if (!*text)
        return false;
    for (bool is_first = true; *text; is_first = false) {
        const size_t n_whole = strspn(text, digits);
        const char *fraction = text + n_whole + (text[n_whole] == '.');
        const size_t n_fraction = fraction > text + n_whole ? strspn(fraction, digits) : 0;
        const char *end = fraction + n_fraction;
        size_t n_unit;
        uint64_t count = 0, unit = duration_unit(end, &n_unit);

        if (n_whole + n_fraction == 0)
            return false;
        if (!unit && is_first && !*end && end == text + n_whole)
            unit = 1000000000;
        for (size_t i = 0; i < n_whole; i++)
            if (!size_mul(count, 10, &count) || !size_add(count, (uint64_t)(text[i] - '0'), &count))
                return false;
        if (!unit || !duration_add(count, unit, n_fraction ? fraction : "", &sum))
            return false;
        text = end + n_unit;
    }
    *ret_ns = sum;
    return true;
}

/* Returns @seconds in microseconds, rounded up, so that only 0 seconds become 0. */
static uint64_t keep_of_seconds(double seconds)
{
    return seconds < 0 || seconds > 1e12 ? OLLAMA_FOREVER : (uint64_t)ceil(seconds * 1e6);
}

int ollama_read_keep_alive(json_t *body, uint64_t *ret_usec, struct problem *problem)
{
    const json_t *value = field_find(body, "keep_alive");
    bool is_negative = false;
    uint64_t ns;

    if (!value)
        return 0;
    if (json_is_number(value)) {
        *ret_usec = keep_of_seconds(json_number_value(value));
        return 1;
    }
    if (!json_is_string(value))
        return field_wrong_type("keep_alive", "a number of seconds or a text such as \"5m\"", value,
                                problem);
    if (strlen(json_string_value(value)) != json_string_length(value) ||
        !duration_read(json_string_value(value), &is_negative, &ns))
        return problem_set(problem, 400, "invalid_value", "keep_alive",
                           "Invalid value for 'keep_alive': it must be a number of seconds, or a "
                           "text of numbers with the units h, m, s, ms, us or ns, such as \"5m\", "
                           "\"1h30m\" or \"500ms\".");
    *ret_usec = is_negative && ns > 0 ? OLLAMA_FOREVER : DIV_UP(ns, 1000);
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
