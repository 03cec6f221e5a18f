/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the memory of the pool of models: budgets, pinned models, and which models are unloaded for
 * others. */
#include "fake-models.h"

TEST(models_share_a_budget_of_memory)
{
    begin(8);
    pool.host_budget = 10;
    resident_release(take("big-4", NULL));
    settle();
    resident_release(take("big-5", NULL));
    settle();
    resident_release(take("a", NULL));
    settle();
    ASSERT_STREQ(story, "+big-4+big-5+a");
    resident_release(take("big-4", NULL));
    settle();
    /* The least recently used models are unloaded, and only as many as needed. */
    take("big-6", NULL);
    ASSERT_STREQ(story, "+big-4+big-5+a-a-big-5+big-6");
    finish();
}

TEST(a_model_that_never_fits_unloads_nothing)
{
    struct waiter w = waiter();

    begin(8);
    pool.host_budget = 10;
    resident_release(take("big-4", NULL));
    settle();
    want(&w, "big-11");
    until_answered(&w);
    assert_null(w.got);
    assert_int_equal(w.problem.status, 507);
    ASSERT_STREQ(w.problem.code, "model_too_large");
    ASSERT_CONTAINS(w.problem.message, "'big-11' needs 0.0 MiB of memory");
    ASSERT_CONTAINS(w.problem.message, "big-11 could have 10.");
    pool.device_budget = 3;
    w = waiter();
    want(&w, "big-1/4");
    until_answered(&w);
    assert_int_equal(w.problem.status, 507);
    ASSERT_CONTAINS(w.problem.message, "the device's memory");
    settle();
    ASSERT_STREQ(story, "+big-4");
    finish();
}

TEST(a_model_gets_less_than_it_wants_if_memory_is_short)
{
    struct resident *r;

    begin(8);
    pool.host_budget = 60;
    r = take("big-80", NULL);
    assert_int_equal(r->host_bytes, 60);
    finish();
}

TEST(pinned_models_stay)
{
    struct waiter w = waiter();
    struct resident *a;

    begin(2);
    pool.host_budget = 10;
    settings.pinned = true;
    a = take("big-4", NULL);
    resident_release(a);
    settings.pinned = false;
    settle();
    assert_true(residents_kept_usec(&pool) > 86400 * 1000000ull);
    resident_release(take("b", NULL));
    settle();
    resident_release(take("c", NULL));
    settle();
    want(&w, "big-7");
    until_answered(&w);
    assert_int_equal(w.problem.status, 507);
    ASSERT_CONTAINS(w.problem.message, "of which pinned models take 0.0 MiB");
    settle();
    ASSERT_STREQ(story, "+big-4+b-b+c");
    residents_unload(&pool, "big-4", false);
    settle();
    ASSERT_STREQ(story, "+big-4+b-b+c");
    residents_unload(&pool, "big-4", true);
    settle();
    ASSERT_STREQ(story, "+big-4+b-b+c-big-4");
    finish();
}

TEST(new_settings_of_a_manifest_load_an_unused_model_again)
{
    begin(1);
    resident_release(take("a", NULL));
    settle();
    settings.context = 512;
    take("a", NULL);
    ASSERT_STREQ(story, "+a-a+a");
    finish();
}

TEST(a_model_that_waits_long_gets_its_turn)
{
    struct waiter w = waiter(), again = waiter();
    struct resident *a, *b;

    begin(2);
    a = take("a", NULL);
    settle();
    b = take("b", NULL);
    want(&w, "c");
    settle();
    assert_ptr_equal(take("a", NULL), a);
    pool.first->since_usec = 1; /* c has waited for long */
    resident_release(a);
    settle();
    /* The model that was loaded first gets no new users, but keeps those that it has. */
    want(&again, "a");
    settle();
    assert_int_equal(w.n_answers + again.n_answers, 0);
    assert_int_equal(a->n_users, 1);
    ASSERT_STREQ(story, "+a+b");
    resident_release(a);
    until_answered(&w);
    ASSERT_STREQ(story, "+a+b-a+c");
    assert_int_equal(again.n_answers, 0);
    resident_release(b);
    until_answered(&again);
    ASSERT_STREQ(story, "+a+b-a+c-b+a");
    finish();
}

RUN_TESTS(cmocka_unit_test(models_share_a_budget_of_memory),
          cmocka_unit_test(a_model_that_never_fits_unloads_nothing),
          cmocka_unit_test(a_model_gets_less_than_it_wants_if_memory_is_short),
          cmocka_unit_test(pinned_models_stay),
          cmocka_unit_test(new_settings_of_a_manifest_load_an_unused_model_again),
          cmocka_unit_test(a_model_that_waits_long_gets_its_turn))
