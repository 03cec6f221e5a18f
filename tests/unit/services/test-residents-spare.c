/* SPDX-License-Identifier: Apache-2.0 */
/* Tests spares: models that made room for others, and whose files stay open for a while. */
#include "fake-models.h"

/* Begins with a place for one model, and a budget of @budget MiB. */
static void begin_with(uint64_t budget)
{
    begin(1);
    pool.host_budget = budget << 20;
}

/* Uses the model @name once. */
static void use(const char *name)
{
    resident_release(take(name, NULL));
    settle();
}

TEST(a_model_that_made_room_is_not_opened_again)
{
    begin_with(4096);
    use("a");
    use("b");
    use("a");
    use("b");
    assert_int_equal(n_opened, 2);
    assert_int_equal(pool.n_loads, 4);
    ASSERT_STREQ(story, "+a-a+b-b+a-a+b");
    finish();
}

TEST(spares_fit_into_the_budget)
{
    begin_with(100);
    /* A spare counts with 64 MiB and its weights, of which these models have none. */
    use("a");
    use("b");
    assert_int_equal(n_models, 2);
    use("c");
    assert_int_equal(n_models, 2);
    use("b");
    assert_int_equal(n_opened, 3);
    use("a");
    assert_int_equal(n_opened, 4);
    finish();
    begin_with(10);
    use("a");
    use("b");
    assert_int_equal(n_models, 1);
    finish();
    begin_with(0);
    use("a");
    use("b");
    assert_int_equal(n_models, 1);
    finish();
}

TEST(there_are_at_most_four_spares)
{
    begin_with(4096);
    for (char name[] = "a"; name[0] < 'h'; name[0]++)
        use(name);
    assert_int_equal(n_models, 1 + 4);
    finish();
}

TEST(a_spare_of_another_file_is_not_used)
{
    struct waiter w = waiter();

    begin_with(4096);
    use("a");
    use("b");
    want_file(&w, "a", "a", 2, NULL);
    until_answered(&w);
    assert_int_equal(n_opened, 3);
    resident_release(w.got);
    settle();
    w.got->model->is_stale = true;
    use("b");
    w = waiter();
    want_file(&w, "a", "a", 2, NULL);
    until_answered(&w);
    assert_int_equal(n_opened, 4);
    finish();
}

TEST(a_spare_of_another_template_is_not_used)
{
    begin_with(4096);
    use("a");
    use("b");
    settings.template = "chatml";
    use("a");
    assert_int_equal(n_opened, 3);
    use("b");
    assert_int_equal(n_opened, 4);
    use("a");
    assert_int_equal(n_opened, 4);
    finish();
}

TEST(a_model_that_is_unloaded_by_command_is_no_spare)
{
    struct waiter w = waiter();

    begin_with(4096);
    use("a");
    use("b");
    assert_int_equal(n_models, 2);
    residents_unload(&pool, "a", true);
    assert_int_equal(n_models, 1);
    residents_unload(&pool, "b", true);
    settle();
    assert_int_equal(n_models, 0);
    want(&w, "a");
    until_answered(&w);
    assert_int_equal(n_opened, 3);
    finish();
}

RUN_TESTS(cmocka_unit_test(a_model_that_made_room_is_not_opened_again),
          cmocka_unit_test(spares_fit_into_the_budget),
          cmocka_unit_test(there_are_at_most_four_spares),
          cmocka_unit_test(a_spare_of_another_file_is_not_used),
          cmocka_unit_test(a_spare_of_another_template_is_not_used),
          cmocka_unit_test(a_model_that_is_unloaded_by_command_is_no_spare))
