#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the OpenAPI description of the gateway's routes, as a C header or as JSON.

The routes come from the services' routes.h and from the gateway's own table. The C code of an
endpoint has the names of the fields of its request body in arrays, with which it checks the body. This
script reads these arrays, so the description has every field. Only the types are in this script.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent

# This table says where the names of the fields of a request body are. A key is the name of the C
# structure of an endpoint, or the method and path of a route. names_of() explains the values. If an
# endpoint is not in this table, its body is described as an object of unknown fields.
FIELDS = {
    "api_anthropic_messages": ["anthropic-params.c:body_fields"],
    "api_anthropic_count": ["anthropic-params.c:body_fields"],
    "api_responses": ["openai_params_names", "openai_constraint_names",
                      "responses-body.c:body_fields"],
    "api_responses_count": ["openai_params_names", "openai_constraint_names",
                            "responses-body.c:body_fields"],
    "api_ollama_chat": ["shared_fields", "ollama-chat.c:fields"],
    "api_ollama_generate": ["shared_fields", "ollama-generate.c:fields"],
    "POST /api/show": ["ollama-show.c:fields"],
    "POST /api/pull": ["pull_fields"],
    "DELETE /api/delete": ["delete_fields"],
    "POST /api/copy": ["copy_fields"],
    "POST /api/create": ["create_fields"],
    "POST /v1/conversations": ["conversations.c:names"],
    "POST /v1/conversations/{id}": ["=metadata"],
    "POST /v1/conversations/{id}/items": ["conversations.c:item_names"],
    "api_openai_chat": ["openai_params_names", "openai_constraint_names", "chat_fields"],
    "api_llama_chat": ["openai_params_names", "openai_constraint_names", "chat_fields"],
    "api_count_tokens": ["openai_params_names", "openai_constraint_names", "chat_fields"],
    "api_openai_completions": ["openai_params_names", "openai_constraint_names",
                               "completions_fields"],
    "api_mistral_fim": ["openai_params_names", "openai_constraint_names", "mistral_fim_fields"],
    "api_llama_completion": ["openai_params_names", "openai_constraint_names",
                             "llama-params.c:llama_fields"],
    "api_llama_infill": ["openai_params_names", "openai_constraint_names",
                         "llama-params.c:llama_fields", "llama-answer.c:more"],
    "api_models_load": ["load_fields"],
    "api_models_unload": ["unload_fields"],
    "api_tokenize": ["tokenize_fields"],
    "api_detokenize": ["detokenize_fields"],
    "api_apply_template": ["apply_template_fields"],
    "endpoint_embeddings": ["embeddings.c:embeddings_fields"],
    "endpoint_embed": ["embeddings.c:embed_fields"],
    "endpoint_embed_all": ["embed_all_fields"],
    "endpoint_ollama_embed": ["ollama-embed.c:embed_fields"],
    "endpoint_ollama_embeddings": ["ollama-embed.c:embeddings_fields"],
    "endpoint_llama_embeddings": ["embeddings.c:llama_fields"],
    "endpoint_rerank": ["rerank_fields"],
    "endpoint_cohere_rerank": ["cohere_fields"],
    "endpoint_score": ["score_fields"],
    "endpoint_similarity": ["similarity_fields"],
    "endpoint_v1_similarity": ["v1_fields"],
}
# Some rows in the tables of routes have a prefix in place of a path: one endpoint answers all paths that
# begin with the prefix. This table lists these paths for each prefix, without the prefix.
BELOW = {
    "GET /v1/responses/": ["{id}", "{id}/input_items"],
    "DELETE /v1/responses/": ["{id}"],
    "POST /v1/responses/": ["{id}/cancel"],
    "GET /v1/conversations/": ["{id}", "{id}/items", "{id}/items/{item_id}"],
    "POST /v1/conversations/": ["{id}", "{id}/items"],
    "DELETE /v1/conversations/": ["{id}", "{id}/items/{item_id}"],
}
TYPES = {
    "boolean": "stream echo logprobs ignore_eos skip_special_tokens cache_prompt store add_special "
               "parse_special with_pieces add_generation_prompt continue_final_message "
               "return_documents raw_scores return_text normalize normalized return_multivector "
               "post_sampling_probs return_tokens backend_sampling penalize_nl "
               "timings_per_token return_progress verbose include_stop_str_in_output "
               "spaces_between_special_tokens parallel_tool_calls enable_thinking raw shift "
               "truncate background vad_filter insecure",
    "integer": "n max_tokens max_completion_tokens n_predict seed random_seed top_k repeat_last_n "
               "best_of top_logprobs dimensions top_n min_tokens truncate_prompt_tokens id_slot priority "
               "n_keep n_cmpl n_probs min_keep t_max_predict_ms t_max_prompt_ms n_indent n_discard "
               "n_cache_reuse sse_ping_interval mirostat dry_allowed_length dry_penalty_last_n "
               "embd_normalize thinking_budget reasoning_budget max_output_tokens max_tool_calls "
               "beam_size limit speculative.n_max speculative.n_min",
    "number": "temperature top_p min_p typical_p repetition_penalty repeat_penalty "
              "presence_penalty frequency_penalty dynatemp_range dynatemp_exponent top_n_sigma "
              "xtc_probability xtc_threshold mirostat_tau mirostat_eta dry_multiplier dry_base "
              "adaptive_target adaptive_decay speculative.p_min",
    "string": "model user safety_identifier prompt_cache_key prompt_cache_retention verbosity "
              "request_id cache_salt kv_type service_tier suffix query task prompt_name "
              "instruction truncation_direction encoding_format embedding_type input_prefix "
              "input_suffix text_1 grammar guided_regex guided_grammar reasoning_effort "
              "instructions truncation previous_response_id name hotwords language after order source destination from template quantize",
    "object": "metadata stream_options chat_template_kwargs thinking options text reasoning "
              "output_config client_metadata cache_control files adapters parameters",
    "array": "messages tools documents dry_sequence_breakers samplers response_fields lora "
             "stop_token_ids tokens texts input_extra guided_choice functions stop_sequences "
             "context images include items mcp_servers",
}
# These types replace the types that TYPES gives to the same names.
OTHER_TYPES = {"logprobs": {"type": ["boolean", "integer"]},
               "cache_control": {"type": "object", "properties": {"type": {"type": "string"}}}}
