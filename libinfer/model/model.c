/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a model, gives information about it, and builds the graph that generates
 * text. */
#include "model/model.h"

#include <errno.h>

#include "core/err.h"
#include "model/arch.h"

int model_open(const struct format *f, struct model **ret_model, struct inf_err *reterr)
{
    _cleanup_(model_closep) struct model *m = NULL;
    const struct hparams *hp = format_hparams(f);
    int r;

    if (hp->n_layers == 0)
        return err_set(reterr, EINVAL, "only the vocabulary of this model was opened");
    m = NEW(struct model, 1);
    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    m->f = f;
    m->hp = hp;
    /* The list of model_archs() contains only members of struct arch. */
    m->arch = CONTAINER_OF(format_arch(f), const struct arch, desc);
    r = weights_bind(m, reterr);
    if (r < 0)
        return r;
    r = rope_bind(m, reterr);
    if (r < 0)
        return r;
    r = balance_norms(m, reterr);
    if (r < 0)
        return r;
    *ret_model = STEAL(m);
    return 0;
}

struct model *model_close(struct model *m)
{
    if (!m)
        return NULL;
    arena_done(&m->arena);
    free(m);
    return NULL;
}

const struct hparams *model_hparams(const struct model *m)
{
    return m->hp;
}

uint64_t model_bytes_token(const struct model *m)
{
    return m->bytes_token;
}

uint64_t model_madds_layers(const struct model *m)
{
    return m->madds_layers;
}

uint64_t model_madds_head(const struct model *m)
{
    return m->madds_head;
}

bool model_tied_head(const struct model *m)
{
    return m->tied;
}

bool model_predicts(const struct model *m)
{
    return m->predicts;
}

int model_build_exporting(const struct model *m, struct graph **ret_graph, struct inf_err *reterr)
{
    struct model exporting = *m;

    exporting.exports = true;
    return model_build(&exporting, ret_graph, reterr);
}

int model_build(const struct model *m, struct graph **ret_graph, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    int r;

    if (m->head)
        return err_set(reterr, EOPNOTSUPP,
                       "the model only drafts tokens for another model and does not generate text");
    if (!m->arch->build)
        return err_set(reterr, EOPNOTSUPP,
                       "%s models compute vectors of texts and do not generate text", m->hp->arch);
    if (m->hp->no_head)
        return err_set(reterr, EOPNOTSUPP,
                       "the model was saved without its head: it computes vectors of texts and "
                       "cannot generate text");
    if (graph_new(&g) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    groups_add(m, g);
    m->arch->build(m, g);
    r = graph_error(g, reterr);
    if (r < 0)
        return r;
    *ret_graph = STEAL(g);
    return 0;
}
