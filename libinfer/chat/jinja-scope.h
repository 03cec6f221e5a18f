/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the tables of symbols that each scope has while the names of a template are resolved
 * (jinja-scope.c). */

#include "chat/jinja-ast.h"

struct ident {
    uint32_t level;
    struct jstr *name;
};

/* A function whose names are being collected. */
struct fn_scope {
    struct fn_scope *up;
    struct func *out;
    struct ident *idents;
    uint32_t n;
};

struct sym_ref {
    struct jstr *name;
    struct fn_scope *fn;
    uint32_t slot;
};

struct sym_load {
    uint32_t slot;
    enum load_action action;
    struct sym_ref from;
    struct jstr *name;
};

struct symbols {
    struct jinja *j;
    struct symbols *parent;
    uint32_t level;
    struct fn_scope *fn;
    struct sym_ref *refs;
    struct sym_load *loads;
    struct jstr **stores;
    uint32_t n_refs, n_loads, n_stores;
};

enum for_part { FOR_BODY, FOR_ELSE, FOR_TEST };

struct fn_scope *fn_scope_new(struct jinja *j, struct fn_scope *up);
struct symbols *symbols_new(struct jinja *j, struct symbols *parent, struct fn_scope *fn);
struct sym_ref *symbols_find(struct symbols *s, const struct jstr *name);
uint32_t symbols_param(struct symbols *s, struct jstr *name);
void symbols_analyze(struct symbols *s, struct node *n);
void symbols_analyze_for(struct symbols *s, struct node *n, enum for_part part);
/* Returns a set of bits: bit i is set if the nodes read the name @names[i] before they set it. The
 * list of names ends with NULL. */
unsigned find_undeclared(struct jinja *j, const struct nodes *body, const char *const *names);
