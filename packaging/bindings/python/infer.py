# SPDX-License-Identifier: Apache-2.0
"""A thin binding of libinfer for Python, with ctypes alone.

    import infer

    with infer.Model("model.gguf") as model, infer.Engine(model) as engine:
        for text in engine.chat([{"role": "user", "content": "Hello"}]):
            print(text, end="", flush=True)

    with infer.Model("all-MiniLM-L6-v2") as model, infer.Embedder(model) as embedder:
        a, b = embedder.vectors(["a cat", "a kitten"])

Model, Engine and Embedder own an object of the library until close() or the end of `with`. An engine
and an embedder keep their model. A failed call raises infer.Error, whose `code` is an errno value or 0. An Engine and
an Embedder serve one thread of Python at a time.
"""
import ctypes
import json
import os
from ctypes import (POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_uint8, c_void_p)

_lib = ctypes.CDLL(os.environ.get("LIBINFER", "libinfer.so.0"))
_libc = ctypes.CDLL(None)
_libc.free.argtypes = [c_void_p]

ADD_SPECIAL, PARSE_SPECIAL = 1, 2
CUT_END = 1
EVENT_TOKENS, EVENT_FINISH = 2, 3
FINISH_NAMES = ("stop", "stop_text", "length", "cancelled", "error", "stale")


class inf_err(Structure):
    _fields_ = [("code", c_int), ("offset", c_int64), ("text", c_char * 480)]


class inf_model_params(Structure):
    _fields_ = [("path", c_char_p), ("vocab_only", c_bool), ("chat_template", c_char_p),
                ("progress", c_void_p), ("progress_data", c_void_p)]


class inf_engine_params(Structure):
    _fields_ = [("model", c_void_p), ("device", c_char_p), ("cache_dir", c_char_p),
                ("cpu_else", c_bool), ("device_bytes", c_uint64), ("cache_read_only", c_bool),
                ("isa", c_char_p), ("n_threads", c_uint32), ("n_ctx", c_uint32),
                ("max_seqs", c_uint32), ("max_queue", c_uint32), ("max_batch_tokens", c_uint32),
                ("kv_type", c_char_p), ("kv_bytes", c_uint64), ("no_prefix_cache", c_bool),
                ("draft_kind", c_char_p), ("max_draft", c_uint32), ("draft_model", c_void_p),
                ("tier", c_void_p), ("tier_model", c_char_p)]


class inf_sampling(Structure):
    _fields_ = [("temperature", c_float), ("top_p", c_float), ("min_p", c_float),
                ("typical_p", c_float), ("top_k", c_uint32), ("repetition_penalty", c_float),
                ("presence_penalty", c_float), ("frequency_penalty", c_float),
                ("penalty_last_n", c_uint32), ("has_seed", c_bool), ("seed", c_uint64),
                ("logit_bias", c_void_p), ("n_logit_bias", c_size_t),
                ("dynatemp_range", c_float), ("dynatemp_exponent", c_float),
                ("top_n_sigma", c_float), ("xtc_probability", c_float), ("xtc_threshold", c_float),
                ("mirostat", c_uint32), ("mirostat_tau", c_float), ("mirostat_eta", c_float),
                ("dry_multiplier", c_float), ("dry_base", c_float),
                ("dry_allowed_length", c_uint32), ("dry_last_n", c_uint32),
                ("dry_breakers", c_void_p), ("n_dry_breakers", c_size_t), ("min_keep", c_uint32),
                ("order", c_void_p), ("n_order", c_size_t)]


class inf_stop(Structure):
    _fields_ = [("text", c_char_p), ("len", c_size_t)]


class inf_channel(Structure):
    _fields_ = [("open", c_void_p), ("close", c_void_p), ("n_open", c_size_t),
                ("n_close", c_size_t), ("lead", c_void_p), ("n_lead", c_size_t),
                ("is_open", c_bool), ("budget", c_uint32), ("forced", c_void_p),
                ("n_forced", c_size_t), ("beside_length", c_bool)]


