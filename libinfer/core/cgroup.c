/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cgroup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/macros.h"

#define ROOT "/sys/fs/cgroup"

/* The directory of our group, "" without cgroup v2. */
static void find_group(char *path, size_t size)
{
    char line[4096];
    FILE *f = fopen("/proc/self/cgroup", "re");

    path[0] = 0;
    if (!f)
        return;
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(path, size, ROOT "%s", line + 3);
    }
    fclose(f);
}

void cgroup_visit(const char *file, void (*visit)(void *data, const char *text), void *data)
{
    char path[4352], name[4400], text[256];

    find_group(path, sizeof(path));
    while (strlen(path) >= strlen(ROOT)) {
        FILE *f;

        snprintf(name, sizeof(name), "%s/%s", path, file);
        f = fopen(name, "re");
        if (f) {
            if (fgets(text, sizeof(text), f))
                visit(data, text);
            fclose(f);
        }
        *strrchr(path, '/') = 0;
    }
}

static void visit_memory(void *data, const char *text)
{
    uint64_t *least = data;
    unsigned long long limit;

    if (sscanf(text, "%llu", &limit) == 1)
        *least = MIN(*least, (uint64_t)limit);
}

uint64_t memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = UINT64_C(1) << 32; /* of a machine that does not tell */

    if (pages > 0 && page > 0)
        bytes = (uint64_t)pages * (uint64_t)page;
    cgroup_visit("memory.max", visit_memory, &bytes);
    cgroup_visit("memory.high", visit_memory, &bytes);
    return bytes;
}
