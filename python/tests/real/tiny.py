"""A tokenizer of bytes with Qwen2.5's chat template, and a tiny model with random weights whose `generate` is scripted."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEMPLATE = """\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


def tokenizer(template=TEMPLATE):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        padding_side="left",
    )
    made.chat_template = template
    return made


def model(tokenizer, policy=None):
    """`policy` is a function from the text so far to the next message."""

    class Scripted(Qwen2ForCausalLM):
        @torch.no_grad()
        def generate(self, input_ids=None, attention_mask=None, **_):
            texts = [policy(tokenizer.decode(row, skip_special_tokens=False)) for row in input_ids]
            rows = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in texts]
            longest = max(map(len, rows))
            padded = [row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows]
            return torch.cat([input_ids, torch.tensor(padded, device=input_ids.device)], 1)

    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16384,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return (Scripted if policy else Qwen2ForCausalLM)(config)
