/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the configuration keys in a table, and applies YAML texts to a configuration (see
 * config.h).
 *
 * The table gives the section of each key, its type, its field in struct config, and its range; the
 * rest of the code is generic. libyaml reads the documents; every message begins with
 * file:line:column.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config/draft-kind.h"
#include "common/config/kv-type.h"
#include "common/config/table.h"
#include "core/err.h"
#include "core/text.h"

#define AT(field)    offsetof(struct config, field)
#define SECONDS(n)   ((uint64_t)(n)*1000000u)
#define MEBIBYTES(n) ((uint64_t)(n) << 20)
#define ANY_USEC     0, SECONDS(365 * 86400)

/* Each list has the words of one enumeration of config.h, in the order of its values. */
static const char *const tcp_access_choices[] = {"key", "open", NULL};
static const char *const unix_access_choices[] = {"open", "key", NULL};
static const char *const bool_choices[] = {"false", "true", NULL};
static const char *const canonical_choices[] = {"off", "claude-code", NULL};
static const char *const last_choices[] = {"auto", "false", "true", NULL};
static const char *const storage_choices[] = {"memory", "disk", NULL};
static const char *const landlock_choices[] = {"required", "optional", NULL};

/* Checks the form of a device's name (see <infer/device.h>). The service finds out at its start
 * whether the device exists. */
static const char *check_device(const char *text)
{
    static const char vulkan[] = "vulkan";
    const size_t n = sizeof(vulkan) - 1;

    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, vulkan) == 0)
        return NULL;
    if (strncmp(text, vulkan, n) == 0 && text[n] == ':' && text[n + 1] && strlen(text) < n + 5 &&
        strspn(text + n + 1, "0123456789") == strlen(text + n + 1))
        return NULL;
    return "auto, cpu, vulkan or vulkan:N";
}

static const char *check_kv_type(const char *text)
{
    return kv_type_valid(text) ? NULL : KV_TYPE_RULE;
}

static const char *check_draft_kind(const char *text)
{
    return draft_kind_valid(text) ? NULL : DRAFT_KIND_RULE;
}

static const char *check_directory(const char *text)
{
    return text[0] == '/' || text_starts_with(text, "~/")
               ? NULL
               : "an absolute path, or one that begins with \"~/\"";
}

/* Checks the URL of a server, to which paths are appended. */
static const char *check_https(const char *text)
{
    const char *host = text_after(text, "https://");

    return host && host[0] && strcspn(host, "?#@ ") == strlen(host) && !text_ends_with(host, "/")
               ? NULL
               : "a URL that begins with https:// and does not end with a slash";
}

static const char *check_proxy(const char *text)
{
    return text_starts_with(text, "http://") || text_starts_with(text, "https://") ||
                   text_starts_with(text, "socks5h://")
               ? NULL
               : "a URL that begins with http://, https:// or socks5h://";
}

static const char *check_host(const char *text)
{
    return strcspn(text, "/@?# ") == strlen(text) ? NULL : "a host, or HOST:PORT";
}

