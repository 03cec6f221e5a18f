/* SPDX-License-Identifier: Apache-2.0 */
/* Parses chunking_strategy. In struct inf_audio_vad, 0 stands for the default of libinfer, and a
 * member that the client does not give stays 0. A client's 0 ms becomes 1 ms, because 0 would
 * select the default. */
#include "audio/chunking.h"

#include <errno.h>
#include <string.h>

#include "audio/form.h"
#include "common/wire/json.h"
#include "core/err.h"

static int set_type(struct audio_params *params, const char *type, struct inf_err *reterr)
{
    if (strcmp(type, "server_vad") != 0)
        return err_set(reterr, EINVAL, "unknown type '%.50s'; the type must be server_vad", type);
    params->silence = AUDIO_SILENCE_SKIPPED;
    return 0;
}

static int set_msec(uint32_t *msec, const char *name, double value, uint32_t max,
                    struct inf_err *reterr)
{
    if (!(value >= 0 && value <= max))
        return err_set(reterr, EINVAL, "%s must be 0 to %u", name, max);
    *msec = MAX((uint32_t)value, 1u);
    return 0;
}

static int set_number(struct inf_audio_vad *vad, const char *name, double value,
                      struct inf_err *reterr)
{
    if (strcmp(name, "prefix_padding_ms") == 0)
        return set_msec(&vad->pad_ms, name, value, INF_AUDIO_MAX_PAD_MS, reterr);
    if (strcmp(name, "silence_duration_ms") == 0)
        return set_msec(&vad->silence_ms, name, value, INF_AUDIO_MAX_SILENCE_MS, reterr);
    if (strcmp(name, "threshold") != 0)
        return err_set(reterr, EINVAL,
                       "unknown member '%.50s'; the members are type, threshold, "
                       "prefix_padding_ms and silence_duration_ms",
                       name);
    if (!((float)value > 0 && (float)value < 1))
        return err_set(reterr, EINVAL, "threshold must be above 0 and below 1");
    vad->threshold = (float)value;
    return 0;
}

int chunking_set(struct audio_params *params, const char *name, const char *value,
                 struct inf_err *reterr)
{
    char *end;
    double number;

    if (strcmp(name, "type") == 0)
        return set_type(params, value, reterr);
    number = strtod(value, &end);
    if (*end || end == value)
        return err_set(reterr, EINVAL, "%.50s must be a number", name);
    return set_number(&params->vad, name, number, reterr);
}

int chunking_parse(struct audio_params *params, const char *text, size_t len,
                   struct inf_err *reterr)
{
    _cleanup_json_ json_t *object = NULL;
    const char *name;
    json_t *value;
    int r = json_parse(text, len, &object, reterr);

    if (r < 0)
        return r == -ENOMEM ? r : -EINVAL;
    if (!json_is_object(object) || !json_is_string(json_object_get(object, "type")))
        return err_set(reterr, EINVAL, "it must be 'auto' or an object of type server_vad");
    json_object_foreach(object, name, value)
    {
        if (strcmp(name, "type") == 0)
            r = set_type(params, json_string_value(value), reterr);
        else if (json_is_number(value))
            r = set_number(&params->vad, name, json_number_value(value), reterr);
        else
            r = err_set(reterr, EINVAL, "%.50s must be a number", name);
        if (r < 0)
            return r;
    }
    return 0;
}
