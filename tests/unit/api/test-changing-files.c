/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests model files that change while they are opened and used. Bytes flip while a file is parsed,
 * and files are truncated or overwritten while requests run. Only requests that use the changed
 * file fail, with a reason.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <infer/audio.h>
#include <infer/infer.h>

#include "core/macros.h"
#include "core/rng.h"
#include "format/gguf/gguf.h"
#include "lib/gguf_writer.h"
#include "lib/tempdir.h"
#include "lib/open_model.h"

#define GUIDE    "../../packaging/guide/sconce-guide.gguf" /* beside tests/golden */
#define WHISPER  "audio/whisper/"
#define BERT     "embed/bert-mean/"
#define N_TOKENS 20000
#define N_LOADS  120
#define N_LONG   15000 /* tokens of an answer that is always disturbed before its end */
#define N_SOME   1500  /* tokens of an answer that is disturbed but may finish */

static const char *const whisper_files[] = {"config.json", "generation_config.json",
                                            "tokenizer.json", "model.safetensors", NULL};
static const char *const bert_files[] = {"config.json",           "modules.json",
                                         "1_Pooling/config.json", "tokenizer.json",
                                         "model.safetensors",     NULL};

static char path[256];

/* Returns the path of the test's file @name, valid until the next call. */
static const char *file_of(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* Copies a file and sets the copy's mtime back, so that any write changes the mtime. */
static const char *copy(const char *from, const char *to)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
    FILE *in = fopen(test_golden(from), "rbe"), *out = fopen(file_of(to), "wbe");
    char piece[4096];
    size_t n;

    assert_true(in && out);
    while ((n = fread(piece, 1, sizeof(piece), in)) > 0)
        assert_int_equal(fwrite(piece, 1, n, out), n);
    fclose(in);
    fclose(out);
    ASSERT_OK(utimensat(AT_FDCWD, path, times, 0));
    return path;
}

static const char *copy_dir(const char *from, const char *const *names, const char *to)
{
    for (size_t i = 0; names[i]; i++) {
        char source[128], target[128], *slash;

        snprintf(source, sizeof(source), "%s%s", from, names[i]);
        snprintf(target, sizeof(target), "%s/%s", to, names[i]);
        mkdir(file_of(to), 0700);
        slash = strrchr(target, '/');
        *slash = 0;
        mkdir(file_of(target), 0700);
        *slash = '/';
        copy(source, target);
    }
    return file_of(to);
}

/* --- bytes that flip --- */

struct flipper {
    unsigned char *data; /* the file, mapped shared and writable */
    size_t size, end;    /* size of the file; only bytes before @end may flip */
    size_t at;           /* the byte that flips; 0: random bytes */
    atomic_bool stop;
    pthread_t thread;
};

/* Flips one byte after another and restores it; both states last equally long. */
static void *flip(void *arg)
{
    struct flipper *f = arg;
    struct rng rng;

    rng_seed(&rng, 5);
    while (!atomic_load(&f->stop)) {
        volatile unsigned char *p = f->data + (f->at ? f->at : rng_u32(&rng) % f->end);
        const unsigned char old = *p;

        *p = f->at ? old ^ 0x40 : (unsigned char)rng_u32(&rng);
        for (unsigned i = 0; i < 4000; i++) {
            if (i == 2000)
                *p = old;
            (void)*p;
        }
    }
    return NULL;
}

static void flipper_start(struct flipper *f, const char *file, size_t end, size_t at)
{
    const int fd = open(file, O_RDWR | O_CLOEXEC);
    struct stat st;

    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    *f =
        (struct flipper){.size = (size_t)st.st_size, .end = MIN(end, (size_t)st.st_size), .at = at};
    f->data = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(f->data != MAP_FAILED);
    close(fd);
    assert_int_equal(pthread_create(&f->thread, NULL, flip, f), 0);
}

static void flipper_stop(struct flipper *f)
{
    atomic_store(&f->stop, true);
    pthread_join(f->thread, NULL);
    munmap(f->data, f->size);
}

/* Opens the file many times. If opening succeeds, encodes a text with the model. Many attempts
 * fail, but none crashes. */
