/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce ps: lists the models in memory; sconce stop: unloads models
 *
 * Both verbs send requests to the gateway, on routes that any client can use.
 */
#include <getopt.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/suite/http-get.h"
#include "core/text.h"

static const char help_ps[] = "Usage: sconce ps [--json] [--address WHERE] [--key KEY]\n"
                              "Lists the models in memory.\n\n"
                              "  --address WHERE      use the gateway at " HTTP_ADDRESS_FORMS "\n"
                              "                       (default: the user's, else the system's)\n"
                              "  --key KEY            API key (default: $SCONCE_API_KEY)\n"
                              "  --json               print a JSON object\n";
static const char help_stop[] =
    "Usage: sconce stop [--json] [--address WHERE] [--key KEY] MODEL...\n"
    "Unloads models from memory, pinned ones too. A model that answers\n"
    "requests is unloaded after the last of them.\n\n"
    "  --address WHERE      use the gateway at " HTTP_ADDRESS_FORMS "\n"
    "                       (default: the user's, else the system's)\n"
    "  --key KEY            API key (default: $SCONCE_API_KEY)\n"
    "  --json               print a JSON object\n";

enum {
    PS_SECONDS = 60,
    PS_SECONDS_A_YEAR = 365 * 86400,
};

/* The gateway that a verb asks. */
struct ps_options {
    const char *verb, *address, *key;
    char *found; /* the address, if it was not given */
    bool json;
};

/* Parses the options of both verbs. Returns true if the verb goes on, else false with the exit
 * status in *ret_status. */
static bool ps_begin(struct ps_options *o, const char *help, int argc, char **argv, int *ret_status)
{
    static const struct option options[] = {
        {"address", required_argument, NULL, 'a'},
        {"key", required_argument, NULL, 'k'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int c;

    *ret_status = CLI_OK;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'a' && http_address_is_good(optarg))
            o->address = optarg;
        else if (c == 'k')
            o->key = optarg;
        else if (c == 'j')
            o->json = true;
        else if (c == 'h')
            *ret_status = cli_help(help);
        else
            *ret_status = cli_usage(o->verb, c == 'a' ? "--address must be " HTTP_ADDRESS_FORMS
                                                      : "wrong option");
        if (c == 'h' || *ret_status != CLI_OK)
            return false;
    }
    if (!o->key)
        o->key = getenv("SCONCE_API_KEY");
    if (!o->address)
        o->address = o->found = cli_find_gateway();
    if (!o->address)
        *ret_status = cli_error(o->verb, "out of memory");
    return *ret_status == CLI_OK;
}

/* Sends a GET, or a POST of @json if that is not NULL. *ret_status: the HTTP status. Returns the
 * answer, or NULL after printing an error. */
static json_t *ps_ask(const struct ps_options *o, const char *path, const char *json,
                      int *ret_status)
{
    _cleanup_str_ struct str body = {0};
    struct inf_err err = {0};
    json_t *answer;
    const int r = json ? http_post(o->address, path, o->key, json, PS_SECONDS, &body, &err)
                       : http_get(o->address, path, o->key, &body, &err);

    if (r < 0) {
        if (!cli_tell_no_gateway(o->verb, o->address, r))
            cli_error(o->verb, "%s: %s", o->address, err.text[0] ? err.text : strerror(-r));
        return NULL;
    }
    *ret_status = r;
    answer = json_loadb(body.data ? body.data : "", body.len, 0, NULL);
    if (!json_is_object(answer)) {
        json_decref(answer);
        cli_error(o->verb, "%s answered with status %d, and not with a JSON object", o->address, r);
        return NULL;
    }
    return answer;
}

/* Prints the message of an error; returns CLI_FAILED. */
static int ps_tell(const struct ps_options *o, const json_t *answer)
{
    const json_t *error = json_object_get(answer, "error");
    const char *text =
        json_string_value(json_is_object(error) ? json_object_get(error, "message") : error);

    return cli_error(o->verb, "%s", text ? text : "the gateway sent no reason");
}

static int print_object(const struct ps_options *o, const json_t *object)
{
    const int r = object ? json_dumpf(object, stdout, JSON_INDENT(2)) : -1;

    putchar('\n');
    return r == 0 ? CLI_OK : cli_error(o->verb, "the answer cannot be printed");
}

