/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the detection of containers by their first bytes. */
#include "audio/sniff.h"

#include "lib/test.h"

#define SNIFF(bytes) sniff_container((const uint8_t *)(bytes), sizeof(bytes) - 1)

static void check(const char *found, const char *expected)
{
    if (!found != !expected || (found && strcmp(found, expected) != 0))
        fail_msg("%s, not %s", found ? found : "nothing", expected ? expected : "nothing");
}

TEST(signatures_are_known)
{
    check(SNIFF("RIFF\1\2\3\4WAVE"), "wav");
    check(SNIFF("RF64\1\2\3\4WAVE"), "wav");
    check(SNIFF("FORM\1\2\3\4AIFC"), "aiff");
    check(SNIFF("fLaC"), "flac");
    check(SNIFF("OggS"), "ogg");
    check(SNIFF("\x1a\x45\xdf\xa3"), "matroska");
    check(SNIFF("\x30\x26\xb2\x75\x8e\x66\xcf\x11"), "asf");
    check(SNIFF("\0\0\0\x1c"
                "ftypM4A "),
          "mov");
    check(SNIFF("#!AMR\n"), "amr");
}

TEST(similar_bytes_are_not_recognized)
{
    check(SNIFF("RIFF\1\2\3\4AVI "), NULL);
    check(SNIFF("RIFF\1\2\3\4"), NULL);
    check(SNIFF("FORM\1\2\3\4ILBM"), NULL);
    check(SNIFF("OggX"), NULL);
    check(SNIFF("ftyp"), NULL);
    check(SNIFF(""), NULL);
    check(SNIFF("\0\0\0\0\0\0\0\0\0\0\0\0"), NULL);
    check(SNIFF("#EXTM3U\nfile:///etc/passwd\n"), NULL);
}

TEST(frames_of_mpeg_are_distinguished)
{
    check(SNIFF("\xff\xfb\x90\x00"), "mp3");
    check(SNIFF("\xff\xf3\x40\xc0"), "mp3"); /* MPEG 2 */
    check(SNIFF("\xff\xfd\x90\x00"), "mp3"); /* layer 2 */
    check(SNIFF("\xff\xf1\x50\x80"), "aac");
    check(SNIFF("\xff\xf9\x50\x80"), "aac");
    check(SNIFF("\0\0\0\0\xff\xfb\x90\x00"), "mp3"); /* padding */
    check(SNIFF("\xff\xeb\x90\x00"), NULL);          /* no such version */
    check(SNIFF("\xff\xfb\xf0\x00"), NULL);          /* no such bit rate */
    check(SNIFF("\xff\xfb\x9c\x00"), NULL);          /* no such sample rate */
    check(SNIFF("\xff\xfb\x90"), NULL);
    check(SNIFF("\xff\xfe\0h\0i"), NULL); /* text of UTF-16 */
}

TEST(tags_are_passed_over)
{
    check(SNIFF("ID3\4\0\0\0\0\0\3abc\xff\xfb\x90\x00"), "mp3");
    check(SNIFF("ID3\3\0\0\0\0\0\0ID3\4\0\0\0\0\0\1x\xff\xf1\x50\x80"), "aac");
    check(SNIFF("ID3\4\0\x10\0\0\0\1x0123456789fLaC"), "flac"); /* with a footer */
    check(SNIFF("ID3\4\0\0\x7f\x7f\x7f\x7f\xff\xfb\x90\x00"), NULL);
    check(SNIFF("ID3\4\0\0\0\0\0\x80\xff\xfb\x90\x00"), NULL);
    check(SNIFF("ID3\4\0"), NULL);
}

RUN_TESTS(cmocka_unit_test(signatures_are_known),
          cmocka_unit_test(similar_bytes_are_not_recognized),
          cmocka_unit_test(frames_of_mpeg_are_distinguished),
          cmocka_unit_test(tags_are_passed_over))
