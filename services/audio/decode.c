/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a file, from its container to samples.
 *
 * sniff.c recognizes the container, and the demuxer of the container is opened by name. Streams are
 * not probed (avformat_find_stream_info); properties that headers do not contain become known when
 * packets are decoded. Packets that a decoder refuses are skipped, as players do, and counted. If
 * more than two thirds of the packets are refused, the file counts as broken; ffmpeg has the same
 * limit (-max_error_rate). Samples are clipped to -1 … 1, as in 16-bit files.
 */
#include "audio/decode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/cpu.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>

#include "audio/sniff.h"

enum {
    DECODE_IO = 32 * 1024,
    DECODE_MAX_ALLOC = 256 << 20, /* largest block of memory that libav may allocate */
    DECODE_MIN_RATE = 2000,
    DECODE_MAX_RATE = 768000,
    DECODE_MAX_CHANNELS = 64,
    DECODE_MANY_ERRORS =
        10000, /* with this many errors, a file can count as broken before its end is read */
};

/* Supported codecs and their decoders. All decoders are implemented in libavcodec itself, none in
 * external libraries. */
static const struct {
    enum AVCodecID id;
    const char *decoder;
} codecs[] = {
    {AV_CODEC_ID_AAC, "aac"},
    {AV_CODEC_ID_AC3, "ac3"},
    {AV_CODEC_ID_ADPCM_IMA_QT, "adpcm_ima_qt"},
    {AV_CODEC_ID_ADPCM_IMA_WAV, "adpcm_ima_wav"},
    {AV_CODEC_ID_ADPCM_MS, "adpcm_ms"},
    {AV_CODEC_ID_ALAC, "alac"},
    {AV_CODEC_ID_AMR_NB, "amrnb"},
    {AV_CODEC_ID_AMR_WB, "amrwb"},
    {AV_CODEC_ID_EAC3, "eac3"},
    {AV_CODEC_ID_FLAC, "flac"},
    {AV_CODEC_ID_GSM_MS, "gsm_ms"},
    {AV_CODEC_ID_MP1, "mp1float"},
    {AV_CODEC_ID_MP2, "mp2float"},
    {AV_CODEC_ID_MP3, "mp3float"},
    {AV_CODEC_ID_OPUS, "opus"},
    {AV_CODEC_ID_PCM_ALAW, "pcm_alaw"},
    {AV_CODEC_ID_PCM_F32BE, "pcm_f32be"},
    {AV_CODEC_ID_PCM_F32LE, "pcm_f32le"},
    {AV_CODEC_ID_PCM_F64BE, "pcm_f64be"},
    {AV_CODEC_ID_PCM_F64LE, "pcm_f64le"},
    {AV_CODEC_ID_PCM_MULAW, "pcm_mulaw"},
    {AV_CODEC_ID_PCM_S16BE, "pcm_s16be"},
    {AV_CODEC_ID_PCM_S16LE, "pcm_s16le"},
    {AV_CODEC_ID_PCM_S24BE, "pcm_s24be"},
    {AV_CODEC_ID_PCM_S24LE, "pcm_s24le"},
    {AV_CODEC_ID_PCM_S32BE, "pcm_s32be"},
    {AV_CODEC_ID_PCM_S32LE, "pcm_s32le"},
    {AV_CODEC_ID_PCM_S8, "pcm_s8"},
    {AV_CODEC_ID_PCM_U8, "pcm_u8"},
    {AV_CODEC_ID_VORBIS, "vorbis"},
    {AV_CODEC_ID_WMALOSSLESS, "wmalossless"},
    {AV_CODEC_ID_WMAPRO, "wmapro"},
    {AV_CODEC_ID_WMAV1, "wmav1"},
    {AV_CODEC_ID_WMAV2, "wmav2"},
    {AV_CODEC_ID_WMAVOICE, "wmavoice"},
};