class inf_request(Structure):
    _fields_ = [("tokens", POINTER(c_int32)), ("n_tokens", c_size_t), ("max_tokens", c_uint32),
                ("n_choices", c_uint32), ("sampling", inf_sampling), ("stops", POINTER(inf_stop)),
                ("n_stops", c_size_t), ("ignore_eos", c_bool), ("min_tokens", c_uint32),
                ("stop_tokens", c_void_p), ("n_stop_tokens", c_size_t), ("grammar", c_void_p),
                ("channel", inf_channel), ("show_special", c_bool), ("shown_tokens", c_void_p),
                ("n_shown_tokens", c_size_t), ("n_logprobs", c_int), ("post_logprobs", c_bool),
                ("prompt_logprobs", c_bool), ("progress", c_bool),
                ("n_draft", c_uint32), ("min_draft", c_uint32), ("draft_p_min", c_float),
                ("no_cache", c_bool),
                ("cache_tenant", c_char_p), ("cache_salt", c_char_p), ("cache_salt_len", c_size_t),
                ("session", c_char_p), ("user", c_void_p)]


class inf_event(Structure):
    _fields_ = [("kind", c_int), ("request", c_uint64), ("choice", c_uint32), ("user", c_void_p),
                ("text", c_void_p), ("text_len", c_size_t), ("tokens", c_void_p),
                ("n_tokens", c_size_t), ("finish", c_int), ("stop_index", c_uint32),
                ("stop_token", c_int32), ("error", c_char_p), ("n_prompt", c_uint32),
                ("n_cached", c_uint32), ("n_computed", c_uint32), ("n_generated", c_uint32),
                ("n_channel", c_uint32), ("n_draft_accepted", c_uint32),
                ("n_draft_rejected", c_uint32), ("last", c_bool)]


class inf_chat_limits(Structure):
    _fields_ = [("max_steps", c_uint64), ("max_output", c_size_t), ("max_usec", c_uint64)]


class inf_chat_input(Structure):
    _fields_ = [("messages", c_char_p), ("tools", c_char_p), ("documents", c_char_p),
                ("kwargs", c_char_p), ("bos_token", c_char_p), ("eos_token", c_char_p),
                ("unk_token", c_char_p), ("pad_token", c_char_p),
                ("add_generation_prompt", c_bool), ("now", c_int64), ("limits", inf_chat_limits)]


class inf_encode_text(Structure):
    _fields_ = [("text", c_char_p), ("len", c_size_t)]


class inf_encoding(Structure):
    _fields_ = [("ids", POINTER(c_int32)), ("types", POINTER(c_uint8)), ("n", c_size_t)]


class inf_embedder_params(Structure):
    _fields_ = [("model", c_void_p), ("device", c_char_p), ("cache_dir", c_char_p),
                ("isa", c_char_p), ("n_threads", c_uint32), ("kind", c_int), ("pooling", c_int),
                ("exact", c_bool), ("max_tokens", c_uint32), ("batch_tokens", c_uint32),
                ("max_queue_tokens", c_uint64)]


class inf_embed_text(Structure):
    _fields_ = [("tokens", POINTER(c_int32)), ("types", POINTER(c_uint8)), ("n_tokens", c_size_t),
                ("n_seen", c_size_t)]


class inf_embed_request(Structure):
    _fields_ = [("texts", POINTER(inf_embed_text)), ("n_texts", c_size_t), ("task", c_char_p),
                ("dimensions", c_uint32), ("normalize", c_int), ("bulk", c_bool),
                ("user", c_void_p)]


class inf_embed_result(Structure):
    _fields_ = [("request", c_uint64), ("user", c_void_p), ("error", c_int),
                ("n_texts", c_size_t), ("width", c_uint32), ("vectors", POINTER(c_float)),
                ("first", POINTER(c_size_t)), ("n_vectors", c_size_t), ("n_tokens", c_uint64)]


# The structs above repeat those of <infer/*.h>; a test compares their layouts with a C compiler.
STRUCTS = [v for v in list(globals().values())
           if isinstance(v, type) and issubclass(v, Structure) and v is not Structure]


def _declare(result, name, *arguments):
    function = getattr(_lib, name)
    function.restype, function.argtypes = result, list(arguments)
    return function


_err = POINTER(inf_err)
_out = POINTER(c_void_p)
_declare(c_char_p, "inf_version")
_declare(c_int, "inf_model_open", POINTER(inf_model_params), _out, _err)
_declare(c_void_p, "inf_model_unref", c_void_p)
_declare(c_void_p, "inf_model_tokenizer", c_void_p)
_declare(c_void_p, "inf_model_chat_template", c_void_p)
_declare(c_int32, "inf_tokenizer_bos", c_void_p)
_declare(c_int32, "inf_tokenizer_eos", c_void_p)
_declare(c_char_p, "inf_tokenizer_token_text", c_void_p, c_int32, POINTER(c_size_t))
_declare(c_int, "inf_tokenizer_encode", c_void_p, c_char_p, c_size_t, c_uint, c_size_t,
         POINTER(POINTER(c_int32)), POINTER(c_size_t))
