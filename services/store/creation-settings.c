/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the settings of models that clients make (see creation.h). */
#include <errno.h>
#include <string.h>

#include "common/models/models.h"
#include "common/pull/pull.h"
#include "common/store/store.h"
#include "core/str.h"
#include "store/creation-inner.h"

/* Writes the settings of the request, and those of the other model @e that the request does not
 * change. */
static int put_settings(const struct store_creation *c, const struct models_entry *e,
                        const char *template, struct str *out)
{
    struct inf_sampling sampling = c->sampling;
    const char *const *stops = c->stops;
    const struct model_message *messages = c->messages;
    size_t n_stops = c->n_stops, n_messages = c->n_messages;
    const char *system = c->system;
    uint32_t context = c->context;
    int r;

    if (e) {
        sampling_fill(&sampling, &e->sampling, SAMPLING_OF_MANIFEST, NULL);
        context = context ? context : e->settings.context;
        if (!n_stops && !e->settings.stops_of_template && (stops = e->settings.stops))
            while (stops[n_stops])
                n_stops++;
        system = system ? system : e->settings.system;
        messages = n_messages ? messages : e->settings.messages;
        n_messages = n_messages ? n_messages : e->settings.n_messages;
    }
    r = store_put_sampling(out, &sampling);
    r = r < 0 ? r : store_put_stops(out, stops, n_stops);
    if (r == 0 && context)
        r = str_printf(out, "context: %u\n", context);
    r = r < 0 ? r : store_put_key(out, "template", c->template ? c->template : template);
    r = r < 0 ? r : store_put_key(out, "system", system);
    r = r < 0 ? r : store_put_messages(out, messages, n_messages);
    r = r < 0 ? r : store_put_key(out, "kv_type", e ? e->settings.kv_type : NULL);
    if (r == 0 && e && e->settings.keep_usec != MODEL_KEEP_USUAL)
        r = str_printf(out, "keep_alive: %lluus\n", (unsigned long long)e->settings.keep_usec);
    return r < 0 || !e || !e->matryoshka ? r : str_puts(out, "matryoshka: true\n");
}

int creation_plan(const struct store_creation *c, const struct models_entry *e,
                  const char *template, struct pull_plan *plan)
{
    _cleanup_str_ struct str text = {0};

    if (put_settings(c, e, template, &text) < 0)
        return -ENOMEM;
    /* If there are no settings, the text is empty and not NULL, so that settings are not looked for
     * in the files. */
    plan->settings = arena_strndup(&plan->arena, text.len ? text.data : "", text.len);
    if (c->licence[0])
        plan->licence = c->licence;
    return plan->settings ? 0 : -ENOMEM;
}
