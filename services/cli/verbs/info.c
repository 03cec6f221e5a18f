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
#include <infer/kv.h>
#include <infer/tokenizer.h>

#include "cli/cli.h"
#include "cli/sampling.h"

static const char help[] =
    "Usage: sconce info MODEL [-c N] [--kv-type TYPE] [--json] [--meta] [--template]\n"
    "       sconce info --devices [--json]\n"
    "Shows a model or the compute devices of this machine.\n\n"
    "  --devices            the CPU and the GPUs, with the names that --device\n"
    "                       takes\n"
    "  -c, --context N      show the memory of a text of N tokens (default: 32768 and\n"
    "                       131072)\n"
    "  --kv-type TYPE       number format of keys and values: f32, f16, bf16, q8_0,\n"
    "                       q4_0, q3_0, fp8 or others, K:V, K:V+recent, or with types of some\n"
    "                       layers as in K:V/3-5=K:V (default: f16, or f32 for models in F32)\n"
    "  --kv-types           compare the number formats of keys and values, for the\n"
    "                       text of -c (default: 32768 tokens)\n"
    "  --json               print a JSON object\n"
    "  --meta               also print all metadata of the file\n"
    "  --template           print only the chat template\n" CLI_MODELS_HELP;

#define INFO_INDENT "                "

enum {
    INFO_HELP = -1,
    INFO_MAX_TOKENS = 1 << 30,
};

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

/* Describes the text whose memory is shown. */
struct info_text {
    uint64_t n_tokens;   /* the length of the text; 0: texts of the lengths in usual_tokens */
    const char *kv_type; /* NULL: the default */
    bool all_types;      /* also show all number formats of keys and values */
};

static const uint64_t usual_tokens[] = {32768, 131072};

/* Returns the lengths of texts, and sets *ret_n to their number. */
static const uint64_t *text_lengths(const struct info_text *text, size_t *ret_n)
{
    *ret_n = text->n_tokens > 0 ? 1 : ARRAY_SIZE(usual_tokens);
    return text->n_tokens > 0 ? &text->n_tokens : usual_tokens;
}

/* Computes the memory of a text. Returns false if the model does not generate text. */
static bool text_memory(struct inf_model *model, const struct info_text *text,
                        struct inf_kv_size *ret_size)
{
    struct inf_err err;

    return inf_model_suits(model, INF_USE_GENERATE, &err) == 0 &&
           inf_model_kv_size(model, text->kv_type, ret_size, &err) == 0;
}

static uint64_t text_bytes(const struct inf_kv_size *size, uint64_t n_tokens)
{
    return size->per_token * n_tokens + size->windows + size->recurrent;
}

static json_t *memory_json(struct inf_model *model, const struct info_text *text,
                           const struct inf_kv_size *size)
{
    json_t *texts = json_object(), *totals = json_object();
    const uint64_t n_weights = inf_model_info(model)->n_bytes;
    const uint64_t *lengths;
    char name[24];
    size_t n;

    lengths = text_lengths(text, &n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t bytes = text_bytes(size, lengths[i]);

        snprintf(name, sizeof(name), "%" PRIu64, lengths[i]);
        json_object_set_new(texts, name, json_integer((json_int_t)bytes));
        json_object_set_new(totals, name, json_integer((json_int_t)(n_weights + bytes)));
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "kv_type",
                     text->kv_type ? text->kv_type : "auto", "bytes_per_token",
                     (json_int_t)size->per_token, "windows", (json_int_t)size->windows, "recurrent",
                     (json_int_t)size->recurrent, "texts", texts, "with_weights", totals);
}

static void print_memory(struct inf_model *model, const struct info_text *text)
{
    const uint64_t n_weights = inf_model_info(model)->n_bytes;
    const uint64_t *lengths;
    struct inf_kv_size size;
    size_t n;

    if (!text_memory(model, text, &size))
        return;
    lengths = text_lengths(text, &n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t bytes = text_bytes(&size, lengths[i]);

        printf("%s%s for %" PRIu64 " tokens", i == 0 ? "text memory     " : INFO_INDENT,
               cli_size(bytes), lengths[i]);
        printf(", with the weights %s\n", cli_size(n_weights + bytes));
    }
    printf(INFO_INDENT "%s for each token", cli_size(size.per_token));
    if (size.windows)
        printf(", windows of %s", cli_size(size.windows));
    if (size.recurrent)
        printf(", recurrent state of %s", cli_size(size.recurrent));
    putchar('\n');
}

/* The number formats of keys and values for one text. */
struct info_kv {
    struct inf_kv_type types[INF_MAX_KV_TYPES];
    size_t n;
    uint64_t n_tokens;
    const char *automatic; /* the format that "auto" means for this text on the CPU; NULL: the text
                              is too long for an engine */
};

/* Computes what the formats cost. Returns false if the model does not generate text. */
static bool info_kv_types(struct inf_model *model, const struct info_text *text,
                          struct info_kv *ret)
{
    struct inf_engine_params params = {.model = model};
    struct inf_err err;

