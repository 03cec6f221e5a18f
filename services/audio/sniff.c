/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes audio containers by the signatures in their specifications. */
#include "audio/sniff.h"

#include <string.h>

struct sniff_signature {
    size_t at;
    const char *bytes;
    size_t n;
    const char *also; /* 4 bytes at offset 8, or NULL */
    const char *demuxer;
};

#define BYTES(s) s, sizeof(s) - 1

static const struct sniff_signature signatures[] = {
    {0, BYTES("RIFF"), "WAVE", "wav"},
    {0, BYTES("RF64"), "WAVE", "wav"},
    {0, BYTES("FORM"), "AIFF", "aiff"},
    {0, BYTES("FORM"), "AIFC", "aiff"},
    {0, BYTES("fLaC"), NULL, "flac"},
    {0, BYTES("OggS"), NULL, "ogg"},
    {0, BYTES("\x1a\x45\xdf\xa3"), NULL, "matroska"},
    {0, BYTES("\x30\x26\xb2\x75\x8e\x66\xcf\x11"), NULL, "asf"},
    {0, BYTES("caff"), NULL, "caf"},
    {0, BYTES("#!AMR"), NULL, "amr"},
    {4, BYTES("ftyp"), NULL, "mov"},
    {4, BYTES("moov"), NULL, "mov"},
    {4, BYTES("mdat"), NULL, "mov"},
    {4, BYTES("wide"), NULL, "mov"},
    {4, BYTES("free"), NULL, "mov"},
    {4, BYTES("skip"), NULL, "mov"},
};

static bool signature_matches(const struct sniff_signature *s, const uint8_t *data, size_t size)
{
    return size >= s->at + s->n && memcmp(data + s->at, s->bytes, s->n) == 0 &&
           (!s->also || (size >= 12 && memcmp(data + 8, s->also, 4) == 0));
}

/* Returns the size of ID3 tags (version 2) at the beginning. */
static size_t id3_size(const uint8_t *data, size_t size)
{
    size_t all = 0;

    while (size - all >= 10 && memcmp(data + all, "ID3", 3) == 0) {
        const uint8_t *h = data + all;
        size_t n = 10;

        if ((h[6] | h[7] | h[8] | h[9]) & 0x80)
            break;
        n += (size_t)h[6] << 21 | (size_t)h[7] << 14 | (size_t)h[8] << 7 | h[9];
        n += h[5] & 0x10 ? 10 : 0; /* the tag ends with a footer */
        if (n > size - all)
            return size;
        all += n;
    }
    return all;
}

/* Recognizes MPEG audio and AAC without a container: their frames begin with 11 or 12 bits that
 * are 1. */
static const char *sniff_frames(const uint8_t *data, size_t size)
{
    const uint8_t layer = size >= 4 ? data[1] >> 1 & 3 : 0;

    if (size < 4 || data[0] != 0xff || (data[1] & 0xe0) != 0xe0)
        return NULL;
    if ((data[1] & 0xf6) == 0xf0)
        return "aac"; /* ADTS: layer 0 */
    /* MPEG audio: layer 1 to 3, and a valid version, bit rate and sample rate. */
    if (layer != 0 && (data[1] >> 3 & 3) != 1 && data[2] >> 4 != 0 && data[2] >> 4 != 15 &&
        (data[2] >> 2 & 3) != 3)
        return "mp3";
    return NULL;
}

const char *sniff_container(const uint8_t *data, size_t size)
{
    const size_t tags = id3_size(data, size);
    const uint8_t *body = data + tags;
    const size_t n = size - tags;
    size_t zeros = 0;

    for (size_t i = 0; i < ARRAY_SIZE(signatures); i++)
        if (signature_matches(&signatures[i], body, n))
            return signatures[i].demuxer;
    /* Skips zeros: padding after tags, and silence that some recorders write first. */
    while (zeros < n && body[zeros] == 0)
        zeros++;
    return sniff_frames(body + zeros, n - zeros);
}