STATUSES = ["400", "401", "403", "404", "405", "408", "413", "414", "415", "417", "429", "431",
            "500", "501", "502", "503", "504", "505", "507"]
EVENTS, LINES, PLAIN, HTML = "text/event-stream", "application/x-ndjson", "text/plain", "text/html"
JSON_TYPE = "application/json"
# The formats that consist of JSON values. Their schema describes the whole body, or each item of a
# stream. In the other formats, a body is described as a string.
ITEMS = (JSON_TYPE, EVENTS, LINES)
# The formats of answers with the status 200, by the name of the endpoint or by the path. All other
# routes answer with JSON, and those with the method POST also with a stream of events.
FORMATS = {"api_ollama_chat": [JSON_TYPE, LINES], "api_ollama_generate": [JSON_TYPE, LINES],
           "transcribe": [JSON_TYPE, EVENTS, PLAIN, "text/vtt", "application/x-subrip"],
           "translate": [JSON_TYPE, EVENTS, PLAIN, "text/vtt", "application/x-subrip"],
           "/api/pull": [JSON_TYPE, LINES], "/api/copy": [JSON_TYPE], "/api/create": [JSON_TYPE, LINES], "/api/delete": [JSON_TYPE],
           "/metrics": [PLAIN], "/": [PLAIN, HTML], "/page/{id}": [HTML, "text/css", "text/javascript"]}
ANY_METHOD = ["POST", "DELETE"]
# The path below which files are uploaded. Its answers have no content.
UPLOADS = "/api/blobs/{id}"


def types():
    return {name: {"type": kind} for kind, names in TYPES.items() for name in names.split()} | \
        OTHER_TYPES


def names_of(source):
    """Returns the list of names to which @source refers.

    "NAME" is a C array of strings in any file of the services. "FILE:NAME" is such an array in a file
    with the name FILE. "=A B" has the names themselves, here A and B.
    """
    if source.startswith("="):
        return source[1:].split()
    file, _, name = source.rpartition(":")
    for path in sorted(HERE.glob("*/**/*.c")):
        if file and path.name != file:
            continue
        found = re.search(r"const char \*const (?:\*const )?%s\[\] = \{(.*?)\};" % name,
                          path.read_text(), re.S)
        if found:
            return re.findall(r'"([^"]+)"', found.group(1).split("}")[0])
    return []


def rows():
    """Yields a tuple for each row in the tables of routes.

    The tuple has the method, the path, whether the path is a prefix, the format of errors, and the name
    of the endpoint or None.
    """
    handler = (HERE / "gateway/handler.c").read_text()
    own = re.search(r"own_routes\[\] = \{\n(.*?)^\};", handler, re.M | re.S).group(1)
    for path, method, rest in re.findall(r'\{"([^"]+)", METHOD_(\w+),(.*?)\},\n', own, re.S):
        errors = re.search(r"\.errors = &errors_(\w+)", rest)
        # The path / has two rows: one for Ollama's port and one for all other sockets. Only the other
        # row is described.
        if "only_ollama" in rest:
            continue
        for one in ANY_METHOD if method == "ANY" else [method]:
            yield (one, path, "is_prefix" in rest, errors.group(1) if errors else "openai", None)
    for file in sorted(HERE.glob("*/routes.h")):
        text = file.read_text().replace("\\\n", "\n")
        for method, path, match, errors, rest in re.findall(
                r'\bROUTE\((\w+),\s+"([^"]+)",\s+\w+,\s+(\w+),\s+(\w+),\s+([^)]*)\)', text):
            found = re.search(r"\.endpoint = &(\w+)", rest)
            yield method, path, match in ("PREFIX", "UPLOAD"), errors, found and found.group(1)