struct decode {
    const struct decode_params *params;
    struct decoder_end *end;
    size_t pos; /* read position in the file */
    AVIOContext *io;
    AVFormatContext *format;
    int stream; /* index of the stream */
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *frame;
    /* The converter, and the format of its input. */
    SwrContext *swr;
    AVChannelLayout layout;
    int rate, sample_format;
    uint64_t n_samples, n_frames;
    int stopped; /* the negative result of samples() */
    float out[DECODER_FRAME_SAMPLES];
};

/* --- the file --- */

static int file_read(void *opaque, uint8_t *buf, int size)
{
    struct decode *d = opaque;
    const size_t n = MIN((size_t)MAX(size, 0), d->params->size - d->pos);

    if (!n)
        return AVERROR_EOF;
    memcpy(buf, d->params->data + d->pos, n);
    d->pos += n;
    return (int)n;
}

static int64_t file_seek(void *opaque, int64_t offset, int whence)
{
    struct decode *d = opaque;
    const int64_t size = (int64_t)d->params->size;
    int64_t base = 0;

    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return size;
    if (whence == SEEK_CUR)
        base = (int64_t)d->pos;
    else if (whence == SEEK_END)
        base = size;
    else if (whence != SEEK_SET)
        return AVERROR(EINVAL);
    if (offset < -base || offset > size - base)
        return AVERROR(EINVAL);
    d->pos = (size_t)(base + offset);
    return base + offset;
}

/* Prevents libav from opening further files that the audio file names. */
static int open_nothing(AVFormatContext *s, AVIOContext **pb, const char *url, int flags,
                        AVDictionary **options)
{
    (void)s;
    (void)url;
    (void)flags;
    (void)options;
    *pb = NULL;
    return AVERROR(EPERM);
}

/* --- results --- */

static int decode_end(struct decode *d, enum decoder_result result)
{
    d->end->result = result;
    return 1;
}

/* Returns 1 and sets a result for an error of libav. */
static int decode_fail(struct decode *d, int averror)
{
    return decode_end(d, averror == AVERROR(ENOMEM) ? DECODER_MEMORY : DECODER_BROKEN);
}

static bool is_broken(const struct decode *d)
{
    return d->end->n_errors > 2 * d->n_frames;
}

/* Counts an error of a decoder. Returns 0, or 1 with a result. */
static int count_error(struct decode *d, int averror)
{
    if (averror == AVERROR(ENOMEM))
        return decode_end(d, DECODER_MEMORY);
    if (++d->end->n_errors > DECODE_MANY_ERRORS && is_broken(d))
        return decode_end(d, DECODER_BROKEN);
    return 0;
}

/* --- opening: the functions return 0, or 1 with a result --- */

static int open_container(struct decode *d)
{
    const char *name = sniff_container(d->params->data, d->params->size);
    const AVInputFormat *format = name ? av_find_input_format(name) : NULL;
    uint8_t *buffer;
    int r;

    if (!format)
        return decode_end(d, DECODER_UNKNOWN);
    snprintf(d->end->format, sizeof(d->end->format), "%s", name);
    buffer = av_malloc(DECODE_IO);
    d->io = buffer ? avio_alloc_context(buffer, DECODE_IO, 0, d, file_read, NULL, file_seek) : NULL;
    if (!d->io) {
        av_free(buffer);
        return decode_end(d, DECODER_MEMORY);
    }
    d->format = avformat_alloc_context();
    if (!d->format)
        return decode_end(d, DECODER_MEMORY);
    d->format->pb = d->io;
    d->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    d->format->io_open = open_nothing;
    /* On failure, avformat_open_input() frees d->format. */
    r = avformat_open_input(&d->format, NULL, format, NULL);
    return r < 0 ? decode_fail(d, r) : 0;
}

/* Returns the default audio stream of the file or, if no stream is the default, the first audio
 * stream; NULL: the file has no audio stream. */
