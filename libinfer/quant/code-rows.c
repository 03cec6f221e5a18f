/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes heads whose elements are turned in small groups (see code-rows.h). */
#include "quant/code-rows.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/half.h"
#include "quant/code.h"

#define N_ANGLES 16u
#define N_ROTORS DIV_UP(CODE_HEAD_MAX, 3u)
#define SEED     42u

/* Levels of Max (1960); the codes count from the lowest one. */
static const float max4[] = {-2.733f,  -2.069f,  -1.618f, -1.256f, -0.9424f, -0.6568f,
                             -0.3881f, -0.1284f, 0.1284f, 0.3881f, 0.6568f,  0.9424f,
                             1.256f,   1.618f,   2.069f,  2.733f};
static const float max3[] = {-2.152f, -1.344f, -0.7560f, -0.2451f,
                             0.2451f, 0.7560f, 1.344f,   2.152f};

/* The cosines of 0, π / 16 … π / 2. */
static const float cosines[] = {1.0f,         0.980785280f, 0.923879533f,
                                0.831469612f, 0.707106781f, 0.555570233f,
                                0.382683432f, 0.195090322f, 0.0f};
/* The quaternion of ISOn. */
static const float iso_q[4] = {0.447213595f, 0.723606798f, 0.276393202f, 0.447213595f};

/* The rotations of ROTORn. */
static float rotors[N_ROTORS][3][3];
static pthread_once_t rotors_once = PTHREAD_ONCE_INIT;

/* A format: how many elements a group has, and where the parts of a row begin. */
struct shape {
    const float *levels;
    uint32_t n_bits, size, n_groups;
    bool norm, planar;
    uint32_t scales, angles, codes; /* offsets in bytes */
};

static struct shape shape_of(enum codec codec, uint32_t n)
{
    const bool planar = codec == CODEC_PLANAR4 || codec == CODEC_PLANAR3;
    const bool iso = codec == CODEC_ISO4 || codec == CODEC_ISO3;
    const bool four = codec == CODEC_PLANAR4 || codec == CODEC_ISO4 || codec == CODEC_ROTOR4;
    struct shape s = {.levels = four ? max4 : max3,
                      .n_bits = four ? 4 : 3,
                      .size = planar ? 2
                              : iso  ? 4
                                     : 3,
                      .norm = !planar,
                      .planar = planar};

    assert(codec_info(codec)->kind == CODEC_ROWS && n <= CODE_HEAD_MAX);
    s.n_groups = DIV_UP(n, s.size);
    s.scales = s.norm ? 2 : 0;
    s.angles = s.scales + 2 * s.n_groups;
    s.codes = s.angles + (planar ? s.n_groups / 2 : 0);
    return s;
}

uint32_t code_rows_bytes(enum codec codec, uint32_t head_dim)
{
    const struct shape s = shape_of(codec, head_dim);

    return s.codes + DIV_UP(s.n_groups * s.size * s.n_bits, 8u);
}

static float half_get(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof(h));
    return f16_to_f32(h);
}

/* Stores @x. Returns it as it is stored; NaN if it is not finite. */
static float half_put(uint8_t *p, float x)
{
    uint16_t h = f16_from_f32(x);

    if (!isfinite(f16_to_f32(h)))
        h = f16_from_f32(NAN);
    memcpy(p, &h, sizeof(h));
    return f16_to_f32(h);
}

/* Returns a random number in -1 … 1. */
static double random_part(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (double)((int32_t)(x >> 40) - (1 << 23)) / (1 << 23);
}

static void rotors_make(void)
{
    uint64_t state = SEED;

    for (uint32_t i = 0; i < N_ROTORS;) {
        double w = random_part(&state), x = random_part(&state);
        double y = random_part(&state), z = random_part(&state);
        const double norm = sqrt(w * w + x * x + y * y + z * z);
        float(*m)[3] = rotors[i];

        if (norm > 1 || norm < 0.1)
            continue;
        w /= norm;
        x /= norm;
        y /= norm;
        z /= norm;
        m[0][0] = (float)(1 - 2 * (y * y + z * z));
        m[0][1] = (float)(2 * (x * y - w * z));
        m[0][2] = (float)(2 * (x * z + w * y));
        m[1][0] = (float)(2 * (x * y + w * z));
        m[1][1] = (float)(1 - 2 * (x * x + z * z));
        m[1][2] = (float)(2 * (y * z - w * x));
        m[2][0] = (float)(2 * (x * z - w * y));
        m[2][1] = (float)(2 * (y * z + w * x));
        m[2][2] = (float)(1 - 2 * (x * x + y * y));
        i++;
    }
}

/* Turns a pair by the multiple @k of π / 16. @back turns it back. */
static void planar_turn(float *y, const float *x, uint32_t k, bool back)
{
    const float c = k <= 8 ? cosines[k] : -cosines[16 - k];
    const float sine = cosines[k <= 8 ? 8 - k : k - 8], s = back ? -sine : sine;
    const float a = x[0], b = x[1];

    y[0] = a * c - b * s;
    y[1] = a * s + b * c;
}

/* Multiplies the quaternion @x by that of ISOn from the left, or by its conjugate. */
static void iso_turn(float *y, const float *x, bool back)
{
    const float w = iso_q[0], i = back ? -iso_q[1] : iso_q[1];
    const float j = back ? -iso_q[2] : iso_q[2], k = back ? -iso_q[3] : iso_q[3];
    const float a = x[0], b = x[1], c = x[2], d = x[3];

    y[0] = w * a - i * b - j * c - k * d;
    y[1] = w * b + i * a + j * d - k * c;
    y[2] = w * c - i * d + j * a + k * b;
    y[3] = w * d + i * c - j * b + k * a;
}