def routes():
    """Yields a tuple for each route.

    The tuple has the method, the path with its parameters in braces, the format of errors, and the name
    of the endpoint or None.
    """
    for method, path, is_prefix, errors, endpoint in rows():
        below = BELOW.get(method + " " + path, ["{id}"]) if is_prefix else [""]
        for rest in below:
            yield method, path + rest, errors, endpoint


def properties(names):
    known = types()
    return {n: {"anyOf": [known[n], {"type": "null"}]} if n in known else {} for n in names}


def body(key):
    """Returns the schema of a JSON body."""
    names = [n for source in FIELDS.get(key, []) for n in names_of(source)]
    if not names:
        return {"type": "object"}
    return {"type": "object", "properties": properties(names), "additionalProperties": False}


def form():
    """Returns the schema of a form with a sound file."""
    text = (HERE / "audio/form.c").read_text()
    table = re.search(r"form_field fields\[\] = \{\n(.*?)^\};", text, re.M | re.S).group(1)
    known = types()
    fields = {n: known.get(n, {"type": "string"}) for n in re.findall(r'\{"([^"]+)"', table)}
    return {"type": "object", "required": ["file"],
            "properties": {"file": {"type": "string", "format": "binary"}, **fields}}


def parameters(path):
    """Returns the parameters of a path and of its query."""
    found = [{"name": name, "in": "path", "required": True,
              "schema": {"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9_.-]+$"}}
             for name in re.findall(r"\{(\w+)\}", path)]
    query = {"/health": ["deep"], "/props": ["model"], "/slots": ["model"]}.get(path, [])
    if path.endswith("/input_items") or path.endswith("/items"):
        query = ["after", "limit", "order"]
    return found + [{"name": name, "in": "query", "schema": types().get(name, {"type": "string"})}
                    for name in query]


def request_body(method, path, endpoint, bodies):
    """Returns the description of a request body, and adds the schema of the body to @bodies."""
    kind, key = "application/json", method + " " + path
    if path == UPLOADS:
        kind, name, schema = "application/octet-stream", "file", {"type": "string", "format": "binary"}
    elif endpoint in ("transcribe", "translate"):
        kind, name, schema = "multipart/form-data", "audio_form", form()
    elif key in FIELDS:
        name, schema = re.sub(r"\W+", "_", key.lower()).strip("_"), body(key)
    elif endpoint in FIELDS:
        name, schema = endpoint, body(endpoint)
    else:
        name, schema = "object", {"type": "object"}
    bodies[name] = schema
    return {"required": True,
            "content": {kind: {"schema": {"$ref": "#/components/schemas/" + name}}}}


def errors_of(errors, endpoint):
    """Returns the name of the description of the errors of a route with the format @errors.

    The endpoint for rankings accepts bodies of two APIs. Its errors have the format of the API of the
    body, so they can have either format.
    """
    if endpoint == "endpoint_rerank":
        return "error_any"
    return "error_" + errors


def operation(method, path, errors, endpoint, bodies):
    formats = FORMATS.get(endpoint) or FORMATS.get(path) or \
        ([JSON_TYPE, EVENTS] if method == "POST" else [JSON_TYPE])
    answers = {"200": {"description": "the answer", "content": {
        f: {"schema": {} if f in ITEMS else {"type": "string"}} for f in formats}}}
    if path == UPLOADS:
        answers = {status: {"description": "the file is there"} for status in ("200", "201")}
    for status in STATUSES:
        answers[status] = {"$ref": "#/components/responses/" + errors_of(errors, endpoint)}
    op = {"responses": answers}
    if parameters(path):
        op["parameters"] = parameters(path)
    # A request that deletes has a body if its path does not name what it deletes.
    if (method == "POST" and not path.endswith("/cancel")) or method + " " + path in FIELDS:
        op["requestBody"] = request_body(method, path, endpoint, bodies)
    return op


def error(required, **types_of):
    """Returns the description of an error whose members have the types @types_of."""
    schema = {"type": "object", "required": required,
              "properties": {name: {"type": kind} for name, kind in types_of.items()}}
    return {"description": "an error", "content": {"application/json": {"schema": schema}}}


def describe(version):
    paths, bodies = {}, {}
    for method, path, errors, endpoint in routes():
        paths.setdefault(path, {})[method.lower()] = operation(method, path, errors, endpoint,
                                                               bodies)
    object_error = error(["error"], error="object")
    string_error = error(["error"], error="string")
    return {
        "openapi": "3.1.0",
        "info": {"title": "sconce", "version": version,
                 "description": "docs/http-api.md explains the fields."},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": bodies,
            "responses": {"error_openai": object_error, "error_llama": object_error,
                          "error_responses": object_error,
                          "error_anthropic": error(["type", "error"], type="string",
                                                   error="object"),
                          "error_ollama": string_error, "error_tei": string_error,
                          "error_any": error(["error"], error=["object", "string"])},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def main():
    """Prints the description. The first argument is the version of sconce.

    Without a second argument, the description is printed as JSON. The second argument is the path of a
    dependency file for the build: the script then prints a C header, and writes the names of all files
    that it has read to that file.
    """
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
