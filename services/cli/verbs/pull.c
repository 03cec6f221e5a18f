/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce pull: fetches a model and installs it into the store
 *
 * Only the child process sconce-fetch uses the network. This process starts the child, gives up its
 * own access to the network (policy `pull`), and then reads metadata, verifies files and installs
 * them.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/catalog.h"
#include "cli/cli.h"
#include "cli/pull/local.h"
#include "cli/pull/show.h"
#include "cli/pull/suggest.h"
#include "common/config/config.h"
#include "common/confine/confine.h"
#include "common/models/safe-path.h"
#include "common/pull/pull.h"
#include "common/store/store.h"
#include "core/err.h"

static const char help[] =
    "Usage: sconce pull [--name NAME] [--json] SOURCE\n"
    "       sconce pull --suggest [--json] [TASK]\n"
    "Fetches a model and installs it. SOURCE is one of:\n"
    "  OWNER/REPO[:WHAT]    a repository of Hugging Face's hub; WHAT is a quantization such as\n"
    "                       Q4_K_M or the name of a GGUF file. Also hf:OWNER/REPO[:WHAT]\n"
    "  ollama:NAME[:TAG]    a model of Ollama's registry\n"
    "  https://…            a GGUF file\n"
    "  PATH                 a file or directory of this machine, which is copied\n\n"
    "  --name NAME          the name of the model\n"
    "  --suggest            list recommended models: all, or those for chat, code, embedding,\n"
    "                       rerank or speech\n"
    "  --json               print a JSON object\n" CLI_MODELS_HELP;

/* One run of the verb. */
struct pull {
    struct config *config;
    struct pull_secrets secrets;
    struct pull_job job;
    struct pull_watch watch;
    struct pull_show show;
    char *store;
    bool json;
};

static void pull_done(struct pull *p)
{
    pull_job_done(&p->job);
    pull_secrets_done(&p->secrets);
    config_free(p->config);
    free(p->store);
}

/* Gives up access to the network, and to all files outside of the store. */
static int confine_pull(struct pull *p, struct inf_err *reterr)
{
    int r;

    if (chdir(p->store) < 0)
        return err_set(reterr, errno, "%s: %s", p->store, strerror(errno));
    r = confine_start("pull", p->config, reterr);
    return r < 0 ? r : confine_seal(reterr);
}

/* --- progress --- */

static void on_planned(void *data, const struct pull_plan *plan)
{
    struct pull *p = data;

    if (plan->why[0] && !p->json)
        fprintf(stderr, "%s\n", plan->why);
    p->show.all = p->job.source.kind == PULL_URL ? UINT64_MAX : pull_plan_bytes(plan);
}

static void on_fetched(void *data, size_t i, uint64_t bytes, uint64_t size)
{
    struct pull *p = data;

    (void)i;
    pull_show_bytes(&p->show, bytes, size);
}

static void on_complete(void *data, size_t i, uint64_t bytes)
{
    struct pull *p = data;

    (void)i;
    pull_show_file(&p->show, bytes);
}

static void on_verified(void *data, uint64_t bytes)
{
    struct pull *p = data;

    pull_show_verified(&p->show, bytes);
}

/* --- the verb --- */

static int pull_tell(const struct pull *p)
{
    json_t *out;

    if (!p->json) {
        if (p->job.plan.note[0])
            fprintf(stderr, "%s\n", p->job.plan.note);
        printf(p->job.was_there ? "%s is already installed, in %s\n" : "%s is installed in %s\n",
               p->job.plan.name, p->store);
        return CLI_OK;
    }
    out = json_pack("{s:s, s:s, s:I, s:b, s:s?, s:s?, s:s?}", "name", p->job.plan.name, "store",
                    p->store, "bytes", (json_int_t)pull_plan_bytes(&p->job.plan), "was_there",
                    (int)p->job.was_there, "source", p->job.plan.source, "revision",
                    p->job.plan.revision, "note", p->job.plan.note[0] ? p->job.plan.note : NULL);
    if (!out)
        return cli_error("pull", "out of memory");
    json_dumpf(out, stdout, JSON_INDENT(2));
    json_decref(out);
    putchar('\n');
    return CLI_OK;
}

static int pull_run(struct pull *p, struct inf_err *reterr)
{
    const bool is_local = p->job.source.kind == PULL_PATH;
    int r = pull_secrets_read(p->config, &p->secrets, reterr);

    unsetenv("HF_TOKEN");
    /* The machine's store belongs to the user of the store service. This service can remove only
     * files that belong to its user, so this process becomes that user. */
    if (r == 0)
        r = store_become_owner(p->store, reterr);
    if (r == 0)
        r = pull_job_open(&p->job, reterr);
    if (r == 0)
        r = is_local ? pull_copy_local(&p->job, reterr) : pull_job_start(&p->job, NULL, reterr);
    if (r == 0)
        r = confine_pull(p, reterr);
    if (r == 0 && !is_local)
        r = pull_job_fetch(&p->job, reterr);
    if (r == 0) {
        pull_show_restart(&p->show, "verifying");
        r = pull_job_finish(&p->job, reterr);
    }
    pull_show_done(&p->show);
    return r;
}

static int pull_source(const struct cli_models *m, const char *text, const char *name, bool json)
{
    _cleanup_(pull_done) struct pull p = {.job.lock = -1, .json = json};
    struct pull_job *job = &p.job;
    struct inf_err err;
    int r;

    if (pull_source_read(text, &job->source, &err) < 0)
        return cli_usage("pull", "%s", err.text);
    if (name && (!model_name_is_safe(name) || strlen(name) >= sizeof(job->plan.name)))
        return cli_usage("pull", "--name \"%s\" cannot be the name of a model", name);
    snprintf(job->plan.name, sizeof(job->plan.name), "%s", name ? name : "");
    p.show = (struct pull_show){
        .what = text, .all = UINT64_MAX, .quiet = json, .is_terminal = isatty(STDERR_FILENO)};
    p.watch = (struct pull_watch){on_planned, on_fetched, on_complete, on_verified, &p};
    r = cli_config("pull", m, &p.config);
    if (r != CLI_OK)
        return r;
    if (store_directory(p.config, m->n_dirs > 0, &p.store, &err) < 0)
        return cli_error("pull", "%s", err.text);
    job->config = p.config;
    job->secrets = &p.secrets;
    job->store = p.store;
    job->watch = &p.watch;
    if (pull_run(&p, &err) < 0)
        return cli_error("pull", "%s", err.text);
    return pull_tell(&p);
}

int verb_pull(int argc, char **argv)
{
    static const struct option options[] = {
        {"name", required_argument, NULL, 'n'},
        {"suggest", no_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    const char *name = NULL;
    struct cli_models m = {0};
    bool json = false, suggest = false;
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'j')
            json = true;
        else if (c == 's')
            suggest = true;
        else if (c == 'n')
            name = optarg;
        else if (c == 'h')
            return cli_help(help);
        else if (!cli_models_option(&m, c, optarg))
            return cli_usage("pull", "wrong option");
    }
    if (suggest && optind + 1 >= argc)
        return suggest_print(optind < argc ? argv[optind] : NULL, json);
    if (suggest || optind + 1 != argc)
        return cli_usage("pull", suggest ? "give one task" : "give one source");
    /* All users may read the new files, because the services run as users of their own. */
    umask(022);
    return pull_source(&m, argv[optind], name, json);
}