_declare(c_int, "inf_tokenizer_encode_texts", c_void_p, POINTER(inf_encode_text),
         POINTER(inf_encode_text), c_uint, c_int, c_size_t, POINTER(inf_encoding))
_declare(c_int, "inf_chat_render", c_void_p, POINTER(inf_chat_input), _out, POINTER(c_size_t), _err)
_declare(c_int, "inf_engine_new", POINTER(inf_engine_params), _out, _err)
_declare(c_void_p, "inf_engine_free", c_void_p)
_declare(c_int, "inf_engine_submit", c_void_p, POINTER(inf_request), POINTER(c_uint64), _err)
_declare(None, "inf_engine_cancel", c_void_p, c_uint64)
_declare(c_int, "inf_engine_wait_event", c_void_p, c_int, POINTER(inf_event))
_declare(c_int, "inf_embedder_new", POINTER(inf_embedder_params), _out, _err)
_declare(c_void_p, "inf_embedder_free", c_void_p)
_declare(c_uint32, "inf_embedder_max_tokens", c_void_p)
_declare(c_int, "inf_embedder_submit", c_void_p, POINTER(inf_embed_request), POINTER(c_uint64), _err)
_declare(POINTER(inf_embed_result), "inf_embedder_wait_result", c_void_p, c_int)
_declare(c_void_p, "inf_embed_result_free", POINTER(inf_embed_result))
_declare(c_double, "inf_similarity", POINTER(c_float), POINTER(c_float), c_size_t)


