/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the pool of models, with fake models.
 *
 * Loading a path that starts with "slow" waits for the test; so does opening a path that starts
 * with "held". The path "bad" cannot be opened, "none" can be opened but cannot compute, and "weak"
 * fails to load. Events are logged: "+a" when model a is loaded, "-a" when it is unloaded.
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
    __atomic_fetch_add(&n_models, 1, __ATOMIC_RELAXED);
    return 0;
}

struct inf_model *inf_model_unref(struct inf_model *model)
{
    if (model)
        __atomic_fetch_sub(&n_models, 1, __ATOMIC_RELAXED);
    free(model);
    return NULL;
}

int inf_model_check(const struct inf_model *model, struct inf_err *reterr)
{
    return model->is_stale ? err_set(reterr, ESTALE, "it was cut short") : 0;
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

/* Requests the model @name, whose file @path has @mtime. */
static void want_file(struct waiter *w, const char *name, const char *path, int64_t mtime,
                      const char *kind)
{
    const struct models_entry entry = {.name = name, .path = path, .mtime = mtime};

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
    story[0] = '\0';
    n_read = 0;
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

/* --- tests --- */

TEST(one_load_serves_all_who_wait_for_it)
{
    struct waiter first = waiter(), second = waiter();

    begin(1);
    want(&first, "slow-a");
    want(&second, "slow-a");
    assert_null(residents_find(&pool, "slow-a"));
    sem_post(&gate);
    until_answered(&first);
    until_answered(&second);
    assert_non_null(first.got);
    assert_ptr_equal(first.got, second.got);
    assert_int_equal(first.got->n_users, 2);
    assert_ptr_equal(residents_find(&pool, "slow-a"), first.got);
    assert_ptr_equal(take("slow-a", NULL), first.got);
    assert_int_equal(pool.n_loads, 1);
    finish();
    ASSERT_STREQ(story, "+slow-a-slow-a");
}

TEST(a_model_for_two_purposes_counts_as_two)
{
    struct resident *v, *s;

    begin(2);
    v = take("a", "v");
    s = take("a", "s");
    assert_ptr_not_equal(v, s);
    assert_ptr_equal(take("a", "v"), v);
    assert_ptr_equal(residents_ready(pool.first), s);
    assert_ptr_equal(residents_ready(s->next), v);
    assert_null(residents_ready(v->next));
    finish();
    assert_int_equal(pool.n_loads, 2);
}

TEST(the_least_recently_used_model_makes_room)
{
    begin(2);
    resident_release(take("a", NULL));
    settle();
    resident_release(take("b", NULL));
    settle();
    resident_release(take("a", NULL));
    settle();
    take("c", NULL);
    ASSERT_STREQ(story, "+a+b-b+c");
    assert_true(closed_beside);
    assert_null(residents_find(&pool, "b"));
    finish();
}

TEST(a_model_waits_while_all_others_have_users)
{
    struct waiter first = waiter(), second = waiter();
    struct resident *a;

    begin(0);
    a = take("a", NULL);
    want(&first, "b");
    settle();
    want(&second, "c");
    settle();
    assert_int_equal(first.n_answers + second.n_answers, 0);
    resident_release(a);
    until_answered(&first);
    settle();
    assert_int_equal(second.n_answers, 0);
    resident_release(first.got);
    until_answered(&second);
    ASSERT_STREQ(story, "+a-a+b-b+c");
    finish();
}

TEST(a_model_stays_as_long_as_a_request_says)
{
    struct resident *a, *b;

    begin(3);
    a = take("a", NULL);
    b = take("b", NULL);
    a->keep_usec = 0;
    b->keep_usec = 3600 * 1000000ull;
    settle();
    ASSERT_STREQ(story, "+a+b");
    assert_int_equal(residents_kept_usec(&pool), 0);
    resident_release(a);
    resident_release(b);
    settle();
    ASSERT_STREQ(story, "+a+b-a");
    assert_true(residents_kept_usec(&pool) > 3500 * 1000000ull);
    b->keep_usec = 1000;
    take("b", NULL);
    resident_release(b);
    settle();
    ASSERT_STREQ(story, "+a+b-a-b");
    assert_int_equal(residents_kept_usec(&pool), 0);
    a = take("a", NULL);
    residents_unload(&pool, "a");
    settle();
    resident_release(a);
    settle();
    ASSERT_STREQ(story, "+a+b-a-b+a-a");
    finish();
}

TEST(waiting_requests_get_the_error_of_a_failed_load)
{
    struct waiter first = waiter(), second = waiter(), third = waiter(), fourth = waiter();

    begin(1);
    want(&first, "bad");
    want(&second, "bad");
    until_answered(&first);
    until_answered(&second);
    assert_null(first.got);
    assert_null(second.base.resident);
    assert_int_equal(first.problem.status, 400);
    ASSERT_STREQ(second.problem.code, "model_unusable");
    ASSERT_STREQ(second.problem.message, "The files of the model 'bad' cannot be used: it is bad.");
    want(&third, "none");
    until_answered(&third);
    assert_int_equal(third.problem.status, 400);
    ASSERT_STREQ(third.problem.code, "unsupported_model");
    ASSERT_CONTAINS(third.problem.message, "it computes nothing");
    third = waiter();
    want(&third, "weak");
    until_answered(&third);
    assert_int_equal(third.problem.status, 500);
    ASSERT_STREQ(third.problem.message, "The model 'weak' cannot be loaded: it is weak.");
    want(&fourth, "huge");
    until_answered(&fourth);
    assert_int_equal(fourth.problem.status, 503);
    assert_null(pool.first);
    assert_null(pool.loading);
    /* The slot is free. */
    take("a", NULL);
    assert_int_equal(pool.n_loads, 1);
    finish();
}

TEST(a_purpose_that_a_loaded_model_lacks_unloads_nothing)
{
    struct waiter w = waiter();

    begin(1);
    resident_release(take("a", NULL));
    want_file(&w, "a", "a", 1, "!");
    assert_int_equal(w.n_answers, 1);
    assert_null(w.got);
    ASSERT_STREQ(w.problem.code, "impossible");
    settle();
    ASSERT_STREQ(story, "+a");
    finish();
}

TEST(an_unusable_model_unloads_nothing)
{
    static const char *const names[] = {"bad", "none", "huge"};
    struct waiter w;

    begin(1);
    resident_release(take("a", NULL));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        w = waiter();
        want(&w, names[i]);
        until_answered(&w);
        assert_null(w.got);
    }
    settle();
    ASSERT_STREQ(story, "+a");
    assert_ptr_equal(take("a", NULL), residents_find(&pool, "a"));
    assert_int_equal(pool.n_loads, 1);
    finish();
}

TEST(an_unusable_model_is_reported_during_other_loads)
{
    struct waiter slow = waiter(), bad = waiter(), next = waiter();

    begin(1);
    want(&slow, "slow-a");
    settle();
    assert_non_null(pool.loading);
    want(&bad, "bad");
    want(&next, "b");
    until_answered(&bad);
    assert_null(bad.got);
    assert_int_equal(slow.n_answers + next.n_answers, 0);
    sem_post(&gate);
    until_answered(&slow);
    resident_release(slow.got);
    until_answered(&next);
    ASSERT_STREQ(story, "+slow-a-slow-a+b");
    finish();
}

TEST(a_model_that_was_opened_for_nobody_is_closed)
{
    struct waiter w = waiter();

    begin(1);
    resident_release(take("a", NULL));
    want(&w, "held-b");
    settle();
    resident_forget(&w.base);
    sem_post(&gate);
    settle();
    assert_null(residents_find(&pool, "held-b"));
    assert_null(pool.first->next);
    ASSERT_STREQ(story, "+a");
    finish();
}

TEST(a_model_without_waiting_requests_is_not_loaded)
{
    struct waiter first = waiter(), second = waiter(), third = waiter();
    struct resident *a;

    begin(1);
    a = take("a", NULL);
    want(&first, "b");
    want(&second, "b");
    resident_forget(&first.base);
    assert_non_null(second.base.resident);
    resident_forget(&second.base);
    resident_forget(&second.base);
    resident_release(a);
    settle();
    ASSERT_STREQ(story, "+a");
    /* A model that is being loaded stays, for the next request. */
    want(&third, "slow-c");
    settle();
    assert_non_null(pool.loading);
    resident_forget(&third.base);
    sem_post(&gate);
    settle();
    ASSERT_STREQ(story, "+a-a+slow-c");
    assert_int_equal(residents_find(&pool, "slow-c")->n_users, 0);
    finish();
    assert_int_equal(first.n_answers + second.n_answers + third.n_answers, 0);
}

TEST(a_replaced_file_is_loaded_again_once_nobody_uses_it)
{
    struct waiter first = waiter(), second = waiter(), third = waiter();

    begin(2);
    want_file(&first, "a", "a", 1, NULL);
    until_answered(&first);
    want_file(&second, "a", "a", 2, NULL);
    assert_ptr_equal(second.got, first.got);
    resident_release(first.got);
    resident_release(first.got);
    want_file(&third, "a", "a", 2, NULL);
    until_answered(&third);
    assert_int_equal(third.got->mtime, 2);
    ASSERT_STREQ(story, "+a-a+a");
    resident_release(third.got);
    third = waiter();
    want_file(&third, "a", "elsewhere", 2, NULL);
    until_answered(&third);
    ASSERT_STREQ(third.got->path, "elsewhere");
    ASSERT_STREQ(story, "+a-a+a-a+a");
    finish();
}

TEST(a_changed_file_is_loaded_again_at_once_and_unloaded_with_its_users)
{
    struct waiter second = waiter(), third = waiter();
    struct resident *a, *b;

    begin(2);
    a = take("a", NULL);
    b = take("b", NULL);
    a->model->is_stale = true;
    want(&second, "a");
    until_answered(&second);
    assert_ptr_not_equal(second.got, a);
    ASSERT_STREQ(story, "+a+b+a");
    assert_true(a->dropped);
    resident_check(a);
    /* The results of the stale model are still delivered, but no new request finds the model. */
    assert_int_equal(eventfd_write(fake_of(a)->fd, 1), 0);
    settle();
    assert_int_equal(n_read, 1);
    assert_ptr_equal(residents_find(&pool, "a"), second.got);
    want(&third, "a");
    assert_ptr_equal(third.got, second.got);
    resident_release(a);
    settle();
    ASSERT_STREQ(story, "+a+b+a-a");
    resident_release(second.got);
    resident_release(third.got);
    /* Without users the model is unloaded at the next lookup. */
    b->model->is_stale = true;
    resident_check(b);
    resident_release(b);
    settle();
    ASSERT_STREQ(story, "+a+b+a-a-b");
    finish();
}

TEST(results_are_taken_where_they_come)
{
    struct resident *a;

    begin(1);
    a = take("a", NULL);
    assert_int_equal(eventfd_write(fake_of(a)->fd, 1), 0);
    while (!n_read)
        ASSERT_OK(loop_run(pool.loop));
    finish();
}

TEST(the_end_frees_waiting_requests_and_loaded_models)
{
    struct waiter first = waiter(), second = waiter();

    begin(1);
    resident_release(take("a", NULL));
    want(&first, "slow-b");
    settle();
    want(&second, "c");
    settle();
    assert_non_null(pool.loading);
    sem_post(&gate);
    finish();
    ASSERT_STREQ(story, "+a-a+slow-b-slow-b");
}

RUN_TESTS(cmocka_unit_test(one_load_serves_all_who_wait_for_it),
          cmocka_unit_test(a_model_for_two_purposes_counts_as_two),
          cmocka_unit_test(the_least_recently_used_model_makes_room),
          cmocka_unit_test(a_model_waits_while_all_others_have_users),
          cmocka_unit_test(a_model_stays_as_long_as_a_request_says),
          cmocka_unit_test(waiting_requests_get_the_error_of_a_failed_load),
          cmocka_unit_test(a_purpose_that_a_loaded_model_lacks_unloads_nothing),
          cmocka_unit_test(an_unusable_model_unloads_nothing),
          cmocka_unit_test(an_unusable_model_is_reported_during_other_loads),
          cmocka_unit_test(a_model_that_was_opened_for_nobody_is_closed),
          cmocka_unit_test(a_model_without_waiting_requests_is_not_loaded),
          cmocka_unit_test(a_replaced_file_is_loaded_again_once_nobody_uses_it),
          cmocka_unit_test(a_changed_file_is_loaded_again_at_once_and_unloaded_with_its_users),
          cmocka_unit_test(results_are_taken_where_they_come),
          cmocka_unit_test(the_end_frees_waiting_requests_and_loaded_models))
