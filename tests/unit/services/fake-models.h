/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fake models for tests of the pool of models.
 *
 * Loading a path that starts with "slow" waits for the test; so does opening a path that starts
 * with "held". The path "bad" cannot be opened, "none" can be opened but cannot compute, and "weak"
 * fails to load. The path "big-N" takes N bytes of memory, and the path "big-N/D" also takes D
 * bytes of the device; other models take one byte. Events are logged: "+a" when model a is loaded,
 * "-a" when it is unloaded.
 */
#include "host/residents.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>

#include "common/models/models.h"
#include "core/err.h"
#include "lib/test.h"

struct inf_model {
    bool is_stale;
    int n_refs;
    struct inf_model_info info;
};

struct fake {
    struct resident base;
    char kind; /* 0: any */
    int fd;    /* 0: not open */
};

struct waiter {
    struct resident_waiter base;
    struct resident *got;
    struct problem problem;
    unsigned n_answers;
};

static struct residents pool;
static sem_t gate;
static pthread_t main_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char story[256]; /* protected by the lock */
static bool closed_beside;
static unsigned n_read;
static int n_models;
static unsigned n_opened; /* how often a model was opened */

static void tell(char sign, const char *name)
{
    size_t len;

    pthread_mutex_lock(&lock);
    len = strlen(story);
    snprintf(story + len, sizeof(story) - len, "%c%s", sign, name);
    pthread_mutex_unlock(&lock);
}

/* --- fakes of library functions --- */

int inf_model_open(const struct inf_model_params *params, struct inf_model **ret_model,
                   struct inf_err *reterr)
{
    if (strncmp(params->path, "held", 4) == 0)
        sem_wait(&gate);
    if (strcmp(params->path, "bad") == 0)
        return err_set(reterr, EBADMSG, "it is bad");
    if (strcmp(params->path, "huge") == 0)
        return -ENOMEM;
    *ret_model = calloc(1, sizeof(**ret_model));
    assert_non_null(*ret_model);
    (*ret_model)->n_refs = 1;
    __atomic_fetch_add(&n_models, 1, __ATOMIC_RELAXED);
    n_opened++;
    return 0;
}

struct inf_model *inf_model_ref(struct inf_model *model)
{
    __atomic_fetch_add(&model->n_refs, 1, __ATOMIC_RELAXED);
    return model;
}

struct inf_model *inf_model_unref(struct inf_model *model)
{
    if (!model || __atomic_fetch_sub(&model->n_refs, 1, __ATOMIC_ACQ_REL) > 1)
        return NULL;
    __atomic_fetch_sub(&n_models, 1, __ATOMIC_RELAXED);
    free(model);
    return NULL;
}

int inf_model_check(const struct inf_model *model, struct inf_err *reterr)
{
    return model->is_stale ? err_set(reterr, ESTALE, "it was cut short") : 0;
}

const struct inf_model_info *inf_model_info(const struct inf_model *model)
{
    return &model->info;
}

/* --- callbacks of a service --- */

static struct fake *fake_of(const struct resident *resident)
{
    return (struct fake *)(void *)resident;
}

static int fake_serves(const struct resident *resident, const void *key, struct problem *problem)
{
    const char *kind = key;

    if (kind && *kind == '!' && resident->state == RESIDENT_READY)
        return problem_set(problem, 400, "impossible", NULL, "No model does that.");
    return (kind ? *kind : 0) == fake_of(resident)->kind;
}

static int fake_init(struct resident *resident, const void *key)
{
    fake_of(resident)->kind = key ? *(const char *)key : 0;
    return 0;
}

static int fake_suits(struct resident *resident, struct inf_err *reterr)
{
    assert_non_null(resident->model);
    if (strcmp(resident->path, "none") == 0)
        return err_set(reterr, EOPNOTSUPP, "it computes nothing");
    return 0;
}

static int fake_measure(struct resident *resident, struct inf_err *reterr)
{
    unsigned host = 1, device = 0;

    (void)reterr;
    sscanf(resident->path, "big-%u/%u", &host, &device);
    resident->want_bytes = resident->least_bytes = host;
    resident->device_bytes = device;
    /* The model asks for all of these bytes, but half of them suffice. */
    if (strncmp(resident->path, "big-8", 5) == 0)
        resident->least_bytes = host / 2;
    return 0;
}

