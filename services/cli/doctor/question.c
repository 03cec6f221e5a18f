/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the test question of `sconce doctor --deep`: a model generates one token, through the
 * gateway.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/api-keys.h"
#include "cli/suite/http-get.h"
#include "common/config/config.h"
#include "common/config/key-file.h"
#include "common/models/models.h"

enum {
    QUESTION_SECONDS = 300, /* enough to read a large model from a slow disk */
};

static char *question_text(const char *model)
{
    json_t *j = json_pack("{s:s, s:i, s:[{s:s, s:s}]}", "model", model, "max_tokens", 1, "messages",
                          "role", "user", "content", "Say yes.");
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

    json_decref(j);
    return text;
}

/* Extracts the error message from an answer of the API. */
static const char *message_of(const struct str *body)
{
    json_t *j = json_loadb(body->data ? body->data : "", body->len, 0, NULL);
    const char *text = json_string_value(json_object_get(json_object_get(j, "error"), "message"));
    const char *copy = doctor_text("%s", text ? text : body->data ? body->data : "");

    json_decref(j);
    return copy;
}

static void question_ask(struct doctor *d, const struct doctor_side *side)
{
    const char *address = doctor_text("unix:%s/gateway.sock", side->places.socket_dir);
    _cleanup_(models_freep) struct models *models = NULL;
    _cleanup_str_ struct str body = {0};
    _cleanup_(key_list_done) struct key_list keys = {0};
    _cleanup_free_ char *text = NULL;
    const struct models_entry *e;
    const struct access_key *key;
    struct inf_err err;
    int status;

    if (models_scan(side->config, &models) < 0)
        return;
    e = models_default(models, side->config);
    for (size_t i = 0; !e && i < models_count(models); i++)
        if (models_at(models, i)->task == MODELS_CHAT)
            e = models_at(models, i);
    text = e ? question_text(e->name) : NULL;
    if (!text)
        return;
    api_keys_load(side->places.key_file, &keys, &err);
    key = key_list_find(&keys, RIGHT_INFER);
    status = http_post(address, "/v1/chat/completions", key ? key->key : NULL, text,
                       QUESTION_SECONDS, &body, &err);
    /* doctor_doors() reports missing permissions. */
    if (status == 200 || status == -EACCES)
        return;
    if (status < 0)
        doctor_tell(d, FINDING_BROKEN, "question", NULL, "a test question was not answered: %s",
                    err.text);
    else
        doctor_tell(d, FINDING_BROKEN, "question", NULL,
                    "a test question was answered with status %d: %.400s", status,
                    message_of(&body));
}

void doctor_question(struct doctor *d)
{
    for (size_t i = 0; i < d->n_sides; i++)
        if ((d->sides[i].used || (d->other_door && i == 0)) && d->sides[i].config &&
            d->sides[i].places.socket_dir)
            question_ask(d, &d->sides[i]);
}
