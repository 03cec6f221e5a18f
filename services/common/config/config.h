/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the configuration, which is read from several YAML files and checked key by key.
 *
 * The files are /etc/sconce/sconce.yaml, then each .yaml file of /etc/sconce/sconce.d/ in the order
 * of the names. For a user, the files of the same names in $XDG_CONFIG_HOME/sconce/ follow. Later
 * files override earlier ones. Unknown keys, wrong types and values out of range are errors with
 * file, line and column.
 */

#include <infer/types.h>

#include "common/config/access-key.h"
#include "common/models/layout.h"
#include "common/models/sampling.h"
#include "core/macros.h"

/* These enumerations say whether clients need a key on the gateway's TCP socket and on its unix
 * socket. */
enum config_tcp_access { CONFIG_TCP_KEY, CONFIG_TCP_OPEN };
enum config_unix_access { CONFIG_UNIX_OPEN, CONFIG_UNIX_KEY };
/* YAML's words for booleans. */
enum config_bool { CONFIG_FALSE, CONFIG_TRUE };
/* Names the client program from whose prompts the service removes the lines that change with every
 * request (chat/canonical.h). */
enum config_canonical { CONFIG_CANONICAL_OFF, CONFIG_CANONICAL_CLAUDE_CODE };
/* Says whether the temperature is the last stage of sampling; "auto": the API decides. */
enum config_last { CONFIG_LAST_AUTO, CONFIG_LAST_FALSE, CONFIG_LAST_TRUE };

/* Says where the keep service stores its entries. */
enum config_storage { CONFIG_STORAGE_MEMORY, CONFIG_STORAGE_DISK };
/* Says whether a service refuses to serve on a kernel without Landlock. */
enum config_landlock { CONFIG_LANDLOCK_REQUIRED, CONFIG_LANDLOCK_OPTIONAL };

/* The servers from which models are fetched unless mirrors are configured. */
#define CONFIG_PULL_MIRROR "https://huggingface.co"
#define CONFIG_PULL_OLLAMA "https://registry.ollama.ai"

/* A value without an explanation in these comments, such as "16 MiB", is the default. Numbers whose
 * comments have no such value are 0 by default. */
struct config {
    char **model_dirs; /* [n_model_dirs], searched in this order */
    size_t n_model_dirs;
    char **other_programs; /* [n_other_programs], whose models may be used */
    size_t n_other_programs;
    unsigned char *foreign; /* [n_foreign] layouts (enum models_layout) of the last n_foreign model
                               directories, which belong to other programs */
    size_t n_foreign;
    char *default_model;          /* for requests without a model; NULL: the only model for chats */
    char *only_model;             /* the only model that is offered (--model); NULL: all are */
    uint64_t max_keep_alive_usec; /* longest time for which a request may keep a model; 24 h */

    struct {
        struct key_list api_keys; /* keys in the configuration; the key file may have others */
        char **cors_origins;      /* [n_cors_origins] exact origins, or "*"; none: CORS is off */
        size_t n_cors_origins;
        unsigned page;              /* enum config_bool; whether / is a web page; true */
        unsigned tcp_access;        /* enum config_tcp_access; key */
        unsigned unix_access;       /* enum config_unix_access; open */
        uint64_t max_body;          /* bytes; 16 MiB */
        uint64_t max_header;        /* bytes of the request head; 32 KiB */
        uint32_t max_connections;   /* 512 */
        uint64_t idle_timeout_usec; /* the service exits after this time without connections; 60 s;
                                       0: never */
        uint64_t max_bodies;        /* bytes of all bodies in memory; 1 GiB */
        uint64_t header_timeout_usec;    /* time for receiving the head of a request; 10 s */
        uint64_t body_timeout_usec;      /* time for receiving the body of a request; 120 s */
        uint64_t keepalive_timeout_usec; /* longest idle time between two requests of a connection;
                                            120 s */
        uint64_t backend_timeout_usec;   /* longest time between two reads from a service; 600 s */
        uint64_t stall_timeout_usec;     /* longest time without a read by the client; 30 s */
        uint64_t probe_interval_usec; /* time between health checks of a service that keeps a client
                                         waiting; 5 s */
    } gateway;

