/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_CHAT_H
#define INFER_CHAT_H

/*
 * Chat templates: from messages to the text of a prompt
 *
 * The template language is Jinja as Hugging Face tokenizers use it: jinja2 3.1 in its sandbox, with
 * trim_blocks, lstrip_blocks and the loop controls extension. A template is parsed once and is then
 * immutable, so any thread may render it. Rendering ends with an error when it exceeds a limit of
 * steps, memory, output size or, if requested, time.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_chat_template;

struct inf_chat_limits {
    /* Limit of steps; 0: 12 million. One step is one node that is evaluated, 64 bytes that are
     * copied or compared, 16 bytes that are searched, or 8 bytes that are read one character at a
     * time. */
    uint64_t max_steps;
    size_t max_output; /* bytes; 0: 16 MiB */
    uint64_t max_usec; /* microseconds of the monotonic clock; 0: no limit */
};

struct inf_chat_input {
    const char *messages;  /* JSON array of message objects; required */
    const char *tools;     /* JSON array; NULL: undefined in the template */
    const char *documents; /* JSON array, or NULL */
    const char *kwargs;    /* JSON object with further variables such as enable_thinking; NULL:
                              none */
    const char *bos_token; /* text of the BOS token; NULL: "" */
    const char *eos_token;
    const char *unk_token; /* NULL: undefined in the template */
    const char *pad_token;
    bool add_generation_prompt;
    int64_t now; /* Unix time that strftime_now() shows, in local time; 0: the time of the clock */
    struct inf_chat_limits limits;
};

/* Parses a template. -EBADMSG with the line number and the reason in *reterr; -ENOMEM. */
INF_PUBLIC int inf_chat_template_new(const char *text, size_t len,
                                     struct inf_chat_template **ret_template,
                                     struct inf_err *reterr);
INF_PUBLIC struct inf_chat_template *inf_chat_template_free(struct inf_chat_template *tmpl);
/* Returns the source text of the template. Borrowed. */
INF_PUBLIC const char *inf_chat_template_text(const struct inf_chat_template *tmpl);

/*
 * Renders a template. *ret_text is NUL-terminated and freed by the caller. -EINVAL: the JSON is
 * invalid or of the wrong type; -EPROTO: the template failed or called raise_exception, whose
 * message is in *reterr; -E2BIG: the limit of steps, memory or output was exceeded; -ETIME: the
 * time limit was exceeded; -ENOMEM.
 */
INF_PUBLIC int inf_chat_render(const struct inf_chat_template *tmpl,
                               const struct inf_chat_input *input, char **ret_text, size_t *ret_len,
                               struct inf_err *reterr);

/*
 * Renders any template with the variables of one JSON object. `sconce render` and tests use this
 * function.
 */
INF_PUBLIC int inf_chat_render_vars(const struct inf_chat_template *tmpl, const char *vars,
                                    int64_t now, const struct inf_chat_limits *limits,
                                    char **ret_text, size_t *ret_len, struct inf_err *reterr);

#ifdef __cplusplus
}
#endif
#endif
