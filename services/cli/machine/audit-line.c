/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the kernel's audit messages (see audit-line.h).
 */
#include "cli/machine/audit-line.h"

#include <seccomp.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

/* Extracts the value of @key= without quotes; false: the line has no such key. */
static bool audit_field(const char *text, const char *key, char *out, size_t size)
{
    const size_t n = strlen(key);

    for (const char *p = text; (p = strstr(p, key)); p += n) {
        const char *end;

        if ((p > text && p[-1] != ' ') || p[n] != '=')
            continue;
        p += n + 1;
        end = *p == '"' ? strchr(p + 1, '"') : p + strcspn(p, " \n");
        if (!end)
            return false;
        p += *p == '"';
        snprintf(out, size, "%.*s", (int)(end - p), p);
        return true;
    }
    return false;
}

static void take_program(const char *text, struct audit_line *line)
{
    char path[512];

    if (audit_field(text, "exe", path, sizeof(path)) && strchr(path, '/'))
        snprintf(line->program, sizeof(line->program), "%.63s", strrchr(path, '/') + 1);
    else
        audit_field(text, "comm", line->program, sizeof(line->program));
}

static void take_call(const char *text, struct audit_line *line)
{
    char number[24], arch[24];
    _cleanup_free_ char *name = NULL;
    unsigned token = 0;

    if (!audit_field(text, "syscall", number, sizeof(number)))
        return;
    line->kind = REFUSAL_SYSCALL;
    line->syscall = atoi(number);
    /* libseccomp uses the kernel's numbers for architectures. */
    if (audit_field(text, "arch", arch, sizeof(arch)))
        token = (unsigned)strtoul(arch, NULL, 16);
    name = seccomp_syscall_resolve_num_arch(token ? token : seccomp_arch_native(), line->syscall);
    snprintf(line->call, sizeof(line->call), "%s", name ? name : number);
}

void audit_line_parse(const char *text, struct audit_line *ret_line)
{
    struct audit_line line = {0};
    char type[24], verdict[24], operation[64] = "", name[160] = "";

    if (audit_field(text, "apparmor", verdict, sizeof(verdict))) {
        if (strcmp(verdict, "DENIED") == 0) {
            line.kind = REFUSAL_APPARMOR;
            audit_field(text, "operation", operation, sizeof(operation));
            audit_field(text, "name", name, sizeof(name));
            snprintf(line.what, sizeof(line.what), "%s %s", operation, name);
            take_program(text, &line);
        }
    } else if ((audit_field(text, "type", type, sizeof(type)) && strcmp(type, "1326") == 0) ||
               text_starts_with(text, "SECCOMP ")) {
        take_call(text, &line);
        take_program(text, &line);
    }
    *ret_line = line;
}
