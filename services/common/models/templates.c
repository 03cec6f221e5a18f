/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the built-in chat templates (see templates.h).
 *
 * Each template follows the form that the makers of its first models published: ChatML (OpenAI,
 * 2023), Vicuna 1.1 (FastChat, conversation.py), Alpaca (Stanford, 2023), Llama 2 and 3 (Meta's
 * model cards), Mistral 7B Instruct 0.1, Zephyr 7B beta, Gemma (Google's model card) and Phi-3
 * (Microsoft's model card).
 */
#include "common/models/templates.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"

#define CONTENT "(m['content'] or '')"
/* Begins a loop over the messages in which `ns.system` is the text of the last system message. */
#define EACH_WITH_SYSTEM                                                                           \
    "{%- set ns = namespace(system='') -%}"                                                        \
    "{%- for m in messages -%}"                                                                    \
    "{%- if m['role'] == 'system' -%}{%- set ns.system = " CONTENT " -%}"                          \
    "{%- elif m['role'] == 'user' -%}"
/* Clears `ns.system` after a message of the user, and begins the branch for all other messages. */
#define OTHER_ROLES    "{%- set ns.system = '' -%}{%- else -%}"
#define END_EACH       "{%- endif -%}{%- endfor -%}"
#define END_WITH(text) "{%- if add_generation_prompt -%}{{- " text " -}}{%- endif -%}"

static const char alpaca[] = EACH_WITH_SYSTEM
    "{{- (ns.system or 'Below is an instruction that describes a task. Write a response that "
    "appropriately completes the request.') + '\\n\\n' if ns.system or loop.first else '' -}}"
    "{{- '### Instruction:\\n' + " CONTENT " + '\\n\\n' -}}" OTHER_ROLES
    "{{- '### Response:\\n' + " CONTENT " + '\\n\\n' -}}" END_EACH END_WITH("'### Response:\\n'");

static const char chatml[] =
    "{%- for m in messages -%}"
    "{{- '<|im_start|>' + m['role'] + '\\n' + " CONTENT " + '<|im_end|>\\n' -}}"
    "{%- endfor -%}" END_WITH("'<|im_start|>assistant\\n'");

static const char gemma[] =
    "{{- bos_token -}}" EACH_WITH_SYSTEM
    "{{- '<start_of_turn>user\\n' + (ns.system + '\\n\\n' if ns.system else '') + " CONTENT
    "|trim + '<end_of_turn>\\n' -}}" OTHER_ROLES "{{- '<start_of_turn>model\\n' + " CONTENT
    "|trim + '<end_of_turn>\\n' -}}" END_EACH END_WITH("'<start_of_turn>model\\n'");

static const char llama2[] = EACH_WITH_SYSTEM
    "{{- bos_token + '[INST] ' + ('<<SYS>>\\n' + ns.system + '\\n<</SYS>>\\n\\n' if ns.system "
    "else '') + " CONTENT "|trim + ' [/INST]' -}}" OTHER_ROLES "{{- ' ' + " CONTENT
    "|trim + ' ' + eos_token -}}" END_EACH;

static const char llama3[] =
    "{{- bos_token -}}{%- for m in messages -%}"
    "{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + " CONTENT
    "|trim + '<|eot_id|>' -}}"
    "{%- endfor -%}" END_WITH("'<|start_header_id|>assistant<|end_header_id|>\\n\\n'");

static const char mistral[] =
    "{{- bos_token -}}" EACH_WITH_SYSTEM
    "{{- '[INST] ' + (ns.system + '\\n\\n' if ns.system else '') + " CONTENT
    " + ' [/INST]' -}}" OTHER_ROLES "{{- ' ' + " CONTENT " + eos_token -}}" END_EACH;

static const char phi3[] = "{%- for m in messages -%}"
                           "{{- '<|' + m['role'] + '|>\\n' + " CONTENT " + '<|end|>\\n' -}}"
                           "{%- endfor -%}" END_WITH("'<|assistant|>\\n'");

static const char vicuna[] =
    "{%- if not messages or messages[0]['role'] != 'system' -%}"
    "{{- 'A chat between a curious user and an artificial intelligence assistant. The assistant "
    "gives helpful, detailed, and polite answers to the user\\'s questions. ' -}}{%- endif -%}"
    "{%- for m in messages -%}"
    "{%- if m['role'] == 'system' -%}{{- " CONTENT " + ' ' -}}"
    "{%- elif m['role'] == 'user' -%}{{- 'USER: ' + " CONTENT " + ' ' -}}"
    "{%- else -%}{{- 'ASSISTANT: ' + " CONTENT " + eos_token -}}" END_EACH END_WITH("'ASSISTANT:'");

static const char zephyr[] = "{%- for m in messages -%}"
                             "{{- '<|' + m['role'] + '|>\\n' + " CONTENT " + eos_token + '\\n' -}}"
                             "{%- endfor -%}" END_WITH("'<|assistant|>\\n'");

static const struct template_row rows[] = {
    {"alpaca", alpaca, "### Instruction:"},
    {"chatml", chatml, "<|im_end|>"},
    {"gemma", gemma, "<end_of_turn>"},
    {"llama2", llama2, NULL},
    {"llama3", llama3, "<|eot_id|>"},
    {"mistral", mistral, NULL},
    {"phi3", phi3, "<|end|>"},
    {"vicuna", vicuna, "USER:"},
    {"zephyr", zephyr, "<|user|>"},
};

const struct template_row *template_at(size_t i)
{
    return i < ARRAY_SIZE(rows) ? &rows[i] : NULL;
}

const struct template_row *template_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

const char *template_names(void)
{
    return "alpaca, chatml, gemma, llama2, llama3, mistral, phi3, vicuna, zephyr";
}

int template_load(const char *what, char **ret_text, struct inf_err *reterr)
{
    const struct template_row *row = template_find(what);
    struct inf_err err;
    size_t len;
    int r;

    if (row) {
        *ret_text = strdup(row->text);
        return *ret_text ? 0 : err_set(reterr, ENOMEM, "out of memory");
    }
    r = file_read(what, TEMPLATES_MAX_FILE, ret_text, &len, &err);
    if (r == -ENOENT)
        return err_set(reterr, ENOENT,
                       "\"%.100s\" is neither a file nor a built-in chat template; the built-in "
                       "ones are %s",
                       what, template_names());
    return r < 0 ? err_set(reterr, -r, "%s", err.text) : 0;
}
