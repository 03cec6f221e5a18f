/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce status: shows what runs and how fast; without --address it starts no service
 *
 * systemd knows the states of units. The gateway's metrics list the models in memory and their
 * speed. The metrics are read only from a gateway that already runs, as an active unit or under
 * `sconce serve`.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/machine/places.h"
#include "cli/machine/units.h"
#include "cli/suite/http-get.h"
#include "cli/suite/running.h"
#include "common/config/config.h"
#include "common/config/service-table.h"
#include "core/text.h"

static const char help[] = "Usage: sconce status [--json] [--address WHERE] [--key KEY]\n"
                           "Shows what runs and how fast. The command starts no service, unless\n"
                           "--address is given.\n\n"
                           "  --address WHERE      use the gateway at " HTTP_ADDRESS_FORMS "\n"
                           "                       (default: the user's, else the system's,\n"
                           "                       else the one at port 7266)\n"
                           "  --key KEY            API key (default: $SCONCE_API_KEY)\n"
                           "  --json               print a JSON object\n";

enum {
    STATUS_MAX_MODELS = 64,
};

struct model_line {
    char name[256];
    double running, waiting, decode_tok_s, prefill_tok_s, threads;
};

enum state {
    STATE_UNKNOWN, /* the gateway has not connected to the service, and no other source knows its
                      state */
    STATE_SLEEPS,
    STATE_RUNS,
    STATE_ABSENT, /* not installed */
    STATE_MASKED, /* not running, and systemd must not start it */
};

static const char *const state_names[] = {[STATE_UNKNOWN] = "unknown",
                                          [STATE_SLEEPS] = "sleeps",
                                          [STATE_RUNS] = "runs",
                                          [STATE_ABSENT] = "not installed",
                                          [STATE_MASKED] = "masked"};

struct report {
    const char *key;
    json_t *units;       /* array of objects */
    char address[512];   /* address of the gateway that answered; "": none */
    char closed[512];    /* address of a gateway that this process may not use; "": none */
    const char *manager; /* manager of the gateway that answered: "user", "system", or NULL */
    int status;          /* status of /metrics; 0: no listener */
    enum state states[N_SERVICES];     /* the element of the gateway is not used */
    char device[32], description[256]; /* device of the chat service; "" if it does not run */
    struct model_line models[STATUS_MAX_MODELS];
    size_t n_models;
};

static struct model_line *model_line(struct report *r, const char *name, size_t len)
{
    for (size_t i = 0; i < r->n_models; i++)
        if (strlen(r->models[i].name) == len && strncmp(r->models[i].name, name, len) == 0)
            return &r->models[i];
    if (r->n_models == STATUS_MAX_MODELS || len >= sizeof(r->models[0].name))
        return NULL;
    memcpy(r->models[r->n_models].name, name, len);
    return &r->models[r->n_models++];
}

/* Extracts the value of a label that starts with @label, such as `,device="`. */
static void take_label(const char *line, const char *label, char *text, size_t size)
{
    const char *value = strstr(line, label);

    if (value)
        snprintf(text, size, "%.*s", (int)strcspn(value + strlen(label), "\""),
                 value + strlen(label));
}

static void take_device(struct report *r, const char *line)
{
    if (!text_starts_with(line, "sconce_chat_device_info{"))
        return;
    take_label(line, "device=\"", r->device, sizeof(r->device));
    take_label(line, "description=\"", r->description, sizeof(r->description));
}

static void take_up(struct report *r, const char *line)
{
    static const char up[] = "sconce_service_up{service=\"";

    if (strncmp(line, up, sizeof(up) - 1) != 0)
        return;
    line += sizeof(up) - 1;
    for (size_t i = SERVICE_GATEWAY + 1; i < N_SERVICES; i++) {
        const char *name = service_rows[i].name;
        const size_t n = strlen(name);

        if (strncmp(line, name, n) == 0 && strncmp(line + n, "\"} 1", 4) == 0)
            r->states[i] = STATE_RUNS;
    }
}

