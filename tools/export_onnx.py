#!/usr/bin/env python3
"""Write the ONNX graph of a BERT-family encoder from a hub-layout folder, without a deep-learning framework.

    export_onnx.py MODEL_DIR OUT.onnx                       fp32
    export_onnx.py MODEL_DIR OUT.onnx --fp16                fp16 weights, fp32 arithmetic
    export_onnx.py MODEL_DIR OUT.onnx --quantize dynamic    int8 weights, activations scaled once a run
    export_onnx.py MODEL_DIR OUT.onnx --quantize static --calibrate passages.jsonl
                                                            int8 weights, activation scales fixed by calibration

MODEL_DIR holds `config.json` and `model.safetensors` (model_type bert, roberta or xlm-roberta); calibration also
reads `tokenizer.json`. Needs numpy, onnx and safetensors; calibration also onnxruntime and tokenizers.

The graph takes input_ids, attention_mask and token_type_ids, int64 [batch, sequence], padded on the right, and gives
last_hidden_state, float32 [batch, sequence, hidden]. Only standard operators are used, so any runtime can read it.
With dynamic quantization one scale serves the whole batch: run one text at a time, or its vector depends on its
neighbours. The other graphs have no such tie.
"""
import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

import quantize

OPSET = 20  # the first with Gelu
MASKED = np.float32(-1e9)  # softmax gives exactly 0, and no sum overflows
PROTOBUF_LIMIT = 2**31 - 1
ACTIVATIONS = {
    "gelu": ("Gelu", {}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
}


class ExportError(Exception):
    """A checkpoint that this tool cannot export; the message says what to do."""


class Graph:
    """Nodes and constants in the making. `op` returns the name of the node's output."""

    def __init__(self, fp16=False):
        self.fp16 = fp16
        self.nodes, self.constants = [], {}

    def constant(self, value):
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def op(self, kind, *inputs, output=None, **attributes):
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def weight(self, value):
        """A float32 weight, stored in 16 bits if the graph is."""
        if not self.fp16:
            return self.constant(value)
        return self.op("Cast", self.constant(value.astype(np.float16)), to=TensorProto.FLOAT)

    def rows(self, table, ids):
        """Rows of an embedding table. A 16-bit table is widened after the look-up, so it stays small in memory."""
        if not self.fp16:
            return self.op("Gather", self.constant(table), ids)
        return self.op("Cast", self.op("Gather", self.constant(table.astype(np.float16)), ids), to=TensorProto.FLOAT)

    def model(self, hidden, metadata):
        ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
               for name in ("input_ids", "attention_mask", "token_type_ids")]
        state = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", hidden])
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "encoder", ids, [state], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10,
                                  producer_name="export_onnx")
        helper.set_model_props(model, metadata)
        return model


class Checkpoint:
    """The configuration and the tensors of a hub-layout folder."""

    def __init__(self, folder):
        config_path, weights_path = folder / "config.json", folder / "model.safetensors"
        for path in (config_path, weights_path):
            if not path.is_file():
                raise ExportError(f"`{path}` is missing: expected a folder with `config.json` and `model.safetensors`")
        self.path, self.config = weights_path, json.loads(config_path.read_text())
        kind = self.config.get("model_type")
        if kind not in ("bert", "roberta", "xlm-roberta"):
            raise ExportError(f"`{config_path}` has model_type `{kind}`: expected `bert`, `roberta` or `xlm-roberta`")
        if self.config.get("position_embedding_type", "absolute") != "absolute":
            raise ExportError(f"`{config_path}` asks for relative positions: only absolute ones can be exported")
        if self.config["hidden_act"] not in ACTIVATIONS:
            raise ExportError(f"`{config_path}` has hidden_act `{self.config['hidden_act']}`: "
                              f"expected one of {', '.join(ACTIVATIONS)}")
        # A checkpoint with a task head has its encoder under the name of the family.
        tensors = load_file(weights_path)
        self.tensors = {name.removeprefix("bert.").removeprefix("roberta."): t for name, t in tensors.items()}
        # RoBERTa's tables keep the rows up to the padding token's free.
        self.first_position = 0 if kind == "bert" else self.config["pad_token_id"] + 1

    def tensor(self, name):
        if name not in self.tensors:
            raise ExportError(f"`{self.path}` has no tensor `{name}`: it is not a checkpoint of this family")
        return self.tensors[name].astype(np.float32)

    def linear(self, name, scale=1.0):
        """Weight [inputs, outputs] and bias [outputs] of a linear layer, both times `scale`."""
        scale = np.float32(scale)
        return np.ascontiguousarray(self.tensor(name + ".weight").T) * scale, self.tensor(name + ".bias") * scale


