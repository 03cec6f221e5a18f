// SPDX-License-Identifier: Apache-2.0
//! The functions and structs of `<infer/*.h>` that this crate uses. A test compares the layouts with a C
//! compiler.
use std::os::raw::{c_char, c_int, c_uint, c_void};

pub const ADD_SPECIAL: c_uint = 1;
pub const PARSE_SPECIAL: c_uint = 2;
pub const CUT_END: c_int = 1;
pub const EVENT_TOKENS: c_int = 2;
pub const EVENT_FINISH: c_int = 3;

/// Declares structs with the layout of C, and `LAYOUTS`: the name, the size and the offsets of the
/// members of each.
macro_rules! structs {
    ($(struct $name:ident { $($member:ident: $kind:ty,)* })*) => {
        $(#[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types)]
        pub struct $name { $(pub $member: $kind,)* })*
        pub const LAYOUTS: &[(&str, usize, &[(&str, usize)])] = &[
            $((stringify!($name), std::mem::size_of::<$name>(),
               &[$((stringify!($member), std::mem::offset_of!($name, $member)),)*]),)*
        ];
    };
}

structs! {
    struct inf_err {
        code: c_int,
        offset: i64,
        text: [c_char; 480],
    }
    struct inf_model_params {
        path: *const c_char,
        vocab_only: bool,
        chat_template: *const c_char,
        progress: *const c_void,
        progress_data: *mut c_void,
    }
    struct inf_engine_params {
        model: *mut c_void,
        device: *const c_char,
        cache_dir: *const c_char,
        cpu_else: bool,
        device_bytes: u64,
        cache_read_only: bool,
        isa: *const c_char,
        n_threads: u32,
        n_ctx: u32,
        max_seqs: u32,
        max_queue: u32,
        max_batch_tokens: u32,
        kv_type: *const c_char,
        kv_bytes: u64,
        no_prefix_cache: bool,
        draft_kind: *const c_char,
        max_draft: u32,
        draft_model: *mut c_void,
        tier: *mut c_void,
        tier_model: *const c_char,
    }
    struct inf_sampling {
        temperature: f32,
        top_p: f32,
        min_p: f32,
        typical_p: f32,
        top_k: u32,
        repetition_penalty: f32,
        presence_penalty: f32,
        frequency_penalty: f32,
        penalty_last_n: u32,
        has_seed: bool,
        seed: u64,
        logit_bias: *const c_void,
        n_logit_bias: usize,
        dynatemp_range: f32,
        dynatemp_exponent: f32,
        top_n_sigma: f32,
        xtc_probability: f32,
        xtc_threshold: f32,
        mirostat: u32,
        mirostat_tau: f32,
        mirostat_eta: f32,
        dry_multiplier: f32,
        dry_base: f32,
        dry_allowed_length: u32,
        dry_last_n: u32,
        dry_breakers: *const c_void,
        n_dry_breakers: usize,
        min_keep: u32,
        order: *const u8,
        n_order: usize,
    }
    struct inf_channel {
        open: *const i32,
        close: *const i32,
        n_open: usize,
        n_close: usize,
        lead: *const i32,
        n_lead: usize,
        is_open: bool,
        budget: u32,
        forced: *const i32,
        n_forced: usize,
        beside_length: bool,
    }
    struct inf_request {
        tokens: *const i32,
        n_tokens: usize,
        max_tokens: u32,
        n_choices: u32,
        sampling: inf_sampling,
        stops: *const c_void,
        n_stops: usize,
        ignore_eos: bool,
        min_tokens: u32,
        stop_tokens: *const i32,
        n_stop_tokens: usize,
        grammar: *mut c_void,
        channel: inf_channel,
        show_special: bool,
        shown_tokens: *const i32,
        n_shown_tokens: usize,
        n_logprobs: c_int,
        post_logprobs: bool,
        prompt_logprobs: bool,
        progress: bool,
        n_draft: u32,
        min_draft: u32,
        draft_p_min: f32,
        no_cache: bool,
        cache_tenant: *const c_char,
        cache_salt: *const c_char,
        cache_salt_len: usize,
        session: *const c_char,
        user: *mut c_void,
    }
    struct inf_event {
        kind: c_int,
        request: u64,
        choice: u32,
        user: *mut c_void,
        text: *const c_char,
        text_len: usize,
        tokens: *const c_void,
        n_tokens: usize,
        finish: c_int,
        stop_index: u32,
        stop_token: i32,
        error: *const c_char,
        n_prompt: u32,
        n_cached: u32,
        n_computed: u32,
        n_generated: u32,
        n_channel: u32,
        n_draft_accepted: u32,
        n_draft_rejected: u32,
        last: bool,
    }
    struct inf_chat_limits {
        max_steps: u64,
        max_output: usize,
        max_usec: u64,
    }
    struct inf_chat_input {
        messages: *const c_char,
        tools: *const c_char,
        documents: *const c_char,
        kwargs: *const c_char,
        bos_token: *const c_char,
        eos_token: *const c_char,
        unk_token: *const c_char,
        pad_token: *const c_char,
        add_generation_prompt: bool,
        now: i64,
        limits: inf_chat_limits,
    }
    struct inf_encode_text {
        text: *const c_char,
        len: usize,
    }
    struct inf_encoding {
        ids: *mut i32,
        types: *mut u8,
        n: usize,
    }
    struct inf_embedder_params {
        model: *mut c_void,
        device: *const c_char,
        cache_dir: *const c_char,
        isa: *const c_char,
        n_threads: u32,
        kind: c_int,
        pooling: c_int,
        exact: bool,
        max_tokens: u32,
        batch_tokens: u32,
        max_queue_tokens: u64,
    }
    struct inf_embed_text {
        tokens: *const i32,
        types: *const u8,
        n_tokens: usize,
        n_seen: usize,
    }
    struct inf_embed_request {
        texts: *const inf_embed_text,
        n_texts: usize,
        task: *const c_char,
        dimensions: u32,
        normalize: c_int,
        bulk: bool,
        user: *mut c_void,
    }
    struct inf_embed_result {
        request: u64,
        user: *mut c_void,
        error: c_int,
        n_texts: usize,
        width: u32,
        vectors: *const f32,
        first: *const usize,
        n_vectors: usize,
        n_tokens: u64,
    }
}