    ret->n_tokens = text->n_tokens > 0 ? text->n_tokens : usual_tokens[0];
    params.n_ctx = (uint32_t)ret->n_tokens;
    if (inf_model_suits(model, INF_USE_GENERATE, &err) < 0 ||
        inf_model_kv_types(model, ret->n_tokens, ret->types, &ret->n, &err) < 0)
        return false;
    ret->automatic = NULL;
    if (inf_model_kv_auto(&params, &ret->automatic, &err) < 0)
        ret->automatic = NULL;
    return true;
}

static json_t *kv_types_json(const struct info_kv *kv)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < kv->n; i++) {
        const struct inf_kv_type *t = &kv->types[i];

        json_array_append_new(
            rows, json_pack("{s:s, s:b, s:I, s:f, s:f, s:f, s:b, s:s?}", "type", t->name,
                            "possible", t->bytes > 0, "bytes", (json_int_t)t->bytes, "divergence",
                            t->divergence, "decode", t->decode, "prefill", t->prefill, "automatic",
                            (int)t->automatic, "dominated_by", t->better));
    }
    return json_pack("{s:I, s:s?, s:o}", "tokens", (json_int_t)kv->n_tokens, "auto", kv->automatic,
                     "types", rows);
}

static void print_kv_types(struct inf_model *model, const struct info_text *text)
{
    struct info_kv kv;

    if (!info_kv_types(model, text, &kv))
        return;
    printf("kv types        for %" PRIu64 " tokens; auto means %s here\n", kv.n_tokens,
           kv.automatic ? kv.automatic : "no format: the text is too long");
    if (!text->all_types)
        return;
    printf(INFO_INDENT "%-30s %10s %10s %8s %8s\n", "type", "memory", "divergence", "decode",
           "prefill");
    for (size_t i = 0; i < kv.n; i++) {
        const struct inf_kv_type *t = &kv.types[i];

        if (t->bytes == 0) {
            printf(INFO_INDENT "%-30s not possible with this model\n", t->name);
            continue;
        }
        printf(INFO_INDENT "%-30s %10s %10.6f %6.2f × %6.2f ×", t->name, cli_size(t->bytes),
               t->divergence, t->decode, t->prefill);
        if (t->better)
            printf("  dominated by %s", t->better);
        else if (!t->automatic)
            printf("  only by name");
        putchar('\n');
    }
}

static json_t *types_json(const struct inf_model *model)
{
    struct inf_type_count types[INF_MAX_TYPES];
    const size_t n = inf_model_types(model, types);
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_pack("{s:s, s:I, s:I, s:I}", "type", types[i].type,
                                             "tensors", (json_int_t)types[i].n_tensors, "elements",
                                             (json_int_t)types[i].n_elements, "bytes",
                                             (json_int_t)types[i].n_bytes));
    return out;
}

static void print_types(const struct inf_model *model)
{
    struct inf_type_count types[INF_MAX_TYPES];
    const size_t n = inf_model_types(model, types);

    for (size_t i = 0; i < n; i++)
        printf("%s%s in %" PRIu64 " %s of %s\n", i == 0 ? "tensors         " : INFO_INDENT,
               cli_size(types[i].n_bytes), types[i].n_tensors,
               types[i].n_tensors == 1 ? "tensor" : "tensors", types[i].type);
}

static int print_json(struct inf_model *model, const struct info_text *text,
                      const struct info_sampling *sampling, bool meta)
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
    struct info_kv kv;
    const char *key, *value;
    int r;

    if (!j)
        return cli_error("info", "out of memory");
    json_object_set_new(j, "mtp", json_boolean(i->predicts));
    if (tok)
        json_object_set_new(j, "tokenizer", json_string(inf_tokenizer_kind(tok)));
    json_object_set_new(j, "sampling", sampling_json(sampling));
    json_object_set_new(j, "types", types_json(model));
    if (text_memory(model, text, &size))
        json_object_set_new(j, "memory", memory_json(model, text, &size));
    if (info_kv_types(model, text, &kv))
        json_object_set_new(j, "kv_types", kv_types_json(&kv));
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

static void print_text(struct inf_model *model, const struct info_text *text,
                       const struct info_sampling *sampling, bool meta)
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
    print_types(model);
    if (i->n_layers)
        printf("shape           %" PRIu32 " layers of %" PRIu32 ", feed-forward %" PRIu32
               ", %" PRIu32 " heads of %" PRIu32 " (%" PRIu32 " for keys and values)\n",
               i->n_layers, i->n_embd, i->n_ff, i->n_heads, i->head_dim, i->n_kv_heads);
    if (i->predicts)
        printf("drafts          by a layer that predicts a further token (--draft-kind mtp)\n");
    if (i->n_ctx_train)
        printf("context         %" PRIu32 " tokens%s", i->n_ctx_train,
               i->sliding_window ? "" : "\n");
    if (i->n_ctx_train && i->sliding_window)
        printf(", sliding window %" PRIu32 "\n", i->sliding_window);
    print_memory(model, text);
    print_kv_types(model, text);
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