/* Reads one sample of the text format: name{labels} value. */
static void take_sample(struct report *r, const char *line)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
        {"vllm:num_requests_running", offsetof(struct model_line, running)},
        {"vllm:num_requests_waiting", offsetof(struct model_line, waiting)},
        {"sconce_chat_decode_tokens_per_second", offsetof(struct model_line, decode_tok_s)},
        {"sconce_chat_prefill_tokens_per_second", offsetof(struct model_line, prefill_tok_s)},
        {"sconce_chat_threads", offsetof(struct model_line, threads)},
    };
    static const char label[] = "{model_name=\"";

    take_device(r, line);
    take_up(r, line);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const size_t n = strlen(rows[i].name);
        const char *name = line + n + sizeof(label) - 1, *end;
        struct model_line *m;

        if (strncmp(line, rows[i].name, n) != 0 ||
            strncmp(line + n, label, sizeof(label) - 1) != 0 || !(end = strstr(name, "\"} ")))
            continue;
        m = model_line(r, name, (size_t)(end - name));
        if (m)
            *(double *)((char *)m + rows[i].offset) = strtod(end + 3, NULL);
    }
}

static void take_metrics(struct report *r, struct str *text)
{
    char *line, *save = NULL;

    for (line = strtok_r(text->data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        take_sample(r, line);
}

/* Reads /metrics from @address; true if a gateway answered. */
static bool status_ask(struct report *r, const char *address)
{
    _cleanup_str_ struct str body = {0};
    struct inf_err err;
    const int status = http_get(address, "/metrics", r->key, &body, &err);

    if (status == -EACCES)
        snprintf(r->closed, sizeof(r->closed), "%s", address);
    if (status < 0)
        return false;
    snprintf(r->address, sizeof(r->address), "%s", address);
    r->status = status;
    if (status == 200)
        take_metrics(r, &body);
    return true;
}

static bool has_units(const struct report *r, const char *manager)
{
    size_t i;
    json_t *unit;

    json_array_foreach(r->units, i, unit)
    {
        if (strcmp(json_string_value(json_object_get(unit, "manager")), manager) == 0)
            return true;
    }
    return false;
}

/* Finds a unit of @manager, "user" or "system"; NULL: there is none of this name. */
static const json_t *find_unit(const struct report *r, const char *manager, const char *name)
{
    json_t *unit;
    size_t i;

    json_array_foreach(r->units, i, unit)
    {
        if (strcmp(json_string_value(json_object_get(unit, "manager")), manager) == 0 &&
            strcmp(json_string_value(json_object_get(unit, "unit")), name) == 0)
            return unit;
    }
    return NULL;
}

/* Returns the state of a unit: "active", "masked"…; "" if @manager has no unit of this name. */
static const char *unit_state(const struct report *r, const char *manager, const char *name)
{
    const char *state = json_string_value(json_object_get(find_unit(r, manager, name), "state"));

    return state ? state : "";
}

/* Returns the state of a service according to @manager; STATE_UNKNOWN: not known. */
static enum state state_of_unit(const struct report *r, const char *manager, const char *name)
{
    const json_t *unit;
    const char *state;

    unit = find_unit(r, manager, name);
    state = unit_state(r, manager, name);
    if (!unit)
        return STATE_UNKNOWN;
    if (strcmp(state, "not-found") == 0)
        return STATE_ABSENT;
    if (strcmp(state, "masked") == 0)
        return json_integer_value(json_object_get(unit, "pid")) ? STATE_RUNS : STATE_MASKED;
    return strcmp(state, "inactive") == 0 || strcmp(state, "failed") == 0 ? STATE_SLEEPS
                                                                          : STATE_RUNS;
}

/* Returns whether the service is optional and not installed. */
static bool is_missing(const struct service_row *row)
{
    _cleanup_free_ char *program = row->package ? serve_program(row) : NULL;

    return row->package && !program;
}

/* Returns the state of a service for the case that no gateway answered: running if it runs under
 * either manager. */
static enum state state_of_any_unit(const struct report *r, const char *name)
{
    const enum state user = state_of_unit(r, "user", name);
    const enum state system = state_of_unit(r, "system", name);

    return user == STATE_RUNS || system == STATE_UNKNOWN ? user : system;
}

/* Finds the states of services. The gateway knows only services to which it has connected, and does
 * not report them to every client. The program that starts services, systemd or `sconce serve`,
 * knows all of them. */
static void find_states(struct report *r)
{
    const pid_t supervisor =
        !r->manager && text_starts_with(r->address, "unix:") ? running_supervisor(r->address) : 0;

    for (size_t i = SERVICE_GATEWAY + 1; i < N_SERVICES; i++) {
        const struct service_row *row = &service_rows[i];
        enum state state = STATE_UNKNOWN;

        if (!r->address[0])
            state = state_of_any_unit(r, row->unit);
        else if (r->manager)
            state = state_of_unit(r, r->manager, row->unit);
        else if (supervisor > 0)
            state = (enum state[]){STATE_UNKNOWN, STATE_SLEEPS,
                                   STATE_RUNS}[running_child(supervisor, row) + 1];
        if (state == STATE_SLEEPS && !r->manager && is_missing(row))
            state = STATE_ABSENT;
        if (state != STATE_UNKNOWN && r->states[i] != STATE_RUNS)
            r->states[i] = state;
    }
}

/* Reads the metrics of a chat service that runs but that the gateway has not used. */
static void ask_chat(struct report *r)
{
    const char *slash = strrchr(r->address, '/');
    _cleanup_str_ struct str body = {0};
    struct inf_err err;
    char address[600];

    if (r->states[SERVICE_CHAT] != STATE_RUNS || r->device[0] ||
        !text_starts_with(r->address, "unix:"))
        return;
    snprintf(address, sizeof(address), "%.*s/%s", (int)(slash - r->address), r->address,
             service_rows[SERVICE_CHAT].socket);
    if (http_get(address, "/metrics", NULL, &body, &err) == 200)
        take_metrics(r, &body);
}

/* Makes a list of the addresses of a socket unit. Each entry says whether the gateway requires a
 * key at its address. */
static json_t *status_doors(const struct unit_state *s, bool user, bool is_gateway)
{
    _cleanup_(config_freep) struct config *config = NULL;
    struct places places;
    json_t *list = json_array();
    struct inf_err err;

    if (s->n_listen > 0 && is_gateway && places_init(user, NULL, &places, &err) == 0) {
        places_config(&places, &config, &err);
        places_done(&places);
    }
    for (size_t i = 0; i < s->n_listen; i++) {
        const bool is_unix = s->listen[i][0] == '/';
        const bool key = is_unix ? config && config->gateway.unix_access == CONFIG_UNIX_KEY
                                 : !config || config->gateway.tcp_access == CONFIG_TCP_KEY;

        json_array_append_new(list,
                              json_pack("{s:s++, s:b}", "address", is_unix ? "unix:" : "http://",
                                        s->listen[i], is_unix ? "" : "/v1", "needs_key", (int)key));
    }
    return list;
}

/* Adds a line for a service whose package is not installed, for users who search for it. */
static void add_absent(struct report *r, const char *manager, const char *unit)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        const struct service_row *row = &service_rows[i];
        char text[128];

        if (strcmp(unit, row->unit) != 0 || !row->package || !has_units(r, manager))
            continue;
        snprintf(text, sizeof(text), "not installed; it is in the package %s", row->package);
        json_array_append_new(r->units, json_pack("{s:s, s:s, s:s, s:s, s:I, s:[]}", "manager",
                                                  manager, "unit", unit, "state", "not-found",
                                                  "status", text, "pid", (json_int_t)0, "doors"));
    }
}

