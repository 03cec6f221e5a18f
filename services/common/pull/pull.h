/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulls models: finds out which files a source has, makes sconce-fetch fetch them, and installs
 * them.
 *
 * `sconce pull` and sconce-store share this code. Nothing that arrives is trusted: metadata is read
 * with limits, names must stay in their directory, and a file gets a name in the store only when it
 * has the digest that the metadata gives.
 */

#include <infer/types.h>

#include "core/arena.h"
#include "core/macros.h"

struct config;
struct store_growing;

/* --- source.c: what a command or a client names --- */

enum pull_kind { PULL_HUB, PULL_OLLAMA, PULL_URL, PULL_PATH };

struct pull_source {
    enum pull_kind kind;
    const char *text;   /* as it was given; borrowed */
    char repo[300];     /* "OWNER/REPO", or "NAMESPACE/NAME" of Ollama's registry */
    char selector[256]; /* a quantization, a file or a tag; "": none */
};

/* Reads a source: OWNER/REPO[:WHAT], hf:OWNER/REPO[:WHAT], ollama:[NAMESPACE/]NAME[:TAG], an https
 * URL, or a path. */
int pull_source_read(const char *text, struct pull_source *ret, struct inf_err *reterr);
/* Reads a name as clients of Ollama's API write it. A repository of the hub is OWNER/REPO[:WHAT],
 * with or without "hf.co/", "huggingface.co/" or "hf:" before it. A model of Ollama's registry is
 * NAME[:TAG], or any name after "ollama:" or "registry.ollama.ai/". -EINVAL: @text is a URL, a
 * path, or not a name in these forms. ret->text is @text. */
int pull_source_read_name(const char *text, struct pull_source *ret, struct inf_err *reterr);
/* Writes the source in the form that `sconce pull` reads: "hf:OWNER/REPO[:WHAT]" or
 * "ollama:NAME[:TAG]"; a URL or a path stays as it is. Different names of one source give the same
 * text. */
void pull_source_put(const struct pull_source *source, char *ret, size_t size);
/* The size of a buffer for pull_source_put() in bytes. */
#define PULL_SOURCE_SIZE 600

/* --- plan: what is to be fetched --- */

enum {
    PULL_MAX_FILES = 1024,
    PULL_MAX_METADATA = 16 << 20, /* in bytes */
};

struct pull_file {
    const char *name;   /* a safe path */
    const char *url;    /* NULL: a local file */
    const char *local;  /* the job's file: a digest or "fN" */
    uint64_t size;      /* UINT64_MAX: unknown */
    const char *sha256; /* NULL: unknown */
    const char *sha1;   /* of a blob of git; NULL: unknown */
    bool is_verified;   /* the file has the digest sha256, and is not read again */
    /* The digest of the bytes that have arrived; the plan owns it. NULL: none. */
    struct store_growing *growing;
};

struct pull_plan {
    struct arena arena;
    char name[300];                          /* of the model */
    char alias[300];                         /* "": none */
    const char *source, *revision, *licence; /* NULL: unknown */
    struct pull_file *files;                 /* [n] */
    size_t n, cap;
    bool is_gguf;         /* the first file is the model; false: the directory is */
    const char *path;     /* of a model outside of the store, whose manifest lists no files; NULL:
                             none */
    const char *settings; /* further lines of the manifest; NULL: those that the files of a model of
                             Ollama's registry give */
    char why[200];        /* why these files were chosen; "": they were named */
    char note[240];       /* a sentence about the installed model; "": none */
};

void pull_plan_done(struct pull_plan *plan);
/* Adds a file; copies the texts. -EBADMSG: the name is not safe; -E2BIG; -ENOMEM. */
int pull_plan_add(struct pull_plan *plan, const struct pull_file *file, struct inf_err *reterr);
/* Adds up the sizes that are known. */
uint64_t pull_plan_bytes(const struct pull_plan *plan);

/* --- hub.c, registry.c: metadata --- */

/* Reads the hub's answer about a repository, and chooses the files for @source. @hub is the URL of
 * the hub, and @memory the memory of the machine in bytes. -EBADMSG: the answer is wrong; -ENOENT:
 * nothing suits. */
int hub_read(const char *text, size_t len, const char *hub, const struct pull_source *source,
             uint64_t memory, struct pull_plan *plan, struct inf_err *reterr);
/* Reads a manifest of Ollama's registry at the URL @registry. */
int registry_read(const char *text, size_t len, const char *registry,
                  const struct pull_source *source, struct pull_plan *plan, struct inf_err *reterr);

/* --- ollama.c: parameters and templates of Ollama's registry --- */

/* The names of the files in the model's directory that hold these layers, and the largest size of a
 * layer in bytes. */
#define OLLAMA_PARAMS    "ollama-params.json"
#define OLLAMA_TEMPLATE  "ollama-template.txt"
#define OLLAMA_SYSTEM    "ollama-system.txt"
#define OLLAMA_MESSAGES  "ollama-messages.json"
#define OLLAMA_MAX_LAYER (64 << 10)

struct str;

/* Writes keys of a manifest for the layers with parameters and with a template that the plan has
 * and that are in the directory @model, beside the weights. May set plan->note. */
int ollama_put_settings(const char *model, struct pull_plan *plan, struct str *out,
                        struct inf_err *reterr);
/* Returns the enum sampling_key of a parameter with the name that Ollama gives it; -1: none. */
int ollama_sampling_key(const char *name);
/* Returns the built-in template with the marks of @text, a template in the language of Go; NULL:
 * none has them. */
const char *ollama_match_template(const char *text);

/* --- fetcher.c: the process sconce-fetch --- */

