/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches the journal for failed services, and for accesses that the kernel refused.
 *
 * A failure is reported until the service ends normally, for example after its idle timeout, or
 * until something other than systemd's automatic restart starts the service. The kernel's messages
 * say which system call a policy refused; they are read if this process has permission.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <systemd/sd-journal.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/audit-line.h"
#include "common/config/service-table.h"

enum {
    JOURNAL_HOURS = 24,
    JOURNAL_MAX_LINES = 200000,
    KMSG_MAX_LINES = 20000,
};

/* MESSAGE_ID values of systemd's messages */
#define ID_PROCESS_EXIT "98e322203f7a4ed290d09fe03c09fe15"
#define ID_UNIT_FAILED  "d9b373ed55a64feb8242e02dbe79a49c"
#define ID_UNIT_SUCCESS "7ad2d189f7e94e70a38c781354912448"
#define ID_UNIT_STARTED "39f53479d3a045ac8e11786248231fbf"
#define ID_UNIT_RESTART "5eb03494b6584870a536b337290809b3"

/* Struct failure is the last failure of a service, if the service has not ended normally since
 * then. */
struct failure {
    char result[32]; /* "signal", "watchdog", "oom-kill", "exit-code"…; "": no failure */
    int signal, status;
    uint64_t usec;
    unsigned n;
    bool restarts;  /* systemd restarts it automatically */
    char said[300]; /* the last error message of the service before the failure */
};

/* Struct refusal is the last refused access of a program. */
struct refusal {
    struct audit_line line;
    uint64_t usec; /* time of day; 0: unknown */
};

struct refusals {
    struct refusal seccomp[N_SERVICES];
    struct refusal apparmor[N_SERVICES];
    bool seen; /* the kernel's messages could be read */
};

static bool journal_get(sd_journal *j, const char *field, char *out, size_t size)
{
    const void *data;
    size_t n, skip = strlen(field) + 1;

    if (sd_journal_get_data(j, field, &data, &n) < 0 || n < skip)
        return false;
    snprintf(out, size, "%.*s", (int)(n - skip), (const char *)data + skip);
    return true;
}

static int seek_window(sd_journal *j)
{
    return sd_journal_seek_realtime_usec(j,
                                         ((uint64_t)time(NULL) - JOURNAL_HOURS * 3600) * 1000000);
}

static void take_entry(sd_journal *j, struct failure *f)
{
    char id[64] = "", code[16] = "", status[16] = "", result[32] = "";

    journal_get(j, "MESSAGE_ID", id, sizeof(id));
    if (strcmp(id, ID_UNIT_SUCCESS) == 0 || (strcmp(id, ID_UNIT_STARTED) == 0 && !f->restarts)) {
        *f = (struct failure){0};
    } else if (strcmp(id, ID_UNIT_STARTED) == 0) {
        f->restarts = false;
    } else if (strcmp(id, ID_UNIT_RESTART) == 0) {
        f->restarts = true;
    } else if (strcmp(id, ID_PROCESS_EXIT) == 0) {
        journal_get(j, "EXIT_CODE", code, sizeof(code));
        journal_get(j, "EXIT_STATUS", status, sizeof(status));
        f->signal = strcmp(code, "exited") == 0 ? 0 : atoi(status);
        f->status = strcmp(code, "exited") == 0 ? atoi(status) : 0;
    } else if (strcmp(id, ID_UNIT_FAILED) == 0 &&
               journal_get(j, "UNIT_RESULT", result, sizeof(result))) {
        snprintf(f->result, sizeof(f->result), "%s", result);
        sd_journal_get_realtime_usec(j, &f->usec);
        f->n++;
    }
}

/* Selects messages that the service manager wrote. Only the journal itself writes the fields that
 * begin with "_", while every process can write all other fields. */
static int match_manager(sd_journal *j, bool user)
{
    char match[32];
    int r;

    snprintf(match, sizeof(match), user ? "_UID=%u" : "_PID=1", (unsigned)geteuid());
    r = sd_journal_add_match(j, match, 0);
    return r < 0 ? r : sd_journal_add_match(j, "_COMM=systemd", 0);
}