static void add_unit(struct report *r, bool user, const char *name, const struct unit_state *s)
{
    const bool is_masked = strcmp(s->load, "masked") == 0;

    /* The status text of a service is valid only while it runs. */
    json_array_append_new(
        r->units, json_pack("{s:s, s:s, s:s, s:s, s:I, s:o}", "manager", user ? "user" : "system",
                            "unit", name, "state", is_masked ? s->load : s->active, "status",
                            s->pid ? s->status : "", "pid", (json_int_t)s->pid, "doors",
                            status_doors(s, user, strstr(name, "gateway") != NULL)));
}

/* Reads the units of one manager. Returns true if its gateway runs, so that a request to this
 * gateway starts no process. */
static bool take_units(struct report *r, bool user)
{
    _cleanup_(units_closep) struct units *u = NULL;
    bool active = false;

    if (units_open(user, &u) < 0)
        return false;
    for (size_t i = 0; i < N_SERVICE_UNITS; i++) {
        struct unit_state s;

        if (!units_state(u, service_units[i], &s))
            continue;
        if (strcmp(s.load, "not-found") == 0)
            add_absent(r, user ? "user" : "system", service_units[i]);
        if (strcmp(s.load, "loaded") != 0 && strcmp(s.load, "masked") != 0)
            continue;
        if (strcmp(service_units[i], service_rows[SERVICE_GATEWAY].unit) == 0 &&
            strcmp(s.active, "active") == 0)
            active = true;
        add_unit(r, user, service_units[i], &s);
    }
    return active;
}