struct fetcher;

/* The settings that sconce-fetch gets; the texts are borrowed. */
struct fetcher_settings {
    const char *token, *token_host, *proxy, *certificates; /* NULL: none */
    const char *private_hosts[2];                          /* NULL: none */
    bool landlock_optional;
};

/* Starts sconce-fetch as a child process in the directory @job. */
int fetcher_start(const char *job, const struct fetcher_settings *settings,
                  struct fetcher **ret_fetcher, struct inf_err *reterr);
/* Connects to the socket @path, so that systemd or `sconce serve` starts a sconce-fetch for this
 * connection. Sends it the descriptors of the directory @job and of the job's lock. The process
 * keeps the lock until it ends. */
int fetcher_connect(const char *path, const char *job, int lock,
                    const struct fetcher_settings *settings, struct fetcher **ret_fetcher,
                    struct inf_err *reterr);
/* Breaks off the connection, so that the process ends and fetcher_get() fails. Another thread may
 * call this function while fetcher_get() runs. @f must come from fetcher_connect(). */
void fetcher_hang_up(const struct fetcher *f);
/* Ends sconce-fetch: closes the pipes or the connection to it, and waits for the end of a child
 * process. Frees @f, which may be NULL. */
struct fetcher *fetcher_stop(struct fetcher *f);
DEFINE_CLEANUP(struct fetcher *, fetcher_stop);
/* Fetches @file. Its bytes are then in the job's file `local`, or in `local`.part if @parts > 0. If
 * there is a digest file->growing, the function adds the bytes to it as they arrive. @progress may
 * be NULL. *ret_size gets the size of the file. */
int fetcher_get(struct fetcher *f, const struct pull_file *file, const char *accept, uint64_t limit,
                unsigned parts, void (*progress)(void *data, uint64_t bytes, uint64_t size),
                void *data, uint64_t *ret_size, struct inf_err *reterr);

/* --- install.c --- */

/* Compares the files of the job with their digests, and installs the model into the store @dir
 * with one rename. A file with a wrong digest is removed. @progress is called with the bytes that
 * were read. -EBADMSG: a file is not what the plan says; -EEXIST: the name is taken by something
 * that no pull and no creation has made, or is inside of another model; -EINVAL: the manifest of
 * the model could not be read. */
int pull_install(const char *dir, const char *job, const char *arrivals, struct pull_plan *plan,
                 void (*progress)(void *data, uint64_t bytes), void *data, struct inf_err *reterr);

/* Appends the text of the manifest, with the lines @settings, which may be NULL. The digests and
 * the sizes of all files are known. -ENOMEM. */
int pull_put_manifest(const struct pull_plan *plan, const char *settings, struct str *out);

/* --- job.c: one pull from its beginning to its end --- */

/* Struct pull_watch has functions that are called during a pull. Each of them may be NULL. */
struct pull_watch {
    /* Called when the files are known and none has been fetched yet. */
    void (*planned)(void *data, const struct pull_plan *plan);
    /* Called when @bytes of the file @i of the plan have arrived. @size is UINT64_MAX if it is
     * unknown. */
    void (*fetched)(void *data, size_t i, uint64_t bytes, uint64_t size);
    /* Called when the file @i is complete. It has @bytes. */
    void (*complete)(void *data, size_t i, uint64_t bytes);
    /* Called when another @bytes were verified. */
    void (*verified)(void *data, uint64_t bytes);
    void *data;
};

/* The token and the certificates for pulls. They are read before the process is confined. */
struct pull_secrets {
    char *token;        /* NULL: none */
    char *certificates; /* PEM; NULL: those of the system */
};

struct pull_job {
    const struct config *config;
    const struct pull_secrets *secrets;
    const char *store; /* the directory into which the model is installed */
    const struct pull_watch *watch;
    struct pull_source source;
    struct pull_plan plan;
    bool was_there; /* nothing had to be fetched */
    /* The members below belong to job.c. */
    char *dir;      /* of the job; files that have arrived are here */
    char *arrivals; /* the only directory that sconce-fetch may write, below @dir */
    char token_host[300], hub_host[300], registry_host[300];
    struct fetcher *fetcher;
    int lock;
};

/* Reads the token from HF_TOKEN, from the configured token file, or from that of Hugging Face's own
 * programs. Also reads the configured certificates. A configured file that cannot be read is an
 * error; a missing token is not. */
int pull_secrets_read(const struct config *config, struct pull_secrets *ret,
                      struct inf_err *reterr);
void pull_secrets_done(struct pull_secrets *secrets);

/* Makes the directory of the job. Its name depends on the source and on plan.name, so a pull
 * with the same source and the same name of the model continues an interrupted one. The caller must
 * have set the members above `dir`. -EBUSY: another process makes the same pull. */
int pull_job_open(struct pull_job *job, struct inf_err *reterr);
/* Starts sconce-fetch: as a child process, or by a connection to the socket @socket. */
int pull_job_start(struct pull_job *job, const char *socket, struct inf_err *reterr);
/* Finds out what to fetch, and fetches it. */
int pull_job_fetch(struct pull_job *job, struct inf_err *reterr);
/* Ends sconce-fetch, takes the files from its directory, verifies them and installs the model.
 * After an error of this or an earlier step, the files that have arrived stay, so that the next
 * attempt continues from there. */
int pull_job_finish(struct pull_job *job, struct inf_err *reterr);
/* Ends sconce-fetch and releases the lock. The job may be opened again. */
void pull_job_close(struct pull_job *job);
/* Closes the job and frees the plan. */
void pull_job_done(struct pull_job *job);
