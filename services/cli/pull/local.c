/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a model of this machine into the directory of a job (see local.h). */
#include "cli/pull/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/models/manifest.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

static int copy_file(const char *from, const char *to, struct inf_err *reterr)
{
    _cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
    _cleanup_close_ int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t n = -1;

    if (in < 0 || out < 0)
        return err_set(reterr, errno, "%s cannot be copied: %s", from, strerror(errno));
    while ((n = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0)) > 0)
        ;
    return n < 0 ? err_set(reterr, errno, "%s cannot be copied: %s", from, strerror(errno)) : 0;
}

int pull_copy_local(struct pull_job *job, struct inf_err *reterr)
{
    _cleanup_free_ char *real = realpath(job->source.text, NULL);
    _cleanup_(store_files_done) struct store_files files = {0};
    struct models_entry e = {.path = real};
    const char *base = real ? path_base(real) : "";
    int r;

    if (!real)
        return err_set(reterr, errno, "%s: %s", job->source.text, strerror(errno));
    job->plan.is_gguf = !path_is_dir(real);
    if (job->plan.is_gguf && !text_ends_with_nocase(base, ".gguf"))
        return err_set(reterr, EINVAL, "%s is neither a .gguf file nor a directory", real);
    if (!job->plan.name[0])
        snprintf(job->plan.name, sizeof(job->plan.name), "%.*s",
                 (int)(strlen(base) - (job->plan.is_gguf ? strlen(".gguf") : 0)), base);
    job->plan.source = arena_strndup(&job->plan.arena, real, strlen(real));
    r = store_files_list(&e, &files, reterr);
    for (size_t i = 0; r == 0 && i < files.n; i++) {
        _cleanup_free_ char *to = NULL;

        if (strcmp(files.files[i].name, MODEL_MANIFEST) == 0)
            continue;
        r = pull_plan_add(
            &job->plan,
            &(struct pull_file){.name = files.files[i].name, .size = files.files[i].size}, reterr);
        if (r == 0 && asprintf(&to, "%s/f%zu", job->dir, job->plan.n - 1) < 0)
            r = err_set(reterr, ENOMEM, "out of memory");
        if (r == 0)
            r = copy_file(files.files[i].path, to, reterr);
    }
    return r == 0 && job->plan.n == 0 ? err_set(reterr, ENOENT, "%s has no files", real) : r;
}
