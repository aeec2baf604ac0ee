"""A tokenizer whose tokens are bytes, with the manners of Hugging Face's and ChatML for a template."""

import json

END, PAD = 256, 257


class Tokenizer:
    eos_token_id, pad_token_id = END, PAD

    def __init__(self, fast=True):
        self.fast = fast

    def encode(self, text, add_special_tokens=True):
        tokens = []
        for number, part in enumerate(text.split("<|im_end|>")):
            tokens += ([END] if number else []) + list(part.encode())
        return tokens

    def decode(self, tokens, skip_special_tokens=False, clean_up_tokenization_spaces=True):
        text, run = "", bytearray()
        for token in [*tokens, None]:
            if token is None or token >= END:
                text += run.decode(errors="replace")
                run = bytearray()
                text += "<|im_end|>" if token == END and not skip_special_tokens else ""
            else:
                run.append(token)
        return text

    def __call__(self, text, add_special_tokens=True, return_offsets_mapping=False):
        if not self.fast:
            raise NotImplementedError("only fast tokenizers know offsets")
        offsets = []
        for place, letter in enumerate(text):
            offsets += [(place, place + 1)] * len(letter.encode())
        return {"input_ids": self.encode(text), "offset_mapping": offsets}

    def apply_chat_template(self, messages, add_generation_prompt=False, tokenize=True, return_dict=False, tools=None):
        text = f"<tools>{json.dumps(tools)}</tools>" if tools else ""
        text += "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages)
        text += "<|im_start|>assistant\n" if add_generation_prompt else ""
        return self.encode(text) if tokenize else text
