/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of recommended models (see suggest.h)
 *
 * The member `memory` of a row is enough for the weights, for conversations of the default length,
 * and for other programs on the machine. The list is data: a change of the list changes no code.
 */
#include "cli/pull/suggest.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "core/cgroup.h"

#define GIB(n) ((uint64_t)(n) << 30)
#define MB(n)  ((uint64_t)(n)*1000000u)

static const struct suggestion suggestions[] = {
    {"chat", GIB(2), MB(640), "Qwen/Qwen3-0.6B-GGUF:Q8_0", "short answers on small machines"},
    {"chat", GIB(4), MB(1830), "Qwen/Qwen3-1.7B-GGUF:Q8_0", "simple questions and summaries"},
    {"chat", GIB(8), MB(2500), "Qwen/Qwen3-4B-GGUF:Q4_K_M", "everyday questions, calls of tools"},
    {"chat", GIB(12), MB(5030), "Qwen/Qwen3-8B-GGUF:Q4_K_M", "better answers, at half the speed"},
    {"chat", GIB(24), MB(9000), "Qwen/Qwen3-14B-GGUF:Q4_K_M", "long texts and harder questions"},
    {"chat", GIB(32), MB(18600), "Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M",
     "a mixture of experts: as fast as a model of 3B"},
    {"code", GIB(4), MB(1900), "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q8_0",
     "completion in editors"},
    {"code", GIB(12), MB(4700), "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M",
     "completion and questions about code"},
    {"embedding", GIB(1), MB(92), "sentence-transformers/all-MiniLM-L6-v2",
     "English texts, 384 numbers"},
    {"embedding", GIB(4), MB(640), "Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0",
     "many languages and code, 1024 numbers"},
    {"rerank", GIB(1), MB(92), "cross-encoder/ms-marco-MiniLM-L6-v2", "English texts"},
    {"rerank", GIB(4), MB(2290), "BAAI/bge-reranker-v2-m3", "many languages"},
    {"speech", GIB(1), MB(290), "openai/whisper-base", "clear speech"},
    {"speech", GIB(4), MB(970), "openai/whisper-small", "most languages"},
    {"speech", GIB(8), MB(1620), "openai/whisper-large-v3-turbo", "noise and accents"},
};

const struct suggestion *suggestion_at(size_t i)
{
    return i < ARRAY_SIZE(suggestions) ? &suggestions[i] : NULL;
}

/* Returns whether @memory, the memory that the kernel reports, is enough for @s. The kernel keeps a
 * part of a machine's memory for itself: a machine with 8 GiB reports about 7.7 GiB. */
static bool suggestion_fits(const struct suggestion *s, uint64_t memory)
{
    return s->memory - s->memory / 16 <= memory;
}

bool suggestion_is_best(const struct suggestion *s, uint64_t memory)
{
    const struct suggestion *best = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(suggestions); i++)
        if (strcmp(suggestions[i].task, s->task) == 0 && suggestion_fits(&suggestions[i], memory))
            best = &suggestions[i];
    return best == s;
}

static int suggest_json(const char *task, uint64_t memory)
{
    json_t *list = json_array(), *out;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(suggestions); i++) {
        const struct suggestion *s = &suggestions[i];

        if (task && strcmp(task, s->task) != 0)
            continue;
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I, s:s, s:b, s:b}", "task", s->task,
                                        "source", s->source, "memory", (json_int_t)s->memory,
                                        "bytes", (json_int_t)s->size, "note", s->note, "fits",
                                        (int)suggestion_fits(s, memory), "best",
                                        (int)suggestion_is_best(s, memory)));
    }
    out = json_pack("{s:I, s:o}", "memory", (json_int_t)memory, "models", list);
    r = out ? json_dumpf(out, stdout, JSON_INDENT(2)) : -1;
    json_decref(out);
    putchar('\n');
    return r == 0 ? CLI_OK : CLI_FAILED;
}

int suggest_print(const char *task, bool json)
{
    const uint64_t memory = memory_bytes();
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(suggestions); i++)
        n += !task || strcmp(task, suggestions[i].task) == 0;
    if (n == 0)
        return cli_usage("pull",
                         "there are no suggestions for \"%s\"; the tasks are chat, code, "
                         "embedding, rerank and speech",
                         task);
    if (json)
        return suggest_json(task, memory);
    printf("This machine has %s of memory. A star marks the best model of each task for it.\n\n",
           cli_size(memory));
    printf("  %-9s  %-7s  %-7s  %s\n", "TASK", "MEMORY", "FETCH", "SOURCE");
    for (size_t i = 0; i < ARRAY_SIZE(suggestions); i++) {
        const struct suggestion *s = &suggestions[i];

        if (!task || strcmp(task, s->task) == 0)
            printf("%c %-9s  %3llu GiB  %4.1f GB  %s\n    %s\n",
                   suggestion_is_best(s, memory) ? '*' : ' ', s->task,
                   (unsigned long long)(s->memory >> 30), (double)s->size / 1e9, s->source,
                   s->note);
    }
    puts("\n`sconce pull SOURCE` fetches one of them.");
    return CLI_OK;
}