static AVStream *choose_stream(AVFormatContext *format)
{
    AVStream *chosen = NULL;

    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *s = format->streams[i];

        if (s->codecpar->codec_type == AVMEDIA_TYPE_AUDIO &&
            (!chosen || (!(chosen->disposition & AV_DISPOSITION_DEFAULT) &&
                         (s->disposition & AV_DISPOSITION_DEFAULT))))
            chosen = s;
    }
    for (unsigned i = 0; i < format->nb_streams; i++)
        if (format->streams[i] != chosen)
            format->streams[i]->discard = AVDISCARD_ALL;
    return chosen;
}

static const AVCodec *find_codec(enum AVCodecID id)
{
    for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
        if (codecs[i].id == id)
            return avcodec_find_decoder_by_name(codecs[i].decoder);
    return NULL;
}

static int open_codec(struct decode *d)
{
    AVStream *stream = choose_stream(d->format);
    const AVCodec *codec;
    int r;

    if (!stream)
        return decode_end(d, DECODER_NO_AUDIO);
    snprintf(d->end->codec, sizeof(d->end->codec), "%s",
             avcodec_get_name(stream->codecpar->codec_id));
    codec = find_codec(stream->codecpar->codec_id);
    if (!codec)
        return decode_end(d, DECODER_CODEC);
    d->codec = avcodec_alloc_context3(codec);
    if (!d->codec)
        return decode_end(d, DECODER_MEMORY);
    r = avcodec_parameters_to_context(d->codec, stream->codecpar);
    d->stream = stream->index;
    d->codec->pkt_timebase = stream->time_base;
    d->codec->thread_count = 1;
    if (r >= 0)
        r = avcodec_open2(d->codec, codec, NULL);
    return r < 0 ? decode_fail(d, r) : 0;
}

/* --- samples: the functions return 0, 1 with a result, or the negative value of d->stopped --- */

static int put_samples(struct decode *d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d->out[i] = isnan(d->out[i]) ? 0 : fminf(fmaxf(d->out[i], -1), 1);
    d->n_samples += n;
    if (d->n_samples > d->params->max_samples)
        return decode_end(d, DECODER_TOO_LONG);
    d->stopped = MIN(d->params->samples(d->params->user, d->out, n), 0);
    return d->stopped;
}

/* Converts the samples of @frame; NULL: the samples that are left in the converter. */
static int decode_convert(struct decode *d, const AVFrame *frame)
{
    const uint8_t **in = frame ? (const uint8_t **)frame->extended_data : NULL;
    int n_in = frame ? frame->nb_samples : 0;
    int n, r = 0;

    do {
        uint8_t *out = (uint8_t *)d->out;

        n = swr_convert(d->swr, &out, DECODER_FRAME_SAMPLES, in, n_in);
        if (n < 0)
            return decode_fail(d, n);
        if (n > 0)
            r = put_samples(d, (size_t)n);
        /* The converter keeps samples that did not fit, and returns them for an empty input. An
         * input of NULL would end the audio. */
        n_in = 0;
    } while (r == 0 && n == DECODER_FRAME_SAMPLES);
    return r;
}

static bool is_same_sound(const struct decode *d, const AVFrame *frame)
{
    return d->swr && d->rate == frame->sample_rate && d->sample_format == frame->format &&
           av_channel_layout_compare(&d->layout, &frame->ch_layout) == 0;
}

/* Sets up a converter for the format of @frame. First converts the remaining samples of the
 * previous converter. */
static int set_converter(struct decode *d, const AVFrame *frame)
{
    AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO;
    int r = d->swr ? decode_convert(d, NULL) : 0;

    swr_free(&d->swr);
    av_channel_layout_uninit(&d->layout);
    if (r != 0)
        return r;
    if (frame->sample_rate < DECODE_MIN_RATE || frame->sample_rate > DECODE_MAX_RATE ||
        frame->ch_layout.nb_channels < 1 || frame->ch_layout.nb_channels > DECODE_MAX_CHANNELS)
        return decode_end(d, DECODER_BROKEN);
    d->rate = frame->sample_rate;
    d->sample_format = frame->format;
    r = av_channel_layout_copy(&d->layout, &frame->ch_layout);
    if (r >= 0)
        r = swr_alloc_set_opts2(&d->swr, &mono, AV_SAMPLE_FMT_FLT, DECODER_RATE, &d->layout,
                                d->sample_format, d->rate, 0, NULL);
    /* Normalizes downmixing, so that sums of channels stay within -1 … 1, as in 16-bit files. */
    if (r >= 0)
        r = av_opt_set_double(d->swr, "rematrix_maxval", 1, 0);
    if (r >= 0)
        r = swr_init(d->swr);
    return r < 0 ? decode_fail(d, r) : 0;
}

