/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a config.json. */
#include <stddef.h>
#include <stdint.h>

#include "format/hf/config.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_json_ json_t *config = NULL;
    struct inf_err err;
    struct hf_config c;

    if (json_text_parse((const char *)data, size, 0, "config.json", &config, &err) < 0)
        return 0;
    if (hf_config_parse(config, model_archs(), &c, &err) == 0)
        assert(c.hp.n_heads % c.hp.n_kv_heads == 0 && c.hp.n_layers <= HPARAMS_MAX_LAYERS);
    return 0;
}
