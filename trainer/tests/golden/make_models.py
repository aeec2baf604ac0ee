"""Writes `models/` and `models.json`: tiny random models as transformers writes them, and what is in their tensors.

Made with torch 2.15, transformers 5.10.4, tokenizers 0.22.2 (CPU): `python make_models.py`.
"""

import json
import shutil
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
TEXT = [
    "The search engine finds passages, and the policy reads them before it answers.",
    "Who discovered radium? Marie Curie and Pierre Curie discovered radium in 1898.",
    "<search> capital of France </search> <information> Paris </information> <answer> Paris </answer>",
    "Größe, naïve, café, coöperate; Ελλάδα; Москва; 東京 and 京都; 🙂 and 🙃.",
    "    for number in range(12345):\n        print(number)\n\n\n",
    "It's what they've said, that we'll see and that I'd know.",
]
COMMON = dict(
    vocab_size=384,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    bos_token_id=None,
    pad_token_id=None,
)
MODELS = {
    "llama": (
        "Llama",
        dict(
            tie_word_embeddings=False,
            rms_norm_eps=1e-5,
            eos_token_id=[0, 2],
            rope_parameters=dict(
                rope_type="llama3",
                rope_theta=500000.0,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ),
        torch.float32,
        "5GB",
    ),
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True, eos_token_id=2), torch.bfloat16, "5GB"),
    "qwen3": ("Qwen3", dict(tie_word_embeddings=True, eos_token_id=2, head_dim=16), torch.float16, "30KB"),
}


def tokenizer():
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=374,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(TEXT * 4, trainer)
    bpe.add_special_tokens(["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
    bpe.add_tokens([AddedToken(text, normalized=False) for text in ("<tool_call>", "</tool_call>")])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<|begin_of_text|>", eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )


def main():
    torch.manual_seed(7)
    folder = HERE / "models"
    shutil.rmtree(folder, ignore_errors=True)
    facts = {}
    for name, (family, fields, dtype, shard) in MODELS.items():
        config = getattr(transformers, f"{family}Config")(**COMMON, **fields)
        model = getattr(transformers, f"{family}ForCausalLM")(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape) * 0.1 + (parameter.dim() == 1))
        model = model.to(dtype)
        model.save_pretrained(folder / name, max_shard_size=shard)
        tensors = dict(model.named_parameters())
        facts[name] = {
            tensor: {
                "shape": list(value.shape),
                "sum": value.double().sum().item(),
                "first": value.flatten()[:3].float().tolist(),
                "last": value.flatten()[-3:].float().tolist(),
            }
            for tensor, value in tensors.items()
        }
    words = tokenizer()
    words.chat_template = (HERE / "templates" / "default_system.jinja").read_text()
    words.save_pretrained(folder / "llama")
    (HERE / "models.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
