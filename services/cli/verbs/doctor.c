/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce doctor: finds out why sconce does not work, and prints the commands that repair it
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/manager.h"
#include "cli/machine/units.h"
#include "common/config/config.h"
#include "core/file.h"
#include "core/utf8.h"

static const char help[] =
    "Usage: sconce doctor [--user|--system] [--deep] [--json]\n"
    "Finds out why sconce does not work, and prints the commands that repair it. It changes "
    "nothing.\n"
    "The exit status is 0 if nothing is broken, 1 if something is.\n\n"
    "  --user               check only your services (default, if you have any)\n"
    "  --system             check only the machine's services (default for root and for users\n"
    "                       without services of their own)\n"
    "  --deep               also send a request to a model, which starts the services\n"
    "  --json               print a JSON object\n";

const char *doctor_text(const char *format, ...)
{
    static char ring[8][2048];
    static unsigned next;
    char *text = ring[next++ % ARRAY_SIZE(ring)];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(ring[0]), format, ap);
    va_end(ap);
    return text;
}

const char *doctor_quote(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=:@%,";
    char text[2048];
    size_t n = 0;

    if (word[0] && strspn(word, plain) == strlen(word))
        return doctor_text("%s", word);
    text[n++] = '\'';
    for (; *word && n < sizeof(text) - 8; word++) {
        if (*word == '\'') {
            memcpy(text + n, "'\\''", 4);
            n += 4;
        } else {
            text[n++] = *word;
        }
    }
    text[n++] = '\'';
    text[n] = 0;
    return doctor_text("%s", text);
}

const char *doctor_sudo(const struct doctor_side *side)
{
    return side->places.user || geteuid() == 0 ? "" : "sudo ";
}

const char *doctor_systemctl(const struct doctor_side *side)
{
    return side->places.user ? "systemctl --user"
                             : (geteuid() == 0 ? "systemctl" : "sudo systemctl");
}

const char *doctor_whose(const struct doctor_side *side)
{
    return side->places.user ? "your" : "the machine's";
}

/* Copies @text and replaces control characters and invalid UTF-8, which could control the terminal
 * or make the JSON invalid. Invalid UTF-8 appears, for example, where a text was cut within a
 * character. */
static char *doctor_clean(const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    size_t left = copy ? strlen(copy) : 0, n;

    for (char *p = copy; left > 0; p += n, left -= n) {
        uint32_t cp;

        n = utf8_decode(p, left, &cp);
        if (n == 0)
            memset(p, '?', n = utf8_bad_length(p, left));
        else if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0))
            memset(p, ' ', n);
    }
    return copy;
}

void doctor_tell(struct doctor *d, enum finding_kind kind, const char *check, const char *command,
                 const char *what, ...)
{
    struct finding *list = realloc(d->findings, (d->n_findings + 1) * sizeof(*list));
    char text[1024];
    va_list ap;

    if (!list)
        return;
    d->findings = list;
    va_start(ap, what);
    vsnprintf(text, sizeof(text), what, ap);
    va_end(ap);
    list[d->n_findings++] =
        (struct finding){kind, check, doctor_clean(text), doctor_clean(command)};
}

static void add_side(struct doctor *d, bool user)
{
    struct doctor_side *side = &d->sides[d->n_sides];
    struct unit_state target;
    struct inf_err err;

    if (places_init(user, NULL, &side->places, &err) < 0) {
        doctor_tell(d, FINDING_UNSEEN, "managers", NULL, "%s", err.text);
        return;
    }
    d->n_sides++;
    if (units_open(user, &side->units) >= 0 && !units_state(side->units, "sconce.target", &target))
        side->units = units_close(side->units);
    side->used = (side->units && strcmp(target.active, "active") == 0) ||
                 manager_is_enabled(&side->places, "sconce.target");
    side->masked = side->units && strcmp(target.load, "masked") == 0;
}

static void drop_side(struct doctor *d)
{
    struct doctor_side *last = &d->sides[--d->n_sides];

    places_done(&last->places);
    last->units = units_close(last->units);
}