/* Tries the gateway at @address. This gateway belongs to @manager if @manager has units, else to a
 * `sconce serve`. */
static bool ask_at(struct report *r, const char *manager, const char *address)
{
    r->manager = has_units(r, manager) ? manager : NULL;
    return status_ask(r, address);
}

/* Tries the gateways in order: the user's, the system's, the default port. */
static void ask_all(struct report *r)
{
    static const char system_socket[] = "/run/sconce/gateway.sock";
    const bool user_active = take_units(r, true), system_active = take_units(r, false);
    _cleanup_free_ char *dir = NULL;
    char address[512];

    /* If root has no runtime directory, config_socket_dir() returns the system's. */
    if (config_socket_dir(&dir) == 0 && strcmp(dir, "/run/sconce") != 0 &&
        (user_active || !has_units(r, "user"))) {
        snprintf(address, sizeof(address), "unix:%s/gateway.sock", dir);
        if (ask_at(r, "user", address))
            return;
    }
    snprintf(address, sizeof(address), "unix:%s", system_socket);
    if ((system_active || !has_units(r, "system")) && ask_at(r, "system", address))
        return;
    if (access(system_socket, R_OK | W_OK) < 0 && errno == EACCES)
        snprintf(r->closed, sizeof(r->closed), "%s", address);
    if (!has_units(r, "user") && !has_units(r, "system"))
        ask_at(r, "none", "127.0.0.1:7266");
}

static int print_json(const struct report *r)
{
    json_t *models = json_array(), *states = json_object(), *j;
    int bad;

    for (size_t i = 0; i < r->n_models; i++) {
        const struct model_line *m = &r->models[i];

        json_array_append_new(models, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "name", m->name,
                                                "running", m->running, "waiting", m->waiting,
                                                "decode_tok_s", m->decode_tok_s, "prefill_tok_s",
                                                m->prefill_tok_s, "threads", m->threads));
    }
    for (size_t i = SERVICE_GATEWAY + 1; i < N_SERVICES; i++)
        json_object_set_new(states, service_rows[i].name, json_string(state_names[r->states[i]]));
    j = json_pack("{s:O, s:s?, s:o, s:o, s:s?, s:o}", "units", r->units, "gateway",
                  r->address[0] ? r->address : NULL, "services", states, "chat_running",
                  r->states[SERVICE_CHAT] == STATE_UNKNOWN
                      ? json_null()
                      : json_boolean(r->states[SERVICE_CHAT] == STATE_RUNS),
                  "device", r->device[0] ? r->device : NULL, "models", models);
    bad = j ? json_dumpf(j, stdout, JSON_INDENT(2)) : -1;
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

static void print_unit(const json_t *unit)
{
    const json_t *list = json_object_get(unit, "doors");
    const char *status = json_string_value(json_object_get(unit, "status"));
    const char *state = json_string_value(json_object_get(unit, "state"));

    printf("%-6s  %-26s %-8s", json_string_value(json_object_get(unit, "manager")),
           json_string_value(json_object_get(unit, "unit")), state);
    if (status[0])
        printf("  %s", status);
    for (size_t i = 0; i < json_array_size(list) && strcmp(state, "active") == 0; i++) {
        const json_t *door = json_array_get(list, i);

        printf("  %s%s", json_string_value(json_object_get(door, "address")),
               json_is_true(json_object_get(door, "needs_key")) ? ", with an API key" : "");
    }
    putchar('\n');
}

/* Returns whether a connection to a socket of @manager would start the gateway. */
static bool door_is_open(const struct report *r, const char *manager)
{
    return strcmp(unit_state(r, manager, "sconce-gateway.service"), "masked") != 0 &&
           (strcmp(unit_state(r, manager, "sconce-gateway.socket"), "active") == 0 ||
            strcmp(unit_state(r, manager, "sconce-gateway-tcp.socket"), "active") == 0 ||
            strcmp(unit_state(r, manager, "sconce-gateway-ollama.socket"), "active") == 0);
}

