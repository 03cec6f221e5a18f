/* SPDX-License-Identifier: Apache-2.0 */
/* Implements sets of code points, with the properties and the letter cases of utf8proc. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <utf8proc.h>

#include "core/array.h"
#include "grammar/set.h"

#define MAX_RANGES 65536

/* The names of general categories in ECMA-262, with the numbers that utf8proc gives them. */
static const struct {
    uint32_t categories; /* bits by utf8proc_category_t */
    const char *brief, *name;
} CATEGORIES[] = {
    {1u << UTF8PROC_CATEGORY_CN, "Cn", "Unassigned"},
    {1u << UTF8PROC_CATEGORY_LU, "Lu", "Uppercase_Letter"},
    {1u << UTF8PROC_CATEGORY_LL, "Ll", "Lowercase_Letter"},
    {1u << UTF8PROC_CATEGORY_LT, "Lt", "Titlecase_Letter"},
    {1u << UTF8PROC_CATEGORY_LM, "Lm", "Modifier_Letter"},
    {1u << UTF8PROC_CATEGORY_LO, "Lo", "Other_Letter"},
    {1u << UTF8PROC_CATEGORY_MN, "Mn", "Nonspacing_Mark"},
    {1u << UTF8PROC_CATEGORY_MC, "Mc", "Spacing_Mark"},
    {1u << UTF8PROC_CATEGORY_ME, "Me", "Enclosing_Mark"},
    {1u << UTF8PROC_CATEGORY_ND, "Nd", "Decimal_Number"},
    {1u << UTF8PROC_CATEGORY_NL, "Nl", "Letter_Number"},
    {1u << UTF8PROC_CATEGORY_NO, "No", "Other_Number"},
    {1u << UTF8PROC_CATEGORY_PC, "Pc", "Connector_Punctuation"},
    {1u << UTF8PROC_CATEGORY_PD, "Pd", "Dash_Punctuation"},
    {1u << UTF8PROC_CATEGORY_PS, "Ps", "Open_Punctuation"},
    {1u << UTF8PROC_CATEGORY_PE, "Pe", "Close_Punctuation"},
    {1u << UTF8PROC_CATEGORY_PI, "Pi", "Initial_Punctuation"},
    {1u << UTF8PROC_CATEGORY_PF, "Pf", "Final_Punctuation"},
    {1u << UTF8PROC_CATEGORY_PO, "Po", "Other_Punctuation"},
    {1u << UTF8PROC_CATEGORY_SM, "Sm", "Math_Symbol"},
    {1u << UTF8PROC_CATEGORY_SC, "Sc", "Currency_Symbol"},
    {1u << UTF8PROC_CATEGORY_SK, "Sk", "Modifier_Symbol"},
    {1u << UTF8PROC_CATEGORY_SO, "So", "Other_Symbol"},
    {1u << UTF8PROC_CATEGORY_ZS, "Zs", "Space_Separator"},
    {1u << UTF8PROC_CATEGORY_ZL, "Zl", "Line_Separator"},
    {1u << UTF8PROC_CATEGORY_ZP, "Zp", "Paragraph_Separator"},
    {1u << UTF8PROC_CATEGORY_CC, "Cc", "Control"},
    {1u << UTF8PROC_CATEGORY_CF, "Cf", "Format"},
    {1u << UTF8PROC_CATEGORY_CO, "Co", "Private_Use"},
};

#define BIT(name)  (1u << UTF8PROC_CATEGORY_##name)
#define LETTERS    (BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO))
#define MARKS      (BIT(MN) | BIT(MC) | BIT(ME))
#define ALL_GROUPS 0x3fffffffu