/* Writes how much longer a model stays in memory, such as "4 min". */
static const char *until_text(const char *expires, char *text, size_t size)
{
    struct tm tm = {0};
    int64_t left;

    if (!expires || !strptime(expires, "%Y-%m-%dT%H:%M:%S", &tm))
        return "-";
    left = (int64_t)timegm(&tm) - (int64_t)time(NULL);
    if (left > PS_SECONDS_A_YEAR)
        return "stays";
    if (left >= 120)
        snprintf(text, size, "%lld min", (long long)(left / 60));
    else
        snprintf(text, size, "%lld s", (long long)MAX(left, 0));
    return text;
}

static int64_t model_number(const json_t *model, const char *name)
{
    return json_integer_value(json_object_get(model, name));
}

static void print_model(const json_t *model, int width)
{
    const char *name = json_string_value(json_object_get(model, "name"));
    const int64_t size = model_number(model, "size"), gpu = model_number(model, "size_vram");
    const char *device = gpu <= 0 ? "cpu" : gpu >= size ? "gpu" : "gpu+cpu";
    const char *kv_type = json_string_value(json_object_get(model, "kv_type"));
    char until[32];

    printf(
        "%-*s  %10s  %-7s  %7lld  %-17s  %8lld  %s\n", width, name ? name : "?",
        cli_size((uint64_t)MAX(size, 0)), device, (long long)model_number(model, "context_length"),
        kv_type ? kv_type : "-", (long long)model_number(model, "requests"),
        until_text(json_string_value(json_object_get(model, "expires_at")), until, sizeof(until)));
}

static void print_models(const json_t *models)
{
    int width = (int)strlen("NAME");
    const json_t *model;
    size_t i;

    json_array_foreach(models, i, model)
    {
        width = MAX(width, (int)json_string_length(json_object_get(model, "name")));
    }
    if (json_array_size(models) == 0) {
        fputs("No model is in memory.\n", stderr);
        return;
    }
    printf("%-*s  %10s  %-7s  %7s  %-17s  %8s  %s\n", width, "NAME", "MEMORY", "DEVICE", "CONTEXT",
           "KV TYPE", "REQUESTS", "UNTIL");
    json_array_foreach(models, i, model)
    {
        print_model(model, width);
    }
}

int verb_ps(int argc, char **argv)
{
    struct ps_options o = {.verb = "ps"};
    json_t *answer = NULL;
    int r, status = 0;

    if (ps_begin(&o, help_ps, argc, argv, &r)) {
        if (optind < argc)
            r = cli_usage("ps", "unexpected argument \"%s\"", argv[optind]);
        else if (!(answer = ps_ask(&o, "/api/ps", NULL, &status)))
            r = CLI_FAILED;
        else if (status != 200)
            r = ps_tell(&o, answer);
        else if (o.json)
            r = print_object(&o, answer);
        else
            print_models(json_object_get(answer, "models"));
    }
    json_decref(answer);
    free(o.found);
    return r;
}

/* Unloads one model, and adds the result to @results. */
static int stop_model(const struct ps_options *o, const char *model, json_t *results)
{
    json_t *body = json_pack("{s:s}", "model", model);
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const char *state;
    json_t *answer;
    int status = 0, r = CLI_OK;

    json_decref(body);
    if (!text)
        return cli_error("stop", "\"%s\" cannot be the name of a model", model);
    answer = ps_ask(o, "/v1/models/unload", text, &status);
    if (!answer)
        return CLI_FAILED;
    state = json_string_value(json_object_get(answer, "status"));
    if (status != 200)
        r = ps_tell(o, answer);
    else if (o->json)
        json_array_append_new(results, json_pack("{s:s, s:s?}", "model", model, "status", state));
    else if (state && strcmp(state, "unloading") == 0)
        printf("%s is unloaded when its requests have ended\n", model);
    else
        printf("%s is unloaded\n", model);
    json_decref(answer);
    return r;
}

int verb_stop(int argc, char **argv)
{
    struct ps_options o = {.verb = "stop"};
    json_t *results = json_array(), *out;
    int r;

    if (ps_begin(&o, help_stop, argc, argv, &r)) {
        if (optind == argc)
            r = cli_usage("stop", "name the models to unload; `sconce ps` lists them");
        for (int i = optind; r == CLI_OK && i < argc; i++)
            r = stop_model(&o, argv[i], results);
        if (o.json && r == CLI_OK) {
            out = json_pack("{s:O}", "models", results);
            r = print_object(&o, out);
            json_decref(out);
        }
    }
    json_decref(results);
    free(o.found);
    return r;
}
