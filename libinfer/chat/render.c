/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the public functions of chat.h. A template is parsed once, into an arena of its own.
 * Each render has its own arena too. A render converts JSON to values, runs the template, and
 * copies the result. Errors of parsing and rendering arrive here through jinja_raise().
 */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "chat/jinja-ast.h"
#include "core/clock.h"
#include "core/err.h"

#define MAX_STEPS (UINT64_MAX / 1024) /* with this limit the sum of costs cannot overflow */

enum {
    DEFAULT_STEPS = 12000000,
    PARSE_MEMORY = 256 << 20, /* limit of memory of parsing a template */
    PARSE_STEPS = 4000000,    /* limit of steps of parsing a template */
    DEFAULT_OUTPUT = 16 << 20,
    MAX_MEMORY = 64 << 20,        /* limit of memory of one render, in addition to 8 times its
                                     max_output */
    LOOK_COST = 4096 * COST_STEP, /* cost between two checks of the clock */
};

struct inf_chat_template {
    struct template t;
};

void jinja_raise(struct jinja *j, int code, const char *format, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (j->line)
        j->r = err_set(j->err, code, "line %u: %s", j->line, text);
    else
        j->r = err_set(j->err, code, "%s", text);
    j->r = -code;
    longjmp(j->on_error, 1);
}

void jinja_look(struct jinja *j)
{
    if (j->cost > j->max_cost)
        jinja_raise(j, E2BIG, "the template took too many steps");
    if (j->deadline_usec && clock_usec() > j->deadline_usec)
        jinja_raise(j, ETIME, "the template exceeded its time limit");
    j->look_at = MIN(j->cost + LOOK_COST, j->max_cost);
}

void *jinja_alloc(struct jinja *j, size_t size)
{
    void *p;

    if (size > j->max_memory || j->arena->used > j->max_memory - size)
        jinja_raise(j, E2BIG, "the template needs too much memory");
    jinja_charge(j, size);
    p = arena_zalloc(j->arena, size);
    if (!p)
        jinja_raise(j, ENOMEM, "out of memory");
    return p;
}

void *jinja_array(struct jinja *j, size_t n, size_t size)
{
    uint64_t total;

    if (!size_mul(n, size, &total) || total > SIZE_MAX)
        jinja_raise(j, E2BIG, "the template needs too much memory");
    return jinja_alloc(j, (size_t)total);
}

static int parse_template(struct jinja *j, struct template *t, const char *text, size_t len)
{
    if (setjmp(j->on_error))
        return j->r;
    t->text = jstr_wrap(j, arena_strndup(j->arena, text, len), len);
    if (!t->text->data)
        return -ENOMEM;
    jinja_parse(j, t);
    jinja_resolve(j, t);
    return 0;
}

INF_PUBLIC int inf_chat_template_new(const char *text, size_t len,
                                     struct inf_chat_template **ret_template,
                                     struct inf_err *reterr)
{
    struct inf_chat_template *tmpl;
    struct jinja j = {
        .err = reterr,
        .max_memory = PARSE_MEMORY,
        .max_output = DEFAULT_OUTPUT,
        .max_cost = (uint64_t)PARSE_STEPS * COST_STEP,
    };
    int r;

    if (len > JINJA_MAX_TEXT)
        return err_set(reterr, EBADMSG, "the template is larger than %d bytes", JINJA_MAX_TEXT);
    tmpl = NEW(struct inf_chat_template, 1);
    if (!tmpl)
        return -ENOMEM;
    j.arena = &tmpl->t.arena;
    r = parse_template(&j, &tmpl->t, text, len);
    if (r < 0) {
        inf_chat_template_free(tmpl);
        if (r == -ENOMEM)
            return r;
        if (reterr)
            reterr->code = EBADMSG; /* a limit that parsing exceeds is a fault of the template */
        return -EBADMSG;
    }
    *ret_template = tmpl;
    return 0;
}

INF_PUBLIC struct inf_chat_template *inf_chat_template_free(struct inf_chat_template *tmpl)
{
    if (tmpl) {
        arena_done(&tmpl->t.arena);
        free(tmpl);
    }
    return NULL;
}

