"""How do the linear layers of an exported graph compute: in float32, or in int8?

Every function here that writes layers has the same shape, `linear(graph, site, x, layers)`: `site` names the place in
the model, `x` the common input, `layers` the (weight [inputs, outputs], bias [outputs]) pairs; it returns the outputs.

Weights are signed 8 bit with one scale an output channel, activations unsigned 8 bit with one scale a tensor: the pair
that the VNNI instructions multiply. Attention, softmax, normalisation and the activation function stay float32.
Static scales are taken after smoothing (Xiao et al. 2022, "SmoothQuant", arXiv:2211.10438): a few input channels of
these models are ten times larger than the rest, so each channel is divided by a factor that its weights take up.
"""
import json

import numpy as np
from onnx import TensorProto, helper

SMOOTHING = 0.9  # share of a channel's range that moves to the weights; the best of 0.5 to 1.0 on MiniLM-L6
TINY = np.float32(1e-5)


class CalibrationError(Exception):
    """Calibration texts that cannot be used; the message says what to do."""


def float_linear(graph, site, x, layers):
    return [graph.op("Add", graph.op("MatMul", x, graph.weight(w)), graph.constant(b)) for w, b in layers]


def dynamic_linear(graph, site, x, layers):
    """Activations get their scale from their own range at run time."""
    quantized, scale, zero = (f"{site}.{part}" for part in ("quantized", "scale", "zero"))
    graph.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], [quantized, scale, zero], name=quantized))
    return [integer_linear(graph, quantized, scale, zero, w, b) for w, b in layers]


class StaticLinear:
    """Activations have fixed scales, from the channel ranges that calibration saw at each site."""

    def __init__(self, ranges):
        self.ranges = ranges
        self.graph = self.one = None

    def __call__(self, graph, site, x, layers):
        if self.graph is not graph:
            # Runtimes fuse an integer product, its scale and its bias into one kernel when the scale is computed at
            # run time, as in a dynamic graph. The mask's maximum, always 1, makes a fixed scale look so.
            self.graph = graph
            self.one = graph.op("Cast", graph.op("ReduceMax", "attention_mask", keepdims=0), to=TensorProto.FLOAT)
        low, high = self.ranges[site]
        factors = smoothing_factors(low, high, [w for w, _ in layers])
        low, high = min(0.0, (low / factors).min()), max(0.0, (high / factors).max())
        step = np.float32(max(high - low, TINY) / 255)
        zero = graph.constant(np.uint8(np.clip(np.rint(-low / step), 0, 255)))
        smooth = graph.op("Mul", x, graph.constant(1 / factors))
        quantized = graph.op("QuantizeLinear", smooth, graph.constant(step), zero)
        scale = graph.op("Mul", self.one, graph.constant(step))
        return [integer_linear(graph, quantized, scale, zero, w * factors[:, None], b) for w, b in layers]


def integer_linear(graph, quantized, scale, zero, weight, bias):
    steps = np.maximum(np.abs(weight).max(axis=0), TINY) / np.float32(127)
    weight = np.rint(weight / steps).astype(np.int8)
    product = graph.op("MatMulInteger", quantized, graph.constant(weight), zero, graph.constant(np.int8(0)))
    product = graph.op("Cast", product, to=TensorProto.FLOAT)
    return graph.op("Add", graph.op("Mul", product, graph.op("Mul", scale, graph.constant(steps))), graph.constant(bias))


def smoothing_factors(low, high, weights):
    """A factor for each input channel, of geometric mean 1."""
    activation = np.maximum(np.maximum(-low, high), TINY)
    weight = np.maximum(np.max([np.abs(w).max(axis=1) for w in weights], axis=0), TINY)
    factors = activation**SMOOTHING / weight ** (1 - SMOOTHING)
    return (factors / np.exp(np.log(factors).mean())).astype(np.float32)


def observed_linear(sites, graph, site, x, layers):
    """Float layers that note in `sites` which tensor enters them."""
    sites[site] = x
    return float_linear(graph, site, x, layers)


def observe(model, sites, tokens):
    """The range of every channel at every site over the token lists: {site: (low [inputs], high [inputs])}."""
    import onnxruntime

    watched = list(dict.fromkeys(sites.values()))
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in watched)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ranges = {}
    for ids in tokens:
        ids = np.asarray([ids], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        for name, value in zip(watched, session.run(watched, feed)):
            low, high = ranges.get(name, (np.inf, -np.inf))
            ranges[name] = np.minimum(low, value[0].min(axis=0)), np.maximum(high, value[0].max(axis=0))
    return {site: ranges[name] for site, name in sites.items()}


def read_texts(path, limit):
    """The first `limit` texts of a JSONL file of passages or questions."""
    texts = []
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if len(texts) == limit:
                    break
                record = json.loads(line)
                text = next((record[key] for key in ("contents", "text", "question") if key in record), None)
                if text is None:
                    raise CalibrationError(f"`{path}` line {number} has no `contents`, `text` or `question`")
                texts.append(text)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CalibrationError(f"cannot read `{path}`: {error}") from error
    if not texts:
        raise CalibrationError(f"`{path}` is empty: expected one JSON object a line")
    return texts


def tokenize(path, texts, positions, max_length=256):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(min(max_length, positions))
    return [tokenizer.encode(text).ids for text in texts]