    struct {
        char *device;               /* "auto"; NULL means "auto" too */
        uint64_t device_memory;     /* bytes of the GPU's memory to use; 0: all free bytes */
        char *isa;                  /* NULL: best */
        uint32_t threads;           /* 0: all */
        uint32_t context;           /* tokens of a sequence; 0: automatic */
        uint32_t max_sequences;     /* 16 */
        uint32_t max_queue;         /* 256 */
        uint32_t max_batch_tokens;  /* 512 */
        char *kv_type;              /* see inf_engine_params; "auto" */
        uint64_t kv_memory;         /* bytes; 0: automatic */
        unsigned prefix_cache;      /* enum config_bool; true */
        uint64_t memory;            /* bytes for all models together; 0: nine tenths of the memory
                                       that the service may use */
        uint32_t max_models;        /* in memory at the same time; 4 */
        unsigned canonical_prompts; /* enum config_canonical; claude-code */
        uint32_t grammars;          /* grammars that are kept for each model; 32 */
        uint64_t grammar_texts;     /* bytes of the texts of all kept grammars of a model; 8 MiB */
        uint64_t grammar_memory;    /* bytes of the data computed for one grammar; 64 MiB */
        uint32_t max_tokens;  /* per answer if the request has no limit; 0: as many as fit into the
                                 context */
        uint32_t most_tokens; /* limit of the max_tokens of a request; a larger value is reduced to
                                 this limit; 0: no limit */
        uint64_t template_timeout_usec; /* time for one rendering of a chat template; 5 s; 0: no
                                           limit */
        uint64_t idle_timeout_usec; /* the service exits after this time without requests; 300 s; 0:
                                       never */
        uint64_t request_timeout_usec; /* for a whole request; 600 s; 0: no limit */
    } chat;

    struct {
        char *kind;          /* see inf_engine_params.draft_kind; "none" */
        char *model;         /* name of the draft model of all models; NULL: those of manifests */
        uint32_t max_tokens; /* of one draft; 16 */
    } speculative;

    uint32_t seed;                /* for requests without a seed; UINT32_MAX: a random seed */
    unsigned temperature_last;    /* enum config_last; auto */
    struct inf_sampling sampling; /* defaults of sampling; "not set" as in sampling.h */

    struct {
        char *default_model;    /* for requests without a model; NULL: the only model for vectors */
        char *default_reranker; /* for ranking requests; NULL: the only installed reranker */
        char *isa;              /* NULL: best */
        uint32_t threads;       /* 0: all */
        uint32_t context;       /* tokens of a text; 0: according to the model's files */
        uint32_t max_texts;     /* per request; 2048 */
        uint64_t max_token_vectors; /* bytes of vectors of single tokens, per request; 32 MiB */
        uint32_t max_queue;         /* unanswered requests; 1024 */
        uint32_t max_queue_tokens;  /* tokens of waiting texts; 4194304 */
        uint32_t max_models;        /* in memory at the same time; 2 */
        uint64_t idle_timeout_usec; /* the service exits after this time without requests; 300 s; 0:
                                       never */
        uint64_t request_timeout_usec; /* for a whole request; 600 s; 0: no limit */
    } embed;

    struct {
        char *default_model; /* for requests without a model; NULL: the only model for speech */
        char *vad_model; /* weights of Silero VAD; if set, silence is skipped by default; NULL: only
                            on request */
        char *isa;       /* NULL: best */
        uint32_t threads;           /* 0: all */
        uint64_t max_body;          /* bytes of a form; 25 MiB */
        uint32_t max_seconds;       /* seconds of audio in one file; 14400; 0: no limit */
        uint32_t max_running;       /* requests processed at the same time; 4 */
        uint32_t max_queue;         /* unanswered requests; 32 */
        uint32_t max_models;        /* in memory at the same time; 1 */
        uint64_t idle_timeout_usec; /* the service exits after this time without requests; 300 s; 0:
                                       never */
        uint64_t request_timeout_usec; /* for a whole request; 3600 s; 0: no limit */
    } audio;

    struct {
        unsigned enabled;           /* enum config_bool; true */
        char *directory;            /* NULL: see config_block_dir() */
        uint64_t max_bytes;         /* bytes of all blocks; 16 GiB; 0: only min_free limits them */
        uint64_t tenant_max_bytes;  /* bytes of the blocks of one tenant, an API key or a user; 0:
                                       only max_bytes limits them */
        uint64_t min_free;          /* bytes of the file system that remain free; 4 GiB */
        uint64_t idle_timeout_usec; /* the service exits after this time without requests; 60 s; 0:
                                       never */
    } cache;

    struct {
        unsigned storage;           /* enum config_storage; memory */
        uint64_t expiry_usec;       /* an entry (a response or a conversation) is deleted when
                                       nobody used it for this long; 1 h */
        uint64_t max_bytes;         /* bytes of the entries of one tenant; 64 MiB */
        uint64_t max_total_bytes;   /* bytes of the entries of all tenants; 512 MiB */
        uint64_t idle_timeout_usec; /* the service exits after this time without requests, unless it
                                       has entries in memory; 60 s; 0: never */
    } keep;

