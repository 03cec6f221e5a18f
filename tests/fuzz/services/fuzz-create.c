/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as the body of POST /api/create, and the manifest of the model that it asks
 * for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/http/problem.h"
#include "common/models/manifest.h"
#include "common/models/safe-path.h"
#include "common/pull/pull.h"
#include "common/wire/fields.h"
#include "core/str.h"
#include "store/creation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Adds the files of the request, which has been checked, with sizes and digests. */
static void add_files(json_t *body, struct pull_plan *plan)
{
    const char *name;
    const json_t *value;

    json_object_foreach(json_object_get(body, "files"), name, value)
    {
        const char *digest = json_string_value(value) + strlen("sha256:");

        if (pull_plan_add(plan, &(struct pull_file){.name = name, .size = 1, .sha256 = digest},
                          NULL) < 0)
            abort();
    }
    plan->is_gguf = plan->n > 0;
}

/* Checks that the manifest has the system message and the other messages of the request. */
static void check_messages(const struct model_settings *settings, const json_t *body)
{
    const json_t *list = json_object_get(body, "messages");
    const char *system = json_string_value(json_object_get(body, "system"));
    const size_t n = json_array_size(list), n_system = n - settings->n_messages;

    if (n < settings->n_messages || n_system > 1)
        abort();
    if (n_system)
        system = json_string_value(json_object_get(json_array_get(list, 0), "content"));
    if (!settings->system != (!system || !system[0]) ||
        (settings->system && strcmp(settings->system, system) != 0))
        abort();
    for (size_t i = 0; i < settings->n_messages; i++) {
        const json_t *m = json_array_get(list, n_system + i);

        if (strcmp(settings->messages[i].text, json_string_value(json_object_get(m, "content"))) !=
                0 ||
            settings->messages[i].of_assistant !=
                (json_string_value(json_object_get(m, "role"))[0] == 'a'))
            abort();
    }
}

/* Writes the manifest of the new model and reads it. */
static void read_manifest(const struct store_creation *creation, json_t *body)
{
    _cleanup_(pull_plan_done) struct pull_plan plan = {};
    _cleanup_(arena_done) struct arena arena = {};
    _cleanup_str_ struct str text = {};
    struct model_manifest manifest;

    add_files(body, &plan);
    if (creation_plan(creation, NULL, NULL, &plan) < 0 ||
        pull_put_manifest(&plan, plan.settings, &text) < 0)
        abort();
    if (text.len == 0 || text.len > MODEL_MANIFEST_MAX_FILE)
        return;
    if (model_manifest_parse(&arena, text.data, text.len, &manifest, NULL) < 0 ||
        manifest.n_files != plan.n || !manifest.licence != !plan.licence ||
        (plan.licence && strcmp(manifest.licence, plan.licence) != 0))
        abort();
    check_messages(&manifest.settings, body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_creation *creation;
    struct problem problem = {};
    json_t *body;

    if (fields_parse((const char *)data, size, &body, &problem) < 0)
        return 0;
    if (creation_new(body, &creation, &problem) < 0) {
        if (!problem.status)
            abort();
        json_decref(body);
        return 0;
    }
    if (!model_name_is_safe(creation_name(creation)))
        abort();
    read_manifest(creation, body);
    creation_free(creation);
    return 0;
}