static void load_often(const char *at, bool vocab_only)
{
    const struct inf_model_params params = {.path = at, .vocab_only = vocab_only};

    for (unsigned i = 0; i < N_LOADS; i++) {
        struct inf_model *model = NULL;
        int32_t *ids = NULL;
        struct inf_err err;
        size_t n;

        if (inf_model_open(&params, &model, &err) < 0)
            continue;
        inf_tokenizer_encode(inf_model_tokenizer(model), "w1 w22 w333 w4444", 17, 0, 0, &ids, &n);
        free(ids);
        inf_model_unref(model);
    }
}

/* Makes a GGUF file with a large vocabulary and merges. Returns the offset of the length of a
 * string in the middle of the list @key. */
static size_t write_vocabulary(const char *key)
{
    static char texts[2][N_TOKENS][16];
    static const char *list[2][N_TOKENS];
    struct gguf_writer w = {0};
    struct gguf *g;
    struct inf_err err;
    size_t len, at;
    char *file;
    FILE *f;

    for (unsigned i = 0; i < N_TOKENS; i++) {
        snprintf(texts[0][i], sizeof(texts[0][i]), "w%u", i);
        snprintf(texts[1][i], sizeof(texts[1][i]), "w%u %u", i / 10, i % 10);
        list[0][i] = texts[0][i];
        list[1][i] = texts[1][i];
    }
    gguf_put_string(&w, "tokenizer.ggml.model", "gpt2");
    gguf_put_strings(&w, "tokenizer.ggml.tokens", list[0], N_TOKENS);
    gguf_put_strings(&w, "tokenizer.ggml.merges", list[1], N_TOKENS);
    file = gguf_writer_finish(&w, &len);
    ASSERT_OK_ERR(gguf_parse(file, len, &g, &err), err);
    at = (size_t)(gguf_string_at(gguf_find(g, key), N_TOKENS / 2).data - file) - sizeof(uint64_t);
    gguf_close(g);
    f = fopen(file_of("vocabulary.gguf"), "wbe");
    assert_int_equal(fwrite(file, 1, len, f), len);
    fclose(f);
    free(file);
    return at;
}

static void flip_length(const char *key)
{
    const size_t at = write_vocabulary(key);
    struct flipper f;

    /* The length grows by a gigabyte. */
    flipper_start(&f, file_of("vocabulary.gguf"), 0, at + 3);
    load_often(path, true);
    flipper_stop(&f);
}

TEST(lengths_of_tokens_may_flip_while_they_are_read)
{
    flip_length("tokenizer.ggml.tokens");
}

TEST(lengths_of_merges_may_flip_while_they_are_read)
{
    flip_length("tokenizer.ggml.merges");
}

TEST(any_byte_of_a_header_may_flip_while_it_is_read)
{
    struct flipper f;

    flipper_start(&f, copy(GUIDE, "guide.gguf"), 40000, 0);
    load_often(path, false);
    flipper_stop(&f);
    flipper_start(&f, copy(WHISPER "ggml.bin", "ggml.bin"), 60000, 0);
    load_often(path, false);
    flipper_stop(&f);
    copy_dir(WHISPER, whisper_files, "hf");
    flipper_start(&f, file_of("hf/model.safetensors"), 8000, 0);
    load_often(file_of("hf"), false);
    flipper_stop(&f);
}

struct cutter {
    char file[256];
    off_t size;
    atomic_bool stop;
    pthread_t thread;
};

static void *cut(void *arg)
{
    struct cutter *c = arg;
    struct rng rng;

    rng_seed(&rng, 6);
    while (!atomic_load(&c->stop)) {
        ASSERT_OK(truncate(c->file, (off_t)(rng_u32(&rng) % (uint32_t)c->size)));
        ASSERT_OK(truncate(c->file, c->size));
    }
    return NULL;
}