static void rotor_turn(float *y, const float *x, uint32_t i_group, bool back)
{
    float(*m)[3] = rotors[i_group];
    const float a = x[0], b = x[1], c = x[2];

    for (uint32_t i = 0; i < 3; i++)
        y[i] = back ? m[0][i] * a + m[1][i] * b + m[2][i] * c
                    : m[i][0] * a + m[i][1] * b + m[i][2] * c;
}

/* Turns group @i of a head. @k: the angle of PLANARn. */
static void group_turn(const struct shape *s, float *y, const float *x, uint32_t i, uint32_t k,
                       bool back)
{
    if (s->planar)
        planar_turn(y, x, k, back);
    else if (s->size == 4)
        iso_turn(y, x, back);
    else
        rotor_turn(y, x, i, back);
}

static uint32_t nearest(const struct shape *s, float x)
{
    const uint32_t n = 1u << s->n_bits;
    uint32_t k = 0;

    while (k + 1 < n && x > (s->levels[k] + s->levels[k + 1]) / 2)
        k++;
    return k;
}

/* Encodes a turned group. Writes its scale and its codes. */
static void group_encode(const struct shape *s, uint8_t *scale, uint8_t *codes, const float *y)
{
    const float top_level = s->levels[(1u << s->n_bits) - 1];
    float top = 0, rest = 0, stored, inverse;

    for (uint32_t i = 0; i < s->size; i++) {
        top = fabsf(y[i]) > top ? fabsf(y[i]) : top;
        rest += y[i] * 0;
    }
    stored = half_put(scale, top / top_level + rest);
    inverse = stored >= CODE_TINY ? 1 / stored : 0;
    for (uint32_t i = 0; i < s->size; i++)
        codes[i] = (uint8_t)nearest(s, y[i] * inverse);
}

/* Returns the largest error of a pair that is encoded with the angle @k. */
static float planar_error(const struct shape *s, const float *x, uint32_t k)
{
    uint8_t scale[2], codes[2];
    float y[2], back[2];

    planar_turn(y, x, k, false);
    group_encode(s, scale, codes, y);
    for (uint32_t i = 0; i < 2; i++)
        y[i] = s->levels[codes[i]] * half_get(scale);
    planar_turn(back, y, k, true);
    return fmaxf(fabsf(back[0] - x[0]), fabsf(back[1] - x[1]));
}

/* Returns the angle of a pair with the least error. */
static uint32_t planar_best(const struct shape *s, const float *x)
{
    float least = INFINITY;
    uint32_t best = 0;

    for (uint32_t k = 0; s->planar && k < N_ANGLES; k++) {
        const float e = planar_error(s, x, k);

        if (e < least) {
            least = e;
            best = k;
        }
    }
    return best;
}

static void codes_put(uint8_t *to, const uint8_t *codes, uint32_t n_bits, uint32_t n)
{
    memset(to, 0, DIV_UP(n * n_bits, 8u));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = i * n_bits, both = (uint32_t)codes[i] << at % 8;

        to[at / 8] |= (uint8_t)both;
        if (both > 255)
            to[at / 8 + 1] |= (uint8_t)(both >> 8);
    }
}

static void codes_get(uint8_t *codes, const uint8_t *from, uint32_t n_bits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8) {
        uint32_t word = 0;

        memcpy(&word, from + i / 8 * n_bits, MIN(n_bits, DIV_UP((n - i) * n_bits, 8u)));
        for (uint32_t j = 0; j < 8; j++)
            codes[i + j] = word >> j * n_bits & ((1u << n_bits) - 1);
    }
}

void code_rows_encode(enum codec codec, uint8_t *row, const float *x, uint32_t n)
{
    const struct shape s = shape_of(codec, n);
    uint8_t codes[CODE_HEAD_MAX + 8];
    float sum = 0, factor = 1;

    pthread_once(&rotors_once, rotors_make);
    for (uint32_t i = 0; s.norm && i < n; i++)
        sum += x[i] * x[i];
    if (s.norm) {
        const float norm = half_put(row, sqrtf(sum));

        factor = norm > 0 ? 1 / norm : norm;
    }
    for (uint32_t i = 0; i < s.n_groups; i++) {
        float v[4] = {0}, y[4];
        uint32_t k;

        for (uint32_t j = 0; j < s.size && i * s.size + j < n; j++)
            v[j] = x[i * s.size + j] * factor;
        k = planar_best(&s, v);
        group_turn(&s, y, v, i, k, false);
        group_encode(&s, row + s.scales + 2 * (size_t)i, codes + i * s.size, y);
        if (s.planar)
            row[s.angles + i / 2] = (uint8_t)(i % 2 == 0 ? k : row[s.angles + i / 2] | k << 4);
    }
    codes_put(row + s.codes, codes, s.n_bits, s.n_groups * s.size);
}

void code_rows_decode(enum codec codec, float *x, const uint8_t *row, uint32_t n)
{
    const struct shape s = shape_of(codec, n);
    const float norm = s.norm ? half_get(row) : 1;
    uint8_t codes[CODE_HEAD_MAX + 8];

    pthread_once(&rotors_once, rotors_make);
    codes_get(codes, row + s.codes, s.n_bits, s.n_groups * s.size);
    for (uint32_t i = 0; i < s.n_groups; i++) {
        const float scale = half_get(row + s.scales + 2 * (size_t)i);
        const uint32_t k = s.planar ? row[s.angles + i / 2] >> i % 2 * 4 & 15 : 0;
        float y[4], v[4];

        for (uint32_t j = 0; j < s.size; j++)
            y[j] = s.levels[codes[i * s.size + j]] * scale;
        group_turn(&s, v, y, i, k, true);
        for (uint32_t j = 0; j < s.size && i * s.size + j < n; j++)
            x[i * s.size + j] = v[j] * norm;
    }
}
