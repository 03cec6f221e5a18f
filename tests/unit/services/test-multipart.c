/* SPDX-License-Identifier: Apache-2.0 */
/* Tests multipart forms as clients write them, cut at every byte, and invalid forms. */
#include "common/http/multipart.h"

#include "core/str.h"
#include "lib/test.h"

#define TYPE "multipart/form-data; boundary=XyZ"

struct form {
    struct str text; /* "name|filename|data;" of each part */
    int refuse;      /* the result of data() */
};

static int on_part(void *user, const struct multipart_part *part)
{
    struct form *form = user;

    return str_printf(&form->text, "%s|%s|", part->name, part->filename ? part->filename : "-");
}

static int on_data(void *user, const char *data, size_t len)
{
    struct form *form = user;

    return form->refuse ? form->refuse : str_append(&form->text, data, len);
}

static int on_end(void *user)
{
    struct form *form = user;

    return str_putc(&form->text, ';');
}

static const struct multipart_events events = {on_part, on_data, on_end};

/* Reads @body in pieces of @step bytes. */
static int parse(const char *type, const char *body, size_t len, size_t step, struct form *form,
                 struct inf_err *err)
{
    _cleanup_(multipart_freep) struct multipart *m = NULL;
    int r = multipart_new(type, strlen(type), &events, form, &m, err);

    for (size_t i = 0; r == 0 && i < len; i += step)
        r = multipart_feed(m, body + i, MIN(step, len - i), err);
    return r < 0 ? r : multipart_finish(m, err);
}

static void check_cut(const char *type, const char *body, size_t len, const char *expected)
{
    for (size_t step = 1; step <= len; step++) {
        struct form form = {0};
        struct inf_err err = {0};

        ASSERT_OK_ERR(parse(type, body, len, step, &form, &err), err);
        ASSERT_STREQ(form.text.data ? form.text.data : "", expected);
        str_done(&form.text);
    }
}

static void check(const char *type, const char *body, const char *expected)
{
    check_cut(type, body, strlen(body), expected);
}

static void check_refused(const char *type, const char *body, const char *why)
{
    const size_t steps[] = {1, 7, 100000};

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        struct form form = {0};
        struct inf_err err = {0};

        ASSERT_ERROR(parse(type, body, strlen(body), steps[i], &form, &err), EINVAL);
        ASSERT_CONTAINS(err.text, why);
        str_done(&form.text);
    }
}

#define PART(disposition, data)                                                                    \
    "--XyZ\r\nContent-Disposition: form-data; " disposition "\r\n\r\n" data "\r\n"
#define END "--XyZ--\r\n"

TEST(fields_and_files_arrive_however_the_body_is_cut)
{
    check(TYPE,
          PART("name=\"model\"", "tiny") PART("name=\"file\"; filename=\"a b.wav\"", "RIFF") END,
          "model|-|tiny;file|a b.wav|RIFF;");
    check(TYPE, "a preamble\r\n" PART("name=a", "") END "and an epilogue --XyZ", "a|-|;");
    check(TYPE, END, "");
    check(TYPE,
          "--XyZ  \r\ncontent-type: text/plain\r\nCONTENT-DISPOSITION:form-data;name=a\r\n\r\nx\r\n"
          "--XyZ-- \r\n",
          "a|-|x;");
}

TEST(text_like_a_delimiter_is_data)
{
    check(TYPE, PART("name=a", "\r\n--XyY\r\r\n--Xy\r\n-\r\n\r") END,
          "a|-|\r\n--XyY\r\r\n--Xy\r\n-\r\n\r;");
    check(TYPE, PART("name=a", "\r\n\r\n--\r\n--X") END, "a|-|\r\n\r\n--\r\n--X;");
    check(TYPE, PART("name=a", "--XyZ--") END, "a|-|--XyZ--;");
}

TEST(zero_bytes_pass)
{
    static const char body[] = PART("name=a", "x\0y") END;
    struct form form = {0};
    struct inf_err err = {0};

    ASSERT_OK_ERR(parse(TYPE, body, sizeof(body) - 1, 3, &form, &err), err);
    assert_int_equal(form.text.len, 8);
    assert_memory_equal(form.text.data, "a|-|x\0y;", 8);
    str_done(&form.text);
}