TEST(a_file_may_be_cut_at_any_time_while_it_is_opened)
{
    static const char *const files[] = {"guide.gguf", "ggml.bin", "hf/model.safetensors"};

    ASSERT_OK(inf_files_guard());
    copy(GUIDE, "guide.gguf");
    copy(WHISPER "ggml.bin", "ggml.bin");
    copy_dir(WHISPER, whisper_files, "hf");
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct cutter c = {.stop = false};
        struct stat st;

        snprintf(c.file, sizeof(c.file), "%s", file_of(files[i]));
        ASSERT_OK(stat(c.file, &st));
        c.size = st.st_size;
        assert_int_equal(pthread_create(&c.thread, NULL, cut, &c), 0);
        load_often(i == 2 ? file_of("hf") : c.file, false);
        atomic_store(&c.stop, true);
        pthread_join(c.thread, NULL);
    }
}

/* --- text --- */

struct answer {
    enum inf_finish finish;
    uint32_t n_generated;
    char text[65536], error[256];
};

static struct inf_engine *new_engine(struct inf_model *model, uint32_t n_threads)
{
    const struct inf_engine_params params = {
        .model = model, .n_threads = n_threads, .n_ctx = 16384};
    struct inf_engine *engine;
    struct inf_err err;

    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    return engine;
}

static uint64_t ask(struct inf_engine *engine, uint32_t n)
{
    static const int32_t prompt[] = {5, 6, 7, 8};
    const struct inf_request q = {.tokens = prompt,
                                  .n_tokens = ARRAY_SIZE(prompt),
                                  .max_tokens = n,
                                  .ignore_eos = true,
                                  .n_logprobs = -1};
    struct inf_err err;
    uint64_t id;

    ASSERT_OK_ERR(inf_engine_submit(engine, &q, &id, &err), err);
    return id;
}

/* Waits for text or the end; returns true at the end. */
static bool read_event(struct inf_engine *engine, struct answer *a)
{
    const size_t len = strlen(a->text);
    struct inf_event e;

    do
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
    while (e.kind == INF_EVENT_PROMPT);
    if (e.kind == INF_EVENT_TOKENS) {
        snprintf(a->text + len, sizeof(a->text) - len, "%.*s", (int)e.text_len, e.text);
        return false;
    }
    a->finish = e.finish;
    a->n_generated = e.n_generated;
    snprintf(a->error, sizeof(a->error), "%s", e.error ? e.error : "");
    return true;
}

static void read_all(struct inf_engine *engine, struct answer *a)
{
    while (!read_event(engine, a))
        ;
}

/* Checks that a request is rejected with a reason. */
static void assert_refused(struct inf_engine *engine, const char *why)
{
    const int32_t token = 5;
    const struct inf_request q = {.tokens = &token, .n_tokens = 1, .n_logprobs = -1};
    struct inf_err err;
    uint64_t id;

    ASSERT_ERROR(inf_engine_submit(engine, &q, &id, &err), ESTALE);
    ASSERT_CONTAINS(err.text, why);
}

TEST(a_file_that_is_cut_ends_the_requests_of_its_model_alone)
{
    struct answer a = {0}, b = {0}, whole = {0};
    struct inf_model *model_a, *model_b;
    struct inf_engine *on_a, *on_b;
    struct inf_err err;

    ASSERT_OK(inf_files_guard());
    model_a = open_model(copy(GUIDE, "a.gguf"));
    model_b = open_model(copy(GUIDE, "b.gguf"));
    on_a = new_engine(model_a, 2);
    on_b = new_engine(model_b, 1);
    ask(on_b, 200);
    read_all(on_b, &whole);
    ask(on_a, N_LONG);
    ask(on_b, 200);
    assert_false(read_event(on_a, &a));
    ASSERT_OK(truncate(file_of("a.gguf"), 100000));
    read_all(on_a, &a);
    read_all(on_b, &b);
    assert_int_equal(a.finish, INF_FINISH_STALE);
    assert_true(a.n_generated < N_LONG);
    ASSERT_STREQ(a.error, "a.gguf was cut short while it was in use");
    assert_int_equal(b.finish, INF_FINISH_LENGTH);
    ASSERT_STREQ(b.text, whole.text);
    assert_refused(on_a, "cut short");
    ASSERT_ERROR(inf_model_check(model_a, &err), ESTALE);
    ASSERT_OK(inf_model_check(model_b, &err));
    inf_engine_free(on_a);
    inf_model_unref(model_a);
    /* The file is restored. */
    model_a = open_model(copy(GUIDE, "a.gguf"));
    on_a = new_engine(model_a, 2);
    a = (struct answer){0};
    ask(on_a, 200);
    read_all(on_a, &a);
    ASSERT_STREQ(a.text, whole.text);
    inf_engine_free(on_a);
    inf_engine_free(on_b);
    inf_model_unref(model_a);
    inf_model_unref(model_b);
}