class Error(Exception):
    """Is raised if a call of the library fails. `code` is a positive errno value; 0: there is none, for example because
    the queue is full."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def _check(r, err=None):
    if r < 0:
        raise Error(-r, err.text.decode() if err and err.text else os.strerror(-r))
    if r > 0:
        raise Error(0, "the queue is full; try again later")


def version():
    return _lib.inf_version().decode()


class _Owned:
    """Owns one object of the library, and frees it once."""

    _free = None

    def __init__(self, handle):
        self._handle = handle

    @property
    def handle(self):
        if not self._handle:
            raise ValueError("the object is closed")
        return self._handle

    def close(self):
        handle, self._handle = self._handle, None
        if handle:
            getattr(_lib, self._free)(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()


class Model(_Owned):
    """A GGUF file, or a directory in Hugging Face layout."""

    _free = "inf_model_unref"

    def __init__(self, path):
        params, err, out = inf_model_params(path=os.fsencode(path)), inf_err(), c_void_p()
        _check(_lib.inf_model_open(byref(params), byref(out), byref(err)), err)
        super().__init__(out.value)

    def encode(self, text, special=True):
        """Returns the tokens of a text as a list."""
        data = text.encode()
        ids, n = POINTER(c_int32)(), c_size_t()
        flags = ADD_SPECIAL | PARSE_SPECIAL if special else 0
        _check(_lib.inf_tokenizer_encode(_lib.inf_model_tokenizer(self.handle), data, len(data),
                                         flags, 0, byref(ids), byref(n)))
        tokens = ids[:n.value]
        _libc.free(ids)
        return tokens

    def prompt(self, messages, **variables):
        """Returns the text of a prompt, which the model's chat template makes of a list of messages.
        @variables are further variables of the template."""
        template = _lib.inf_model_chat_template(self.handle)
        if not template:
            raise Error(0, "the model has no chat template")
        tok, n = _lib.inf_model_tokenizer(self.handle), c_size_t()
        bos, eos = (_lib.inf_tokenizer_token_text(tok, find(tok), byref(n))
                    for find in (_lib.inf_tokenizer_bos, _lib.inf_tokenizer_eos))
        values = inf_chat_input(messages=json.dumps(messages).encode(),
                                kwargs=json.dumps(variables).encode(), bos_token=bos, eos_token=eos,
                                add_generation_prompt=True)
        err, out = inf_err(), c_void_p()
        _check(_lib.inf_chat_render(template, byref(values), byref(out), byref(n), byref(err)), err)
        text = ctypes.string_at(out, n.value).decode()
        _libc.free(out)
        return text


class Engine(_Owned):
    """Generates text. @context is the maximum number of tokens of a conversation."""

    _free = "inf_engine_free"

    def __init__(self, model, context=0, threads=0, device=None):
        params = inf_engine_params(model=model.handle, n_ctx=context, n_threads=threads,
                                   device=device.encode() if device else None)
        err, out = inf_err(), c_void_p()
        _check(_lib.inf_engine_new(byref(params), byref(out), byref(err)), err)
        super().__init__(out.value)
        self.model = model
        self.finish = None

    def generate(self, prompt, max_tokens=256, temperature=0.0, stop=(), **sampling):
        """Yields the text that continues a prompt, piece by piece. Afterwards `finish` says why the
        text ended. Leaving the loop early cancels the request. @sampling are members of struct
        inf_sampling."""
        tokens = self.model.encode(prompt) if isinstance(prompt, str) else list(prompt)
        stops = [(s.encode(), len(s.encode())) for s in stop]
        request = inf_request(
            tokens=(c_int32 * len(tokens))(*tokens), n_tokens=len(tokens), max_tokens=max_tokens,
            sampling=inf_sampling(temperature=temperature, **sampling),
            stops=(inf_stop * len(stops))(*stops), n_stops=len(stops), n_logprobs=-1)
        err, own = inf_err(), c_uint64()
        _check(_lib.inf_engine_submit(self.handle, byref(request), byref(own), byref(err)), err)
        event, ended = inf_event(), False
        try:
            while not ended:
                r = _lib.inf_engine_wait_event(self.handle, -1, byref(event))
                _check(min(r, 0))
                if r == 0 or event.request != own.value:
                    continue
                ended = event.kind == EVENT_FINISH
                if event.kind == EVENT_TOKENS and event.text_len:
                    yield ctypes.string_at(event.text, event.text_len).decode()
            self.finish = FINISH_NAMES[event.finish]
            if event.error:
                raise Error(0, event.error.decode())
        finally:
            if not ended and self._handle:
                _lib.inf_engine_cancel(self.handle, own)

    def chat(self, messages, max_tokens=256, **options):
        """Returns an iterator over the pieces of the answer to a conversation, a list of {"role": …, "content": …}."""
        return self.generate(self.model.prompt(messages), max_tokens, **options)


class Embedder(_Owned):
    """Computes vectors of texts."""

    _free = "inf_embedder_free"

    def __init__(self, model, threads=0):
        params = inf_embedder_params(model=model.handle, n_threads=threads)
        err, out = inf_err(), c_void_p()
        _check(_lib.inf_embedder_new(byref(params), byref(out), byref(err)), err)
        super().__init__(out.value)
        self.model = model

    def vectors(self, texts, dimensions=0):
        """Returns one list of floats for each text. Texts that are too long are cut at the end."""
        tok = _lib.inf_model_tokenizer(self.model.handle)
        limit = _lib.inf_embedder_max_tokens(self.handle)
        encodings = (inf_encoding * len(texts))()
        items = (inf_embed_text * len(texts))()
        try:
            for i, text in enumerate(texts):
                data = text.encode()
                one = inf_encode_text(data, len(data))
                _check(_lib.inf_tokenizer_encode_texts(tok, byref(one), None, ADD_SPECIAL, CUT_END,
                                                       limit, byref(encodings[i])))
                items[i] = inf_embed_text(encodings[i].ids, encodings[i].types, encodings[i].n, 0)
            request = inf_embed_request(texts=items, n_texts=len(texts), dimensions=dimensions)
            err, own = inf_err(), c_uint64()
            _check(_lib.inf_embedder_submit(self.handle, byref(request), byref(own), byref(err)), err)
        finally:
            for encoding in encodings:
                _libc.free(encoding.ids)
        result = _lib.inf_embedder_wait_result(self.handle, -1)
        try:
            _check(result.contents.error)
            width = result.contents.width
            return [result.contents.vectors[i * width:(i + 1) * width] for i in range(len(texts))]
        finally:
            _lib.inf_embed_result_free(result)


def similarity(a, b):
    """Returns the cosine of the angle between two vectors."""
    kind = c_float * len(a)
    return _lib.inf_similarity(kind(*a), kind(*b), len(a))
