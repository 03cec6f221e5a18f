/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates caches: replays traces of requests in a store of a given size, once with the policy of
 * the cache service and once with each other policy.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include <infer/tier.h>

#include "sim.h"

#define MAX_SIZES 16

static const char usage[] =
    "usage: cache-sim [OPTION]… TRACE…\n"
    "Replays traces (in the format of Mooncake or Qwen-Bailian). Prints which part of the\n"
    "requested blocks was in the cache, for plain LRU, the service's policy and other policies,\n"
    "with caches of some percent of the trace's different blocks.\n"
    "  --store N   also replay in the service's own store, with N blocks in a PUT; print its gain\n"
    "  --halves    also replay each half of a trace alone\n"
    "  --partial   also count blocks that a prompt does not fill, which the service never stores\n"
    "  --sizes     the sizes of the caches in percent (2,5,10,20)\n"
    "  --need      the gain over LRU in percent that the policy must reach (8)\n";

struct options {
    bool partial, halves;
    uint32_t store; /* blocks in a PUT; 0: the service's own store is not simulated */
    double sizes[MAX_SIZES], need;
    int n_sizes;
};

static double rate(uint64_t hits, uint64_t asked)
{
    return asked ? (double)hits / (double)asked : 0;
}

static double gain(double ours, double lru)
{
    return lru > 0 ? 100 * (ours / lru - 1) : 0;
}

static double rate_of(const struct sim_result *r)
{
    return rate(r->hits, r->asked);
}

static int size_line(const struct trace *t, const struct options *o, double percent,
                     double *ret_gain)
{
    const uint32_t capacity = (uint32_t)((double)t->n_blocks * percent / 100);
    struct sim_result all[SIM_CONTENDERS], ours;

    printf("  %6.4g %%", percent);
    for (int i = 0; i < SIM_CONTENDERS; i++) {
        const int r = sim_run(t, (enum contender_id)i, capacity, &all[i]);

        if (r < 0)
            return r;
        printf(" %8.4f", rate_of(&all[i]));
    }
    ours = all[SIM_OURS];
    if (o->store) {
        const int r = sim_run_store(t, capacity, o->store, &ours);

        if (r < 0)
            return r;
        printf(" %8.4f", rate_of(&ours));
    }
    *ret_gain = gain(rate_of(&ours), rate_of(&all[SIM_LRU]));
    printf("  %+6.1f %% %+6.1f %%  %3.0f %%  %s\n", *ret_gain,
           gain(rate(ours.late_hits, ours.late), rate(all[SIM_LRU].late_hits, all[SIM_LRU].late)),
           100 * rate(ours.put, all[SIM_LRU].put), ours.rule);
    return 0;
}

/* Replays one trace at all sizes. Returns 1 if the mean gain is below the target. */
static int replay(const struct trace *t, const struct options *o, const char *path,
                  const char *part)
{
    double sum = 0;

    printf("%s%s: %s, %" PRIu64 " requests, %" PRIu64 " blocks of %u tokens, %u different\n", path,
           part, t->format, t->n_requests, t->n_chain, t->block_tokens, t->n_blocks);
    printf("  %8s", "size");
    for (int i = 0; i < SIM_CONTENDERS; i++)
        printf(" %8s", sim_names[i]);
    if (o->store)
        printf(" %8s", "store");
    printf("  %8s %8s  %5s  %s\n", "gain", "2nd half", "puts", "rule");
    for (int i = 0; i < o->n_sizes; i++) {
        double g;
        const int r = size_line(t, o, o->sizes[i], &g);

        if (r < 0)
            return r;
        sum += g;
    }
    printf("  mean gain over LRU: %+.1f %%\n", sum / o->n_sizes);
    if (sum / o->n_sizes >= o->need)
        return 0;
    printf("  FAIL: %+.1f %% was wanted\n", o->need);
    return 1;
}

static int replay_half(const struct trace *t, const struct options *o, const char *path,
                       bool second)
{
    _cleanup_(trace_freep) struct trace *half = NULL;
    const uint64_t middle = t->n_requests / 2;
    int r = trace_slice(t, second ? middle : 0, second ? t->n_requests : middle, &half);

    return r < 0 ? r : replay(half, o, path, second ? ", second half" : ", first half");
}

static int replay_all(const struct trace *t, const struct options *o, const char *path)
{
    int short_of = replay(t, o, path, "");

    for (int i = 0; i < 2 && o->halves && short_of >= 0; i++) {
        const int r = replay_half(t, o, path, i == 1);

        short_of = r < 0 ? r : short_of | r;
    }
    return short_of;
}

static int run(const char *path, const struct options *o)
{
    _cleanup_(trace_freep) struct trace *t = NULL;
    struct inf_err err;
    FILE *f = fopen(path, "re");
    int r;

    if (!f) {
        fprintf(stderr, "cache-sim: %s: %s\n", path, strerror(errno));
        return -errno;
    }
    r = trace_read(f, o->partial, &t, &err);
    fclose(f);
    if (r < 0) {
        fprintf(stderr, "cache-sim: %s: %s\n", path, err.text);
        return r;
    }
    r = replay_all(t, o, path);
    if (r < 0)
        fprintf(stderr, "cache-sim: %s: %s\n", path, strerror(-r));
    return r;
}

static int read_sizes(char *text, struct options *o)
{
    o->n_sizes = 0;
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
        char *end;
        const double v = strtod(part, &end);

        if (*end || !(v > 0 && v <= 100) || o->n_sizes == MAX_SIZES)
            return -EINVAL;
        o->sizes[o->n_sizes++] = v;
    }
    return o->n_sizes > 0 ? 0 : -EINVAL;
}

static int read_options(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        {"halves", no_argument, NULL, 'h'},      {"partial", no_argument, NULL, 'p'},
        {"sizes", required_argument, NULL, 's'}, {"store", required_argument, NULL, 'S'},
        {"need", required_argument, NULL, 'n'},  {},
    };
    char *end;
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c == 'h') {
            o->halves = true;
        } else if (c == 'p') {
            o->partial = true;
        } else if (c == 's') {
            if (read_sizes(optarg, o) < 0)
                return -EINVAL;
        } else if (c == 'S') {
            o->store = (uint32_t)strtoul(optarg, &end, 10);
            if (*end || o->store == 0 || o->store > INF_TIER_MAX_BLOCKS)
                return -EINVAL;
        } else if (c == 'n') {
            o->need = strtod(optarg, &end);
            if (*end)
                return -EINVAL;
        } else {
            return -EINVAL;
        }
    }
    return optind < argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
    struct options o = {.sizes = {2, 5, 10, 20}, .n_sizes = 4, .need = 8};
    bool failed = false;

    if (read_options(argc, argv, &o) < 0) {
        fputs(usage, stderr);
        return 2;
    }
    for (int i = optind; i < argc; i++) {
        const int r = run(argv[i], &o);

        if (r < 0)
            return 2;
        failed = failed || r > 0;
    }
    return failed ? 1 : 0;
}
