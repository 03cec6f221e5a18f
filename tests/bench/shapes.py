# SPDX-License-Identifier: Apache-2.0
"""Describes the shapes of well-known models, and what GGUF files of each architecture contain:
their keys, and the names and shapes of their tensors."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    """Holds the hyperparameters of a model. A number of 0 means that the model has no such part."""

    arch: str
    n_layers: int
    embd: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    vocab: int
    tied: bool = True
    # Experts: how many there are, how many a token uses, and the widths of one expert and of the
    # shared one.
    experts: int = 0
    used: int = 0
    expert_ff: int = 0
    shared_ff: int = 0
    # Recurrent layers: heads of keys and of values. Their size is 128, the convolution has 4 taps.
    delta_k_heads: int = 0
    delta_v_heads: int = 0
    # The size of windows. In models with windows, every @every-th layer is full: it attends to the
    # whole context.
    window: int = 0
    every: int = 4
    full_dim: int = 0
    full_kv_heads: int = 0
    # Layers that read the keys and values of earlier layers, and the width of per-layer embeddings.
    shared_kv: int = 0
    per_layer: int = 0
    k_is_v: bool = False
    mtp: bool = False  # a layer after the others predicts a further token

    def smaller(self, n_layers, vocab, untied=False, mtp=False):
        """Returns this shape with other numbers of layers and of tokens, where they are given, with
        a head of its own if @untied is set, and with a layer that predicts a further token if @mtp
        is set."""
        n = n_layers or self.n_layers
        return dataclasses.replace(self, n_layers=n, vocab=vocab or self.vocab, mtp=mtp,
                                   tied=self.tied and not untied,
                                   shared_kv=self.shared_kv * n // self.n_layers)

    def is_full(self, i):
        return (i + 1) % self.every == 0


QWEN35 = {"delta_k_heads": 16}
MOE = {"used": 8, "tied": False}
GEMMA4 = {"vocab": 262144, "head_dim": 256, "full_dim": 512}
SHAPES = {
    # arch, layers, width, heads, KV heads, head size, FFN, vocabulary
    "tiny": Shape("qwen3", 2, 256, 4, 2, 64, 512, 1024),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151936),
    "qwen3-1.7b": Shape("qwen3", 28, 2048, 16, 8, 128, 6144, 151936),
    "qwen3-4b": Shape("qwen3", 36, 2560, 32, 8, 128, 9728, 151936),
    "qwen3-8b": Shape("qwen3", 36, 4096, 32, 8, 128, 12288, 151936, tied=False),
    "llama3.2-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128256),
    "llama3.1-8b": Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256, tied=False),
    "tinyllama-1.1b": Shape("llama", 22, 2048, 32, 4, 64, 5632, 32000, tied=False),
    "tiny-hybrid": Shape("qwen35", 4, 256, 4, 2, 256, 512, 1024, delta_v_heads=32, **QWEN35),
    "qwen3.5-0.8b": Shape("qwen35", 24, 1024, 8, 2, 256, 3584, 248320, delta_v_heads=16, **QWEN35),
    "qwen3.5-4b": Shape("qwen35", 32, 2560, 16, 4, 256, 9216, 248320, delta_v_heads=32, **QWEN35),
    "qwen3.5-35b-a3b": Shape("qwen35moe", 40, 2048, 16, 2, 256, 0, 248320, experts=256,
                             expert_ff=512, shared_ff=512, delta_v_heads=32, **QWEN35, **MOE),
    "qwen3-30b-a3b": Shape("qwen3moe", 48, 2048, 32, 4, 128, 6144, 151936, experts=128,
                           expert_ff=768, **MOE),
    "gemma4-e2b": Shape("gemma4", 35, 1536, 8, 1, ff=6144, window=512, every=5, shared_kv=20,
                        per_layer=256, **GEMMA4),
    "gemma3n-e2b": Shape("gemma3n", 30, 2048, 8, 2, 256, 8192, 262400, window=512, every=5,
                         shared_kv=10, per_layer=256),
    "gemma4-26b-a4b": Shape("gemma4", 30, 2816, 16, 8, ff=2112, window=1024, every=6,
                            full_kv_heads=2, k_is_v=True, experts=128, used=8, expert_ff=704,
                            **GEMMA4),
    "gpt-oss-20b": Shape("gpt-oss", 24, 2880, 64, 8, 64, 2880, 201088, tied=False, experts=32,
                         used=4, expert_ff=2880, window=128, every=2),
    "bitnet-2b": Shape("bitnet", 30, 2560, 20, 5, 128, 6912, 128256),
}


class Decoder:
    """Writes the keys and the tensors of Llama and Qwen3, with or without experts. The classes of
    the other families inherit from this class, and override what differs."""

    theta, eps = 1e6, 1e-6
    qk_norm, ffn_norm = True, "ffn_norm"

    def __init__(self, model, shape):
        self.m, self.s = model, shape
        self.rope_dim = shape.head_dim
        self.keys()

    def uints(self, *pairs):
        for key, value in pairs:
            self.m.file.add_uint("%s.%s" % (self.s.arch, key), value)

    def keys(self):
        s, w = self.s, self.m.file
        self.uints(("block_count", s.n_layers + s.mtp), ("context_length", 32768),
                   ("embedding_length", s.embd), ("attention.head_count", s.heads),
                   ("vocab_size", s.vocab), ("rope.dimension_count", self.rope_dim))
        self.head_keys()
        self.ff_keys()
        if s.experts:
            self.uints(("expert_count", s.experts), ("expert_used_count", s.used),
                       ("expert_feed_forward_length", s.expert_ff))
        w.add_float(s.arch + ".rope.freq_base", self.theta)
        w.add_float(s.arch + ".attention.layer_norm_rms_epsilon", self.eps)

    def head_keys(self):
        self.uints(("attention.head_count_kv", self.s.kv_heads),
                   ("attention.key_length", self.s.head_dim),
                   ("attention.value_length", self.s.head_dim))

    def ff_keys(self):
        if self.s.ff:
            self.uints(("feed_forward_length", self.s.ff))

    def whole(self):
        """Adds the tensors that belong to no layer, except those that all models have."""

    def attention(self, i, p):
        s, m = self.s, self.m
        m.matrix(p + "attn_q.weight", s.heads * s.head_dim, s.embd, i)
        m.matrix(p + "attn_k.weight", s.kv_heads * s.head_dim, s.embd, i)
        m.matrix(p + "attn_v.weight", s.kv_heads * s.head_dim, s.embd, i)
        if self.qk_norm:
            m.vector(p + "attn_q_norm.weight", s.head_dim)
            m.vector(p + "attn_k_norm.weight", s.head_dim)
        m.matrix(p + "attn_output.weight", s.embd, s.heads * s.head_dim, i)

    def gated(self, i, p, ff, suffix=""):
        m, embd = self.m, self.s.embd
        m.matrix(p + "ffn_gate%s.weight" % suffix, ff, embd, i)
        m.matrix(p + "ffn_up%s.weight" % suffix, ff, embd, i)
        m.matrix(p + "ffn_down%s.weight" % suffix, embd, ff, i)

    def experts(self, i, p):
        s, m = self.s, self.m
        m.matrix(p + "ffn_gate_inp.weight", s.experts, s.embd, i)
        m.matrix(p + "ffn_gate_exps.weight", s.expert_ff, s.embd, i, s.experts)
        m.matrix(p + "ffn_up_exps.weight", s.expert_ff, s.embd, i, s.experts)
        m.matrix(p + "ffn_down_exps.weight", s.embd, s.expert_ff, i, s.experts)

    def layer(self, i, p):
        self.m.vector(p + "attn_norm.weight", self.s.embd)
        self.attention(i, p)
        self.m.vector(p + self.ffn_norm + ".weight", self.s.embd)
        if self.s.experts:
            self.experts(i, p)
        else:
            self.gated(i, p, self.s.ff)


class Llama(Decoder):
    qk_norm = False


class BitNet(Decoder):
    """Writes BitNet b1.58, which has norms before the last matrices of attention and feed-forward."""

    theta, eps, qk_norm = 5e5, 1e-5, False

    def gated(self, i, p, ff, suffix=""):
        super().gated(i, p, ff, suffix)
        self.m.vector(p + "attn_sub_norm.weight", self.s.heads * self.s.head_dim)
        self.m.vector(p + "ffn_sub_norm.weight", ff)


class Hybrid(Decoder):
    """Writes Qwen 3.5: recurrent layers, and attention with a gate in every fourth layer."""

    theta = 1e7
    ffn_norm = "post_attention_norm"
    head = 128  # size of a head of the recurrent layers

    def __init__(self, model, shape):
        super().__init__(model, shape)
        self.m.file.add_ints(shape.arch + ".rope.dimension_sections", [11, 11, 10, 0])

    def keys(self):
        s = self.s
        self.rope_dim = s.head_dim // 4
        super().keys()
        self.uints(("full_attention_interval", s.every), ("ssm.conv_kernel", 4),
                   ("ssm.state_size", self.head), ("ssm.group_count", s.delta_k_heads),
                   ("ssm.time_step_rank", s.delta_v_heads),
                   ("ssm.inner_size", s.delta_v_heads * self.head))
        if s.mtp:
            self.uints(("nextn_predict_layers", 1))
        if s.shared_ff:
            self.uints(("expert_shared_feed_forward_length", s.shared_ff))

    def attention(self, i, p):
        s, m = self.s, self.m
        if not s.is_full(i) and i < s.n_layers:
            self.recurrent(i, p)
            return
        m.matrix(p + "attn_q.weight", 2 * s.heads * s.head_dim, s.embd, i)
        m.matrix(p + "attn_k.weight", s.kv_heads * s.head_dim, s.embd, i)
        m.matrix(p + "attn_v.weight", s.kv_heads * s.head_dim, s.embd, i)
        m.vector(p + "attn_q_norm.weight", s.head_dim)
        m.vector(p + "attn_k_norm.weight", s.head_dim)
        m.matrix(p + "attn_output.weight", s.embd, s.heads * s.head_dim, i)

    def predictor(self, i, p):
        """Adds the layer that predicts a further token."""
        embd = self.s.embd
        self.layer(i, p)
        self.m.matrix(p + "nextn.eh_proj.weight", embd, 2 * embd, i)
        for name in ("enorm", "hnorm", "shared_head_norm"):
            self.m.vector(p + "nextn.%s.weight" % name, embd)

    def recurrent(self, i, p):
        s, m = self.s, self.m
        n_v = s.delta_v_heads
        values = n_v * self.head
        qkv = 2 * s.delta_k_heads * self.head + values
        m.matrix(p + "attn_qkv.weight", qkv, s.embd, i)
        m.matrix(p + "attn_gate.weight", values, s.embd, i)
        m.vector(p + "ssm_conv1d.weight", 4, -0.6, 0.6, rows=qkv)
        m.vector(p + "ssm_a", n_v, -8, -0.1)
        m.vector(p + "ssm_dt.bias", n_v, -6, -2)
        m.matrix(p + "ssm_alpha.weight", n_v, s.embd, i)
        m.matrix(p + "ssm_beta.weight", n_v, s.embd, i)
        m.vector(p + "ssm_norm.weight", self.head)
        m.matrix(p + "ssm_out.weight", s.embd, values, i)

    def experts(self, i, p):
        super().experts(i, p)
        self.m.vector(p + "ffn_gate_inp_shexp.weight", self.s.embd, -0.05, 0.05)
        self.gated(i, p, self.s.shared_ff, "_shexp")


class Gemma4(Decoder):
    """Writes Gemma 4: windows, two sizes of heads, shared keys and values, per-layer embeddings,
    and experts beside the feed-forward part."""

    def head_keys(self):
        s, w = self.s, self.m.file
        layers = range(s.n_layers)
        if s.full_kv_heads:
            w.add_ints(s.arch + ".attention.head_count_kv", [self.kv_heads(i) for i in layers])
        else:
            self.uints(("attention.head_count_kv", s.kv_heads))
        self.uints(("attention.key_length", s.full_dim), ("attention.value_length", s.full_dim),
                   ("attention.key_length_swa", s.head_dim),
                   ("attention.value_length_swa", s.head_dim),
                   ("rope.dimension_count_swa", s.head_dim),
                   ("attention.sliding_window", s.window),
                   ("attention.shared_kv_layers", s.shared_kv),
                   ("embedding_length_per_layer_input", s.per_layer))
        w.add_bools(s.arch + ".attention.sliding_window_pattern",
                    [not s.is_full(i) for i in layers])
        w.add_float(s.arch + ".rope.freq_base_swa", 1e4)
        w.add_float(s.arch + ".final_logit_softcapping", 30)

    def keys(self):
        self.rope_dim = self.s.full_dim
        super().keys()

    def ff_keys(self):
        self.m.file.add_ints(self.s.arch + ".feed_forward_length",
                             [self.ff(i) for i in range(self.s.n_layers)])

    def shares(self, i):
        return i >= self.s.n_layers - self.s.shared_kv

    def ff(self, i):
        """Layers that share keys and values have a feed-forward part of twice the width."""
        return self.s.ff * (2 if self.shares(i) else 1)

    def kv_heads(self, i):
        full = self.s.full_kv_heads and self.s.is_full(i)
        return self.s.full_kv_heads if full else self.s.kv_heads

    def whole(self):
        s, m = self.s, self.m
        rotated = s.full_dim // 8
        m.values("rope_freqs.weight", [1.0] * rotated + [1e30] * (s.full_dim // 2 - rotated))
        if s.per_layer:
            m.matrix("per_layer_token_embd.weight", s.vocab, s.per_layer * s.n_layers)
            m.matrix("per_layer_model_proj.weight", s.per_layer * s.n_layers, s.embd)
            m.vector("per_layer_proj_norm.weight", s.per_layer)

    def attention(self, i, p):
        s, m = self.s, self.m
        full = s.is_full(i)
        dim = s.full_dim if full else s.head_dim
        unit = dim ** -0.25  # scores are not scaled, so the norms keep them small
        m.matrix(p + "attn_q.weight", s.heads * dim, s.embd, i)
        m.vector(p + "attn_q_norm.weight", dim, 0.8 * unit, 1.2 * unit)
        if not self.shares(i):
            m.matrix(p + "attn_k.weight", self.kv_heads(i) * dim, s.embd, i)
            m.vector(p + "attn_k_norm.weight", dim, 0.8 * unit, 1.2 * unit)
            if not (full and s.k_is_v):
                m.matrix(p + "attn_v.weight", self.kv_heads(i) * dim, s.embd, i)
        m.matrix(p + "attn_output.weight", s.embd, s.heads * dim, i)
        m.vector(p + "post_attention_norm.weight", s.embd)

    def experts(self, i, p):
        s, m = self.s, self.m
        m.matrix(p + "ffn_gate_inp.weight", s.experts, s.embd, i)
        m.vector(p + "ffn_gate_inp.scale", s.embd)
        m.vector(p + "ffn_down_exps.scale", s.experts)
        m.matrix(p + "ffn_gate_up_exps.weight", 2 * s.expert_ff, s.embd, i, s.experts)
        m.matrix(p + "ffn_down_exps.weight", s.embd, s.expert_ff, i, s.experts)
        for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
            m.vector(p + name + ".weight", s.embd)

    def layer(self, i, p):
        s, m = self.s, self.m
        m.vector(p + "attn_norm.weight", s.embd)
        self.attention(i, p)
        m.vector(p + "ffn_norm.weight", s.embd)
        self.gated(i, p, self.ff(i))
        if s.experts:
            self.experts(i, p)
        m.vector(p + "post_ffw_norm.weight", s.embd)
        if s.per_layer:
            m.matrix(p + "inp_gate.weight", s.per_layer, s.embd, i)
            m.matrix(p + "proj.weight", s.embd, s.per_layer, i)
            m.vector(p + "post_norm.weight", s.embd)
        m.vector(p + "layer_output_scale.weight", 1)


class Gemma3n(Gemma4):
    """Writes Gemma 3n: four streams, of which a layer computes one, and cutoffs in the first 10
    layers; the rest is as in Gemma 4."""

    streams, rank = 4, 64

    def head_keys(self):
        s, w = self.s, self.m.file
        Decoder.head_keys(self)
        self.uints(("attention.sliding_window", s.window), ("altup.active_idx", 0),
                   ("altup.num_inputs", self.streams), ("attention.shared_kv_layers", s.shared_kv),
                   ("embedding_length_per_layer_input", s.per_layer))
        w.add_bools(s.arch + ".attention.sliding_window_pattern",
                    [not s.is_full(i) for i in range(s.n_layers)])
        w.add_floats(s.arch + ".activation_sparsity_scale",
                     [1.6448536 if i < 10 else float("-inf") for i in range(s.n_layers)])
        w.add_float(s.arch + ".rope.freq_base_swa", 1e4)
        w.add_float(s.arch + ".final_logit_softcapping", 30)

    def keys(self):
        self.rope_dim = self.s.head_dim
        Decoder.keys(self)

    def ff(self, i):
        return self.s.ff

    def whole(self):
        s, m = self.s, self.m
        for name in ("altup_proj.weight", "altup_unembd_proj.weight"):
            m.matrix(name, s.embd, s.embd, 0, self.streams - 1)
        m.matrix("per_layer_token_embd.weight", s.vocab, s.per_layer * s.n_layers)
        m.matrix("per_layer_model_proj.weight", s.per_layer * s.n_layers, s.embd)
        m.vector("per_layer_proj_norm.weight", s.per_layer)

    def attention(self, i, p):
        s, m = self.s, self.m
        unit = s.head_dim ** -0.25  # scores are not scaled, so the norms keep them small
        m.matrix(p + "attn_q.weight", s.heads * s.head_dim, s.embd, i)
        m.matrix(p + "attn_k.weight", s.kv_heads * s.head_dim, s.embd, i)
        m.matrix(p + "attn_v.weight", s.kv_heads * s.head_dim, s.embd, i)
        m.vector(p + "attn_q_norm.weight", s.head_dim, 0.8 * unit, 1.2 * unit)
        m.vector(p + "attn_k_norm.weight", s.head_dim, 0.8 * unit, 1.2 * unit)
        m.matrix(p + "attn_output.weight", s.embd, s.heads * s.head_dim, i)
        m.vector(p + "post_attention_norm.weight", s.embd)

    def layer(self, i, p):
        s, m = self.s, self.m
        m.vector(p + "attn_norm.weight", s.embd)
        self.attention(i, p)
        m.matrix(p + "laurel_l.weight", self.rank, s.embd, i)
        m.matrix(p + "laurel_r.weight", s.embd, self.rank, i)
        m.vector(p + "ffn_norm.weight", s.embd)
        self.gated(i, p, s.ff)
        m.matrix(p + "inp_gate.weight", s.per_layer, s.embd, i)
        m.matrix(p + "proj.weight", s.embd, s.per_layer, i)
        for name in ("laurel_post_norm", "post_ffw_norm", "post_norm", "altup_router_norm",
                     "altup_correct_scale"):
            m.vector(p + name + ".weight", s.embd)
        m.vector(p + "altup_router.weight", s.embd, -1, 1, self.streams)
        m.vector(p + "altup_correct_coef.weight", self.streams, -0.1, 0.1, self.streams)
        m.vector(p + "altup_predict_coef.weight", self.streams, -0.1, 0.1, self.streams ** 2)


class GptOss(Decoder):
    """Writes gpt-oss: windows in every other layer, sinks, biases, and experts with biases."""

    theta, eps = 150000, 1e-5
    qk_norm, ffn_norm = False, "post_attention_norm"

    def keys(self):
        s, w = self.s, self.m.file
        super().keys()
        self.uints(("attention.sliding_window", s.window),
                   ("rope.scaling.original_context_length", 4096))
        w.add_string(s.arch + ".rope.scaling.type", "yarn")
        w.add_float(s.arch + ".rope.scaling.factor", 32)
        w.add_float(s.arch + ".rope.scaling.yarn_beta_fast", 32)
        w.add_float(s.arch + ".rope.scaling.yarn_beta_slow", 1)

    def attention(self, i, p):
        s, m = self.s, self.m
        super().attention(i, p)
        for name, n in (("attn_q", s.heads * s.head_dim), ("attn_k", s.kv_heads * s.head_dim),
                        ("attn_v", s.kv_heads * s.head_dim), ("attn_output", s.embd)):
            m.vector("%s%s.bias" % (p, name), n, -0.1, 0.1)
        m.vector(p + "attn_sinks.weight", s.heads, -1, 1)

    def experts(self, i, p):
        s, m = self.s, self.m
        super().experts(i, p)
        m.vector(p + "ffn_gate_inp.bias", s.experts, -0.1, 0.1)
        for name, n in (("gate", s.expert_ff), ("up", s.expert_ff), ("down", s.embd)):
            m.vector("%sffn_%s_exps.bias" % (p, name), n, -0.1, 0.1, rows=s.experts)


FAMILIES = {"qwen3": Decoder, "llama": Llama, "qwen3moe": Decoder, "qwen35": Hybrid,
            "qwen35moe": Hybrid, "gemma3n": Gemma3n, "gemma4": Gemma4, "gpt-oss": GptOss,
            "bitnet": BitNet}
