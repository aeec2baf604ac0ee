"""Does transformers load what the trainer wrote, and does it find the same numbers, tokens and chats?

    cargo run -p hindsearch-trainer --example copy_model -- MODEL WRITTEN
    python load_written.py WRITTEN [ORIGINAL]

ORIGINAL is a folder that transformers wrote; with it every tensor is compared. Needs torch and transformers; run by hand.
"""

import argparse

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

# Where each library keeps what changes the numbers.
FIELDS = (
    "architectures hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size vocab_size "
    "max_position_embeddings rope_parameters rms_norm_eps tie_word_embeddings hidden_act"
).split()


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    wrong = {kind: names for kind, names in report.items() if names}
    assert not wrong, wrong
    return model.eval()


def compare(written, original):
    theirs, ours = (dict(load(folder).state_dict()) for folder in (original, written))
    assert theirs.keys() == ours.keys(), theirs.keys() ^ ours.keys()
    worst = max((theirs[name] - ours[name]).abs().max().item() for name in theirs)
    print(f"{len(theirs)} tensors, largest difference {worst}")
    left, right = (AutoConfig.from_pretrained(folder).to_dict() for folder in (original, written))
    for config in (left, right):
        config["head_dim"] = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    different = [name for name in FIELDS if left.get(name) != right.get(name)]
    assert not different, {name: (left.get(name), right.get(name)) for name in different}
    print("configurations agree")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("written")
    parser.add_argument("original", nargs="?")
    arguments = parser.parse_args()
    if arguments.original:
        compare(arguments.written, arguments.original)
    model = load(arguments.written)
    print(type(model).__name__, sum(parameter.numel() for parameter in model.parameters()), "numbers")
    tokenizer = AutoTokenizer.from_pretrained(arguments.written)
    for text in ("Who discovered radium in 1898?", "  naïve 🙂\n\n<tool_call>"):
        print(repr(text), tokenizer.encode(text, add_special_tokens=False))
    question = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")
    print(ids["input_ids"][0].tolist())
    answer = model.generate(**ids, max_new_tokens=12, do_sample=False)
    print(repr(tokenizer.decode(answer[0][ids["input_ids"].shape[1] :])))


if __name__ == "__main__":
    main()
