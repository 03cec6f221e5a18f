// SPDX-License-Identifier: Apache-2.0
//! A thin binding of libinfer.
//!
//! [`Model`], [`Engine`] and [`Embedder`] own an object of the library and free it when they are dropped. A
//! clone of a model is another reference to it. An engine takes its events on one thread at a time, so its
//! functions that generate need `&mut self`.
pub mod ffi;

use std::ffi::{c_void, CStr, CString};
use std::mem::zeroed;
use std::ops::ControlFlow;
use std::os::raw::{c_char, c_int};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::{fmt, slice};

/// Says why a call failed. `code` is a positive errno value; 0: a queue was full.
#[derive(Debug)]
pub struct Error {
    pub code: i32,
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

fn no_error() -> ffi::inf_err {
    // SAFETY: all members may be zero.
    unsafe { zeroed() }
}

fn check(r: c_int, err: &ffi::inf_err) -> Result<(), Error> {
    if r == 0 {
        return Ok(());
    }
    // SAFETY: the library ends the text with a NUL, and so does a struct of zeros.
    let said = unsafe { CStr::from_ptr(err.text.as_ptr()) }.to_string_lossy().into_owned();
    let text = match (r > 0, said.is_empty()) {
        (true, _) => "the queue is full; try again later".to_string(),
        (false, true) => std::io::Error::from_raw_os_error(-r).to_string(),
        (false, false) => said,
    };
    Err(Error { code: if r < 0 { -r } else { 0 }, text })
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error { code: 22, text: "a text contains a NUL".into() })
}

/// Writes a text as a JSON string.
fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A reference to an open model: a GGUF file, or a directory in Hugging Face layout.
pub struct Model(*mut c_void);

// SAFETY: an open model does not change, and any number of threads may use it.
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Clone for Model {
    fn clone(&self) -> Self {
        // SAFETY: self holds a reference.
        Model(unsafe { ffi::inf_model_ref(self.0) })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: this drops the reference that self holds.
        unsafe { ffi::inf_model_unref(self.0) };
    }
}

impl Model {
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = c_string(&path.as_ref().to_string_lossy())?;
        let (mut out, mut err) = (null_mut(), no_error());
        // SAFETY: the parameters live during the call; zero is the default of each.
        unsafe {
            let params = ffi::inf_model_params { path: path.as_ptr(), ..zeroed() };
            check(ffi::inf_model_open(&params, &mut out, &mut err), &err)?;
        }
        Ok(Model(out))
    }

    fn tokenizer(&self) -> *const c_void {
        // SAFETY: the tokenizer lives as long as the model.
        unsafe { ffi::inf_model_tokenizer(self.0) }
    }

    /// Returns the tokens of a text. A text like `<|im_end|>` becomes that special token.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, Error> {
        let (mut ids, mut n) = (null_mut(), 0);
        // SAFETY: the library reads text.len() bytes; the array that it allocates is freed here.
        unsafe {
            let r = ffi::inf_tokenizer_encode(self.tokenizer(), text.as_ptr().cast(), text.len(),
                ffi::ADD_SPECIAL | ffi::PARSE_SPECIAL, 0, &mut ids, &mut n);
            check(r, &no_error())?;
            let tokens = if n > 0 { slice::from_raw_parts(ids, n).to_vec() } else { Vec::new() };
            ffi::free(ids.cast());
            Ok(tokens)
        }
    }

    /// Makes the prompt of a conversation with the model's chat template. Each message is a role and a text.
    pub fn prompt(&self, messages: &[(&str, &str)]) -> Result<String, Error> {
        let list: Vec<String> = messages.iter()
            .map(|(role, text)| format!("{{\"role\":{},\"content\":{}}}", json_string(role), json_string(text)))
            .collect();
        let messages = c_string(&format!("[{}]", list.join(",")))?;
        let (mut text, mut len, mut err) = (null_mut::<c_char>(), 0, no_error());
        // SAFETY: the texts of the tokens live as long as the model; the result is freed here.
        unsafe {
            let template = ffi::inf_model_chat_template(self.0);
            if template.is_null() {
                return Err(Error { code: 95, text: "the model has no chat template".into() });
            }
            let tok = self.tokenizer();
            let token = |id| ffi::inf_tokenizer_token_text(tok, id, &mut 0);
            let input = ffi::inf_chat_input {
                messages: messages.as_ptr(),
                bos_token: token(ffi::inf_tokenizer_bos(tok)),
                eos_token: token(ffi::inf_tokenizer_eos(tok)),
                add_generation_prompt: true,
                ..zeroed()
            };
            check(ffi::inf_chat_render(template, &input, &mut text, &mut len, &mut err), &err)?;
            let prompt = String::from_utf8_lossy(slice::from_raw_parts(text.cast(), len)).into_owned();
            ffi::free(text.cast());
            Ok(prompt)
        }
    }
}