const struct config_key config_keys[] = {
    {"models", "directories", KEY_STRINGS, AT(model_dirs), AT(n_model_dirs), 0, 0, NULL,
     check_directory},
    {"models", "other_programs", KEY_STRINGS, AT(other_programs), AT(n_other_programs), 0, 0, NULL,
     config_check_program},
    {"models", "default", KEY_STRING, AT(default_model), 0, 0, 0},
    {"models", "max_keep_alive", KEY_USEC, AT(max_keep_alive_usec), 0, ANY_USEC},
    {"gateway", "api_keys", KEY_API_KEYS, AT(gateway.api_keys), 0, 0, 0},
    {"gateway", "cors_origins", KEY_STRINGS, AT(gateway.cors_origins), AT(gateway.n_cors_origins),
     0, 0},
    {"gateway", "page", KEY_CHOICE, AT(gateway.page), 0, 0, 0, bool_choices},
    {"gateway", "tcp_access", KEY_CHOICE, AT(gateway.tcp_access), 0, 0, 0, tcp_access_choices},
    {"gateway", "unix_access", KEY_CHOICE, AT(gateway.unix_access), 0, 0, 0, unix_access_choices},
    {"gateway", "max_body", KEY_BYTES, AT(gateway.max_body), 0, 1024, MEBIBYTES(4096)},
    {"gateway", "max_bodies", KEY_BYTES, AT(gateway.max_bodies), 0, MEBIBYTES(1),
     MEBIBYTES(1024 * 1024)},
    {"gateway", "max_header", KEY_BYTES, AT(gateway.max_header), 0, 1024, 400 * 1024},
    {"gateway", "max_connections", KEY_U32, AT(gateway.max_connections), 0, 1, 65536},
    {"gateway", "idle_timeout", KEY_USEC, AT(gateway.idle_timeout_usec), 0, ANY_USEC},
    {"gateway", "header_timeout", KEY_USEC, AT(gateway.header_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"gateway", "body_timeout", KEY_USEC, AT(gateway.body_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"gateway", "keepalive_timeout", KEY_USEC, AT(gateway.keepalive_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"gateway", "backend_timeout", KEY_USEC, AT(gateway.backend_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"gateway", "stall_timeout", KEY_USEC, AT(gateway.stall_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"gateway", "probe_interval", KEY_USEC, AT(gateway.probe_interval_usec), 0, 100000,
     SECONDS(3600)},
    {"chat", "device", KEY_STRING, AT(chat.device), 0, 0, 0, NULL, check_device},
    {"chat", "device_memory", KEY_BYTES, AT(chat.device_memory), 0, 0, UINT64_MAX / 2},
    {"chat", "isa", KEY_STRING, AT(chat.isa), 0, 0, 0},
    {"chat", "threads", KEY_U32, AT(chat.threads), 0, 0, 1024},
    {"chat", "context", KEY_U32, AT(chat.context), 0, 0, 1u << 24},
    {"chat", "max_sequences", KEY_U32, AT(chat.max_sequences), 0, 1, 1024},
    {"chat", "max_queue", KEY_U32, AT(chat.max_queue), 0, 1, 1u << 20},
    {"chat", "max_batch_tokens", KEY_U32, AT(chat.max_batch_tokens), 0, 32, 16384},
    {"chat", "kv_type", KEY_STRING, AT(chat.kv_type), 0, 0, 0, NULL, check_kv_type},
    {"chat", "kv_memory", KEY_BYTES, AT(chat.kv_memory), 0, 0, UINT64_MAX / 2},
    {"chat", "prefix_cache", KEY_CHOICE, AT(chat.prefix_cache), 0, 0, 0, bool_choices},
    {"chat", "canonical_prompts", KEY_CHOICE, AT(chat.canonical_prompts), 0, 0, 0,
     canonical_choices},
    {"chat", "grammars", KEY_U32, AT(chat.grammars), 0, 0, 4096},
    {"chat", "grammar_texts", KEY_BYTES, AT(chat.grammar_texts), 0, 0, UINT64_MAX / 2},
    {"chat", "grammar_memory", KEY_BYTES, AT(chat.grammar_memory), 0, 1u << 20, 1ull << 40},
    {"chat", "memory", KEY_BYTES, AT(chat.memory), 0, 0, UINT64_MAX / 2},
    {"chat", "max_models", KEY_U32, AT(chat.max_models), 0, 1, 64},
    {"chat", "max_tokens", KEY_U32, AT(chat.max_tokens), 0, 0, 1u << 24},
    {"chat", "most_tokens", KEY_U32, AT(chat.most_tokens), 0, 0, 1u << 24},
    {"chat", "template_timeout", KEY_USEC, AT(chat.template_timeout_usec), 0, ANY_USEC},
    {"chat", "idle_timeout", KEY_USEC, AT(chat.idle_timeout_usec), 0, ANY_USEC},
    {"chat", "request_timeout", KEY_USEC, AT(chat.request_timeout_usec), 0, ANY_USEC},
    {"speculative", "kind", KEY_STRING, AT(speculative.kind), 0, 0, 0, NULL, check_draft_kind},
    {"speculative", "model", KEY_STRING, AT(speculative.model), 0, 0, 0},
    {"speculative", "max_tokens", KEY_U32, AT(speculative.max_tokens), 0, 1, INF_DRAFT_MAX},
    {"sampling", "seed", KEY_U32, AT(seed), 0, 0, UINT32_MAX},
    {"sampling", "temperature_last", KEY_CHOICE, AT(temperature_last), 0, 0, 0, last_choices},
    {"sampling", "temperature", KEY_SAMPLING, AT(sampling), SAMPLING_TEMPERATURE, 0, 0},
    {"sampling", "top_k", KEY_SAMPLING, AT(sampling), SAMPLING_TOP_K, 0, 0},
    {"sampling", "top_p", KEY_SAMPLING, AT(sampling), SAMPLING_TOP_P, 0, 0},
    {"sampling", "min_p", KEY_SAMPLING, AT(sampling), SAMPLING_MIN_P, 0, 0},
    {"sampling", "typical_p", KEY_SAMPLING, AT(sampling), SAMPLING_TYPICAL_P, 0, 0},
    {"sampling", "repetition_penalty", KEY_SAMPLING, AT(sampling), SAMPLING_REPETITION_PENALTY, 0,
     0},
    {"sampling", "repeat_last_n", KEY_SAMPLING, AT(sampling), SAMPLING_REPEAT_LAST_N, 0, 0},
    {"sampling", "presence_penalty", KEY_SAMPLING, AT(sampling), SAMPLING_PRESENCE_PENALTY, 0, 0},
    {"sampling", "frequency_penalty", KEY_SAMPLING, AT(sampling), SAMPLING_FREQUENCY_PENALTY, 0, 0},
    {"sampling", "dynatemp_range", KEY_SAMPLING, AT(sampling), SAMPLING_DYNATEMP_RANGE, 0, 0},
    {"sampling", "dynatemp_exponent", KEY_SAMPLING, AT(sampling), SAMPLING_DYNATEMP_EXPONENT, 0, 0},
    {"sampling", "top_n_sigma", KEY_SAMPLING, AT(sampling), SAMPLING_TOP_N_SIGMA, 0, 0},
    {"sampling", "xtc_probability", KEY_SAMPLING, AT(sampling), SAMPLING_XTC_PROBABILITY, 0, 0},
    {"sampling", "xtc_threshold", KEY_SAMPLING, AT(sampling), SAMPLING_XTC_THRESHOLD, 0, 0},
    {"sampling", "mirostat", KEY_SAMPLING, AT(sampling), SAMPLING_MIROSTAT, 0, 0},
    {"sampling", "mirostat_tau", KEY_SAMPLING, AT(sampling), SAMPLING_MIROSTAT_TAU, 0, 0},
    {"sampling", "mirostat_eta", KEY_SAMPLING, AT(sampling), SAMPLING_MIROSTAT_ETA, 0, 0},
    {"sampling", "dry_multiplier", KEY_SAMPLING, AT(sampling), SAMPLING_DRY_MULTIPLIER, 0, 0},
    {"sampling", "dry_base", KEY_SAMPLING, AT(sampling), SAMPLING_DRY_BASE, 0, 0},
    {"sampling", "dry_allowed_length", KEY_SAMPLING, AT(sampling), SAMPLING_DRY_ALLOWED_LENGTH, 0,
     0},
    {"sampling", "dry_penalty_last_n", KEY_SAMPLING, AT(sampling), SAMPLING_DRY_PENALTY_LAST_N, 0,
     0},
    {"embed", "default_model", KEY_STRING, AT(embed.default_model), 0, 0, 0},
    {"embed", "default_reranker", KEY_STRING, AT(embed.default_reranker), 0, 0, 0},
    {"embed", "isa", KEY_STRING, AT(embed.isa), 0, 0, 0},
    {"embed", "threads", KEY_U32, AT(embed.threads), 0, 0, 1024},
    {"embed", "context", KEY_U32, AT(embed.context), 0, 0, 1u << 17},
    {"embed", "max_texts", KEY_U32, AT(embed.max_texts), 0, 1, 65536},
    {"embed", "max_token_vectors", KEY_BYTES, AT(embed.max_token_vectors), 0, 1024,
     MEBIBYTES(4096)},
    {"embed", "max_queue", KEY_U32, AT(embed.max_queue), 0, 1, 1u << 20},
    {"embed", "max_queue_tokens", KEY_U32, AT(embed.max_queue_tokens), 0, 1024, 1u << 30},
    {"embed", "max_models", KEY_U32, AT(embed.max_models), 0, 1, 64},
    {"embed", "idle_timeout", KEY_USEC, AT(embed.idle_timeout_usec), 0, ANY_USEC},
    {"embed", "request_timeout", KEY_USEC, AT(embed.request_timeout_usec), 0, ANY_USEC},
    {"audio", "default_model", KEY_STRING, AT(audio.default_model), 0, 0, 0},
    {"audio", "vad_model", KEY_STRING, AT(audio.vad_model), 0, 0, 0},
    {"audio", "isa", KEY_STRING, AT(audio.isa), 0, 0, 0},
    {"audio", "threads", KEY_U32, AT(audio.threads), 0, 0, 1024},
    {"audio", "max_body", KEY_BYTES, AT(audio.max_body), 0, 1024, MEBIBYTES(4096)},
    {"audio", "max_seconds", KEY_U32, AT(audio.max_seconds), 0, 0, 1u << 24},
    {"audio", "max_running", KEY_U32, AT(audio.max_running), 0, 1, 32},
    {"audio", "max_queue", KEY_U32, AT(audio.max_queue), 0, 1, 32},
    {"audio", "max_models", KEY_U32, AT(audio.max_models), 0, 1, 64},
    {"audio", "idle_timeout", KEY_USEC, AT(audio.idle_timeout_usec), 0, ANY_USEC},
    {"audio", "request_timeout", KEY_USEC, AT(audio.request_timeout_usec), 0, ANY_USEC},
    {"cache", "enabled", KEY_CHOICE, AT(cache.enabled), 0, 0, 0, bool_choices},
    {"cache", "directory", KEY_STRING, AT(cache.directory), 0, 0, 0, NULL, check_directory},
    {"cache", "max_bytes", KEY_BYTES, AT(cache.max_bytes), 0, 0, UINT64_MAX / 2},
    {"cache", "tenant_max_bytes", KEY_BYTES, AT(cache.tenant_max_bytes), 0, 0, UINT64_MAX / 2},
    {"cache", "min_free", KEY_BYTES, AT(cache.min_free), 0, 0, UINT64_MAX / 2},
    {"cache", "idle_timeout", KEY_USEC, AT(cache.idle_timeout_usec), 0, ANY_USEC},
    {"keep", "storage", KEY_CHOICE, AT(keep.storage), 0, 0, 0, storage_choices},
    {"keep", "expiry", KEY_USEC, AT(keep.expiry_usec), 0, SECONDS(1), SECONDS(400 * 86400)},
    {"keep", "max_bytes", KEY_BYTES, AT(keep.max_bytes), 0, 1024, MEBIBYTES(1024 * 1024)},
    {"keep", "max_total_bytes", KEY_BYTES, AT(keep.max_total_bytes), 0, 1024,
     MEBIBYTES(1024 * 1024)},
    {"keep", "idle_timeout", KEY_USEC, AT(keep.idle_timeout_usec), 0, ANY_USEC},
    {"history", "enabled", KEY_CHOICE, AT(history.enabled), 0, 0, 0, bool_choices},
    {"history", "retention", KEY_USEC, AT(history.retention_usec), 0, SECONDS(86400),
     SECONDS(3660 * 86400ull)},
    {"history", "max_bytes", KEY_BYTES, AT(history.max_bytes), 0, MEBIBYTES(1), MEBIBYTES(1024)},
    {"history", "idle_timeout", KEY_USEC, AT(history.idle_timeout_usec), 0, ANY_USEC},
    {"store", "max_pulls", KEY_U32, AT(store.max_pulls), 0, 1, 256},
    {"store", "max_uploads", KEY_BYTES, AT(store.max_uploads), 0, 0, 1ull << 50},
    {"store", "idle_timeout", KEY_USEC, AT(store.idle_timeout_usec), 0, ANY_USEC},
    {"pull", "mirror", KEY_STRING, AT(pull.mirror), 0, 0, 0, NULL, check_https},
    {"pull", "ollama_mirror", KEY_STRING, AT(pull.ollama_mirror), 0, 0, 0, NULL, check_https},
    {"pull", "proxy", KEY_STRING, AT(pull.proxy), 0, 0, 0, NULL, check_proxy},
    {"pull", "certificates", KEY_STRING, AT(pull.certificates), 0, 0, 0, NULL, check_directory},
    {"pull", "token_file", KEY_STRING, AT(pull.token_file), 0, 0, 0, NULL, check_directory},
    {"pull", "token_host", KEY_STRING, AT(pull.token_host), 0, 0, 0, NULL, check_host},
    {"pull", "connections", KEY_U32, AT(pull.connections), 0, 1, 8},
    {"confinement", "landlock", KEY_CHOICE, AT(confinement.landlock), 0, 0, 0, landlock_choices},
};

const size_t config_n_keys = ARRAY_SIZE(config_keys);

static const struct config_key *key_find(const char *section, const char *name, bool *ret_section)
{
    *ret_section = false;
    for (size_t i = 0; i < config_n_keys; i++) {
        if (strcmp(config_keys[i].section, section) != 0)
            continue;
        *ret_section = true;
        if (name && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    }
    return NULL;
}

static int apply_section(const struct yaml_source *s, const char *section, const yaml_node_t *map,
                         struct config *config)
{
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key_node = yaml_document_get_node(s->doc, p->key);
        const char *name = yaml_source_scalar(key_node);
        bool known;
        const struct config_key *key = name ? key_find(section, name, &known) : NULL;
        int r;

        if (!key)
            return yaml_source_bad(s, key_node, "unknown key \"%s.%s\"", section,
                                   name ? name : "?");
        if (yaml_source_is_double(s, map, p))
            return yaml_source_bad(s, key_node, "\"%s.%s\" is given twice", section, name);
        r = config_set(s, key, yaml_document_get_node(s->doc, p->value), config);
        if (r < 0)
            return r;
    }
    return 0;
}

static int bad_section(const struct yaml_source *s, const yaml_node_t *node, const char *section)
{
    char names[256] = "";
    size_t len = 0;

    for (size_t i = 0; i < config_n_keys && len < sizeof(names); i++)
        if (i == 0 || strcmp(config_keys[i].section, config_keys[i - 1].section) != 0)
            len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i ? ", " : "",
                                    config_keys[i].section);
    return yaml_source_bad(s, node, "unknown section \"%s\"; the sections are %s",
                           section ? section : "?", names);
}

/* Applies the root node of a file to the struct config @data. */
static int apply_document(const struct yaml_source *s, const yaml_node_t *root, void *data)
{
    if (!root || yaml_source_is_null(root))
        return 0;
    if (root->type != YAML_MAPPING_NODE)
        return yaml_source_bad(s, root, "the file must be a mapping of sections");
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key_node = yaml_document_get_node(s->doc, p->key);
        const yaml_node_t *value = yaml_document_get_node(s->doc, p->value);
        const char *section = yaml_source_scalar(key_node);
        bool known = false;
        int r;

        if (section)
            key_find(section, NULL, &known);
        if (!known)
            return bad_section(s, key_node, section);
        if (yaml_source_is_double(s, root, p))
            return yaml_source_bad(s, key_node, "section \"%s\" is given twice", section);
        if (yaml_source_is_null(value))
            continue;
        if (value->type != YAML_MAPPING_NODE)
            return yaml_source_bad(s, value, "section \"%s\" must be a mapping", section);
        r = apply_section(s, section, value, data);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_apply(struct config *config, const char *name, const char *text, size_t len,
                 struct inf_err *reterr)
{
    return yaml_source_read(name, text, len, apply_document, config, reterr);
}
