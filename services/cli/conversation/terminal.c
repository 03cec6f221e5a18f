/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints help, error messages, sizes and progress bars, and reads numbers, files and standard
 * input.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/str.h"

enum {
    CLI_MAX_INPUT = 64 << 20,
    CLI_BAR_MIN_USEC = 500000,
    CLI_BAR_STEP_USEC = 100000,
};

static void terminal_tell(const char *verb, const char *format, va_list ap)
{
    fprintf(stderr, "sconce %s: ", verb);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
}

int cli_error(const char *verb, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    terminal_tell(verb, format, ap);
    va_end(ap);
    return CLI_FAILED;
}

int cli_usage(const char *verb, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    terminal_tell(verb, format, ap);
    va_end(ap);
    fprintf(stderr, "See `sconce %s --help`.\n", verb);
    return CLI_USAGE;
}

int cli_help(const char *text)
{
    return fputs(text, stdout) < 0 ? CLI_FAILED : CLI_OK;
}

bool cli_number(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;
    unsigned long long n;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno || *end || n > max)
        return false;
    *ret = n;
    return true;
}

bool cli_real(const char *text, double min, double max, double *ret)
{
    char *end;
    const double x = strtod(text, &end);

    if (end == text || *end || !isfinite(x) || x < min || x > max)
        return false;
    *ret = x;
    return true;
}

const char *cli_size(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    static char ring[4][32];
    static unsigned i_ring;
    char *out = ring[i_ring++ % ARRAY_SIZE(ring)];
    double x = (double)bytes;
    size_t i = 0;

    while (x >= 1024 && i + 1 < ARRAY_SIZE(units)) {
        x /= 1024;
        i++;
    }
    snprintf(out, sizeof(ring[0]), i == 0 ? "%.0f %s" : "%.1f %s", x, units[i]);
    return out;
}

int cli_read(const char *verb, const char *file, char **ret_text, size_t *ret_len)
{
    struct inf_err err;
    struct str s = {0};
    char buf[65536];
    size_t n;

    if (strcmp(file, "-") != 0) {
        if (file_read(file, CLI_MAX_INPUT, ret_text, ret_len, &err) < 0)
            return cli_error(verb, "%s", err.text);
        return CLI_OK;
    }
    while ((n = fread(buf, 1, sizeof(buf), stdin)) > 0) {
        if (s.len + n > CLI_MAX_INPUT || str_append(&s, buf, n) < 0) {
            str_done(&s);
            return cli_error(verb, "standard input is larger than %s", cli_size(CLI_MAX_INPUT));
        }
    }
    if (ferror(stdin)) {
        str_done(&s);
        return cli_error(verb, "cannot read standard input: %s", strerror(errno));
    }
    *ret_text = str_take(&s, ret_len);
    return *ret_text ? CLI_OK : cli_error(verb, "out of memory");
}

void cli_progress(void *progress, double fraction)
{
    struct cli_progress *p = progress;
    const uint64_t now = clock_usec();
    struct winsize ws = {.ws_col = 80};
    int width, full;

    if (!isatty(STDERR_FILENO))
        return;
    if (p->start_usec == 0)
        p->start_usec = now;
    if (now - p->start_usec < CLI_BAR_MIN_USEC || now - p->drawn_usec < CLI_BAR_STEP_USEC)
        return;
    ioctl(STDERR_FILENO, TIOCGWINSZ, &ws);
    width = (int)ws.ws_col - (int)strlen(p->label) - 10;
    width = MAX(MIN(width, 50), 10);
    full = (int)(fraction * width);
    fprintf(stderr, "\r%s [", p->label);
    for (int i = 0; i < width; i++)
        fputc(i < full ? '#' : ' ', stderr);
    fprintf(stderr, "] %3.0f %%", fraction * 100);
    fflush(stderr);
    p->drawn = true;
    p->drawn_usec = now;
}

void cli_progress_done(struct cli_progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}
