#!/usr/bin/env python3
"""The retrieval server that search agents are usually trained against, in Python: the peer of serve_load.py.

    serve_peer.py --vectors V.npy --corpus C.jsonl --model DIR [--encoder st|ort] [--onnx FILE] [--port 8000] [--top-k 3]
                  [--threads 2] [--inflight N]

V.npy holds float32 [rows, dims]; line i of C.jsonl is the passage of row i. DIR is a hub folder with an encoder.
The shape is that of Search-R1's server: FastAPI on uvicorn, one synchronous endpoint (so requests run in a thread pool,
each by itself), queries embedded and searched in batches of 512, faiss IndexFlatIP in memory, documents by row number.
Where the field's servers differ, the choice here is the faster one: no access log, no progress bar, passages parsed
beforehand, and within those 512 the encoder takes 32 at a time, sorted by length. `--inflight` caps the thread pool (40 by default).
Needs fastapi, uvicorn, faiss-cpu and sentence-transformers (`st`) or onnxruntime and tokenizers (`ort`).
"""
import argparse
import json
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import List, Optional

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import anyio.to_thread
import faiss
import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

BATCH, ENCODER_BATCH, MAX_LENGTH = 512, 32, 256


class QueryRequest(BaseModel):
    queries: List[str]
    topk: Optional[int] = None
    return_scores: bool = False


# ---- encoders: list of texts -> float32 [n, dims], each of length 1 ----

def query_prefix(folder):
    """What the model's family puts before a query, told by its name as the field's servers do."""
    name = json.loads((folder / "config.json").read_text()).get("_name_or_path", "") + folder.name
    if "e5" in name.lower():
        return "query: "
    return "Represent this sentence for searching relevant passages: " if "bge" in name.lower() else ""


def torch_encoder(folder, threads):
    import torch
    from sentence_transformers import SentenceTransformer
    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = MAX_LENGTH

    def encode(texts):
        return model.encode(texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False, batch_size=ENCODER_BATCH)
    return encode


def onnx_encoder(folder, graph, threads):
    import onnxruntime
    from tokenizers import Tokenizer
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    names = {entry.name for entry in session.get_inputs()}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_LENGTH)
    tokenizer.no_padding()

    def run(tokens):
        width = max(len(t.ids) for t in tokens)
        for t in tokens:
            t.pad(width)
        mask = np.array([t.attention_mask for t in tokens], np.int64)
        feed = {"input_ids": np.array([t.ids for t in tokens], np.int64), "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
        hidden = session.run(None, {name: array for name, array in feed.items() if name in names})[0]
        pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).astype(np.float32)

    def encode(texts):
        tokens = tokenizer.encode_batch(texts)
        order = sorted(range(len(texts)), key=lambda i: len(tokens[i].ids))
        vectors = np.concatenate([run([tokens[i] for i in order[s : s + ENCODER_BATCH]]) for s in range(0, len(order), ENCODER_BATCH)])
        return vectors[np.argsort(order)]
    return encode


# ---- the server ----

class Retriever:
    def __init__(self, encode, prefix, vectors, corpus):
        self.encode, self.prefix = encode, prefix
        self.index = faiss.IndexFlatIP(vectors.shape[1])
        self.index.add(vectors)
        with open(corpus, encoding="utf-8") as lines:
            self.corpus = [json.loads(line) for line in lines]
        if len(self.corpus) != len(vectors):
            raise SystemExit(f"`{corpus}` has {len(self.corpus)} passages, the vectors have {len(vectors)} rows; give files of one index")

    def batch_search(self, queries, top_k):
        scores, documents = [], []
        for start in range(0, len(queries), BATCH):
            vectors = self.encode([self.prefix + query for query in queries[start : start + BATCH]])
            found, rows = self.index.search(vectors, top_k)
            scores += found.tolist()
            documents += [[self.corpus[row] for row in of_query] for of_query in rows.tolist()]
        return scores, documents


def application(retriever, default_top_k, inflight):
    @asynccontextmanager
    async def lifespan(_):
        if inflight:
            anyio.to_thread.current_default_thread_limiter().total_tokens = inflight
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/retrieve")
    def retrieve(request: QueryRequest):
        scores, documents = retriever.batch_search(request.queries, request.topk or default_top_k)
        if not request.return_scores:
            return {"result": documents}
        return {"result": [[{"document": document, "score": score} for document, score in zip(*pair)] for pair in zip(documents, scores)]}

    return app


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="hub folder")
    parser.add_argument("--onnx", type=Path, help="the graph for `ort`, giving token vectors; DIR/onnx/model.onnx if not given")
    parser.add_argument("--encoder", choices=["st", "ort"], default="st")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--top-k", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inflight", type=int, default=0, help="requests worked on at once; 0 leaves Starlette's 40")
    args = parser.parse_args()

    faiss.omp_set_num_threads(args.threads)
    if args.encoder == "st":
        encode = torch_encoder(args.model, args.threads)
    else:
        encode = onnx_encoder(args.model, args.onnx or args.model / "onnx/model.onnx", args.threads)
    retriever = Retriever(encode, query_prefix(args.model), np.load(args.vectors), args.corpus)
    uvicorn.run(application(retriever, args.top_k, args.inflight), host=args.host, port=args.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