static void fake_advise(const struct resident *resident, uint64_t room, char *text, size_t size)
{
    snprintf(text, size, " %s could have %llu.", resident->name, (unsigned long long)room);
}

static int fake_open(struct resident *resident, struct inf_err *reterr)
{
    if (strncmp(resident->path, "slow", 4) == 0)
        sem_wait(&gate);
    if (strcmp(resident->path, "weak") == 0)
        return err_set(reterr, EINVAL, "it is weak");
    fake_of(resident)->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tell('+', resident->name);
    return 0;
}

static void fake_close(struct resident *resident)
{
    if (!fake_of(resident)->fd)
        return;
    closed_beside = !pthread_equal(pthread_self(), main_thread);
    close(fake_of(resident)->fd);
    tell('-', resident->name);
}

static int fake_fd(const struct resident *resident)
{
    return fake_of(resident)->fd;
}

static void fake_readable(struct resident *resident)
{
    uint64_t n;

    assert_int_equal(read(fake_of(resident)->fd, &n, sizeof(n)), sizeof(n));
    n_read++;
    loop_stop(pool.loop);
}

static void fake_loaded(const struct resident *resident)
{
    assert_int_equal(resident->state, RESIDENT_READY);
}

static const struct residents_ops fake_ops = {
    .size = sizeof(struct fake),
    .serves = fake_serves,
    .init = fake_init,
    .suits = fake_suits,
    .measure = fake_measure,
    .advise = fake_advise,
    .open = fake_open,
    .close = fake_close,
    .fd = fake_fd,
    .readable = fake_readable,
    .loaded = fake_loaded,
    .failed = resident_load_problem,
};

/* --- clients --- */

static void on_ready(struct resident_waiter *base, struct resident *resident,
                     const struct problem *problem)
{
    struct waiter *w = (struct waiter *)base;

    w->got = resident;
    if (problem)
        w->problem = *problem;
    w->n_answers++;
    loop_stop(pool.loop);
}

static struct waiter waiter(void)
{
    return (struct waiter){.base.ready = on_ready};
}

/* The settings of models; "not given" at the beginning of a test. */
static struct model_settings settings;

/* Requests the model @name, whose file @path has @mtime. */
static void want_file(struct waiter *w, const char *name, const char *path, int64_t mtime,
                      const char *kind)
{
    const struct models_entry entry = {
        .name = name, .path = path, .mtime = mtime, .settings = settings};

    residents_want(&pool, &entry, kind, &w->base);
}

static void want(struct waiter *w, const char *name)
{
    want_file(w, name, name, 1, NULL);
}

static void until_answered(const struct waiter *w)
{
    while (!w->n_answers)
        ASSERT_OK(loop_run(pool.loop));
}

static struct resident *take(const char *name, const char *kind)
{
    struct waiter w = waiter();

    want_file(&w, name, name, 1, kind);
    until_answered(&w);
    assert_non_null(w.got);
    return w.got;
}

static void fire(struct loop_timer *timer)
{
    (void)timer;
    loop_stop(pool.loop);
}

/* Runs all pending work. */
static void settle(void)
{
    struct loop_timer timer = {.fire = fire};

    loop_timer_set(pool.loop, &timer, 20 * 1000u);
    while (loop_timer_is_set(&timer))
        ASSERT_OK(loop_run(pool.loop));
}

static void begin(uint32_t max_models)
{
    pool = (struct residents){.ops = &fake_ops, .max_models = max_models};
    model_settings_clear(&settings);
    story[0] = '\0';
    n_read = n_opened = 0;
    main_thread = pthread_self();
    sem_init(&gate, 0, 0);
    ASSERT_OK(loop_new(&pool.loop));
    ASSERT_OK(residents_init(&pool));
}

static void finish(void)
{
    residents_stop(&pool);
    residents_done(&pool);
    loop_free(pool.loop);
    sem_destroy(&gate);
    assert_int_equal(n_models, 0);
}
