/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads frames from the pipe of a decoder into a buffer for one frame. The head of a frame gives
 * the number of bytes that follow.
 */
#include "audio/frames.h"

#include <errno.h>
#include <string.h>

/* Returns the size of the frame in the buffer, or of its head if the head is not complete; 0: the
 * frame is invalid. */
static size_t frame_size(const struct frames *f)
{
    const struct decoder_frame *head = &f->buffer.head;

    if (f->n < sizeof(*head))
        return sizeof(*head);
    if (head->kind == DECODER_SAMPLES && head->n > 0 && head->n <= DECODER_FRAME_SAMPLES)
        return sizeof(*head) + head->n * sizeof(float);
    if (head->kind == DECODER_END && head->n == sizeof(struct decoder_end))
        return sizeof(*head) + head->n;
    return 0;
}

void *frames_room(struct frames *f, size_t *ret_size)
{
    const size_t size = frame_size(f);

    if (f->taken) {
        f->n = f->taken = 0;
        return frames_room(f, ret_size);
    }
    *ret_size = size > f->n ? size - f->n : 0;
    return f->buffer.bytes + f->n;
}

void frames_add(struct frames *f, size_t n)
{
    f->n += n;
    assert(f->n <= sizeof(f->buffer));
}

static bool is_clean(const char *name)
{
    size_t n = 0;

    for (; n < DECODER_NAME && name[n]; n++)
        if (name[n] < '!' || name[n] > '~')
            return false;
    return n < DECODER_NAME;
}

static int next_end(struct frames *f, struct decoder_end *ret_end)
{
    struct decoder_end end;

    memcpy(&end, f->buffer.bytes + sizeof(struct decoder_frame), sizeof(end));
    if (end.result >= DECODER_N_RESULTS || !is_clean(end.format) || !is_clean(end.codec))
        return -EBADMSG;
    f->ended = true;
    *ret_end = end;
    return FRAMES_END;
}

int frames_next(struct frames *f, const float **ret_samples, size_t *ret_n,
                struct decoder_end *ret_end)
{
    const struct decoder_frame *head = &f->buffer.head;
    const float *samples = (const float *)(f->buffer.bytes + sizeof(*head));
    size_t size;

    if (f->taken)
        f->n = f->taken = 0;
    size = frame_size(f);
    if (f->ended || !size)
        return -EBADMSG;
    if (f->n < sizeof(*head) || f->n < size)
        return FRAMES_NONE;
    f->taken = size;
    if (head->kind == DECODER_END)
        return next_end(f, ret_end);
    for (size_t i = 0; i < head->n; i++)
        if (!(samples[i] >= -1 && samples[i] <= 1))
            return -EBADMSG;
    *ret_samples = samples;
    *ret_n = head->n;
    return FRAMES_SAMPLES;
}
