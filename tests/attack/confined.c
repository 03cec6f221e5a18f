/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confined POLICY: confines itself with a policy, and then writes until the reader of its output
 * closes the pipe.
 *
 * Tests use this program for policies of processes that are not services, such as decoders.
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
    /* The program blocks on a full pipe. Every confined process may write to its standard
     * output. */
    while (write(STDOUT_FILENO, "sealed\n", 7) == 7)
        ;
    return 0;
}