/* Selects the sides to check. A user's own services are checked, or the machine's if the user has
 * none. For root the machine's services are checked; without systemd, root is treated like any
 * other user. */
static void find_sides(struct doctor *d, int only)
{
    const bool as_user = only ? only == 'u' : geteuid() != 0;

    if (as_user)
        add_side(d, true);
    if (only == 'u' || (!only && d->n_sides > 0 && d->sides[0].used))
        return;
    add_side(d, false);
    if (only || d->sides[d->n_sides - 1].used)
        return;
    if (d->n_sides > 1 || !d->sides[0].units)
        drop_side(d);
    if (d->n_sides == 0)
        add_side(d, true);
}

static int print_json(const struct doctor *d, bool broken)
{
    static const char *const kinds[] = {"broken", "advice", "unseen"};
    json_t *list = json_array(), *j;
    int bad;

    for (size_t i = 0; i < d->n_findings; i++) {
        const struct finding *f = &d->findings[i];

        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s?, s:s?}", "kind", kinds[f->kind], "check",
                                        f->check, "what", f->what, "command", f->command));
    }
    j = json_pack("{s:b, s:s, s:o}", "healthy", !broken, "version", SCONCE_VERSION, "findings",
                  list);
    bad = j ? json_dumpf(j, stdout, JSON_INDENT(2)) : -1;
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

static void print_text(const struct doctor *d, size_t n_broken)
{
    static const char *const kinds[] = {"broken", "advice", "unseen"};

    for (int kind = FINDING_BROKEN; kind <= FINDING_UNSEEN; kind++)
        for (size_t i = 0; i < d->n_findings; i++) {
            const struct finding *f = &d->findings[i];

            if ((int)f->kind != kind)
                continue;
            printf("%s  %s\n", kinds[kind], f->what);
            if (f->command)
                printf("        %s\n", f->command);
        }
    if (n_broken)
        printf("%zu broken.\n", n_broken);
    else
        puts("Nothing is broken.");
}

static int doctor_examine(struct doctor *d, int only, bool json)
{
    static void (*const checks[])(struct doctor *) = {
        doctor_install, doctor_managers, doctor_config, doctor_keys,
        doctor_doors,   doctor_versions, doctor_models, doctor_devices,
        doctor_kernel,  doctor_disks,    doctor_journal};
    size_t n_broken = 0;

    find_sides(d, only);
    for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
        checks[i](d);
    if (d->deep)
        doctor_question(d);
    for (size_t i = 0; i < d->n_findings; i++)
        n_broken += d->findings[i].kind == FINDING_BROKEN;
    if (json && print_json(d, n_broken > 0) != CLI_OK)
        return CLI_FAILED;
    if (!json)
        print_text(d, n_broken);
    return n_broken ? CLI_FAILED : CLI_OK;
}

int verb_doctor(int argc, char **argv)
{
    static const struct option options[] = {
        {"user", no_argument, NULL, 'u'}, {"system", no_argument, NULL, 's'},
        {"deep", no_argument, NULL, 'd'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'}, {0},
    };
    struct doctor d = {0};
    bool json = false;
    int c, only = 0, status;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'u' || c == 's')
            only = c;
        else if (c == 'd')
            d.deep = true;
        else if (c == 'j')
            json = true;
        else if (c == 'h')
            return cli_help(help);
        else
            return cli_usage("doctor", "wrong option");
    }
    if (optind < argc)
        return cli_usage("doctor", "unexpected argument \"%s\"", argv[optind]);
    status = doctor_examine(&d, only, json);
    for (size_t i = 0; i < d.n_findings; i++) {
        free(d.findings[i].what);
        free(d.findings[i].command);
    }
    free(d.findings);
    for (size_t i = 0; i < d.n_sides; i++) {
        config_free(d.sides[i].config);
        units_close(d.sides[i].units);
        places_done(&d.sides[i].places);
    }
    return status;
}
