/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes names of number formats of keys and values:
 *
 *   K:V            formats of keys and of values; one name stands for both
 *   K:V+recent     what attention reads most is kept in more bits (struct kv_layout)
 *   …/LAYERS=K:V   some layers have other formats. LAYERS is "windows", which stands for all layers
 *                  with a window, or the number of a layer, or the first and the last number of
 *                  several layers, as in 3-5. Layers with keys and values are numbered from 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handle.h"
#include "core/err.h"
#include "quant/codec.h"

#define BLOCK_TOKENS 64

/* Finds the number format that @name, a text of @len bytes, means for keys or for values. */
static int find_codec(const struct inf_model *model, const char *name, size_t len,
                      enum codec *ret_codec, struct inf_err *reterr)
{
    enum codec codec;

    if (len == 4 && memcmp(name, "auto", 4) == 0) {
        *ret_codec = model->info.dtype == INF_DTYPE_F32 ? CODEC_F32 : CODEC_F16;
        return 0;
    }
    if (!codec_find(name, len, &codec))
        return err_set(reterr, EINVAL,
                       "unknown type of the KV cache: %.*s; the types are auto, f32, f16, bf16, "
                       "q8_0, q4_0, q3_0, fp8 and others that docs/formats.md lists, or two of "
                       "them as K:V, and +recent after q4_0 and other rotated types",
                       (int)MIN(len, 32u), name);
    *ret_codec = codec;
    return 0;
}

/* Checks that the heads of @group can have the number format @codec. */
static int check_codec(const struct state_group *group, enum codec codec, struct inf_err *reterr)
{
    const uint32_t unit = codec_info(codec)->head_unit;

    if (group->rule == STATE_RECURRENT || group->head_dim % unit == 0)
        return 0;
    return err_set(reterr, EOPNOTSUPP,
                   "a KV cache of %s needs a head size that is a multiple of %u, not %u; fp8 works "
                   "with any head size",
                   codec_info(codec)->name, unit, group->head_dim);
}

/* Checks that values can have the number format @codec. */
static int check_values(enum codec codec, struct inf_err *reterr)
{
    if (!codec_info(codec)->residual)
        return 0;
    return err_set(reterr, EINVAL,
                   "%s is a type for keys only, because its last bit corrects products with "
                   "queries; values need another type, as in %s:turbo4",
                   codec_info(codec)->name, codec_info(codec)->name);
}

/* Checks that all layers can have their number formats. */
static int check_layers(const struct kv_layout *layout, struct inf_err *reterr)
{
    int r = 0;

    for (uint32_t g = 0; r == 0 && g < layout->n_groups; g++)
        for (uint32_t i = 0; r == 0 && i < (layout->n_mixed > 0 ? layout->groups[g].n_layers : 1);
             i++) {
            const struct state_place place = {g, i};

            r = check_codec(&layout->groups[g], kv_layout_codec(layout, place, true), reterr);
            if (r == 0)
                r = check_codec(&layout->groups[g], kv_layout_codec(layout, place, false), reterr);
        }
    return r;
}

/* Reads the formats "K:V", or one for both, of the @len bytes at @text. */
static int find_pair(const struct inf_model *model, const char *text, size_t len, enum codec *ret_k,
                     enum codec *ret_v, struct inf_err *reterr)
{
    const char *colon = memchr(text, ':', len), *v = colon ? colon + 1 : text;
    enum codec k;
    int r = find_codec(model, text, colon ? (size_t)(colon - text) : len, &k, reterr);

    if (r == 0)
        r = find_codec(model, v, len - (size_t)(v - text), ret_v, reterr);
    if (r == 0)
        r = check_values(*ret_v, reterr);
    if (r == 0)
        *ret_k = k;
    return r;
}

/* Lists the layers with keys and values in the order of the model. A layer that reads the keys and
 * values of an earlier one has none. */
static int list_layers(struct kv_layout *layout, const struct graph *graph, struct inf_err *reterr)
{
    uint32_t n_seen[STATE_GROUPS_MAX] = {0};

    for (graph_ref i = 0; i < (graph_ref)graph_n_nodes(graph); i++) {
        const struct graph_node *node = graph_node(graph, i);

        if (node->op != GRAPH_ATTENTION || node->attn.memory ||
            node->attn.i_layer != n_seen[node->attn.i_group])
            continue;
        if (layout->n_mixed == KV_MIXED_MAX)
            return err_set(reterr, EOPNOTSUPP,
                           "only models with at most %u layers with keys and "
                           "values can have several types of the KV cache",
                           KV_MIXED_MAX);
        n_seen[node->attn.i_group]++;
        layout->mixed[layout->n_mixed++] =
            (struct kv_mixed){.i_group = (uint8_t)node->attn.i_group};
    }
    return 0;
}

/* Reads the number of a layer at *@at. Returns UINT32_MAX if there is none. */
static uint32_t layer_number(const char **at)
{
    char *end;
    unsigned long n;

    if (**at < '0' || **at > '9')
        return UINT32_MAX;
    n = strtoul(*at, &end, 10);
    *at = end;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX - 1;
}

/* Reads which layers a part "LAYERS=TYPE" is for: "windows", "N" or "N-M". *@at is then after the
 * equals sign. With *ret_windows, *ret_last is the last layer. */
