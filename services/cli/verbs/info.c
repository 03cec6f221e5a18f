/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce info: shows a model or the compute devices
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include <infer/chat.h>
#include <infer/tokenizer.h>

#include "cli/cli.h"
#include "cli/sampling.h"

static const char help[] =
    "Usage: sconce info MODEL [--json] [--meta] [--template]\n"
    "       sconce info --devices [--json]\n"
    "Shows a model or the compute devices of this machine.\n\n"
    "  --devices            the CPU and the GPUs, with the names that --device\n"
    "                       takes\n"
    "  --json               print a JSON object\n"
    "  --meta               also print all metadata of the file\n"
    "  --template           print only the chat template\n" CLI_MODELS_HELP;

static json_t *text_json(const char *text)
{
    json_t *j = json_string(text);

    return j ? j : json_string("(not UTF-8)");
}

/* The sampling parameters that apply if a request gives none, with their sources. */
struct info_sampling {
    struct inf_sampling values;
    enum sampling_source sources[N_SAMPLING_KEYS];
};

static json_t *sampling_json(const struct info_sampling *s)
{
    json_t *out = json_object();

    for (unsigned i = 0; out && i < N_SAMPLING_KEYS; i++)
        if (sampling_is_set(&s->values, i))
            json_object_set_new(out, sampling_rows[i].name,
                                json_pack("{s:f, s:s}", "value", sampling_value(&s->values, i),
                                          "source", sampling_source_name(s->sources[i])));
    return out;
}

static void print_sampling(const struct info_sampling *s)
{
    const char *comma = "sampling        ";

    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++) {
        if (!sampling_is_set(&s->values, i))
            continue;
        printf("%s%s %g (%s)", comma, sampling_rows[i].name, sampling_value(&s->values, i),
               sampling_source_name(s->sources[i]));
        comma = ", ";
    }
    if (comma[0] == ',')
        putchar('\n');
}

/* Lengths of texts whose memory is shown. */
static const uint64_t text_tokens[] = {32768, 131072};

/* Computes the memory of a text. Returns false if the model does not generate text. */
static bool text_memory(struct inf_model *model, struct inf_kv_size *ret_size)
{
    struct inf_err err;

    return inf_model_suits(model, INF_USE_GENERATE, &err) == 0 &&
           inf_model_kv_size(model, NULL, ret_size, &err) == 0;
}

static uint64_t text_bytes(const struct inf_kv_size *size, uint64_t n_tokens)
{
    return size->per_token * n_tokens + size->windows + size->recurrent;
}

static json_t *memory_json(const struct inf_kv_size *size)
{
    json_t *texts = json_object();
    char name[24];

    for (size_t i = 0; i < ARRAY_SIZE(text_tokens); i++) {
        snprintf(name, sizeof(name), "%" PRIu64, text_tokens[i]);
        json_object_set_new(texts, name,
                            json_integer((json_int_t)text_bytes(size, text_tokens[i])));
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "bytes_per_token", (json_int_t)size->per_token,
                     "windows", (json_int_t)size->windows, "recurrent", (json_int_t)size->recurrent,
                     "texts", texts);
}

static void print_memory(struct inf_model *model)
{
    struct inf_kv_size size;

    if (!text_memory(model, &size))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(text_tokens); i++)
        printf("%s%s for %" PRIu64 " tokens", i == 0 ? "text memory     " : ", ",
               cli_size(text_bytes(&size, text_tokens[i])), text_tokens[i]);
    printf("\n                %s for each token", cli_size(size.per_token));
    if (size.windows)
        printf(", windows of %s", cli_size(size.windows));
    if (size.recurrent)
        printf(", recurrent state of %s", cli_size(size.recurrent));
    putchar('\n');
}

static int print_json(struct inf_model *model, const struct info_sampling *sampling, bool meta)
{
    const struct inf_model_info *i = inf_model_info(model);
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    json_t *j = json_pack(
        "{s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, "
        "s:b}",
        "name", text_json(i->name), "architecture", i->arch, "format", i->format, "weights",
        i->dtype_text, "parameters", (json_int_t)i->n_params, "bytes", (json_int_t)i->n_bytes,
        "bytes_per_token", (json_int_t)i->n_bytes_token, "layers", (int)i->n_layers, "embedding",
        (int)i->n_embd, "feed_forward", (int)i->n_ff, "heads", (int)i->n_heads, "kv_heads",
        (int)i->n_kv_heads, "head_size", (int)i->head_dim, "vocabulary", (int)i->n_vocab, "context",
        (int)i->n_ctx_train, "sliding_window", (int)i->sliding_window, "tied_head",
        (int)i->tied_head, "chat_template", inf_model_chat_template(model) != NULL);
    struct inf_kv_size size;
    const char *key, *value;
    int r;

    if (!j)
        return cli_error("info", "out of memory");
    if (tok)
        json_object_set_new(j, "tokenizer", json_string(inf_tokenizer_kind(tok)));
    json_object_set_new(j, "sampling", sampling_json(sampling));
    if (text_memory(model, &size))
        json_object_set_new(j, "memory", memory_json(&size));
    if (meta) {
        json_t *all = json_object();

        for (size_t k = 0; inf_model_meta(model, k, &key, &value); k++)
            json_object_set_new(all, key, text_json(value));
        json_object_set_new(j, "metadata", all);
    }
    r = json_dumpf(j, stdout, JSON_INDENT(2));
    json_decref(j);
    putchar('\n');
    return r == 0 ? CLI_OK : CLI_FAILED;
}