/* Returns whether this user may read the service manager's messages in the journal. */
static bool manager_is_visible(sd_journal *j, bool user)
{
    sd_journal_flush_matches(j);
    return match_manager(j, user) >= 0 && sd_journal_seek_tail(j) >= 0 &&
           sd_journal_previous(j) > 0;
}

static void read_unit(sd_journal *j, bool user, const char *unit, struct failure *ret)
{
    struct failure f = {0};
    char match[96];
    unsigned n = 0;

    sd_journal_flush_matches(j);
    snprintf(match, sizeof(match), "%s=%s", user ? "USER_UNIT" : "UNIT", unit);
    if (sd_journal_add_match(j, match, 0) < 0 || match_manager(j, user) < 0 || seek_window(j) < 0)
        return;
    while (sd_journal_next(j) > 0 && n++ < JOURNAL_MAX_LINES)
        take_entry(j, &f);
    *ret = f;
}

/* Reads the last error that the service logged in the minute before it failed. */
static void read_last_error(sd_journal *j, bool user, const char *unit, struct failure *f)
{
    char match[96];
    uint64_t usec;

    sd_journal_flush_matches(j);
    snprintf(match, sizeof(match), "%s=%s", user ? "_SYSTEMD_USER_UNIT" : "_SYSTEMD_UNIT", unit);
    if (sd_journal_add_match(j, match, 0) < 0 || sd_journal_add_match(j, "PRIORITY=3", 0) < 0 ||
        sd_journal_seek_realtime_usec(j, f->usec + 1) < 0 || sd_journal_previous(j) <= 0 ||
        sd_journal_get_realtime_usec(j, &usec) < 0 || usec + 60000000 < f->usec)
        return;
    journal_get(j, "MESSAGE", f->said, sizeof(f->said));
}

static void take_refusal(struct refusals *r, const char *text, uint64_t usec)
{
    struct audit_line line;

    audit_line_parse(text, &line);
    for (size_t i = 0; i < N_SERVICES && line.kind != REFUSAL_NONE; i++)
        if (strcmp(line.program, service_rows[i].program) == 0)
            *(line.kind == REFUSAL_SYSCALL ? &r->seccomp[i] : &r->apparmor[i]) =
                (struct refusal){line, usec};
}

static void read_kernel_journal(sd_journal *j, struct refusals *r)
{
    unsigned n = 0;
    char text[1024];
    uint64_t usec;

    sd_journal_flush_matches(j);
    if (sd_journal_add_match(j, "_TRANSPORT=kernel", 0) < 0 ||
        sd_journal_add_match(j, "_TRANSPORT=audit", 0) < 0 || seek_window(j) < 0)
        return;
    while (sd_journal_next(j) > 0 && n++ < JOURNAL_MAX_LINES)
        if (journal_get(j, "MESSAGE", text, sizeof(text)) &&
            sd_journal_get_realtime_usec(j, &usec) >= 0)
            take_refusal(r, text, usec);
    r->seen |= n > 0;
}

/* Reads the kernel's own buffer, for the case that the journal has no kernel messages. A record of
 * the buffer is "6,1234,5678,-;text". */
static void read_kmsg(struct refusals *r)
{
    _cleanup_close_ int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct timespec now, up;
    char line[8192];
    ssize_t n;

    if (fd < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0 || clock_gettime(CLOCK_BOOTTIME, &up) < 0)
        return;
    r->seen = true;
    for (unsigned i = 0; i < KMSG_MAX_LINES; i++) {
        uint64_t usec;
        char *text;

        n = read(fd, line, sizeof(line) - 1);
        if (n < 0 && errno == EPIPE)
            continue;
        if (n <= 0)
            return;
        line[n] = 0;
        text = strchr(line, ';');
        if (text && sscanf(line, "%*u,%*u,%" SCNu64, &usec) == 1)
            take_refusal(r, text + 1, (uint64_t)(now.tv_sec - up.tv_sec) * 1000000 + usec);
    }
}

