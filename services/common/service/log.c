/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs to the journal or to stderr.
 *
 * The journal is used only if stderr is connected to it (JOURNAL_STREAM, see systemd.exec(5)). A
 * service started from a terminal therefore logs to the terminal.
 */
#include "common/service/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "core/macros.h"
#include "core/utf8.h"
static struct {
    const char *name;
    bool journal;
    int level;
} log_state = {"sconce", false, LOG_INFO};

static bool log_has_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(2, &st) == 0 &&
           st.st_dev == dev && st.st_ino == ino;
}

void log_open(const char *name)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {
        {"debug", LOG_DEBUG}, {"info", LOG_INFO}, {"warning", LOG_WARNING}, {"error", LOG_ERR}};
    const char *level = getenv("SCONCE_LOG");

    log_state.name = name;
    log_state.journal = log_has_journal();
    for (size_t i = 0; level && i < ARRAY_SIZE(levels); i++)
        if (strcasecmp(level, levels[i].name) == 0)
            log_state.level = levels[i].level;
}

/* Replaces control characters, also U+0080 to U+009F, and bytes that are not UTF-8, so that text
 * from clients can neither forge lines nor control the terminal. */
static void log_clean(char *text)
{
    const size_t len = strlen(text);
    uint32_t cp = 0;

    for (size_t i = 0, n; i < len; i += n) {
        n = utf8_decode(text + i, len - i, &cp);
        if (n == 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0)) {
            n = MAX(n, (size_t)1);
            memset(text + i, '?', n);
        }
    }
}

PRINTF(4, 0)
static void log_put(const char *id, int priority, const char *model, const char *format, va_list ap)
{
    char text[1024];

    if (priority > log_state.level)
        return;
    vsnprintf(text, sizeof(text), format, ap);
    log_clean(text);
    if (log_state.journal)
        sd_journal_send("MESSAGE=%s", text, "PRIORITY=%d", priority, "SCONCE_SERVICE=%s",
                        log_state.name, id ? "MESSAGE_ID=%s" : NULL, id,
                        model ? "SCONCE_MODEL=%s" : NULL, model, NULL);
    else
        fprintf(stderr, "sconce-%s: %s\n", log_state.name, text);
}

void log_msg(int priority, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    log_put(NULL, priority, NULL, format, ap);
    va_end(ap);
}

void log_event(const char *id, int priority, const char *model, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    log_put(id, priority, model, format, ap);
    va_end(ap);
}

void log_request(const struct log_access *access)
{
    char text[512];
    const int priority = access->is_inner        ? LOG_DEBUG
                         : access->status >= 500 ? LOG_WARNING
                                                 : LOG_INFO;

    if (priority > log_state.level)
        return;
    snprintf(text, sizeof(text), "%s %s %d %" PRIu64 "B %.1fms%s%s%s%s", access->method,
             access->path, access->status, access->bytes, (double)access->duration_usec / 1000,
             access->note ? " " : "", access->note ? access->note : "",
             access->trace ? " trace=" : "", access->trace ? access->trace : "");
    log_clean(text);
    if (log_state.journal)
        sd_journal_send("MESSAGE=%s", text, "PRIORITY=%d", priority, "SCONCE_SERVICE=%s",
                        log_state.name, "SCONCE_REQUEST_ID=%s", access->id, "SCONCE_STATUS=%d",
                        access->status, "SCONCE_DURATION_USEC=%" PRIu64, access->duration_usec,
                        "SCONCE_BYTES=%" PRIu64, access->bytes,
                        access->trace ? "SCONCE_TRACE_ID=%s"
                        : access->key ? "SCONCE_API_KEY=%s"
                                      : NULL,
                        access->trace ? access->trace : access->key,
                        access->trace && access->key ? "SCONCE_API_KEY=%s" : NULL, access->key,
                        NULL);
    else
        fprintf(stderr, "sconce-%s: %s [%s]\n", log_state.name, text, access->id);
}