/// Options of one generation. If all are zero, decoding is greedy, and no limit of tokens ends it before the context is
/// full.
#[derive(Clone, Copy, Default)]
pub struct Options {
    pub max_tokens: u32,
    pub temperature: f32,
    pub top_p: f32,
    pub seed: Option<u64>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    StopText,
    Length,
    Cancelled,
}

/// Generates text with one model. The engine has a reference of its own to the model.
pub struct Engine {
    engine: *mut c_void,
    model: Model,
}

// SAFETY: an engine may move to another thread; its events are taken by one thread at a time.
unsafe impl Send for Engine {}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: self owns the engine.
        unsafe { ffi::inf_engine_free(self.engine) };
    }
}

impl Engine {
    /// Makes an engine. `context` is the maximum number of tokens of a conversation; 0 means the library's
    /// default. `threads` is the number of threads; 0 means one for each CPU.
    pub fn new(model: &Model, context: u32, threads: u32) -> Result<Self, Error> {
        let (mut engine, mut err) = (null_mut(), no_error());
        // SAFETY: zero is the default of each parameter.
        unsafe {
            let params =
                ffi::inf_engine_params { model: model.0, n_ctx: context, n_threads: threads, ..zeroed() };
            check(ffi::inf_engine_new(&params, &mut engine, &mut err), &err)?;
        }
        Ok(Engine { engine, model: model.clone() })
    }