static const struct {
    uint32_t categories;
    const char *brief, *name;
} GROUPS[] = {
    {LETTERS, "L", "Letter"},
    {BIT(LU) | BIT(LL) | BIT(LT), "LC", "Cased_Letter"},
    {MARKS, "M", "Mark"},
    {MARKS, "Combining_Mark", "Combining_Mark"},
    {BIT(ND), "digit", "digit"},
    {BIT(CC), "cntrl", "cntrl"},
    {BIT(ND) | BIT(NL) | BIT(NO), "N", "Number"},
    {BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO), "P", "Punctuation"},
    {BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO), "punct", "punct"},
    {BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO), "S", "Symbol"},
    {BIT(ZS) | BIT(ZL) | BIT(ZP), "Z", "Separator"},
    {BIT(CC) | BIT(CF) | BIT(CO) | BIT(CN), "C", "Other"},
    {ALL_GROUPS & ~BIT(CN), "Assigned", "Assigned"},
};

/* Runs of code points with one category, and pairs of letters. Filled in once per process. */
static struct {
    pthread_once_t once;
    int error;
    struct run {
        uint32_t first;
        uint8_t category;
    } * runs;
    struct grammar_range *pairs; /* a letter and its other case */
    size_t n_runs, cap_runs, n_pairs, cap_pairs;
} tables = {.once = PTHREAD_ONCE_INIT};

static int tables_add_pair(uint32_t cp, uint32_t other)
{
    if (cp == other)
        return 0;
    if (ARRAY_GROW(tables.pairs, tables.cap_pairs, tables.n_pairs + 2) < 0)
        return -ENOMEM;
    tables.pairs[tables.n_pairs++] = (struct grammar_range){cp, other};
    tables.pairs[tables.n_pairs++] = (struct grammar_range){other, cp};
    return 0;
}

static int range_compare(const void *x, const void *y)
{
    const struct grammar_range *a = x, *b = y;

    return a->first < b->first ? -1 : a->first > b->first;
}

static void tables_fill(void)
{
    int last = -1;

    for (uint32_t cp = 0; tables.error == 0 && cp <= SET_LAST; cp++) {
        const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);

        if (p->category != last) {
            tables.error = ARRAY_GROW(tables.runs, tables.cap_runs, tables.n_runs + 1);
            if (tables.error < 0)
                return;
            tables.runs[tables.n_runs++] = (struct run){cp, (uint8_t)p->category};
            last = p->category;
        }
        if (p->category != UTF8PROC_CATEGORY_LU && p->category != UTF8PROC_CATEGORY_LL)
            continue;
        tables.error = tables_add_pair(cp, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
        if (tables.error == 0)
            tables.error = tables_add_pair(cp, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
    }
    if (tables.n_pairs > 0)
        qsort(tables.pairs, tables.n_pairs, sizeof(*tables.pairs), range_compare);
}

static int tables_get(void)
{
    pthread_once(&tables.once, tables_fill);
    return tables.error;
}

void set_done(struct set *s)
{
    free(s->ranges);
    *s = (struct set){0};
}

int set_add(struct set *s, uint32_t first, uint32_t last)
{
    int r;

    if (s->n >= MAX_RANGES)
        return -E2BIG;
    r = ARRAY_GROW(s->ranges, s->cap, s->n + 1);
    if (r == 0)
        s->ranges[s->n++] = (struct grammar_range){first, last};
    return r;
}

int set_add_set(struct set *s, const struct set *other)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < other->n; i++)
        r = set_add(s, other->ranges[i].first, other->ranges[i].last);
    return r;
}

/* Sorts the ranges, and merges those that touch. */
static void set_sort(struct set *s)
{
    size_t n = 0, n_sorted = 1;

    while (n_sorted < s->n && s->ranges[n_sorted - 1].first <= s->ranges[n_sorted].first)
        n_sorted++;
    if (n_sorted < s->n)
        qsort(s->ranges, s->n, sizeof(*s->ranges), range_compare);
    for (size_t i = 0; i < s->n; i++)
        if (n > 0 && s->ranges[i].first <= s->ranges[n - 1].last + 1)
            s->ranges[n - 1].last = MAX(s->ranges[n - 1].last, s->ranges[i].last);
        else
            s->ranges[n++] = s->ranges[i];
    s->n = n;
}