extern "C" {
    pub fn free(memory: *mut c_void);
    pub fn inf_model_open(p: *const inf_model_params, ret: *mut *mut c_void, err: *mut inf_err) -> c_int;
    pub fn inf_model_ref(model: *mut c_void) -> *mut c_void;
    pub fn inf_model_unref(model: *mut c_void) -> *mut c_void;
    pub fn inf_model_tokenizer(model: *const c_void) -> *const c_void;
    pub fn inf_model_chat_template(model: *const c_void) -> *const c_void;
    pub fn inf_tokenizer_bos(tok: *const c_void) -> i32;
    pub fn inf_tokenizer_eos(tok: *const c_void) -> i32;
    pub fn inf_tokenizer_token_text(tok: *const c_void, id: i32, len: *mut usize) -> *const c_char;
    pub fn inf_tokenizer_encode(tok: *const c_void, text: *const c_char, len: usize, flags: c_uint, max: usize,
        ids: *mut *mut i32, n: *mut usize) -> c_int;
    pub fn inf_tokenizer_encode_texts(tok: *const c_void, text: *const inf_encode_text,
        pair: *const inf_encode_text, flags: c_uint, cut: c_int, max: usize, ret: *mut inf_encoding) -> c_int;
    pub fn inf_chat_render(template: *const c_void, input: *const inf_chat_input, text: *mut *mut c_char,
        len: *mut usize, err: *mut inf_err) -> c_int;
    pub fn inf_engine_new(p: *const inf_engine_params, ret: *mut *mut c_void, err: *mut inf_err) -> c_int;
    pub fn inf_engine_free(engine: *mut c_void) -> *mut c_void;
    pub fn inf_engine_submit(engine: *mut c_void, r: *const inf_request, id: *mut u64, err: *mut inf_err)
        -> c_int;
    pub fn inf_engine_cancel(engine: *mut c_void, id: u64);
    pub fn inf_engine_wait_event(engine: *mut c_void, msec: c_int, event: *mut inf_event) -> c_int;
    pub fn inf_embedder_new(p: *const inf_embedder_params, ret: *mut *mut c_void, err: *mut inf_err) -> c_int;
    pub fn inf_embedder_free(embedder: *mut c_void) -> *mut c_void;
    pub fn inf_embedder_max_tokens(embedder: *const c_void) -> u32;
    pub fn inf_embedder_submit(embedder: *mut c_void, r: *const inf_embed_request, id: *mut u64,
        err: *mut inf_err) -> c_int;
    pub fn inf_embedder_wait_result(embedder: *mut c_void, msec: c_int) -> *mut inf_embed_result;
    pub fn inf_embed_result_free(result: *mut inf_embed_result) -> *mut inf_embed_result;
    pub fn inf_similarity(a: *const f32, b: *const f32, n: usize) -> f64;
}
