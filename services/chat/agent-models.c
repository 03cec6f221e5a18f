/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the array "models" of GET /v1/models, which the agent Codex reads (version 0.169).
 *
 * The array tells Codex how to use a model that it does not know: how long a conversation may be,
 * and which tools to offer. Codex refuses the whole list if a required field is missing, so each
 * entry has all required fields. The instructions in an entry replace the instructions that Codex
 * has for unknown models. They are short, because small models process long instructions slowly.
 */
#include "chat/agent-models.h"

#include "chat/chat-resident.h"
#include "common/models/models.h"
#include "common/wire/json.h"

static const char instructions[] =
    "You are a coding agent in the terminal of a user, and work in the user's directory. Use the "
    "tools to look at files before you change them, to change them, and to check the result. Do "
    "what the user asks and nothing else. Keep going until the task is done. Then say in a few "
    "sentences what you did.";

/* Writes the length of a model's context, which is known only while the model is loaded. */
static int put_context(struct str *out, const struct resident *resident)
{
    if (!resident)
        return str_puts(out, ",\"context_window\":null");
    return str_printf(out, ",\"context_window\":%u",
                      inf_engine_n_ctx(chat_resident_of(resident)->engine));
}

static int put_entry(struct str *out, const struct models_entry *entry,
                     const struct resident *resident)
{
    int r = str_puts(out, "{\"slug\":");

    r = r < 0 ? r : json_put_text(out, entry->name);
    r = r < 0 ? r : str_puts(out, ",\"display_name\":");
    r = r < 0 ? r : json_put_text(out, entry->name);
    r = r < 0 ? r : put_context(out, resident);
    r = r < 0 ? r : str_puts(out, ",\"base_instructions\":");
    r = r < 0 ? r : json_put_text(out, instructions);
    return r < 0 ? r
                 : str_puts(out,
                            ",\"description\":null,\"visibility\":\"list\","
                            "\"supported_in_api\":true,\"priority\":0,"
                            "\"shell_type\":\"shell_command\",\"default_reasoning_level\":null,"
                            "\"supported_reasoning_levels\":[],"
                            "\"supports_reasoning_summaries\":false,\"support_verbosity\":false,"
                            "\"default_verbosity\":null,\"apply_patch_tool_type\":\"freeform\","
                            "\"truncation_policy\":{\"mode\":\"tokens\",\"limit\":10000},"
                            "\"supports_parallel_tool_calls\":true,"
                            "\"experimental_supported_tools\":[],\"input_modalities\":[\"text\"],"
                            "\"availability_nux\":null,\"upgrade\":null}");
}

int agent_models_put(const struct model_host *host, const struct models *models, struct str *out)
{
    bool any = false;
    int r = str_putc(out, '[');

    for (size_t i = 0; i < models_count(models) && r == 0; i++) {
        const struct models_entry *entry = models_at(models, i);
        const struct resident *resident = residents_find(&host->residents, entry->name);

        if (!resident && entry->task != MODELS_CHAT)
            continue;
        r = any ? str_putc(out, ',') : 0;
        r = r < 0 ? r : put_entry(out, entry, resident);
        any = true;
    }
    return r < 0 ? r : str_putc(out, ']');
}