def encoder(checkpoint, linear, fp16=False):
    """The graph of the whole encoder. `linear(graph, site, x, layers)` writes linear layers that share the input `x`."""
    config, g = checkpoint.config, Graph(fp16)
    hidden, heads = config["hidden_size"], config["num_attention_heads"]

    def norm(x, name, output=None):
        scale, bias = (g.constant(checkpoint.tensor(f"{name}.{part}")) for part in ("weight", "bias"))
        return g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=config["layer_norm_eps"], output=output)

    def embeddings():
        # The slice hides from onnxruntime that both sides of every residual sum have the same shape. That is wanted: its
        # fused SkipLayerNormalization is much slower on CPUs than the separate sum and norm (10 % of a whole fp32 run).
        length = g.op("Slice", g.op("Shape", "input_ids"), g.constant([1]), g.constant([2]))
        first = checkpoint.first_position
        words, kinds, places = (checkpoint.tensor(f"embeddings.{part}_embeddings.weight")
                                for part in ("word", "token_type", "position"))
        places = g.op("Slice", g.weight(places[first:]), g.constant([0]), length, g.constant([0]))
        x = g.op("Add", g.rows(words, "input_ids"), g.rows(kinds, "token_type_ids"))
        return norm(g.op("Add", x, places), "embeddings.LayerNorm")

    mask = g.op("Unsqueeze", g.op("Cast", "attention_mask", to=TensorProto.FLOAT), g.constant([1, 2]))
    mask = g.op("Mul", g.op("Sub", g.constant(np.float32(1)), mask), g.constant(MASKED))
    split, join = g.constant([0, 0, heads, hidden // heads]), g.constant([0, 0, hidden])

    def attention(x, name):
        # The query's weights carry the 1/sqrt(head size) of the attention scores.
        layers = [checkpoint.linear(f"{name}.query", (hidden // heads) ** -0.5),
                  checkpoint.linear(f"{name}.key"), checkpoint.linear(f"{name}.value")]
        query, key, value = (g.op("Reshape", y, split) for y in linear(g, name, x, layers))
        query, key, value = (g.op("Transpose", y, perm=perm) for y, perm in
                             ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3])))
        weights = g.op("Softmax", g.op("Add", g.op("MatMul", query, key), mask), axis=-1)
        return g.op("Reshape", g.op("Transpose", g.op("MatMul", weights, value), perm=[0, 2, 1, 3]), join)

    def dense(x, name):
        return linear(g, name, x, [checkpoint.linear(name)])[0]

    activation, attributes = ACTIVATIONS[config["hidden_act"]]
    x, layers = embeddings(), config["num_hidden_layers"]
    for layer in range(layers):
        name, last = f"encoder.layer.{layer}", layer == layers - 1
        y = dense(attention(x, f"{name}.attention.self"), f"{name}.attention.output.dense")
        x = norm(g.op("Add", y, x), f"{name}.attention.output.LayerNorm")
        y = g.op(activation, dense(x, f"{name}.intermediate.dense"), **attributes)
        y = g.op("Add", dense(y, f"{name}.output.dense"), x)
        x = norm(y, f"{name}.output.LayerNorm", "last_hidden_state" if last else None)
    return g


def export(folder, out, quantization="none", fp16=False, calibration=None, samples=256):
    """Export the checkpoint in `folder` to the file `out`; `quantization` is none, dynamic or static."""
    out.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(folder)
    linear = quantize.float_linear
    if quantization == "dynamic":
        linear = quantize.dynamic_linear
    elif quantization == "static":
        sites, hidden = {}, checkpoint.config["hidden_size"]
        graph = encoder(checkpoint, lambda g, site, x, layers: quantize.observed_linear(sites, g, site, x, layers))
        texts = quantize.read_texts(calibration, samples)
        tokens = quantize.tokenize(folder / "tokenizer.json", texts, checkpoint.config["max_position_embeddings"])
        linear = quantize.StaticLinear(quantize.observe(graph.model(hidden, {}), sites, tokens))
    graph = encoder(checkpoint, linear, fp16)
    model = graph.model(checkpoint.config["hidden_size"], {"quantization": quantization})
    if model.ByteSize() > PROTOBUF_LIMIT:
        raise ExportError(f"the graph of `{folder}` takes {model.ByteSize()} bytes, more than an ONNX file can hold: "
                          "use `--fp16` or `--quantize`")
    onnx.checker.check_model(model)
    partial = out.with_name(out.name + ".partial")
    partial.write_bytes(model.SerializeToString())
    os.replace(partial, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fp16", action="store_true", help="store weights that stay floats in 16 bits")
    parser.add_argument("--quantize", choices=["none", "dynamic", "static"], default="none")
    parser.add_argument("--calibrate", type=Path, metavar="JSONL", help="texts for static quantization, one object a line")
    parser.add_argument("--samples", type=int, default=256, help="texts of the calibration file to use (default 256)")
    args = parser.parse_args()
    if (args.quantize == "static") != (args.calibrate is not None):
        parser.error("`--quantize static` and `--calibrate FILE` go together")
    try:
        export(args.model_dir, args.out, args.quantize, args.fp16, args.calibrate, args.samples)
    except (ExportError, quantize.CalibrationError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