TEST(names_are_decoded_as_clients_write_them)
{
    check(TYPE, PART("name=\"timestamp_granularities[]\"", "word") END,
          "timestamp_granularities[]|-|word;");
    check(TYPE, PART("name=\"f\"; filename=\"a%22b%0d%0Ac%41\"", "") END, "f|a\"b\r\nc%41|;");
    check(TYPE, PART("name=\"f\"; filename=\"C:\\dir\\a\\\"b;c\\\\d\"", "") END,
          "f|C:\\dir\\a\"b;c\\d|;");
    check(TYPE, PART("filename*=UTF-8''x; name = \"f\" ; filename=plain", "") END, "f|plain|;");
}

TEST(boundaries_may_be_quoted)
{
    check("Multipart/Form-Data; charset=utf-8; boundary=\"a b'(:)?\"",
          "--a b'(:)?\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n--a b'(:)?--",
          "x|-|1;");
}

TEST(types_without_a_sound_boundary_are_refused)
{
    check_refused("application/json", END, "must be multipart/form-data");
    check_refused("multipart/form-data", END, "needs a boundary");
    check_refused("multipart/form-data; boundary=", END, "malformed");
    check_refused("multipart/form-data; boundary=\"a", END, "malformed");
    check_refused("multipart/form-data; boundary=a; boundary=b", END, "malformed");
    check_refused("multipart/form-data; boundary=\"a \"", END, "malformed");
    check_refused("multipart/form-data; boundary=a{}", END, "malformed");
    check_refused("multipart/form-data; boundary=01234567890123456789012345678901234567890123456789"
                  "012345678901234567890",
                  END, "malformed");
}

TEST(broken_forms_are_refused)
{
    char body[9000];

    check_refused(TYPE, "", "ends before its last boundary");
    check_refused(TYPE, "no form at all", "ends before its last boundary");
    check_refused(TYPE, PART("name=a", "x"), "ends before its last boundary");
    check_refused(TYPE, "--XyZ-\r\n", "must be followed by");
    check_refused(TYPE, "--XyZabc\r\n", "must be followed by");
    check_refused(TYPE, "--XyZ\r\n\r\nx\r\n" END, "no Content-Disposition");
    check_refused(TYPE, PART("filename=a", "x") END, "has no name");
    check_refused(TYPE, PART("name=\"\"", "x") END, "has no name");
    check_refused(TYPE, PART("name=a; name=b", "x") END, "two names");
    check_refused(TYPE, PART("name=\"a", "x") END, "malformed");
    check_refused(TYPE, PART("name=\"a\"b", "x") END, "malformed");
    check_refused(TYPE, PART("name=a; garbage", "x") END, "malformed");
    check_refused(TYPE, "--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\n" END,
                  "not form-data");
    check_refused(TYPE, "--XyZ\r\nno colon\r\n\r\n" END, "head of a part is malformed");
    check_refused(TYPE, "--XyZ\r\nContent-Disposition: form-data; name=a\n\r\n" END, "malformed");
    check_refused(TYPE,
                  "--XyZ\r\nContent-Disposition: form-data; name=a\r\n"
                  "Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\n" END,
                  "Content-Transfer-Encoding");
    snprintf(body, sizeof(body), "--XyZ\r\nX: %08000d\r\n\r\n", 1);
    check_refused(TYPE, body, "larger than 4096 bytes");
}

TEST(the_number_of_parts_is_limited)
{
    static const char part[] = PART("name=a", "x");
    char body[300 * sizeof(part)] = "";
    size_t n = 0;

    for (int i = 0; i < 257; i++, n += sizeof(part) - 1)
        memcpy(body + n, part, sizeof(part) - 1);
    memcpy(body + n, END, sizeof(END));
    check_refused(TYPE, body, "more than 256 parts");
}

TEST(an_error_of_a_callback_ends_the_parsing)
{
    static const char body[] = PART("name=a", "x") END;
    struct form form = {.refuse = -EFBIG};
    struct inf_err err = {0};

    ASSERT_ERROR(parse(TYPE, body, sizeof(body) - 1, 1, &form, &err), EFBIG);
    str_done(&form.text);
}

RUN_TESTS(cmocka_unit_test(fields_and_files_arrive_however_the_body_is_cut),
          cmocka_unit_test(text_like_a_delimiter_is_data), cmocka_unit_test(zero_bytes_pass),
          cmocka_unit_test(names_are_decoded_as_clients_write_them),
          cmocka_unit_test(boundaries_may_be_quoted),
          cmocka_unit_test(types_without_a_sound_boundary_are_refused),
          cmocka_unit_test(broken_forms_are_refused),
          cmocka_unit_test(the_number_of_parts_is_limited),
          cmocka_unit_test(an_error_of_a_callback_ends_the_parsing))