static void print_text(struct inf_model *model, const struct info_sampling *sampling, bool meta)
{
    const struct inf_model_info *i = inf_model_info(model);
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    const char *key, *value;

    if (i->name[0])
        printf("name            %s\n", i->name);
    if (i->arch && i->arch[0])
        printf("architecture    %s\n", i->arch);
    printf("format          %s%s%s\n", i->format, i->n_bytes ? ", weights " : "",
           i->n_bytes ? i->dtype_text : "");
    if (i->n_params)
        printf("parameters      %.1f M in %s\n", (double)i->n_params / 1e6, cli_size(i->n_bytes));
    if (i->n_layers)
        printf("shape           %" PRIu32 " layers of %" PRIu32 ", feed-forward %" PRIu32
               ", %" PRIu32 " heads of %" PRIu32 " (%" PRIu32 " for keys and values)\n",
               i->n_layers, i->n_embd, i->n_ff, i->n_heads, i->head_dim, i->n_kv_heads);
    if (i->n_ctx_train)
        printf("context         %" PRIu32 " tokens%s", i->n_ctx_train,
               i->sliding_window ? "" : "\n");
    if (i->n_ctx_train && i->sliding_window)
        printf(", sliding window %" PRIu32 "\n", i->sliding_window);
    print_memory(model);
    if (tok)
        printf("tokenizer       %s, %" PRIu32 " tokens\n", inf_tokenizer_kind(tok),
               inf_tokenizer_n_vocab(tok));
    if (i->template_error)
        printf("chat template   cannot be used: %s\n", i->template_error);
    else
        printf("chat template   %s\n", inf_model_chat_template(model) ? "yes" : "none");
    print_sampling(sampling);
    for (size_t k = 0; meta && inf_model_meta(model, k, &key, &value); k++)
        printf("%s = %s\n", key, value);
}

/* Opens a model. If it cannot run here, opens only its metadata and tokenizer. */
static int open_model(const struct cli_models *m, const char *name, struct inf_model **ret_model)
{
    _cleanup_free_ char *path = NULL;
    struct inf_model_params params = {0};
    struct inf_err err, vocab_err;
    int r;

    r = cli_find_model("info", m, name, &path);
    if (r != CLI_OK)
        return r;
    params.path = path;
    r = inf_model_open(&params, ret_model, &err);
    if (r == 0)
        return CLI_OK;
    params.vocab_only = true;
    if ((r != -EOPNOTSUPP && r != -ENOENT) || inf_model_open(&params, ret_model, &vocab_err) < 0)
        return cli_error("info", "%s", err.text);
    fprintf(stderr, "This model cannot run on this machine: %s\n", err.text);
    return CLI_OK;
}

int verb_info(int argc, char **argv)
{
    static const struct option options[] = {
        {"devices", no_argument, NULL, 'd'},
        {"json", no_argument, NULL, 'j'},
        {"meta", no_argument, NULL, 'm'},
        {"template", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    bool devices = false, json = false, meta = false, template = false;
    struct info_sampling sampling = {0};
    struct cli_models m = {0};
    int c, r;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'd')
            devices = true;
        else if (c == 'j')
            json = true;
        else if (c == 'm')
            meta = true;
        else if (c == 't')
            template = true;
        else if (c == 'h')
            return cli_help(help);
        else if (!cli_models_option(&m, c, optarg))
            return cli_usage("info", "wrong option");
    }
    if (devices && (optind < argc || meta || template))
        return cli_usage("info", "--devices can only be combined with --json");
    if (json && template)
        return cli_usage("info", "--json and --template cannot be combined");
    if (devices)
        return cli_print_devices("info", json);
    if (optind + 1 != argc)
        return cli_usage("info", "give the name or the path of one model");
    r = open_model(&m, argv[optind], &model);
    if (r != CLI_OK)
        return r;
    if (template) {
        const struct inf_chat_template *t = inf_model_chat_template(model);

        if (!t)
            return cli_error("info", "the model has no chat template");
        return printf("%s\n", inf_chat_template_text(t)) < 0 ? CLI_FAILED : CLI_OK;
    }
    sampling_clear(&sampling.values);
    r = cli_sampling("info", &m, argv[optind], model, &sampling.values, sampling.sources);
    if (r != CLI_OK)
        return r;
    if (json)
        return print_json(model, &sampling, meta);
    print_text(model, &sampling, meta);
    return CLI_OK;
}
