#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the OpenAPI description of the gateway's routes, as a C header or as JSON.

The routes come from the services' routes.h and from the gateway's own table. The fields of a body
come from the lists of names in the sources of its endpoint, so the description cannot forget one;
this file only adds their types.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent

# The lists of names that an endpoint takes, by the name of its structure. An endpoint that is not
# here has a body without a description of its fields.
FIELDS = {
    "api_openai_chat": ["openai_params_names", "openai_constraint_names", "chat_fields"],
    "api_llama_chat": ["openai_params_names", "openai_constraint_names", "chat_fields"],
    "api_count_tokens": ["openai_params_names", "openai_constraint_names", "chat_fields"],
    "api_openai_completions": ["openai_params_names", "openai_constraint_names",
                               "completions_fields"],
    "api_llama_completion": ["openai_params_names", "openai_constraint_names",
                             "llama-params.c:llama_fields"],
    "api_llama_infill": ["openai_params_names", "openai_constraint_names",
                         "llama-params.c:llama_fields", "llama-answer.c:more"],
    "api_tokenize": ["tokenize_fields"],
    "api_detokenize": ["detokenize_fields"],
    "api_apply_template": ["apply_template_fields"],
    "endpoint_embeddings": ["embeddings_fields"],
    "endpoint_embed": ["embed_fields"],
    "endpoint_embed_all": ["embed_all_fields"],
    "endpoint_llama_embeddings": ["embeddings.c:llama_fields"],
    "endpoint_rerank": ["rerank_fields"],
    "endpoint_cohere_rerank": ["cohere_fields"],
    "endpoint_score": ["score_fields"],
    "endpoint_similarity": ["similarity_fields"],
    "endpoint_v1_similarity": ["v1_fields"],
}
TYPES = {
    "boolean": "stream echo logprobs ignore_eos skip_special_tokens cache_prompt store add_special "
               "parse_special with_pieces add_generation_prompt continue_final_message "
               "return_documents raw_scores return_text normalize normalized return_multivector "
               "post_sampling_probs return_tokens backend_sampling penalize_nl "
               "timings_per_token return_progress verbose include_stop_str_in_output "
               "spaces_between_special_tokens parallel_tool_calls enable_thinking",
    "integer": "n max_tokens max_completion_tokens n_predict seed top_k repeat_last_n best_of "
               "top_logprobs dimensions top_n min_tokens truncate_prompt_tokens id_slot priority "
               "n_keep n_cmpl n_probs min_keep t_max_predict_ms t_max_prompt_ms n_indent n_discard "
               "n_cache_reuse sse_ping_interval mirostat dry_allowed_length dry_penalty_last_n "
               "embd_normalize thinking_budget reasoning_budget",
    "number": "temperature top_p min_p typical_p repetition_penalty repeat_penalty "
              "presence_penalty frequency_penalty dynatemp_range dynatemp_exponent top_n_sigma "
              "xtc_probability xtc_threshold mirostat_tau mirostat_eta dry_multiplier dry_base "
              "adaptive_target adaptive_decay",
    "string": "model user safety_identifier prompt_cache_key prompt_cache_retention verbosity "
              "request_id cache_salt kv_type service_tier suffix query task prompt_name "
              "instruction truncation_direction encoding_format embedding_type input_prefix "
              "input_suffix text_1 grammar guided_regex guided_grammar reasoning_effort",
    "object": "metadata stream_options chat_template_kwargs",
    "array": "messages tools documents dry_sequence_breakers samplers response_fields lora "
             "stop_token_ids tokens texts input_extra guided_choice functions",
}
BOOLEAN_OR_INTEGER = {"logprobs": {"type": ["boolean", "integer"]}}
ERRORS = ["400", "401", "403", "404", "405", "408", "413", "414", "415", "417", "429", "431",
          "500", "501", "502", "503", "504"]


def types():
    return {name: {"type": kind} for kind, names in TYPES.items() for name in names.split()} | \
        BOOLEAN_OR_INTEGER