static int take_frame(struct decode *d)
{
    AVFrame *frame = d->frame;
    int r = 0;

    if (frame->nb_samples <= 0)
        return 0;
    if (frame->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC)
        av_channel_layout_default(&frame->ch_layout, frame->ch_layout.nb_channels);
    if (!is_same_sound(d, frame))
        r = set_converter(d, frame);
    return r == 0 ? decode_convert(d, frame) : r;
}

/* Takes all frames that the decoder has ready. */
static int take_frames(struct decode *d)
{
    int r = 0;

    while (r == 0) {
        const int e = avcodec_receive_frame(d->codec, d->frame);

        if (e == AVERROR(EAGAIN) || e == AVERROR_EOF)
            return 0;
        if (e < 0)
            return count_error(d, e);
        d->n_frames++;
        r = take_frame(d);
        av_frame_unref(d->frame);
    }
    return r;
}

/* Gives a packet to the decoder, and takes the frames. @packet NULL: the end of the stream. */
static int give_packet(struct decode *d, const AVPacket *packet)
{
    int r;

    for (;;) {
        const int e = avcodec_send_packet(d->codec, packet);

        r = take_frames(d);
        if (r != 0 || e >= 0 || e == AVERROR_EOF)
            return r;
        r = count_error(d, e);
        if (r != 0 || e != AVERROR(EAGAIN))
            return r;
    }
}

static int decode_packets(struct decode *d)
{
    int r = 0;

    d->packet = av_packet_alloc();
    d->frame = av_frame_alloc();
    if (!d->packet || !d->frame)
        return decode_end(d, DECODER_MEMORY);
    while (r == 0) {
        const int e = av_read_frame(d->format, d->packet);

        if (e == AVERROR(ENOMEM))
            return decode_end(d, DECODER_MEMORY);
        /* A truncated file is decoded up to its end. */
        if (e < 0)
            break;
        if (d->packet->stream_index == d->stream)
            r = give_packet(d, d->packet);
        av_packet_unref(d->packet);
    }
    if (r == 0)
        r = give_packet(d, NULL);
    if (r == 0 && d->swr)
        r = decode_convert(d, NULL);
    if (r == 0 && is_broken(d))
        r = decode_end(d, DECODER_BROKEN);
    if (r == 0 && !d->n_samples)
        r = decode_end(d, DECODER_NO_AUDIO);
    return r;
}

static void decode_done(struct decode *d)
{
    swr_free(&d->swr);
    av_channel_layout_uninit(&d->layout);
    av_frame_free(&d->frame);
    av_packet_free(&d->packet);
    avcodec_free_context(&d->codec);
    avformat_close_input(&d->format);
    if (d->io)
        av_freep(&d->io->buffer);
    avio_context_free(&d->io);
}

void decode_prepare(void)
{
    av_log_set_level(AV_LOG_QUIET);
    av_max_alloc(DECODE_MAX_ALLOC);
    /* av_get_cpu_flags() may read information about the system, so it is called before
     * confinement. */
    av_get_cpu_flags();
}

int decode_file(const struct decode_params *params, struct decoder_end *ret_end)
{
    struct decode *d = NEW(struct decode, 1);
    int r;

    *ret_end = (struct decoder_end){.result = DECODER_OK};
    if (!d) {
        ret_end->result = DECODER_MEMORY;
        return 0;
    }
    d->params = params;
    d->end = ret_end;
    if (open_container(d) == 0 && open_codec(d) == 0)
        decode_packets(d);
    r = d->stopped;
    decode_done(d);
    free(d);
    return r;
}