/* Reports why a model cannot be opened: the reason, and the position of the error in the file. With
 * @json, also prints both as an object on standard output. */
static int info_error(const struct inf_err *err, bool json)
{
    json_t *j;

    if (json) {
        j = json_pack("{s:{s:s, s:s, s:o}}", "error", "message", err->text, "code",
                      strerrorname_np(err->code), "offset",
                      err->offset >= 0 ? json_integer(err->offset) : json_null());
        if (j)
            json_dumpf(j, stdout, JSON_INDENT(2));
        json_decref(j);
        putchar('\n');
    }
    if (err->offset >= 0)
        return cli_error("info", "%s (at byte %" PRId64 " of the file)", err->text, err->offset);
    return cli_error("info", "%s", err->text);
}

/* Opens a model. If it cannot run here, opens only its metadata and tokenizer. */
static int open_model(const struct cli_models *m, const char *name, bool json,
                      struct inf_model **ret_model)
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
        return info_error(&err, json);
    fprintf(stderr, "This model cannot run on this machine: %s\n", err.text);
    return CLI_OK;
}

/* Holds the options of the command line. */
struct info {
    bool devices, json, meta, template;
    struct info_text text;
};

/* Parses the options into @info and the model options @m. Returns CLI_OK, INFO_HELP, or the exit
 * status of an error. */
static int info_parse(int argc, char **argv, struct info *info, struct cli_models *m)
{
    static const struct option options[] = {
        {"devices", no_argument, NULL, 'd'},
        {"context", required_argument, NULL, 'c'},
        {"kv-type", required_argument, NULL, 'K'},
        {"kv-types", no_argument, NULL, 'k'},
        {"json", no_argument, NULL, 'j'},
        {"meta", no_argument, NULL, 'm'},
        {"template", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        CLI_MODELS_OPTIONS,
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "c:h", options, NULL)) >= 0) {
        if (c == 'd')
            info->devices = true;
        else if (c == 'c' && (!cli_number(optarg, INFO_MAX_TOKENS, &info->text.n_tokens) ||
                              info->text.n_tokens == 0))
            return cli_usage("info",
                             "-c, --context must be a whole number from 1 to %d, not "
                             "\"%s\"",
                             INFO_MAX_TOKENS, optarg);
        else if (c == 'K')
            info->text.kv_type = optarg;
        else if (c == 'k')
            info->text.all_types = true;
        else if (c == 'j')
            info->json = true;
        else if (c == 'm')
            info->meta = true;
        else if (c == 't')
            info->template = true;
        else if (c == 'h')
            return INFO_HELP;
        else if (c != 'c' && !cli_models_option(m, c, optarg))
            return cli_usage("info", "wrong option");
    }
    if (info->devices && (optind < argc || info->meta || info->template || info->text.n_tokens ||
                          info->text.kv_type || info->text.all_types))
        return cli_usage("info", "--devices can only be combined with --json");
    if (info->json && info->template)
        return cli_usage("info", "--json and --template cannot be combined");
    if (!info->devices && optind + 1 != argc)
        return cli_usage("info", "give the name or the path of one model");
    return CLI_OK;
}

/* Checks that the number format of keys and values exists. */
static int info_check_kv_type(struct inf_model *model, const struct info_text *text)
{
    struct inf_kv_size size;
    struct inf_err err;

    if (text->kv_type && inf_model_suits(model, INF_USE_GENERATE, &err) == 0 &&
        inf_model_kv_size(model, text->kv_type, &size, &err) < 0)
        return cli_error("info", "%s", err.text);
    return CLI_OK;
}

int verb_info(int argc, char **argv)
{
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    struct info_sampling sampling = {0};
    struct cli_models m = {0};
    struct info info = {0};
    int r;

    r = info_parse(argc, argv, &info, &m);
    if (r == INFO_HELP)
        return cli_help(help);
    if (r == CLI_OK && info.devices)
        return cli_print_devices("info", info.json);
    if (r == CLI_OK)
        r = open_model(&m, argv[optind], info.json, &model);
    if (r == CLI_OK)
        r = info_check_kv_type(model, &info.text);
    if (r != CLI_OK)
        return r;
    if (info.template) {
        const struct inf_chat_template *t = inf_model_chat_template(model);

        if (!t)
            return cli_error("info", "the model has no chat template");
        return printf("%s\n", inf_chat_template_text(t)) < 0 ? CLI_FAILED : CLI_OK;
    }
    sampling_clear(&sampling.values);
    r = cli_sampling("info", &m, argv[optind], model, &sampling.values, sampling.sources);
    if (r != CLI_OK)
        return r;
    if (info.json)
        return print_json(model, &info.text, &sampling, info.meta);
    print_text(model, &info.text, &sampling, info.meta);
    return CLI_OK;
}
