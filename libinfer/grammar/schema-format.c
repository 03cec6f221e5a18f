/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of the keyword `format` that are enforced, as regular expressions of whole strings
 *
 * date-time, date, time, duration: RFC 3339. Days are checked against months and leap years. Leap
 * seconds are not permitted, because many programs refuse them. email: RFC 5321 without quoted
 * parts. hostname: RFC 1123. ipv4: RFC 2673. ipv6: RFC 4291. uri and uri-reference: RFC 3986.
 * uuid: RFC 9562. json-pointer: RFC 6901. relative-json-pointer:
 * draft-handrews-relative-json-pointer-01. Other formats are annotations.
 */
#include <string.h>

#include "grammar/schema.h"

/* The year 0000 is left out, because many programs have no such year. */
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"                                 \
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"                          \
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"                                 \
    "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define DURATION_TIME                                                                              \
    "T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S)"
#define DURATION_DATE                                                                              \
    "(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
#define HOST  LABEL "(?:\\." LABEL ")*"
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+"
#define BYTE  "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4  "(?:" BYTE "\\.){3}" BYTE
#define H16   "[0-9A-Fa-f]{1,4}"
#define LS32  "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":)?" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::"          \
    "(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16           \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define PERCENT "%[0-9A-Fa-f]{2}"
#define PCHAR   "(?:[A-Za-z0-9\\-._~!$&'()*+,;=:@]|" PERCENT ")"
#define SEGMENT "(?:[A-Za-z0-9\\-._~!$&'()*+,;=@]|" PERCENT ")" /* without ':' */
#define QUERY   "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define AUTHORITY                                                                                  \
    "(?:(?:[A-Za-z0-9\\-._~!$&'()*+,;=:]|" PERCENT ")*@)?"                                         \
    "(?:\\[" IPV6 "\\]|(?:[A-Za-z0-9\\-._~!$&'()*+,;=]|" PERCENT ")*)(?::[0-9]*)?"
#define HIER                                                                                       \
    "(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" PCHAR "+(?:/" PCHAR     \
    "*)*)?"
#define RELATIVE                                                                                   \
    "(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" SEGMENT "+(?:/" PCHAR   \
    "*)*)?"
#define URI     "[A-Za-z][A-Za-z0-9+.\\-]*:" HIER QUERY
#define POINTER "(?:/(?:[^~/]|~[01])*)*"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date-time", DATE "[Tt]" TIME},
    {"date", DATE},
    {"time", TIME},
    {"duration", "P(?:[0-9]{1,9}W|" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME ")"},
    {"email", ATOM "(?:\\." ATOM ")*@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", URI},
    {"uri-reference", "(?:" URI "|" RELATIVE QUERY ")"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" POINTER ")"},
};

const char *schema_format_pattern(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (strlen(formats[i].name) == len && memcmp(formats[i].name, name, len) == 0)
            return formats[i].pattern;
    return NULL;
}
