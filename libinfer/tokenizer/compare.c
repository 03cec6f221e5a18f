/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the tokens that two tokenizers give for sample texts. */
#include "tokenizer/compare.h"

#include <errno.h>
#include <string.h>

#include "core/macros.h"

static const char *const samples[] = {
    "Hello World, it's 3.14159 or 20240229! We'll see...  two  spaces\n\n\n\ttabs\r\n",
    " leading and trailing ",
    "CamelCase don't CAN'T I'M you'Ve 1,234,567 x=y+z; #include <a.h>",
    "Größe café naïve Ελληνικά Русский язык 中文字符测试 日本語テスト 한국어 العربية हिन्दी ไทย",
    "🚀🦙 👨‍👩‍👧 ½ ² ①②③ “quotes” — dash…",
    "____ ====> ~~~ $100 100% a@b.c",
    "\n \n  \n",
    "1 22 333 4444 55555",
};

/* Compares the tokens of a text. Returns 0, or -EOPNOTSUPP if they differ. */
static int compare_text(const struct inf_tokenizer *a, const struct inf_tokenizer *b,
                        const char *text)
{
    _cleanup_free_ int32_t *x = NULL, *y = NULL;
    size_t n_x, n_y;
    int r;

    r = inf_tokenizer_encode(a, text, strlen(text), INF_ENCODE_ADD_SPECIAL, 0, &x, &n_x);
    if (r == 0)
        r = inf_tokenizer_encode(b, text, strlen(text), INF_ENCODE_ADD_SPECIAL, 0, &y, &n_y);
    if (r < 0)
        return r;
    return n_x == n_y && (n_x == 0 || memcmp(x, y, n_x * sizeof(*x)) == 0) ? 0 : -EOPNOTSUPP;
}

int tokenizer_compare(const struct inf_tokenizer *a, const struct inf_tokenizer *b)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(samples); i++)
        r = compare_text(a, b, samples[i]);
    return r;
}
