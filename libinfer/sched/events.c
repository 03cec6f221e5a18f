/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the records of the event logs.
 *
 * A record is a struct record followed by the tokens, their alternatives, and the text. In the
 * record that ends a choice, the error takes the place of the text. The pointers of an event are
 * set when its record is read, because a growing log moves in memory.
 */
#include "sched/events.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/eventfd.h>

/* If the reader is slow, a log may grow larger than this; then its memory is freed when all its
 * records have been read. */
#define KEEP_BYTES (1u << 20)
/* Initial size of a log; it has room for the tokens of one step. */
#define USUAL_BYTES (32u * 1024 - 1)

struct record {
    uint32_t size; /* bytes of the record with everything that follows the struct; a multiple of
                      8 */
    bool dropped;
    struct inf_event event;
};

int events_init(struct events *e)
{
    *e = (struct events){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (e->fd < 0)
        return -errno;
    pthread_mutex_init(&e->lock, NULL);
    if (str_reserve(&e->stage, USUAL_BYTES) < 0 || str_reserve(&e->pending, USUAL_BYTES) < 0 ||
        str_reserve(&e->reading, USUAL_BYTES) < 0) {
        events_done(e);
        return -ENOMEM;
    }
    return 0;
}

void events_done(struct events *e)
{
    if (e->fd < 0)
        return;
    close(e->fd);
    pthread_mutex_destroy(&e->lock);
    str_done(&e->stage);
    str_done(&e->pending);
    str_done(&e->reading);
    e->fd = -1;
}

static struct inf_event base_event(const struct seq *s, enum inf_event_kind kind)
{
    return (struct inf_event){
        .kind = kind,
        .request = s->req->id,
        .choice = s->choice,
        .user = s->req->user,
        .text = "",
        .n_prompt = s->req->n_prompt,
        .n_cached = s->req->n_cached,
        .n_generated = seq_n_generated(s),
        .n_channel = s->channel.n_tokens,
        .n_draft_accepted = s->draft.n_accepted,
        .n_draft_rejected = s->draft.n_rejected,
        .stop_token = -1,
    };
}

/* Appends one record. */
static int add_record(struct events *e, const struct inf_event *event, const struct output_part *p,
                      uint32_t top_stride)
{
    struct record record = {.event = *event};
    size_t size = sizeof(record), n_top = 0;
    char *at;

    for (uint32_t i = 0; i < p->n_tokens; i++)
        n_top += p->tokens[i].n_top;
    size += p->n_tokens * sizeof(struct inf_token_logprob);
    size += n_top * sizeof(struct inf_top_logprob);
    size = ALIGN_UP(size + p->len + 1, 8);
    if (size > UINT32_MAX || str_reserve(&e->stage, size) < 0)
        return -ENOMEM;

    record.size = (uint32_t)size;
    record.event.n_tokens = p->n_tokens;
    record.event.text_len = p->len;
    at = e->stage.data + e->stage.len;
    memset(at, 0, size);
    memcpy(at, &record, sizeof(record));
    at += sizeof(record);
    for (uint32_t i = 0; i < p->n_tokens; i++, at += sizeof(struct inf_token_logprob)) {
        const struct inf_token_logprob token = {
            .token = p->tokens[i].token,
            .logprob = p->tokens[i].logprob,
            .n_top = p->tokens[i].n_top,
        };

        memcpy(at, &token, sizeof(token));
    }
    for (uint32_t i = 0; i < p->n_tokens; i++) {
        const size_t n = p->tokens[i].n_top * sizeof(struct inf_top_logprob);

        if (n > 0)
            memcpy(at, p->top + (size_t)i * top_stride, n);
        at += n;
    }
    if (p->len > 0)
        memcpy(at, p->text, p->len);
    e->stage.len += size;
    e->stage.data[e->stage.len] = 0;
    return 0;
}

int events_add_progress(struct events *e, struct seq *s, uint32_t n_computed)
{
    struct inf_event event = base_event(s, INF_EVENT_PROGRESS);
    const struct output_part part = {.text = ""};

    if (!s->req->want_progress || s->choice > 0 || s->prompt_told ||
        (s->progress_told && n_computed <= s->n_progress))
        return 0;
    s->progress_told = true;
    s->n_progress = event.n_computed = n_computed;
    return add_record(e, &event, &part, 0);
}

int events_add_prompt(struct events *e, const struct seq *s)
{
    const struct inf_event event = base_event(s, INF_EVENT_PROMPT);
    const struct prompt_logprobs *plp = &s->req->plp;
    const struct output_part part = {
        .text = "",
        .tokens = plp->tokens,
        .top = plp->top,
        .n_tokens = s->req->want_prompt_logprobs ? s->req->n_prompt : 0,
    };

    return add_record(e, &event, &part, s->req->n_top);
}

int events_add_tokens(struct events *e, const struct seq *s, const struct output_part *part)
{
    const struct inf_event event = base_event(s, INF_EVENT_TOKENS);

    return add_record(e, &event, part, s->req->n_top);
}

int events_add_finish(struct events *e, const struct seq *s, bool last)
{
    struct inf_event event = base_event(s, INF_EVENT_FINISH);
    const char *error = s->error ? s->error : "";
    const struct output_part part = {.text = error, .len = strlen(error)};

    event.finish = s->finish;
    event.stop_index = s->stop_index;
    event.stop_token = s->stop_token;
    event.error = s->error;
    event.last = last;
    return add_record(e, &event, &part, 0);
}

bool events_flush(struct events *e)
{
    const uint64_t one = 1;
    bool done = true;

    if (e->stage.len == 0)
        return true;
    pthread_mutex_lock(&e->lock);
    if (e->pending.len == 0) {
        const struct str empty = e->pending;

        e->pending = e->stage;
        e->stage = empty;
    } else {
        done = str_append(&e->pending, e->stage.data, e->stage.len) == 0;
        if (done)
            str_clear(&e->stage);
    }
    if (!e->signalled && e->pending.len > 0)
        e->signalled = write(e->fd, &one, sizeof(one)) == sizeof(one);
    pthread_mutex_unlock(&e->lock);
    return done;
}

static void forget_in(struct str *log, uint64_t id)
{
    for (size_t at = 0; at < log->len;) {
        struct record *record = (struct record *)(log->data + at);

        if (record->event.request == id && record->event.kind != INF_EVENT_FINISH)
            record->dropped = true;
        at += record->size;
    }
}

void events_forget(struct events *e, uint64_t id)
{
    forget_in(&e->stage, id);
    pthread_mutex_lock(&e->lock);
    forget_in(&e->pending, id);
    pthread_mutex_unlock(&e->lock);
}

/* Makes the log of pending records the log that is read. Returns false if there are no pending
 * records. */
static bool swap_logs(struct events *e)
{
    struct str old = e->reading;
    uint64_t count;
    bool some;

    if (old.cap > KEEP_BYTES) {
        str_done(&old);
        /* If this fails, the log starts empty and allocates when it first grows. */
        str_reserve(&old, USUAL_BYTES);
    }
    str_clear(&old);
    pthread_mutex_lock(&e->lock);
    some = e->pending.len > 0;
    if (some) {
        e->reading = e->pending;
        e->pending = old;
    } else {
        e->reading = old;
        if (e->signalled)
            e->signalled = read(e->fd, &count, sizeof(count)) != sizeof(count);
    }
    pthread_mutex_unlock(&e->lock);
    e->i_read = 0;
    return some;
}

static void read_record(struct record *record, struct inf_event *ret_event)
{
    struct inf_event *event = &record->event;
    struct inf_token_logprob *tokens = (struct inf_token_logprob *)(record + 1);
    struct inf_top_logprob *top = (struct inf_top_logprob *)(tokens + event->n_tokens);

    for (size_t i = 0; i < event->n_tokens; i++) {
        tokens[i].top = tokens[i].n_top > 0 ? top : NULL;
        top += tokens[i].n_top;
    }
    event->tokens = event->n_tokens > 0 ? tokens : NULL;
    event->text = (const char *)top;
    if (event->error) {
        event->error = event->text;
        event->text = "";
        event->text_len = 0;
    }
    *ret_event = *event;
}

int events_next(struct events *e, struct inf_event *ret_event)
{
    for (;;) {
        struct record *record;

        if (e->i_read >= e->reading.len && !swap_logs(e))
            return 0;
        record = (struct record *)(e->reading.data + e->i_read);
        e->i_read += record->size;
        if (record->dropped)
            continue;
        read_record(record, ret_event);
        return 1;
    }
}