static void print_nobody(const struct report *r)
{
    if (r->closed[0])
        printf("You have no permission to use %s: " CLI_WAYS_IN ".\n", r->closed);
    else if (json_array_size(r->units) == 0)
        puts("Nothing runs. `sconce serve` starts the services in the foreground;\n"
             "`sconce setup` sets them up under systemd.");
    else if (door_is_open(r, "user") || door_is_open(r, "system"))
        puts("The gateway does not run; the first connection starts it.");
    else
        puts("No socket of sconce is open; `sconce doctor` finds out why.");
}

/* Prints the states of services if no manager has units; else each unit has a line of its own. */
static void print_services(const struct report *r)
{
    for (size_t i = SERVICE_GATEWAY + 1; i < N_SERVICES && !r->manager; i++) {
        const char *package = service_rows[i].package;
        const char *text = r->states[i] == STATE_SLEEPS    ? "; the first request starts it"
                           : r->states[i] == STATE_UNKNOWN ? ": the gateway has not used it lately"
                           : package && r->states[i] == STATE_ABSENT ? "; it is in the package "
                                                                     : "";

        /* The gateway knows nothing about services without routes. If its metrics could not be
         * read, nothing is known about the other services either. */
        if (r->states[i] == STATE_UNKNOWN && (r->status != 200 || !service_rows[i].has_routes))
            continue;
        printf("%-7s  %s%s%s\n", service_rows[i].name, state_names[r->states[i]], text,
               r->states[i] == STATE_ABSENT && package ? package : "");
    }
}

/* Prints a model. Its speeds are those of its last seconds of work, which may have been long
 * ago. */
static void print_model(const struct model_line *m)
{
    const bool runs = m->running > 0;

    printf("model    %s: %.0f thread%s, %.0f running, %.0f waiting", m->name, m->threads,
           m->threads == 1 ? "" : "s", m->running, m->waiting);
    if (m->decode_tok_s > 0)
        printf(", %s %.1f tokens/s", runs ? "writes" : "wrote", m->decode_tok_s);
    if (m->prefill_tok_s > 0)
        printf(", %s %.1f tokens/s", runs ? "reads" : "read", m->prefill_tok_s);
    putchar('\n');
}

static void print_text(const struct report *r)
{
    size_t i;
    json_t *unit;

    json_array_foreach(r->units, i, unit)
    {
        print_unit(unit);
    }
    if (!r->address[0]) {
        print_nobody(r);
        return;
    }
    printf("gateway  %s%s\n", r->address,
           r->status == 401 ? ", which requires an API key (--key)" : "");
    if (r->status == 403)
        puts("         It shows what runs and how fast only to root, to the user who owns these\n"
             "         services, and to API keys with the right observe.");
    print_services(r);
    if (r->device[0])
        printf("device   %s%s%s%s\n", r->device, r->description[0] ? " (" : "", r->description,
               r->description[0] ? ")" : "");
    for (size_t k = 0; k < r->n_models; k++)
        print_model(&r->models[k]);
}

int verb_status(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"address", required_argument, NULL, 'a'},
        {"key", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct report r = {.key = getenv("SCONCE_API_KEY")};
    const char *address = NULL;
    bool json = false;
    int c, status = CLI_OK;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'j')
            json = true;
        else if (c == 'a' && !http_address_is_good(optarg))
            return cli_usage("status", "--address must be %s, not \"%s\"", HTTP_ADDRESS_FORMS,
                             optarg);
        else if (c == 'a')
            address = optarg;
        else if (c == 'k')
            r.key = optarg;
        else if (c == 'h')
            return cli_help(help);
        else
            return cli_usage("status", "wrong option");
    }
    if (optind < argc)
        return cli_usage("status", "unexpected argument \"%s\"", argv[optind]);
    r.units = json_array();
    if (!r.units)
        return cli_error("status", "out of memory");
    if (address && !status_ask(&r, address))
        status = r.closed[0] ? cli_error("status", "you have no permission to use %s: " CLI_WAYS_IN,
                                         address)
                             : cli_error("status", "no gateway answers at %s", address);
    else if (!address)
        ask_all(&r);
    find_states(&r);
    if (r.status == 200)
        ask_chat(&r);
    if (status == CLI_OK && json)
        status = print_json(&r);
    else if (status == CLI_OK)
        print_text(&r);
    json_decref(r.units);
    return status;
}