int set_invert(struct set *s)
{
    struct set new = {0};
    uint32_t first = 0;
    int r = 0;

    set_sort(s);
    for (size_t i = 0; r == 0 && i < s->n; i++) {
        if (s->ranges[i].first > first)
            r = set_add(&new, first, s->ranges[i].first - 1);
        first = s->ranges[i].last + 1;
    }
    if (r == 0 && first <= SET_LAST)
        r = set_add(&new, first, SET_LAST);
    if (r < 0) {
        set_done(&new);
        return r;
    }
    set_done(s);
    *s = new;
    return 0;
}

/* Returns the number of pairs whose letter comes before @cp. */
static size_t tables_find_pair(uint32_t cp)
{
    size_t lo = 0, hi = tables.n_pairs;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (tables.pairs[mid].first < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int set_fold(struct set *s)
{
    size_t n;
    int r;

    r = tables_get();
    if (r < 0)
        return r;
    set_sort(s);
    n = s->n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = tables_find_pair(s->ranges[i].first);
             r == 0 && k < tables.n_pairs && tables.pairs[k].first <= s->ranges[i].last; k++)
            r = set_add(s, tables.pairs[k].last, tables.pairs[k].last);
    if (r == 0)
        set_sort(s);
    return r;
}

static int set_add_categories(struct set *s, uint32_t categories)
{
    int r;

    r = tables_get();
    for (size_t i = 0; r == 0 && i < tables.n_runs; i++)
        if (categories >> tables.runs[i].category & 1)
            r = set_add(s, tables.runs[i].first,
                        i + 1 < tables.n_runs ? tables.runs[i + 1].first - 1 : SET_LAST);
    if (r == 0)
        set_sort(s);
    return r;
}

static bool name_is(const char *name, size_t len, const char *other)
{
    return len == strlen(other) && memcmp(name, other, len) == 0;
}

static size_t prefix_length(const char *name, size_t len)
{
    static const char *const prefixes[] = {"General_Category=", "gc="};

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (len > strlen(prefixes[i]) && memcmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return strlen(prefixes[i]);
    return 0;
}

int set_add_property(struct set *s, const char *name, size_t len)
{
    const size_t prefix = prefix_length(name, len);

    if (name_is(name, len, "Any"))
        return set_add(s, 0, SET_LAST);
    if (name_is(name, len, "ASCII"))
        return set_add(s, 0, 0x7f);
    name += prefix;
    len -= prefix;
    for (size_t i = 0; i < ARRAY_SIZE(CATEGORIES); i++)
        if (name_is(name, len, CATEGORIES[i].brief) || name_is(name, len, CATEGORIES[i].name))
            return set_add_categories(s, CATEGORIES[i].categories);
    for (size_t i = 0; i < ARRAY_SIZE(GROUPS); i++)
        if (name_is(name, len, GROUPS[i].brief) || name_is(name, len, GROUPS[i].name))
            return set_add_categories(s, GROUPS[i].categories);
    return -EINVAL;
}

static int set_add_ranges(struct set *s, const struct grammar_range *ranges, size_t n)
{
    const struct set other = {.ranges = (struct grammar_range *)ranges, .n = n};

    return set_add_set(s, &other);
}

int set_add_escape(struct set *s, char escape, bool unicode)
{
    static const struct grammar_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct grammar_range space[] = {
        {0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    static const struct grammar_range joiners = {0x200c, 0x200d};
    int r;

    switch (escape) {
    case 'd':
        return unicode ? set_add_categories(s, BIT(ND)) : set_add(s, '0', '9');
    case 's':
        /* Only ECMA-262 counts U+FEFF as white space, and only Unicode counts U+0085. */
        r = set_add_ranges(s, space, ARRAY_SIZE(space) - (unicode ? 1 : 0));
        return r == 0 && unicode ? set_add(s, 0x85, 0x85) : r;
    default:
        if (!unicode)
            return set_add_ranges(s, word, ARRAY_SIZE(word));
        r = set_add_ranges(s, &joiners, 1);
        return r < 0 ? r : set_add_categories(s, LETTERS | MARKS | BIT(ND) | BIT(NL) | BIT(PC));
    }
}

grammar_node set_node(const struct set *s, struct grammar_builder *b)
{
    return grammar_class(b, s->ranges, s->n, false);
}
