/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce render: prints the prompt that a chat template makes from messages
 */
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#include <infer/chat.h>

#include "cli/cli.h"
#include "cli/template-source.h"

static const char help[] =
    "Usage: sconce render -m MODEL [OPTION]... MESSAGES.json | -\n"
    "Prints the prompt that a model's chat template makes. MESSAGES.json is an array of\n"
    "messages, or an object like the body of a chat request: messages, tools, documents,\n"
    "add_generation_prompt and further variables of the template.\n\n"
    "  -m, --model MODEL    a model, a directory, a tokenizer_config.json or a .jinja file\n"
    "  --template NAME      a built-in template, such as chatml, or a file, in place of the\n"
    "                       model's own\n"
    "  --no-generation-prompt\n"
    "                       end after the last message, without the prefix of the answer\n"
    "  --tools FILE         a JSON array of tools\n"
    "  --set NAME=JSON      set a variable of the template, such as enable_thinking=false\n"
    "  --json               print the prompt as a JSON string\n" CLI_MODELS_HELP;

/* The input of one rendering, as JSON. */
struct render {
    json_t *messages, *tools, *documents, *kwargs;
    bool generation_prompt, json;
    struct template_source source;
};

static void render_done(struct render *r)
{
    json_decref(r->messages);
    json_decref(r->tools);
    json_decref(r->documents);
    json_decref(r->kwargs);
    template_source_done(&r->source);
}

static int render_load(const char *file, json_t **ret_json)
{
    _cleanup_free_ char *text = NULL;
    json_error_t error;
    size_t len;
    int r;

    r = cli_read("render", file, &text, &len);
    if (r != CLI_OK)
        return r;
    *ret_json = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!*ret_json)
        return cli_error("render", "%s:%d:%d: %s", file, error.line, error.column, error.text);
    return CLI_OK;
}

/* Removes from the body the values that --tools and --no-generation-prompt override, also those in
 * its "chat_template_kwargs". Variables of --set are in r->kwargs already; take_body() keeps them.
 */
static void drop_overridden(const struct render *r, json_t *body)
{
    json_t *kwargs = json_object_get(body, "chat_template_kwargs");

    if (r->tools) {
        json_object_del(body, "tools");
        json_object_del(kwargs, "tools");
    }
    if (!r->generation_prompt) {
        json_object_del(body, "add_generation_prompt");
        json_object_del(kwargs, "add_generation_prompt");
    }
}

/* Splits the body of a request into the named inputs of the template and other variables. */
static int take_body(struct render *r, json_t *body)
{
    const char *key;
    json_t *value;

    if (json_is_array(body)) {
        r->messages = json_incref(body);
        return CLI_OK;
    }
    if (!json_is_array(json_object_get(body, "messages")))
        return cli_error("render", "the input must be an array of messages or have \"messages\"");
    drop_overridden(r, body);
    json_object_foreach(body, key, value)
    {
        if (strcmp(key, "messages") == 0)
            r->messages = json_incref(value);
        else if (strcmp(key, "tools") == 0)
            r->tools = json_is_null(value) ? NULL : json_incref(value);
        else if (strcmp(key, "documents") == 0)
            r->documents = json_is_null(value) ? NULL : json_incref(value);
        else if (strcmp(key, "add_generation_prompt") == 0)
            r->generation_prompt = json_is_true(value);
        else if (strcmp(key, "chat_template_kwargs") == 0 && json_is_object(value))
            json_object_update_missing(r->kwargs, value);
        else if (!json_object_get(r->kwargs, key))
            json_object_set(r->kwargs, key, value);
    }
    return CLI_OK;
}

static int set_variable(struct render *r, const char *text)
{
    const char *eq = strchr(text, '=');
    _cleanup_free_ char *name = eq && eq > text ? strndup(text, (size_t)(eq - text)) : NULL;
    json_t *value =
        name ? json_loads(eq + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (name && !value)
        return cli_usage("render",
                         "--set %s: the value must be JSON, with quotes around a string: "
                         "--set '%s=\"text\"'",
                         text, name);
    if (!name || json_object_set_new(r->kwargs, name, value) < 0)
        return cli_usage("render", "--set %s: must be NAME=JSON", text);
    return CLI_OK;
}

static char *render_dump(const json_t *j)
{
    return j ? json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
}

static int render_print(struct render *r)
{
    _cleanup_free_ char *messages = render_dump(r->messages), *tools = render_dump(r->tools);
    _cleanup_free_ char *documents = render_dump(r->documents), *kwargs = render_dump(r->kwargs),
                        *text = NULL;
    const struct inf_chat_input input = {
        .messages = messages,
        .tools = tools,
        .documents = documents,
        .kwargs = kwargs,
        .bos_token = r->source.bos_token,
        .eos_token = r->source.eos_token,
        .unk_token = r->source.unk_token,
        .pad_token = r->source.pad_token,
        .add_generation_prompt = r->generation_prompt,
    };
    struct inf_err err;
    size_t len;

    if (inf_chat_render(r->source.tmpl, &input, &text, &len, &err) < 0)
        return cli_error("render", "%s", err.text);
    if (r->json) {
        json_t *j = json_stringn(text, len);
        const int bad = j ? json_dumpf(j, stdout, JSON_ENCODE_ANY) : -1;

        json_decref(j);
        putchar('\n');
        return bad ? CLI_FAILED : CLI_OK;
    }
    return fwrite(text, 1, len, stdout) == len ? CLI_OK : CLI_FAILED;
}

int verb_render(int argc, char **argv)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"tools", required_argument, NULL, 't'},
        {"template", required_argument, NULL, 'T'},
        {"set", required_argument, NULL, 's'},
        {"no-generation-prompt", no_argument, NULL, 'n'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    _cleanup_(render_done) struct render r = {.generation_prompt = true, .kwargs = json_object()};
    struct cli_models m = {0};
    const char *name = NULL, *template = NULL;
    json_t *body = NULL;
    int c, status = CLI_OK;

    while (status == CLI_OK && (c = getopt_long(argc, argv, "m:h", options, NULL)) >= 0) {
        if (c == 'm')
            name = optarg;
        else if (c == 't')
            status = r.tools ? cli_usage("render", "--tools is given twice")
                             : render_load(optarg, &r.tools);
        else if (c == 'T')
            template = optarg;
        else if (c == 's')
            status = set_variable(&r, optarg);
        else if (c == 'n')
            r.generation_prompt = false;
        else if (c == 'j')
            r.json = true;
        else if (c == 'h')
            return cli_help(help);
        else if (!cli_models_option(&m, c, optarg))
            status = cli_usage("render", "wrong option");
    }
    if (status != CLI_OK)
        return status;
    if (!name || optind + 1 != argc)
        return cli_usage("render", name ? "name one file with messages" : "-m MODEL is missing");
    status = render_load(argv[optind], &body);
    if (status == CLI_OK)
        status = take_body(&r, body);
    json_decref(body);
    if (status == CLI_OK)
        status = template_source_open("render", &m, name, template, &r.source);
    return status == CLI_OK ? render_print(&r) : status;
}