static void tell_failure(struct doctor *d, const struct doctor_side *side, size_t i,
                         const struct failure *f, const struct refusal *refusal)
{
    static const struct {
        const char *result, *what;
    } rows[] = {
        {"watchdog", "it hung, and systemd killed it"},
        {"oom-kill", "memory ran out, and the kernel killed it: choose a smaller model or context"},
        {"timeout", "it did not start or stop in time"},
        {"resources", "systemd could not start it"},
        {"protocol", "it ended before it was ready"},
        {"core-dump", "it crashed"},
        {"signal", "it was killed"},
    };
    const char *unit = service_rows[i].unit, *what = NULL;
    const char *command = doctor_text("%s restart %s", doctor_systemctl(side), unit);
    const char *times = f->n > 1 ? doctor_text(" (%u times)", f->n) : "";

    if (f->signal == SIGSYS) {
        const bool same = refusal->line.kind == REFUSAL_SYSCALL &&
                          refusal->usec + 10000000 > f->usec && refusal->usec < f->usec + 10000000;

        doctor_tell(d, FINDING_BROKEN, "journal", command,
                    "%s %s made a system call that its policy does not allow%s%s%s, and was "
                    "killed%s; if it happens again, report it with the output of "
                    "`sconce policy explain %s`",
                    doctor_whose(side), unit, same ? ": " : "", same ? refusal->line.call : "",
                    same ? "" : " (`sudo journalctl -k -g type=1326` shows which)", times,
                    service_rows[i].name);
        return;
    }
    for (size_t k = 0; k < ARRAY_SIZE(rows); k++)
        if (strcmp(rows[k].result, f->result) == 0)
            what = rows[k].what;
    if (!what && f->said[0])
        what = f->said;
    if (!what)
        what = f->status ? doctor_text("it ended with status %d", f->status) : f->result;
    doctor_tell(d, FINDING_BROKEN, "journal", command,
                "%s %s failed%s: %s%s; `journalctl%s -u %s` "
                "shows more",
                doctor_whose(side), unit, times, what,
                f->signal ? doctor_text(" (signal %d, %s)", f->signal, strsignal(f->signal)) : "",
                side->places.user ? " --user" : "", unit);
}

/* Reports accesses that AppArmor refused. Also reports refused system calls of services that are
 * not among the failed units: they run under `sconce serve`, or continued to run. */
static void tell_refusals(struct doctor *d, const struct refusals *r, const bool *told)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        if (r->seccomp[i].line.kind != REFUSAL_NONE && !told[i])
            doctor_tell(d, FINDING_ADVICE, "journal",
                        doctor_text("sconce policy explain %s", service_rows[i].name),
                        "the policy of sconce-%s refused the system call %s; if it happens again, "
                        "report it",
                        service_rows[i].name, r->seccomp[i].line.call);
        if (r->apparmor[i].line.kind != REFUSAL_NONE)
            doctor_tell(d, FINDING_ADVICE, "journal",
                        doctor_text("sudo aa-complain sconce-%s", service_rows[i].name),
                        "AppArmor refused sconce-%s: %s", service_rows[i].name,
                        r->apparmor[i].line.what);
    }
}

void doctor_journal(struct doctor *d)
{
    struct refusals refusals = {0};
    bool told[N_SERVICES] = {0};
    sd_journal *j = NULL;
    const int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY);

    if (r >= 0)
        read_kernel_journal(j, &refusals);
    if (!refusals.seen)
        read_kmsg(&refusals);
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];

        if (!side->used || !side->units)
            continue;
        for (size_t k = 0; k < N_SERVICES && r >= 0; k++) {
            struct failure f = {0};

            read_unit(j, side->places.user, service_rows[k].unit, &f);
            if (f.result[0]) {
                read_last_error(j, side->places.user, service_rows[k].unit, &f);
                tell_failure(d, side, k, &f, &refusals.seccomp[k]);
                told[k] = true;
            }
        }
        if (geteuid() != 0 && (r < 0 || !manager_is_visible(j, side->places.user)))
            doctor_tell(d, FINDING_UNSEEN, "journal",
                        "sudo usermod -aG systemd-journal \"$(id -un)\"",
                        "failures of %s services: you have no permission to read their journal",
                        doctor_whose(side));
    }
    tell_refusals(d, &refusals, told);
    sd_journal_close(j);
}
