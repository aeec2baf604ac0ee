#!/usr/bin/env python3
"""Make the tiny BERT of the tests: 2 layers of 32, random but fixed weights, in the layout of a sentence-transformers hub folder.

    make_tiny_bert.py tests/fixtures/tiny-bert

Writes configuration, tokenizer, weights and the graphs onnx/model.onnx (fp32), model_fp16.onnx, model_int8.onnx (dynamic)
and model_int8_static.onnx. Like that of all-MiniLM-L6-v2, the tokenizer.json asks for truncation to 128 tokens and padding
to 128, while the model takes 256: a reader that does not override both gets other vectors. Needs numpy, onnx, safetensors,
tokenizers, and onnxruntime for the static graph. Two runs with the same versions give the same bytes.
"""
import argparse
import json
import string
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import export_onnx

HIDDEN, LAYERS, HEADS, INTERMEDIATE, POSITIONS = 32, 2, 2, 64, 256
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
a about after all also an and are as at be because been before between both but by can city country did do during each
film first for from game had has have he her him his how i if in into is it its known language made many more most
name new no north not of on one or other out over part people play river she so some south state such team than that the
their them then there these they this time to town two under up used war was water were what when where which while who
whose why will with world would year years you
""".split()
CALIBRATION = [
    "what is the name of the river in the north of the country", "who made the first film", "1984 was a year", "a", ".",
    "?!", "3.14159", "PARIS", "Zürich & São Paulo", "東京", "x = y + 1;",
    "the team from the new town would play one game each year, but not during the war",
    "Whose language did people know before that time? (It was not known.)", "<b>html</b> \"quotes\" \\ `code` {1: [2, 3]}",
    "The lighthouse stood at the end of a long stone pier, and every evening the keeper climbed its ninety-one steps. " * 5,
]


def vocabulary():
    """Every lower-case ASCII text can be spelled; common words and consonant-vowel pairs are whole."""
    characters = [c for c in string.printable if not c.isspace() and not c.isupper()]
    inner = string.ascii_lowercase + string.digits
    pairs = [c + v for c in string.ascii_lowercase if c not in "aeiou" for v in "aeiou"]
    words = [w for w in WORDS if len(w) > 1 and w not in pairs]
    return SPECIAL + characters + words + pairs + ["##" + piece for piece in [*inner, *pairs, "ing", "ed", "er", "ion", "ly", "es"]]


def write_tokenizer(folder, vocab):
    ids = {token: i for i, token in enumerate(vocab)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])])
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128, pad_id=0, pad_token="[PAD]")
    tokenizer.save(str(folder / "tokenizer.json"))


def weights(vocab_size, seed=20):
    """Weights wide enough that different texts get clearly different vectors."""
    random = np.random.default_rng(seed)

    def normal(scale, *shape):
        return (scale * random.standard_normal(shape)).astype(np.float32)

    def norm(name):
        return {f"{name}.weight": 1 + normal(0.2, HIDDEN), f"{name}.bias": normal(0.1, HIDDEN)}

    def linear(name, outputs, inputs):
        return {f"{name}.weight": normal(1.5 / inputs**0.5, outputs, inputs), f"{name}.bias": normal(0.1, outputs)}

    tensors = {f"embeddings.{part}_embeddings.weight": normal(scale, rows, HIDDEN)
               for part, rows, scale in (("word", vocab_size, 1.0), ("position", POSITIONS, 0.3), ("token_type", 2, 0.3))}
    tensors |= norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            tensors |= linear(f"{name}.attention.self.{part}", HIDDEN, HIDDEN)
        tensors |= linear(f"{name}.attention.output.dense", HIDDEN, HIDDEN) | norm(f"{name}.attention.output.LayerNorm")
        tensors |= linear(f"{name}.intermediate.dense", INTERMEDIATE, HIDDEN)
        tensors |= linear(f"{name}.output.dense", HIDDEN, INTERMEDIATE) | norm(f"{name}.output.LayerNorm")
    return tensors


def configurations(vocab_size):
    """The JSON files of a sentence-transformers folder: {path: content}."""
    return {
        "config.json": {
            "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": HIDDEN,
            "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INTERMEDIATE,
            "layer_norm_eps": 1e-12, "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "vocab_size": vocab_size,
            "pad_token_id": 0, "position_embedding_type": "absolute", "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": POSITIONS, "unk_token": "[UNK]",
            "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "sentence_bert_config.json": {"max_seq_length": POSITIONS, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    vocab = vocabulary()
    for sub in ("1_Pooling", "onnx"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    for path, content in configurations(len(vocab)).items():
        (folder / path).write_text(json.dumps(content, indent=2) + "\n")
    write_tokenizer(folder, vocab)
    save_file(weights(len(vocab)), folder / "model.safetensors")

    calibration = folder / "calibration.jsonl"
    calibration.write_text("".join(json.dumps({"text": text}) + "\n" for text in CALIBRATION))
    export_onnx.export(folder, folder / "onnx/model.onnx")
    export_onnx.export(folder, folder / "onnx/model_fp16.onnx", fp16=True)
    export_onnx.export(folder, folder / "onnx/model_int8.onnx", "dynamic")
    export_onnx.export(folder, folder / "onnx/model_int8_static.onnx", "static", calibration=calibration)
    calibration.unlink()


if __name__ == "__main__":
    main()
