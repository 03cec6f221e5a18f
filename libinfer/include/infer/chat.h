/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_CHAT_H
#define INFER_CHAT_H

/*
 * Chat templates: messages in, prompt text out
 *
 * The template language is Jinja as Hugging Face tokenizers use it (jinja2 3.1 with trim_blocks,
 * lstrip_blocks and the loop controls extension, in its sandbox). A template is parsed once,
 * immutable, and may be rendered by any thread. Rendering is bounded in steps, in output, and, if
 * asked for, in time.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_chat_template;

struct inf_chat_limits {
    /* Evaluated nodes; 0: 12 million. Work on data counts by its length: 64 bytes that are copied
     * or compared are a step, as are 16 that are searched and 8 that are read letter by letter. */
    uint64_t max_steps;
    size_t max_output; /* bytes; 0: 16 MiB */
    uint64_t max_usec; /* microseconds of the monotonic clock; 0: no limit */
};

struct inf_chat_input {
    const char *messages;  /* JSON array of message objects; required */
    const char *tools;     /* JSON array, or NULL: the template sees none */
    const char *documents; /* JSON array, or NULL */
    const char *kwargs;    /* JSON object of further variables (enable_thinking…), or NULL */
    const char *bos_token; /* text of the tokens; NULL: "" */
    const char *eos_token;
    const char *unk_token; /* NULL: undefined in the template */
    const char *pad_token;
    bool add_generation_prompt;
    int64_t now; /* Unix seconds for strftime_now, local time; 0: the clock */
    struct inf_chat_limits limits;
};

/* Parses a template. -EBADMSG with line number and reason in *reterr; -ENOMEM. */
INF_PUBLIC int inf_chat_template_new(const char *text, size_t len,
                                     struct inf_chat_template **ret_template,
                                     struct inf_err *reterr);
INF_PUBLIC struct inf_chat_template *inf_chat_template_free(struct inf_chat_template *tmpl);
/* The template's own text; borrowed. */
INF_PUBLIC const char *inf_chat_template_text(const struct inf_chat_template *tmpl);

/*
 * Renders. *ret_text is NUL-terminated, the caller frees it.
 * -EINVAL: the JSON is not what it must be; -EPROTO: the template called raise_exception (its
 * words are in *reterr) or failed; -E2BIG: a limit of steps, memory or output was reached; -ETIME:
 * that of time was; -ENOMEM.
 */
INF_PUBLIC int inf_chat_render(const struct inf_chat_template *tmpl,
                               const struct inf_chat_input *input, char **ret_text, size_t *ret_len,
                               struct inf_err *reterr);

/*
 * Renders any template with variables from one JSON object; for `sconce render` and tests.
 */
INF_PUBLIC int inf_chat_render_vars(const struct inf_chat_template *tmpl, const char *vars,
                                    int64_t now, const struct inf_chat_limits *limits,
                                    char **ret_text, size_t *ret_len, struct inf_err *reterr);

#ifdef __cplusplus
}
#endif
#endif
