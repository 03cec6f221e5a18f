/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the entry point of a fuzzer on each file of its corpus, for builds without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rbe");
    uint8_t *data;
    long size;

    if (!f)
        return -1;
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    data = malloc((size_t)size + 1);
    if (data && fread(data, 1, (size_t)size, f) == (size_t)size)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    fclose(f);
    return 0;
}

int main(int argc, char **argv)
{
    size_t n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        struct dirent *e;

        while (d && (e = readdir(d))) {
            char path[4096];

            if (e->d_name[0] == '.')
                continue;
            snprintf(path, sizeof(path), "%s/%s", argv[i], e->d_name);
            if (run_file(path) == 0)
                n++;
        }
        if (d)
            closedir(d);
    }
    printf("%zu inputs\n", n);
    return n > 0 ? 0 : 1;
}