INF_PUBLIC const char *inf_chat_template_text(const struct inf_chat_template *tmpl)
{
    return tmpl->t.text->data;
}

/* ---- JSON to values ---- */

static struct value from_json(struct jinja *j, const json_t *in)
{
    struct value v = NONE;
    const json_t *item;
    const char *key;
    size_t i;

    jinja_step(j, 1);
    jinja_enter(j);
    switch (json_typeof(in)) {
    case JSON_OBJECT:
        v = val_dict(j);
        json_object_foreach((json_t *)(uintptr_t)in, key, item)
            jdict_set(j, v.u.d, val_str(j, key, strlen(key)), from_json(j, item));
        break;
    case JSON_ARRAY:
        v = val_list(j, json_array_size(in));
        json_array_foreach(in, i, item) v.u.l->v[i] = from_json(j, item);
        break;
    case JSON_STRING:
        v = val_str(j, json_string_value(in), json_string_length(in));
        break;
    case JSON_INTEGER:
        v = val_int(json_integer_value(in));
        break;
    case JSON_REAL:
        v = val_float(json_real_value(in));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        v = val_bool(json_is_true(in));
        break;
    default:
        break;
    }
    jinja_leave(j);
    return v;
}

/* Loads a JSON object, or an array of objects. */
static int load_json(const char *text, const char *what, json_type type, json_t **ret,
                     struct inf_err *reterr)
{
    const json_t *item;
    size_t i;
    json_error_t e;
    json_t *in = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

    if (!in)
        return err_set_at(reterr, EINVAL, (uint64_t)MAX(e.position, 0), "%s: line %d: %s", what,
                          e.line, e.text);
    if (json_typeof(in) != type) {
        json_decref(in);
        return err_set(reterr, EINVAL, "%s must be a JSON %s", what,
                       type == JSON_ARRAY ? "array" : "object");
    }
    json_array_foreach(in, i, item)
    {
        if (!json_is_object(item)) {
            json_decref(in);
            return err_set(reterr, EINVAL, "%s: element %zu is not an object", what, i);
        }
    }
    *ret = in;
    return 0;
}

static inline void json_unref(json_t **in)
{
    json_decref(*in);
}
#define _cleanup_json_ _cleanup_(json_unref)

/* ---- rendering ---- */

static void set_var(struct jinja *j, const char *name, struct value v)
{
    jdict_set(j, j->globals, val_cstr(j, name), v);
}

static void set_text(struct jinja *j, const char *name, const char *text)
{
    if (text)
        set_var(j, name, val_cstr(j, text));
}

static void set_object(struct jinja *j, const json_t *in)
{
    const char *key;
    const json_t *item;

    json_object_foreach((json_t *)(uintptr_t)in, key, item) set_var(j, key, from_json(j, item));
}

/*
 * Returns @message with its reasoning under the names that templates use. A message can have the
 * model's reasoning under one of several names. As in transformers, templates find the reasoning
 * under "reasoning_content", and also under "thinking" unless the message itself has a member with
 * that name.
 */
static struct value alias_reasoning(struct jinja *j, struct value message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const struct jdict *in = message.u.d;
    const struct value *reasoning = NULL;
    struct value out;

    for (size_t i = 0; i < ARRAY_SIZE(names) && !reasoning; i++) {
        reasoning = jdict_get_cstr(j, in, names[i]);
        if (reasoning && reasoning->kind == V_NONE)
            reasoning = NULL;
    }
    if (!reasoning)
        return message;
    out = val_dict(j);
    jdict_set(j, out.u.d, val_cstr(j, "thinking"), *reasoning);
    for (uint32_t i = 0; i < in->n; i++)
        jdict_set(j, out.u.d, in->e[i].key, in->e[i].val);
    jdict_set(j, out.u.d, val_cstr(j, "reasoning_content"), *reasoning);
    return out;
}

struct job {
    const json_t *messages, *tools, *documents, *kwargs, *vars;
    const struct inf_chat_input *input;
};