static int read_layers(const char **at, uint32_t n_layers, uint32_t *ret_first, uint32_t *ret_last,
                       bool *ret_windows, struct inf_err *reterr)
{
    static const char windows[] = "windows";

    *ret_windows = strncmp(*at, windows, strlen(windows)) == 0;
    *ret_first = 0;
    *ret_last = n_layers - 1;
    if (*ret_windows) {
        *at += strlen(windows);
    } else {
        *ret_first = *ret_last = layer_number(at);
        if (**at == '-') {
            ++*at;
            *ret_last = layer_number(at);
        }
    }
    if (**at != '=' || *ret_first > *ret_last || *ret_last == UINT32_MAX)
        return err_set(reterr, EINVAL,
                       "after the type of the KV cache, types of some layers follow as "
                       "/LAYERS=TYPE, where LAYERS is \"windows\", a number or two as in 3-5, "
                       "not as /%.32s",
                       *at);
    ++*at;
    if (*ret_last >= n_layers)
        return err_set(reterr, EOPNOTSUPP,
                       "the type of the KV cache names layer %u, but the model has %u layers with "
                       "keys and values, numbered from 0",
                       *ret_last, n_layers);
    return 0;
}

/* Reads the types of some layers, @text: "LAYERS=TYPE", or several with "/" between them. Later
 * ones take precedence. */
static int read_mixed(const struct inf_model *model, const struct graph *graph, const char *text,
                      struct kv_layout *layout, struct inf_err *reterr)
{
    int r = list_layers(layout, graph, reterr);

    for (const char *at = text; r == 0; at++) {
        uint32_t first, last;
        enum codec k, v;
        bool windows;

        r = read_layers(&at, layout->n_mixed, &first, &last, &windows, reterr);
        if (r == 0)
            r = find_pair(model, at, strcspn(at, "/"), &k, &v, reterr);
        for (uint32_t i = first; r == 0 && i <= last; i++) {
            struct kv_mixed *m = &layout->mixed[i];

            if (windows && layout->groups[m->i_group].rule != STATE_WINDOW)
                continue;
            *m = (struct kv_mixed){
                .i_group = m->i_group, .is_set = true, .k = (uint8_t)k, .v = (uint8_t)v};
        }
        at += strcspn(at, "/");
        if (*at == '\0')
            break;
    }
    return r;
}

static int keep_recent(struct kv_layout *layout, struct inf_err *reterr)
{
    if (!kv_layout_can_keep(layout))
        return err_set(reterr, EINVAL,
                       "+recent is for keys and values in rotated types, such as q4_0 and q3_0; "
                       "some layers without a window may have q8_0");
    return kv_layout_keep_recent(layout)
               ? 0
               : err_set(reterr, EOPNOTSUPP, "+recent: the model has too many kinds of layers");
}

int setup_layout_of_graph(const struct inf_model *model, const struct graph *graph,
                          const char *kv_type, struct kv_layout *ret_layout, struct inf_err *reterr)
{
    const struct hparams *hp = model_hparams(model->model);
    const char *name = kv_type ? kv_type : "auto";
    const char *slash = strchr(name, '/');
    const size_t len = strcspn(name, "+/"), all = slash ? (size_t)(slash - name) : strlen(name);
    struct kv_layout layout =
        kv_layout_full(hp->n_layers, hp->n_kv_heads, hp->head_dim, BLOCK_TOKENS, CODEC_F32, 0);
    const struct state_group *groups;
    uint32_t n_groups;
    int r;

    groups = graph_groups(graph, &n_groups);
    if (n_groups > 0) {
        layout.n_groups = n_groups;
        memcpy(layout.groups, groups, n_groups * sizeof(*groups));
    }
    if (strlen(name) >= KV_NAME_MAX)
        return err_set(reterr, EINVAL, "the type of the KV cache has more than %u letters",
                       KV_NAME_MAX - 1);
    r = find_pair(model, name, len, &layout.k, &layout.v, reterr);
    if (r == 0 && slash)
        r = read_mixed(model, graph, slash + 1, &layout, reterr);
    if (r == 0 && len < all && (all - len != 7 || memcmp(name + len, "+recent", 7) != 0))
        r = err_set(reterr, EINVAL, "the type of the KV cache may end with +recent, not with %.32s",
                    name + len);
    if (r == 0 && len < all)
        r = keep_recent(&layout, reterr);
    if (r == 0)
        r = check_layers(&layout, reterr);
    if (r < 0)
        return r;
    *ret_layout = layout;
    return 0;
}

void setup_kv_numbers(const struct kv_layout *layout, bool both, char *out, size_t size)
{
    const bool one = layout->k == layout->v && !both;
    size_t n =
        (size_t)snprintf(out, size, "%s%s%s%s", codec_info(layout->k)->name, one ? "" : ":",
                         one ? "" : codec_info(layout->v)->name, layout->recent ? "+recent" : "");

    for (uint32_t i = 0; i < layout->n_mixed && n < size; i++)
        if (layout->mixed[i].is_set)
            n += (size_t)snprintf(out + n, size - n, "/%u=%s:%s", i,
                                  codec_info((enum codec)layout->mixed[i].k)->name,
                                  codec_info((enum codec)layout->mixed[i].v)->name);
}
