"""Writes `texts.json`: tokens, decoded bytes and rendered chats of Python's libraries, for the tests of texts.

Made with transformers 5.10.4, tokenizers 0.22.2, jinja2 3.1.6, behind `make_models.py`: `python make_texts.py`.
Splitting rules are written here as the models' own `tokenizer.json` have them.
"""

import json
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
TEXTS = [
    "",
    "Who discovered radium in 1898?",
    "It's WE'LL, they'd; naïve café. e\u0301 Å",
    "  two spaces,\ttabs\n\n\nand lines  \n  ",
    "東京 🙂🙃 Ελλάδα Москва ١٢٣ ½",
    "12345678 1,000.50 v2beta",
    '<tool_call>\n{"name": "search"}\n</tool_call>',
    "a\u200bb\u00a0c\u3000d\x00e",
]
MESSAGES = {
    "question": [("user", "Who discovered radium?")],
    "system": [("system", "Be short."), ("user", "Who?\n"), ("assistant", "<think>\nHm.\n</think>\n\nCurie.")],
    "turns": [
        ("user", " Who?"),
        ("assistant", "<think>I search.</think><search> radium </search>"),
        ("user", '<information>Curie & "Pierre" <é></information>'),
        ("assistant", "<answer> Curie </answer>"),
    ],
    "tool": [
        ("system", "Use tools."),
        ("user", "Who?"),
        ("assistant", "<tool_call>\n{}\n</tool_call>"),
        ("tool", "Curie"),
        ("tool", "Pierre"),
        ("assistant", "Curie"),
    ],
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": 'Finds <passages> & "facts" – all of them.',
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
                "empty": [],
                "most": 1.0,
            },
        },
    }
]


def byte_letters():
    seen = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in seen}
    letters.update({chr(256 + n): byte for n, byte in enumerate(b for b in range(256) if b not in seen)})
    return letters


def main():
    path = HERE / "models" / "llama" / "tokenizer.json"
    plain = json.loads(path.read_text())
    levels = pre_tokenizers.ByteLevel

    def split(pattern):
        words = pre_tokenizers.Split(Regex(pattern), "isolated")
        return pre_tokenizers.Sequence([words, levels(add_prefix_space=False, trim_offsets=False, use_regex=False)])

    kinds = {
        "gpt-2": (levels(add_prefix_space=False), False),
        "smollm": (
            pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), levels(add_prefix_space=False)]),
            False,
        ),
        "qwen2": (split(QWEN2), False),
        "llama-bpe": (split(LLAMA3), True),
    }
    tokens = {}
    for kind, (words, whole) in kinds.items():
        plain["model"]["ignore_merges"] = whole
        tokenizer = Tokenizer.from_str(json.dumps(plain))
        tokenizer.pre_tokenizer = words
        if kind == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        tokens[kind] = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]

    letters = byte_letters()
    vocabulary = Tokenizer.from_file(str(path)).get_vocab()
    names = {id: name for name, id in vocabulary.items()}
    chance = random.Random(3)
    decoded = []
    for _ in range(60):
        ids = [chance.randrange(len(names)) for _ in range(chance.randrange(1, 12))]
        raw = b"".join(bytes(letters[letter] for letter in names[id]) for id in ids)
        decoded.append({"ids": ids, "text": raw.decode("utf-8", errors="replace")})

    rendered = []
    for file in sorted((HERE / "templates").glob("*.jinja")):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), bos_token="<|begin_of_text|>", eos_token="<|im_end|>")
        for name, messages in MESSAGES.items():
            for tools in (None, TOOLS):
                for prompt in (False, True):
                    text = tokenizer.apply_chat_template(
                        [{"role": role, "content": content} for role, content in messages],
                        chat_template=file.read_text(),
                        tools=tools,
                        add_generation_prompt=prompt,
                        tokenize=False,
                    )
                    rendered.append(
                        {"template": file.name, "messages": name, "tools": bool(tools), "prompt": prompt, "text": text}
                    )
    golden = {
        "texts": TEXTS,
        "tokens": tokens,
        "decoded": decoded,
        "tools": json.dumps(TOOLS),
        "messages": MESSAGES,
        "rendered": rendered,
    }
    (HERE / "texts.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
