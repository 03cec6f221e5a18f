/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the input lines of `sconce embed` (see lines.h).
 */
#include "cli/embed/lines.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/wire/json.h"
#include "core/err.h"

int embed_lines_open(struct embed_lines *lines, const char *name, bool json, const char *field,
                     struct inf_err *reterr)
{
    const bool is_stdin = strcmp(name, "-") == 0;
    struct stat st;

    *lines = (struct embed_lines){.file = is_stdin ? stdin : fopen(name, "re"),
                                  .name = is_stdin ? "standard input" : name,
                                  .json = json,
                                  .own_file = !is_stdin,
                                  .field = field};
    if (!lines->file)
        return err_set(reterr, errno, "%s: %s", name, strerror(errno));
    if (fstat(fileno(lines->file), &st) == 0 && S_ISREG(st.st_mode))
        lines->size = (uint64_t)st.st_size;
    return 0;
}

void embed_lines_done(struct embed_lines *lines)
{
    if (lines->file && lines->own_file)
        fclose(lines->file);
    free(lines->buffer);
    *lines = (struct embed_lines){0};
}

/* Reads a line; returns its length without the line end. -ENODATA: the input has ended; -EIO;
 * -ENOMEM. */
static ssize_t read_line(struct embed_lines *lines)
{
    ssize_t n;

    errno = 0;
    n = getline(&lines->buffer, &lines->cap, lines->file);
    if (n < 0)
        return errno == ENOMEM ? -ENOMEM : ferror(lines->file) ? -EIO : -ENODATA;
    lines->number++;
    lines->n_read += (uint64_t)n;
    while (n > 0 && strchr("\r\n", lines->buffer[n - 1]))
        n--;
    lines->buffer[n] = 0;
    return n;
}

static int line_set_error(struct embed_line *line, const char *why)
{
    snprintf(line->error, sizeof(line->error), "%s", why);
    return 1;
}

static int take_text(struct embed_line *line, const char *text, size_t len)
{
    if (len == 0)
        return line_set_error(line, "the text is empty");
    if (memchr(text, 0, len))
        return line_set_error(line, "the text has a NUL character");
    line->text = strndup(text, len);
    return line->text ? 1 : -ENOMEM;
}

static int take_json(struct embed_lines *lines, struct embed_line *line, size_t len)
{
    _cleanup_json_ json_t *json = NULL;
    struct inf_err err = {0};
    const json_t *text, *id;
    const int r = json_parse(lines->buffer, len, &json, &err);

    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return line_set_error(line, err.text);
    text = json_is_object(json) ? json_object_get(json, lines->field) : json;
    if (!json_is_string(text)) {
        snprintf(line->error, sizeof(line->error),
                 "neither a string nor an object with a string \"%.64s\"", lines->field);
        return 1;
    }
    id = json_object_get(json, "id");
    if (id && !(line->id = json_dumps(id, JSON_COMPACT | JSON_ENCODE_ANY)))
        return -ENOMEM;
    return take_text(line, json_string_value(text), json_string_length(text));
}

int embed_lines_next(struct embed_lines *lines, struct embed_line *ret_line)
{
    const ssize_t n = read_line(lines);
    int r;

    if (n == -ENODATA)
        return 0;
    if (n < 0)
        return (int)n;
    *ret_line = (struct embed_line){.number = lines->number};
    r = lines->json ? take_json(lines, ret_line, (size_t)n)
                    : take_text(ret_line, lines->buffer, (size_t)n);
    if (r < 0)
        embed_line_done(ret_line);
    return r;
}

int embed_lines_skip(struct embed_lines *lines, uint64_t n)
{
    while (n-- > 0) {
        const ssize_t r = read_line(lines);

        if (r < 0)
            return r == -ENODATA ? -ESPIPE : (int)r;
    }
    return 0;
}

void embed_line_done(struct embed_line *line)
{
    free(line->text);
    free(line->id);
    line->text = line->id = NULL;
}
