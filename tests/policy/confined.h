/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs functions ("attempts") in processes that confine themselves. The configuration of the
 * processes has one model directory, models/ in the directory `dir`. */

#include "common/confine/confine.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/config/config.h"
#include "lib/test.h"

static char dir[64];

enum phase {
    STARTED,
    SEALED,
};

static struct config *config_here(void)
{
    struct config *c = NULL;
    char text[256];
    struct inf_err err;

    ASSERT_OK(config_new(&c));
    snprintf(text, sizeof(text), "models:\n  directories: [%s/models]\n", dir);
    ASSERT_OK_ERR(config_apply(c, "t", text, strlen(text), &err), err);
    return c;
}

/* Runs @attempt in a process that first confines itself. Returns the wait status of the process;
 * its exit status is the result of @attempt. */
static int confined(const char *service, enum phase phase, int (*attempt)(const void *arg),
                    const void *arg)
{
    const pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct inf_err err = {0};
        struct config *config = config_here();

        if (confine_start(service, config, &err) < 0 ||
            (phase == SEALED && confine_seal(&err) < 0)) {
            fprintf(stderr, "%s\n", err.text);
            _exit(100);
        }
        _exit(attempt(arg));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int setup_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/test-confine-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", dir);
    return system(command);
}
