/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Holds the fields that the readers of GGUF keys and of config.json share, and stores their values
 * in hyperparameters. */

#include "format/arch-desc.h"

/* The lists of fields of a model. They are read in this order: the fields of its class, of its
 * architecture, of all decoders, and of all models. If several lists have a field for the same
 * hyperparameter, the field of the earliest list is used. */
struct field_lists {
    const struct arch_field *fields[4];
    size_t n[4];
};

/* @class may be NULL. */
struct field_lists field_lists_of(const struct arch_desc *desc, const struct arch_class *class);
/* Returns field @i; NULL: there are no more fields. Replaced fields are left out, so *@i is
 * advanced to the field that is returned. */
const struct arch_field *field_at(const struct field_lists *lists, size_t *i);
/* Return whether one of the fields reads the key @key of GGUF files, or of config.json. */
bool field_reads_gguf(const struct field_lists *lists, const char *key);
bool field_reads_hf(const struct field_lists *lists, const char *key);

/* Stores a value, which is a valid value of the field's kind. */
void field_store(const struct arch_field *field, struct hparams *hp, double value);
/* Called if the file does not have the field's key. Stores the field's default value, unless the
 * hyperparameter already has a value. Returns whether the hyperparameter now has a value, or does
 * not need one. @needs: the flag of the file's format. */
bool field_store_absent(const struct arch_field *field, struct hparams *hp,
                        enum arch_field_flags needs);
/* Stores one value of a list with one count or one number for each layer. */
void field_store_layer(const struct arch_field *field, struct hparams *hp, uint32_t i_layer,
                       double value);
/* Finds an activation by its name in transformers. Returns false if it is not supported. */
bool field_act_find(const char *name, enum graph_act *ret_act);
/* Returns the name of an activation in transformers; NULL: it has none. */
const char *field_act_name(enum graph_act act);
/* Sets which layers have experts: the layers that experts.step selects if the model has experts,
 * and otherwise none. */
void field_set_sparse(struct hparams *hp);
/* Lets the description finish the hyperparameters, and checks them. Returns 0 or -EBADMSG, or an
 * error of the description. */
int field_finish(const struct arch_desc *desc, struct hparams *hp, enum arch_source source,
                 struct inf_err *reterr);
