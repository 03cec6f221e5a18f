/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the events of a transcriber. An event and all its data are one allocation. */
#include <string.h>

#include "transcribe/transcriber.h"

struct inf_audio_event *speech_event_new(const struct hearing *h, enum inf_audio_event_kind kind)
{
    struct inf_audio_event *e = NEW(struct inf_audio_event, 1);

    if (e)
        *e = (struct inf_audio_event){.request = h->id, .user = h->user, .kind = kind};
    return e;
}

static const char *copy_text(char **at, const char *text)
{
    const size_t len = strlen(text) + 1;
    char *to = *at;

    memcpy(to, text, len);
    *at += len;
    return to;
}

struct inf_audio_event *speech_event_segment(const struct hearing *h,
                                             const struct inf_audio_event *from)
{
    const size_t words_bytes = from->n_words * sizeof(struct inf_audio_word);
    const size_t tokens_bytes = from->n_tokens * sizeof(int32_t);
    size_t texts_bytes = strlen(from->text) + 1;
    struct inf_audio_word *words;
    struct inf_audio_event *e;
    int32_t *tokens;
    char *texts;

    for (size_t i = 0; i < from->n_words; i++)
        texts_bytes += strlen(from->words[i].text) + 1;
    e = malloc(sizeof(*e) + words_bytes + tokens_bytes + texts_bytes);
    if (!e)
        return NULL;
    words = (struct inf_audio_word *)(e + 1);
    tokens = (int32_t *)(words + from->n_words);
    texts = (char *)(tokens + from->n_tokens);
    *e = *from;
    e->request = h->id;
    e->user = h->user;
    e->kind = INF_AUDIO_SEGMENT;
    e->text = copy_text(&texts, from->text);
    memcpy(tokens, from->tokens, tokens_bytes);
    e->tokens = tokens;
    for (size_t i = 0; i < from->n_words; i++) {
        words[i] = from->words[i];
        words[i].text = copy_text(&texts, from->words[i].text);
    }
    e->words = from->n_words > 0 ? words : NULL;
    return e;
}
