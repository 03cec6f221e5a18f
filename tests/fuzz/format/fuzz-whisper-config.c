/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the config.json of a Whisper model, and as its generation_config.json. */
#include <stddef.h>
#include <stdint.h>

#include "format/whisper/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_json_ json_t *config = NULL;
    struct arena arena = {0};
    struct whisper_config c;
    struct inf_err err;

    if (json_text_parse((const char *)data, size, 0, "config.json", &config, &err) < 0)
        return 0;
    if (whisper_config_parse(config, config, &arena, &c, &err) == 0) {
        assert(c.n_embd % c.n_text_heads == 0 && c.n_text_heads <= WHISPER_MAX_HEADS);
        for (size_t i = 0; i < c.n_heads; i++)
            assert(c.heads[i].layer < c.n_text_layers && c.heads[i].head < c.n_text_heads);
        for (size_t i = 0; i < c.n_suppress; i++)
            assert((uint32_t)c.suppress[i] < c.n_vocab);
    }
    arena_done(&arena);
    return 0;
}
