/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers verified files (see verified.h). */
#include "store/verified.h"

#include <stdio.h>
#include <string.h>

#include "core/macros.h"

void verified_init(struct verified *v)
{
    pthread_mutex_init(&v->lock, NULL);
}

void verified_done(struct verified *v)
{
    pthread_mutex_destroy(&v->lock);
}

void verified_add(struct verified *v, const char *digest, const struct stat *st)
{
    struct verified_file *f;

    pthread_mutex_lock(&v->lock);
    f = &v->files[v->n++ % VERIFIED_MAX];
    *f = (struct verified_file){
        .dev = st->st_dev, .ino = st->st_ino, .size = st->st_size, .mtime = st->st_mtim};
    snprintf(f->digest, sizeof(f->digest), "%s", digest);
    pthread_mutex_unlock(&v->lock);
}

bool verified_has(struct verified *v, const char *digest, const struct stat *st)
{
    bool has = false;

    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; !has && i < MIN(v->n, (size_t)VERIFIED_MAX); i++) {
        const struct verified_file *f = &v->files[i];

        has = strcmp(f->digest, digest) == 0 && f->dev == st->st_dev && f->ino == st->st_ino &&
              f->size == st->st_size && f->mtime.tv_sec == st->st_mtim.tv_sec &&
              f->mtime.tv_nsec == st->st_mtim.tv_nsec;
    }
    pthread_mutex_unlock(&v->lock);
    return has;
}
