/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the pool of models, with the fake models of fake-models.h. */
#include "fake-models.h"

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
    assert_int_equal(residents_unload(&pool, "a", false), 1);
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