TEST(a_file_that_is_written_to_ends_requests_at_their_end_at_the_latest)
{
    struct answer a = {0};
    struct inf_model *model = open_model(copy(GUIDE, "a.gguf"));
    struct inf_engine *engine = new_engine(model, 1);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    ask(engine, N_SOME);
    assert_false(read_event(engine, &a));
    /* Writes the same byte, so that only the mtime shows the write. */
    assert_int_equal(pread(fd, &byte, 1, 1000000), 1);
    assert_int_equal(pwrite(fd, &byte, 1, 1000000), 1);
    close(fd);
    read_all(engine, &a);
    assert_int_equal(a.finish, INF_FINISH_STALE);
    assert_int_equal(a.n_generated, N_SOME);
    ASSERT_STREQ(a.error, "a.gguf was written to while it was in use");
    assert_refused(engine, "written to");
    inf_engine_free(engine);
    inf_model_unref(model);
}

TEST(any_check_of_a_changed_file_ends_running_requests)
{
    struct answer a = {0};
    struct inf_model *model = open_model(copy(GUIDE, "a.gguf"));
    struct inf_engine *engine = new_engine(model, 1);
    const struct timespec now[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    struct inf_err err;

    ask(engine, N_LONG);
    assert_false(read_event(engine, &a));
    ASSERT_OK(utimensat(AT_FDCWD, path, now, 0));
    ASSERT_ERROR(inf_model_check(model, &err), ESTALE);
    read_all(engine, &a);
    assert_int_equal(a.finish, INF_FINISH_STALE);
    assert_true(a.n_generated < N_LONG);
    inf_engine_free(engine);
    inf_model_unref(model);
}

TEST(a_model_whose_file_is_replaced_by_renaming_continues)
{
    struct answer a = {0};
    struct inf_model *model = open_model(copy(GUIDE, "a.gguf"));
    struct inf_engine *engine = new_engine(model, 1);
    char other[256];

    ask(engine, 300);
    assert_false(read_event(engine, &a));
    snprintf(other, sizeof(other), "%s", copy(BERT "config.json", "other"));
    ASSERT_OK(rename(other, file_of("a.gguf")));
    read_all(engine, &a);
    assert_int_equal(a.finish, INF_FINISH_LENGTH);
    inf_engine_free(engine);
    inf_model_unref(model);
}

/* --- vectors and speech --- */

TEST(vectors_are_not_returned_when_the_file_changed)
{
    static const int32_t tokens[] = {2, 5, 6, 3};
    const struct inf_embed_text text = {.tokens = tokens, .n_tokens = ARRAY_SIZE(tokens)};
    const struct inf_embed_request q = {.texts = &text, .n_texts = 1};
    struct inf_embedder_params params = {.n_threads = 2};
    struct inf_embed_result *result;
    struct inf_embedder *e;
    struct inf_err err;
    uint64_t id;

    ASSERT_OK(inf_files_guard());
    copy_dir(BERT, bert_files, "bert");
    params.model = open_model(file_of("bert"));
    ASSERT_OK_ERR(inf_embedder_new(&params, &e, &err), err);
    ASSERT_OK_ERR(inf_embedder_submit(e, &q, &id, &err), err);
    result = inf_embedder_wait_result(e, 60000);
    assert_int_equal(result->error, 0);
    inf_embed_result_free(result);
    ASSERT_OK(truncate(file_of("bert/model.safetensors"), 8192));
    ASSERT_ERROR(inf_embedder_submit(e, &q, &id, &err), ESTALE);
    ASSERT_STREQ(err.text, "model.safetensors was cut short while it was in use");
    inf_embedder_free(e);
    inf_model_unref(params.model);
    ASSERT_ERROR(
        inf_model_open(&(struct inf_model_params){.path = file_of("bert")}, &params.model, &err),
        EBADMSG);
    /* The file is truncated while requests wait. */
    copy_dir(BERT, bert_files, "bert");
    params.model = open_model(file_of("bert"));
    ASSERT_OK_ERR(inf_embedder_new(&params, &e, &err), err);
    for (unsigned i = 0; i < 500; i++)
        ASSERT_OK_ERR(inf_embedder_submit(e, &q, &id, &err), err);
    ASSERT_OK(truncate(file_of("bert/model.safetensors"), 8192));
    for (unsigned i = 0; i < 500; i++) {
        result = inf_embedder_wait_result(e, 60000);
        assert_non_null(result);
        assert_true(result->error == 0 || result->error == -ESTALE);
        if (i == 499)
            assert_int_equal(result->error, -ESTALE);
        inf_embed_result_free(result);
    }
    inf_embedder_free(e);
    inf_model_unref(params.model);
}

static void hear(struct inf_transcriber *t, uint64_t *ret_id)
{
    const struct inf_audio_request q = {.language = "en"};
    float *samples = NEW(float, 35 * 16000);
    struct inf_err err;

    for (size_t i = 0; i < 35 * 16000; i++)
        samples[i] = (float)(i % 100) / 200 - 0.25f;
    ASSERT_OK_ERR(inf_transcriber_submit(t, &q, ret_id, &err), err);
    ASSERT_OK(inf_transcriber_feed(t, *ret_id, samples, (size_t)35 * 16000));
    free(samples);
}

/* Waits until one request ends; returns the error of its last event. */
static int heard(struct inf_transcriber *t)
{
    struct inf_audio_event *e;
    int error = 1;

    while (error > 0) {
        e = inf_transcriber_wait_event(t, 60000);
        assert_non_null(e);
        if (e->kind == INF_AUDIO_DONE || e->kind == INF_AUDIO_FAILED)
            error = e->error;
        inf_audio_event_free(e);
    }
    return error;
}

TEST(speech_is_not_returned_when_the_file_changed)
{
    struct inf_transcriber_params params = {.n_threads = 2, .max_requests = 1};
    struct inf_audio_request q = {.language = "en"};
    struct inf_transcriber *t;
    struct inf_err err;
    uint64_t first, second;

    ASSERT_OK(inf_files_guard());
    copy_dir(WHISPER, whisper_files, "whisper");
    params.model = open_model(file_of("whisper"));
    ASSERT_OK_ERR(inf_transcriber_new(&params, &t, &err), err);
    hear(t, &first);
    inf_transcriber_finish(t, first);
    assert_int_equal(heard(t), 0);
    /* One request runs and waits for sound; another request waits for the first one. */
    hear(t, &first);
    hear(t, &second);
    ASSERT_OK(truncate(file_of("whisper/model.safetensors"), 8192));
    inf_transcriber_finish(t, first);
    inf_transcriber_finish(t, second);
    assert_int_equal(heard(t), -ESTALE);
    assert_int_equal(heard(t), -ESTALE);
    ASSERT_ERROR(inf_transcriber_submit(t, &q, &first, &err), ESTALE);
    inf_transcriber_free(t);
    inf_model_unref(params.model);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tempdir_make, tempdir_remove)

RUN_TESTS(CASE(lengths_of_tokens_may_flip_while_they_are_read),
          CASE(lengths_of_merges_may_flip_while_they_are_read),
          CASE(any_byte_of_a_header_may_flip_while_it_is_read),
          CASE(a_file_may_be_cut_at_any_time_while_it_is_opened),
          CASE(a_file_that_is_cut_ends_the_requests_of_its_model_alone),
          CASE(a_file_that_is_written_to_ends_requests_at_their_end_at_the_latest),
          CASE(any_check_of_a_changed_file_ends_running_requests),
          CASE(a_model_whose_file_is_replaced_by_renaming_continues),
          CASE(vectors_are_not_returned_when_the_file_changed),
          CASE(speech_is_not_returned_when_the_file_changed))