def names_of(source):
    """Returns the words of a list of names in the sources; FILE:NAME or NAME."""
    file, _, name = source.rpartition(":")
    for path in sorted(HERE.glob("*/**/*.c")):
        if file and path.name != file:
            continue
        found = re.search(r"const char \*const (?:\*const )?%s\[\] = \{(.*?)\};" % name,
                          path.read_text(), re.S)
        if found:
            return re.findall(r'"([^"]+)"', found.group(1))
    return []


def routes():
    """Yields (method, path, is a prefix, format of errors, endpoint or None)."""
    handler = (HERE / "gateway/handler.c").read_text()
    own = re.search(r"own_routes\[\] = \{\n(.*?)^\};", handler, re.M | re.S).group(1)
    for path, method in re.findall(r'\{"([^"]+)", METHOD_(\w+)', own):
        yield method, path, False, "openai", None
    for file in sorted(HERE.glob("*/routes.h")):
        text = file.read_text().replace("\\\n", "\n")
        for method, path, match, errors, rest in re.findall(
                r'\bROUTE\((\w+),\s+"([^"]+)",\s+\w+,\s+(\w+),\s+(\w+),\s+([^)]*)\)', text):
            found = re.search(r"\.endpoint = &(\w+)", rest)
            yield method, path, match == "PREFIX", errors, found and found.group(1)


def body(endpoint):
    """Returns the schema of a body."""
    known = types()
    names = [n for source in FIELDS.get(endpoint, []) for n in names_of(source)]
    if not names:
        return {"type": "object"}
    properties = {n: {"anyOf": [known[n], {"type": "null"}]} if n in known else {} for n in names}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def operation(method, is_prefix, errors, endpoint):
    json_any = {"application/json": {"schema": {}}}
    answers = {"200": {"description": "the answer", "content": {
        **json_any, "text/event-stream": {"schema": {"type": "string"}},
        "text/plain": {"schema": {"type": "string"}}}}}
    for status in ERRORS:
        answers[status] = {"$ref": "#/components/responses/error_" + errors}
    op = {"responses": answers}
    if is_prefix:
        op["parameters"] = [{"name": "id", "in": "path", "required": True,
                             "schema": {"type": "string", "minLength": 1}}]
    if method == "POST":
        op["requestBody"] = {"required": True,
                             "content": {"application/json": {"schema": {
                                 "$ref": "#/components/schemas/" + (endpoint or "object")}}}}
    return op


def error(inner):
    """Returns the description of an error whose member `error` has the type @inner."""
    schema = {"type": "object", "required": ["error"], "properties": {"error": {"type": inner}}}
    return {"description": "an error", "content": {"application/json": {"schema": schema}}}


def describe(version):
    paths, bodies = {}, {"object": {"type": "object"}}
    for method, path, is_prefix, errors, endpoint in routes():
        name = path + "{id}" if is_prefix else path
        if endpoint:
            bodies[endpoint] = body(endpoint)
        paths.setdefault(name, {})[method.lower()] = operation(method, is_prefix, errors, endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sconce", "version": version,
                 "description": "docs/http-api.md explains the fields."},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": bodies,
            "responses": {"error_openai": error("object"), "error_llama": error("object"),
                          "error_anthropic": error("object"), "error_ollama": error("string"),
                          "error_tei": error("string")},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def main():
    """Takes the version, and the path of a file for the names of all files that were read."""
    text = json.dumps(describe(sys.argv[1]), separators=(",", ":"))
    if len(sys.argv) == 2:
        print(text)
        return
    files = [__file__, *HERE.glob("*/routes.h"), *HERE.glob("*/**/*.c")]
    pathlib.Path(sys.argv[2]).write_text(
        "openapi-text.h: %s\n" % " ".join(str(f).replace(" ", "\\ ") for f in files))
    print("/* Made by services/openapi.py. */\nstatic const char openapi_text[] =")
    for i in range(0, len(text), 80):
        print("    %s" % json.dumps(text[i:i + 80]))
    print("    ;")


if __name__ == "__main__":
    main()
