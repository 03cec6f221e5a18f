/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confined POLICY: a process that has the walls of a policy and writes until nobody takes it
 *
 * For policies of processes that are not services of their own, such as decoders.
 */
#include <stdio.h>
#include <unistd.h>

#include "common/confine/confine.h"

int main(int argc, char **argv)
{
    struct inf_err err = {};

    if (argc != 2)
        return 2;
    if (confine_start(argv[1], NULL, &err) < 0 || confine_seal(&err) < 0) {
        fprintf(stderr, "confined: %s\n", err.text);
        return 1;
    }
    /* It waits in a full pipe: all that is confined so may write. */
    while (write(STDOUT_FILENO, "sealed\n", 7) == 7)
        ;
    return 0;
}
