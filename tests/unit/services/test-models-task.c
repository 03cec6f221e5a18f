/* SPDX-License-Identifier: Apache-2.0 */
#include "common/models/task.h"
#include "lib/test.h"

static enum models_task config(const char *text)
{
    return models_task_of_config(text, strlen(text));
}

TEST(architectures_tell_the_task)
{
    assert_int_equal(config("{\"architectures\": [\"BertModel\"], \"x\": 1}"), MODELS_EMBED);
    assert_int_equal(config("{\"architectures\":[\"BertForMaskedLM\"]}"), MODELS_EMBED);
    assert_int_equal(config("{\"architectures\":[\"HF_ColBERT\"]}"), MODELS_EMBED);
    assert_int_equal(config("{\"architectures\":[\n\"XLMRobertaForSequenceClassification\"]}"),
                     MODELS_RERANK);
    assert_int_equal(config("{\"architectures\":[\"Qwen3ForCausalLM\"]}"), MODELS_CHAT);
    assert_int_equal(config("{\"model_type\":\"BertModel\"}"), MODELS_CHAT);
    assert_int_equal(config("{\"architectures\":[\"BertModel\""), MODELS_CHAT);
    assert_int_equal(config(""), MODELS_CHAT);
}

/* Appends a key of a GGUF file. */
static size_t put(char *at, const char *key, uint32_t type, const void *value, size_t size)
{
    const uint64_t n = strlen(key);

    memcpy(at, &n, sizeof(n));
    memcpy(at + 8, key, n);
    memcpy(at + 8 + n, &type, sizeof(type));
    memcpy(at + 12 + n, value, size);
    return 12 + n + size;
}

static enum models_task gguf(const char *arch, uint32_t pooling)
{
    char data[512] = "GGUF\3", name[8 + 64] = {0}, key[64];
    const uint64_t n_arch = strlen(arch);
    size_t n = 24;

    memcpy(name, &n_arch, sizeof(n_arch));
    memcpy(name + 8, arch, n_arch);
    n += put(data + n, "general.architecture", 8, name, 8 + n_arch);
    snprintf(key, sizeof(key), "%s.pooling_type", arch);
    if (pooling < 100)
        n += put(data + n, key, 4, &pooling, 4);
    /* The function may get only the beginning of a file, cut at any byte. It must not read past
     * the end of what it got. */
    for (size_t i = 0; i < n; i++) {
        char *cut = malloc(i + 1);

        memcpy(cut, data, i);
        models_task_of_gguf(cut, i);
        free(cut);
    }
    return models_task_of_gguf(data, sizeof(data));
}

TEST(keys_of_gguf_files_tell_the_task)
{
    static const char whisper[] = "GGUF\3........model.encoder.conv1.weight";

    assert_int_equal(models_task_of_gguf(whisper, sizeof(whisper)), MODELS_SPEECH);
    assert_int_equal(models_task_of_gguf(whisper, 20), MODELS_CHAT);
    assert_int_equal(gguf("llama", 100), MODELS_CHAT);
    assert_int_equal(gguf("bert", 100), MODELS_EMBED);
    assert_int_equal(gguf("nomic-bert", 1), MODELS_EMBED);
    assert_int_equal(gguf("bert", 4), MODELS_RERANK);
    assert_int_equal(gguf("qwen3", 3), MODELS_EMBED);
    assert_int_equal(gguf("qwen3", 4), MODELS_RERANK);
    assert_int_equal(gguf("qwen3", 0), MODELS_CHAT);
    assert_int_equal(gguf("qwen3", 77), MODELS_CHAT);
    assert_int_equal(gguf("gemma-embedding", 100), MODELS_EMBED);
}

TEST(unreadable_models_are_for_chat_unless_their_name_says_otherwise)
{
    assert_int_equal(models_task_find("a", "/nowhere", "gguf"), MODELS_CHAT);
    assert_int_equal(models_task_find("a", "/nowhere", "safetensors"), MODELS_CHAT);
    assert_int_equal(models_task_find("org/Qwen3-Reranker-0.6B", "/nowhere", "safetensors"),
                     MODELS_RERANK);
    ASSERT_STREQ(models_task_name(MODELS_EMBED), "embedding");
}

RUN_TESTS(cmocka_unit_test(architectures_tell_the_task),
          cmocka_unit_test(keys_of_gguf_files_tell_the_task),
          cmocka_unit_test(unreadable_models_are_for_chat_unless_their_name_says_otherwise))
