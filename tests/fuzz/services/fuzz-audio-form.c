/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses transcription forms with the boundary XyZ. An accepted form has a sealed file and values
 * within their limits; a rejected one has an error message.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "audio/form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char type[] = "multipart/form-data; boundary=XyZ";
    const struct http_text body = {(const char *)data, size};

    for (int i = 0; i < 2; i++) {
        struct audio_params p;
        struct problem problem;
        const int r = form_read(&p, i ? INF_AUDIO_TRANSLATE : INF_AUDIO_TRANSCRIBE,
                                (struct http_text){type, sizeof(type) - 1}, body, &problem);

        if (r < 0 ? problem.status < 400 || !problem.message[0]
                  : p.file < 0 || !p.size || !(p.temperature >= 0 && p.temperature <= 1) ||
                        p.beam_size > 16 || p.best_of > 16 || (i && p.language) ||
                        !(p.vad.threshold >= 0 && p.vad.threshold < 1) ||
                        p.vad.pad_ms > INF_AUDIO_MAX_PAD_MS ||
                        p.vad.silence_ms > INF_AUDIO_MAX_SILENCE_MS ||
                        !(fcntl(p.file, F_GET_SEALS) & F_SEAL_WRITE))
            abort();
        form_done(&p);
    }
    return 0;
}