static void set_variables(struct jinja *j, const struct job *job)
{
    const struct inf_chat_input *in = job->input;
    struct value messages;

    globals_add(j, j->globals);
    if (job->vars) {
        set_object(j, job->vars);
        return;
    }
    set_text(j, "bos_token", in->bos_token ? in->bos_token : "");
    set_text(j, "eos_token", in->eos_token ? in->eos_token : "");
    set_text(j, "unk_token", in->unk_token);
    set_text(j, "pad_token", in->pad_token);
    set_var(j, "tools", job->tools ? from_json(j, job->tools) : NONE);
    set_var(j, "documents", job->documents ? from_json(j, job->documents) : NONE);
    set_var(j, "add_generation_prompt", val_bool(in->add_generation_prompt));
    if (job->kwargs)
        set_object(j, job->kwargs);
    messages = from_json(j, job->messages);
    for (size_t i = 0; i < messages.u.l->n; i++)
        messages.u.l->v[i] = alias_reasoning(j, messages.u.l->v[i]);
    set_var(j, "messages", messages);
}

static int run_template(struct jinja *j, const struct job *job, struct jbuf *out)
{
    struct context *ctx;

    if (setjmp(j->on_error))
        return j->r;
    j->globals = jdict_new(j);
    set_variables(j, job);
    ctx = JNEW(j, struct context);
    ctx->vars = jdict_new(j);
    j->out = out;
    run_root(j, ctx);
    return 0;
}

static int render_job(const struct inf_chat_template *tmpl, const struct job *job, int64_t now,
                      const struct inf_chat_limits *limits, char **ret_text, size_t *ret_len,
                      struct inf_err *reterr)
{
    struct arena arena = {0};
    struct jbuf out = {0};
    struct jinja j = {
        .arena = &arena,
        .err = reterr,
        .tmpl = &tmpl->t,
        .max_cost = COST_STEP * (limits && limits->max_steps ? MIN(limits->max_steps, MAX_STEPS)
                                                             : DEFAULT_STEPS),
        .deadline_usec = limits && limits->max_usec ? clock_usec() + limits->max_usec : 0,
        .max_output = limits && limits->max_output ? limits->max_output : DEFAULT_OUTPUT,
        .now = now ? now : (int64_t)time(NULL),
    };
    char *text;
    int r;

    j.max_memory = MAX_MEMORY + 8 * MIN(j.max_output, (size_t)1 << 30);
    r = run_template(&j, job, &out);
    if (r == 0) {
        text = malloc(out.used + 1);
        if (text) {
            if (out.used)
                memcpy(text, out.data, out.used);
            text[out.used] = 0;
            *ret_text = text;
            *ret_len = out.used;
        } else {
            r = -ENOMEM;
        }
    }
    arena_done(&arena);
    return r;
}

INF_PUBLIC int inf_chat_render(const struct inf_chat_template *tmpl,
                               const struct inf_chat_input *input, char **ret_text, size_t *ret_len,
                               struct inf_err *reterr)
{
    _cleanup_json_ json_t *messages = NULL, *tools = NULL, *documents = NULL, *kwargs = NULL;
    struct job job = {.input = input};
    int r;

    r = load_json(input->messages, "messages", JSON_ARRAY, &messages, reterr);
    if (r == 0 && input->tools)
        r = load_json(input->tools, "tools", JSON_ARRAY, &tools, reterr);
    if (r == 0 && input->documents)
        r = load_json(input->documents, "documents", JSON_ARRAY, &documents, reterr);
    if (r == 0 && input->kwargs)
        r = load_json(input->kwargs, "template arguments", JSON_OBJECT, &kwargs, reterr);
    if (r < 0)
        return r;
    job.messages = messages;
    job.tools = tools;
    job.documents = documents;
    job.kwargs = kwargs;
    return render_job(tmpl, &job, input->now, &input->limits, ret_text, ret_len, reterr);
}

INF_PUBLIC int inf_chat_render_vars(const struct inf_chat_template *tmpl, const char *vars,
                                    int64_t now, const struct inf_chat_limits *limits,
                                    char **ret_text, size_t *ret_len, struct inf_err *reterr)
{
    _cleanup_json_ json_t *in = NULL;
    struct job job = {0};
    int r;

    r = load_json(vars, "variables", JSON_OBJECT, &in, reterr);
    if (r < 0)
        return r;
    job.vars = in;
    return render_job(tmpl, &job, now, limits, ret_text, ret_len, reterr);
}