    /// Continues a prompt, and passes each new piece of text to `take`, which ends the generation by
    /// `ControlFlow::Break`.
    pub fn generate(
        &mut self,
        prompt: &str,
        options: Options,
        mut take: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Finish, Error> {
        let tokens = self.model.encode(prompt)?;
        let (mut id, mut err) = (0, no_error());
        // SAFETY: the library copies the request.
        unsafe {
            let mut request: ffi::inf_request = zeroed();
            request.tokens = tokens.as_ptr();
            request.n_tokens = tokens.len();
            request.max_tokens = options.max_tokens;
            request.n_logprobs = -1;
            request.sampling.temperature = options.temperature;
            request.sampling.top_p = options.top_p;
            request.sampling.has_seed = options.seed.is_some();
            request.sampling.seed = options.seed.unwrap_or(0);
            check(ffi::inf_engine_submit(self.engine, &request, &mut id, &mut err), &err)?;
        }
        loop {
            // SAFETY: what an event points to is valid until the next call, which needs &mut self.
            let event = unsafe {
                let mut event: ffi::inf_event = zeroed();
                let r = ffi::inf_engine_wait_event(self.engine, -1, &mut event);
                check(r.min(0), &no_error())?;
                if r == 0 || event.request != id {
                    continue;
                }
                event
            };
            if event.kind == ffi::EVENT_FINISH {
                return finished(&event);
            }
            if event.kind == ffi::EVENT_TOKENS && event.text_len > 0 {
                // SAFETY: the event has text_len bytes of UTF-8.
                let bytes = unsafe { slice::from_raw_parts(event.text.cast(), event.text_len) };
                if take(&String::from_utf8_lossy(bytes)).is_break() {
                    // SAFETY: the engine lives; the event INF_EVENT_FINISH still follows.
                    unsafe { ffi::inf_engine_cancel(self.engine, id) };
                }
            }
        }
    }

    /// Answers a conversation; see [`Model::prompt`] and [`Engine::generate`].
    pub fn chat(
        &mut self,
        messages: &[(&str, &str)],
        options: Options,
        take: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Finish, Error> {
        let prompt = self.model.prompt(messages)?;
        self.generate(&prompt, options, take)
    }
}

fn finished(event: &ffi::inf_event) -> Result<Finish, Error> {
    match event.finish {
        0 => Ok(Finish::Stop),
        1 => Ok(Finish::StopText),
        2 => Ok(Finish::Length),
        3 => Ok(Finish::Cancelled),
        _ if event.error.is_null() => Err(Error { code: 5, text: "the generation failed".into() }),
        // SAFETY: the text ends with a NUL.
        _ => Err(Error {
            code: 5,
            text: unsafe { CStr::from_ptr(event.error) }.to_string_lossy().into_owned(),
        }),
    }
}

/// Computes vectors of texts.
pub struct Embedder {
    embedder: *mut c_void,
    model: Model,
}

// SAFETY: as for Engine.
unsafe impl Send for Embedder {}

impl Drop for Embedder {
    fn drop(&mut self) {
        // SAFETY: self owns the embedder.
        unsafe { ffi::inf_embedder_free(self.embedder) };
    }
}

impl Embedder {
    pub fn new(model: &Model, threads: u32) -> Result<Self, Error> {
        let (mut embedder, mut err) = (null_mut(), no_error());
        // SAFETY: zero is the default of each parameter.
        unsafe {
            let params = ffi::inf_embedder_params { model: model.0, n_threads: threads, ..zeroed() };
            check(ffi::inf_embedder_new(&params, &mut embedder, &mut err), &err)?;
        }
        Ok(Embedder { embedder, model: model.clone() })
    }

    /// Returns one vector for each text. A text that is too long is cut at its end.
    pub fn vectors(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, Error> {
        let mut encodings = Vec::new();
        for text in texts {
            encodings.push(Encoding::new(&self.model, self.embedder, text)?);
        }
        let items: Vec<_> = encodings.iter()
            .map(|e| ffi::inf_embed_text { tokens: e.0.ids, types: e.0.types, n_tokens: e.0.n, n_seen: 0 })
            .collect();
        let (mut id, mut err) = (0, no_error());
        // SAFETY: the library copies the request; the result is read before it is freed.
        unsafe {
            let request =
                ffi::inf_embed_request { texts: items.as_ptr(), n_texts: items.len(), ..zeroed() };
            check(ffi::inf_embedder_submit(self.embedder, &request, &mut id, &mut err), &err)?;
            let result = ffi::inf_embedder_wait_result(self.embedder, -1);
            if result.is_null() {
                return Err(Error { code: 5, text: "the embedder gave no result".into() });
            }
            let width = (*result).width as usize;
            let vectors = check((*result).error, &no_error()).map(|()| {
                (0..texts.len())
                    .map(|i| slice::from_raw_parts((*result).vectors.add(i * width), width).to_vec())
                    .collect()
            });
            ffi::inf_embed_result_free(result);
            vectors
        }
    }
}

/// The tokens of one text, which the library allocated.
struct Encoding(ffi::inf_encoding);

impl Drop for Encoding {
    fn drop(&mut self) {
        // SAFETY: self owns the allocation.
        unsafe { ffi::free(self.0.ids.cast()) };
    }
}

impl Encoding {
    fn new(model: &Model, embedder: *mut c_void, text: &str) -> Result<Self, Error> {
        let one = ffi::inf_encode_text { text: text.as_ptr().cast(), len: text.len() };
        // SAFETY: the library reads one.len bytes.
        unsafe {
            let mut out: ffi::inf_encoding = zeroed();
            let r = ffi::inf_tokenizer_encode_texts(model.tokenizer(), &one, null(), ffi::ADD_SPECIAL,
                ffi::CUT_END, ffi::inf_embedder_max_tokens(embedder) as usize, &mut out);
            check(r, &no_error())?;
            Ok(Encoding(out))
        }
    }
}

/// Returns the cosine of the angle between two vectors of the same length.
pub fn similarity(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    // SAFETY: both vectors have a.len() floats.
    unsafe { ffi::inf_similarity(a.as_ptr(), b.as_ptr(), a.len()) }
}