    struct {
        unsigned enabled;           /* enum config_bool; true */
        uint64_t retention_usec;    /* a row of the history is deleted after this time; 90 d */
        uint64_t max_bytes;         /* bytes of the file of the history; 64 MiB */
        uint64_t idle_timeout_usec; /* the service exits after this time without requests; 30 s; 0:
                                       never */
    } history;

    struct {
        uint32_t max_pulls;         /* pulls of clients that wait or run; 8 */
        uint64_t max_uploads;       /* bytes of uploaded files that no model uses yet; 64 GiB */
        uint64_t idle_timeout_usec; /* the service exits after this time without work; 60 s; 0:
                                       never */
    } store;

    struct {
        char *mirror;         /* URL of the hub of models; CONFIG_PULL_MIRROR */
        char *ollama_mirror;  /* URL of Ollama's registry; CONFIG_PULL_OLLAMA */
        char *proxy;          /* URL of a proxy; NULL: none */
        char *certificates;   /* file of certificates in PEM; NULL: those of the system */
        char *token_file;     /* NULL: that of Hugging Face's programs */
        char *token_host;     /* the only host that gets the token, "HOST" or "HOST:PORT";
                                 huggingface.co */
        uint32_t connections; /* for one file; 4 */
    } pull;

    struct {
        unsigned landlock; /* enum config_landlock; required */
    } confinement;
};

/*
 * Sets the defaults, then applies the files of the system, then those of the user. If @file is not
 * NULL, applies only @file. A missing @file is an error; other missing files are not.
 */
int config_load(const char *file, struct config **ret_config, struct inf_err *reterr);
/* Applies one YAML text. @name is used in messages. Tests and fuzzers call this function too. */
int config_apply(struct config *config, const char *name, const char *text, size_t len,
                 struct inf_err *reterr);
/* Applies DIR/sconce.yaml and each .yaml file of DIR/sconce.d/. Missing files are not errors. */
int config_apply_dir(struct config *config, const char *dir, struct inf_err *reterr);
/* Reads a time such as "60s" or "10min". Returns false and writes nothing if @text is not a
 * time. */
bool config_time(const char *text, uint64_t *ret_usec);
/* Returns the defaults. -ENOMEM. */
int config_new(struct config **ret_config);
struct config *config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free);

/* Sets chat.device to a copy of @name. -ENOMEM. */
int config_set_device(struct config *config, const char *name);
/* Sets the draft model and the kind of drafts (inf_engine_params.draft_kind); NULL: unchanged. If
 * only a model is given, it drafts. -ENOMEM. */
int config_set_draft(struct config *config, const char *model, const char *kind);
/* Offers only the model @name, which then is the default as well. -ENOMEM. */
int config_set_only_model(struct config *config, const char *name);
/* Puts the absolute path of @dir before all other model directories. */
int config_add_model_dir(struct config *config, const char *dir);
/* Adds the existing directories of models.other_programs after all other model directories.
 * config_load() does this. -ENOMEM. */
int config_add_other_programs(struct config *config);
/* Returns the layout of the model directory @i. */
enum models_layout config_model_layout(const struct config *config, size_t i);

/* Returns the user's configuration directory, which the caller frees. NULL: there is no home
 * directory. */
char *config_user_dir(void);
/* Returns the directory of compiled GPU kernels: the one in $CACHE_DIRECTORY, which the service
 * manager sets, else the user's own. The caller frees it. NULL: there is no home directory. */
char *config_cache_dir(void);
/* Returns the directory of stored KV blocks (computed keys and values): cache.directory, else the
 * one in $CACHE_DIRECTORY, else the user's own. The caller frees it. NULL: there is no home
 * directory. */
char *config_block_dir(const struct config *config);
/* Returns the directory of the keep service: the one in $STATE_DIRECTORY, which the service manager
 * sets, else the user's own. The caller frees it. NULL: there is no home directory. */
char *config_keep_dir(void);
/* Returns the directory of the history service: the one in $STATE_DIRECTORY, else the user's own.
 * The caller frees it. NULL: there is no home directory. */
char *config_history_dir(void);
/* Returns the directory of the user's data, $XDG_DATA_HOME/sconce. The caller frees it. NULL: there
 * is no home directory. */
char *config_data_dir(void);
/* Returns the directory of the services' sockets: $XDG_RUNTIME_DIR/sconce. If that variable is not
 * set: /run/sconce for root, and -ENOENT for other users. The caller frees *ret_dir. The units pass
 * the paths of sockets as options, so system services do not need this directory. */
int config_socket_dir(char **ret_dir);
/* Returns the path of the socket of @service in the directory of config_socket_dir(). The caller
 * frees *ret_path. -ENOENT, -ENOMEM. */
int config_socket_path(const char *service, char **ret_path);
