/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the routes of the chat service that the gateway forwards.
 *
 * The service and the gateway both make their tables from this list. Each row is ROUTE(METHOD,
 * PATH, RIGHT, MATCH, ERRORS, HANDLER). RIGHT is the right that an API key must have. MATCH is
 * EXACT or PREFIX, which stands for ROUTE_EXACT or ROUTE_PREFIX. ERRORS is the format of errors:
 * `openai` stands for errors_openai (common/http/error-shape.h). HANDLER initializes the last field
 * of a struct model_route; the gateway ignores HANDLER.
 */

#define CHAT_ROUTES(ROUTE)                                                                         \
    ROUTE(POST, "/v1/chat/completions", INFER, EXACT, openai, .endpoint = &api_openai_chat)        \
    ROUTE(POST, "/v1/completions", INFER, EXACT, openai, .endpoint = &api_openai_completions)      \
    ROUTE(POST, "/v1/fim/completions", INFER, EXACT, openai, .endpoint = &api_mistral_fim)         \
    ROUTE(POST, "/v1/messages", INFER, EXACT, anthropic, .endpoint = &api_anthropic_messages)      \
    ROUTE(POST, "/v1/messages/count_tokens", INFER, EXACT, anthropic,                              \
          .endpoint = &api_anthropic_count)                                                        \
    ROUTE(POST, "/v1/responses", INFER, EXACT, responses, .endpoint = &api_responses)              \
    ROUTE(POST, "/responses", INFER, EXACT, responses, .endpoint = &api_responses)                 \
    ROUTE(POST, "/v1/responses/input_tokens", INFER, EXACT, openai,                                \
          .endpoint = &api_responses_count)                                                        \
    ROUTE(GET, "/v1/responses/", INFER, PREFIX, openai, .endpoint = &api_kept)                     \
    ROUTE(DELETE, "/v1/responses/", INFER, PREFIX, openai, .endpoint = &api_kept)                  \
    ROUTE(POST, "/v1/responses/", INFER, PREFIX, openai, .endpoint = &api_kept)                    \
    ROUTE(POST, "/v1/conversations", INFER, EXACT, openai, .endpoint = &api_kept)                  \
    ROUTE(GET, "/v1/conversations/", INFER, PREFIX, openai, .endpoint = &api_kept)                 \
    ROUTE(POST, "/v1/conversations/", INFER, PREFIX, openai, .endpoint = &api_kept)                \
    ROUTE(DELETE, "/v1/conversations/", INFER, PREFIX, openai, .endpoint = &api_kept)              \
    ROUTE(GET, "/v1/models", INFER, EXACT, openai, .answer = chat_list_models)                     \
    ROUTE(GET, "/v1/models/", INFER, PREFIX, openai, .answer = chat_show_model)                    \
    ROUTE(POST, "/v1/models/load", MANAGE, EXACT, openai, .endpoint = &api_models_load)            \
    ROUTE(POST, "/v1/models/unload", MANAGE, EXACT, openai, .endpoint = &api_models_unload)        \
    ROUTE(POST, "/v1/chat/completions/input_tokens", INFER, EXACT, openai,                         \
          .endpoint = &api_count_tokens)                                                           \
    ROUTE(POST, "/chat/completions/input_tokens", INFER, EXACT, llama,                             \
          .endpoint = &api_count_tokens)                                                           \
    ROUTE(POST, "/chat/completions", INFER, EXACT, llama, .endpoint = &api_llama_chat)             \
    ROUTE(POST, "/completion", INFER, EXACT, llama, .endpoint = &api_llama_completion)             \
    ROUTE(POST, "/completions", INFER, EXACT, llama, .endpoint = &api_llama_completion)            \
    ROUTE(POST, "/infill", INFER, EXACT, llama, .endpoint = &api_llama_infill)                     \
    ROUTE(GET, "/models", INFER, EXACT, llama, .answer = chat_list_models)                         \
    ROUTE(GET, "/props", INFER, EXACT, llama, .answer = chat_properties)                           \
    ROUTE(GET, "/slots", INFER, EXACT, llama, .answer = chat_slots)                                \
    ROUTE(POST, "/slots/", INFER, PREFIX, llama, .answer = chat_slot_action)                       \
    ROUTE(POST, "/tokenize", INFER, EXACT, openai, .endpoint = &api_tokenize)                      \
    ROUTE(POST, "/detokenize", INFER, EXACT, openai, .endpoint = &api_detokenize)                  \
    ROUTE(POST, "/apply-template", INFER, EXACT, openai, .endpoint = &api_apply_template)          \
    ROUTE(POST, "/api/chat", INFER, EXACT, ollama, .endpoint = &api_ollama_chat)                   \
    ROUTE(POST, "/api/generate", INFER, EXACT, ollama, .endpoint = &api_ollama_generate)           \
    ROUTE(GET, "/api/tags", INFER, EXACT, ollama, .answer = ollama_tags)                           \
    ROUTE(POST, "/api/show", INFER, EXACT, ollama, .answer = ollama_show)
