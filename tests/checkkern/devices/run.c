/* SPDX-License-Identifier: Apache-2.0 */

/* Runs each check on each device, and opens the device again for each check. */

#include <stdio.h>
#include <string.h>

#include "checkkern/devices/checks.h"
#include "checkkern/devices/device.h"
#include "core/clock.h"

static const struct entry {
    const char *name;
    void (*check)(struct check *c);
    void (*bench)(struct check *c);
    bool products; /* whether the check is about products */
} entries[] = {
#define X(name, products) {#name, check_##name, bench_##name, products},
    DEVICE_CHECKS(X)
#undef X
};

static void run_one(const struct selection *sel, size_t i, struct check *current,
                    unsigned *n_failed)
{
    const uint64_t start = clock_usec();

    *current = (struct check){.test = entries[i].name,
                              .rung = current->rung,
                              .backend = current->backend,
                              .n_threads = current->n_threads,
                              .share = sel->share};
    rng_seed(&current->rng, sel->seed + i);
    if (sel->bench) {
        entries[i].bench(current);
        return;
    }
    entries[i].check(current);
    *n_failed += current->n_failed;
    check_report(current, (double)(clock_usec() - start) * 1e-6);
}

static unsigned run_device(const struct selection *sel, const struct device_name *device,
                           struct check *current, unsigned *n_failed)
{
    struct inf_err err = {0};
    unsigned n_run = 0;

    current->rung = device->rung;
    if (device_open(device, current->n_threads, &current->backend, &err) < 0) {
        printf("not ok %-20s %-8s %s\n", "open", device->rung, err.text);
        ++*n_failed;
        return 1;
    }
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        if (sel->test && strcmp(sel->test, entries[i].name) != 0)
            continue;
        if (device->part == DEVICE_WITH_DOTS && !entries[i].products)
            continue;
        run_one(sel, i, current, n_failed);
        n_run++;
    }
    current->backend = device_close(current->backend);
    return n_run;
}

unsigned devices_run(const struct selection *sel, struct check *current, unsigned *n_failed)
{
    static const struct device_name cpu = {.rung = "cpu", .name = "cpu"};
    struct device_name names[DEVICES_MOST];
    char why[256] = "";
    unsigned n, n_run = 0;

    if (sel->rung && strcmp(sel->rung, "cpu") == 0)
        return run_device(sel, &cpu, current, n_failed);
    if (sel->rung && strncmp(sel->rung, "vulkan", 6) != 0)
        return 0;
    n = devices_names(names, why, sizeof(why));
    for (unsigned i = 0; i < n; i++)
        if (!sel->rung || strcmp(sel->rung, names[i].rung) == 0)
            n_run += run_device(sel, &names[i], current, n_failed);
    if (n_run == 0)
        printf("skipped: no Vulkan device to check: %s\n", why);
    return MAX(n_run, 1u);
}

void devices_list(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
        puts(entries[i].name);
}
