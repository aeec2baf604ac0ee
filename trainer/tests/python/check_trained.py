"""Do transformers and PEFT find the numbers of a trained model that we find?

    hindsearch losses RUN --model RUN/model --out told.jsonl
    python check_trained.py RUN told.jsonl [BASE]

Compares each token's log-probability under RUN/model, as `losses` told it, with torch's. With BASE, the folder of the model that the run
began with, also logits of RUN/model with those of BASE and RUN/adapter in PEFT. Needs torch, transformers and, with BASE, peft; run by hand.
"""

import argparse
import json

import torch
from transformers import AutoModelForCausalLM


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("told")
    parser.add_argument("base", nargs="?")
    parser.add_argument("--temperature", type=float, default=1.0)
    arguments = parser.parse_args()
    model = load(arguments.run + "/model")
    adapted = None
    if arguments.base:
        from peft import PeftModel

        adapted = PeftModel.from_pretrained(load(arguments.base), arguments.run + "/adapter").eval()
    worst = {"log-probabilities": 0.0, "logits with the adapter": 0.0, "largest logit": 0.0}
    count = 0
    with open(arguments.told) as lines:
        for line in map(json.loads, lines):
            tokens = torch.tensor([line["tokens"]])
            logits = model(tokens).logits[0]
            places = torch.tensor(line["places"], dtype=torch.long)
            logprobs = (logits[places - 1] / arguments.temperature).log_softmax(-1)
            found = logprobs.gather(1, tokens[0, places, None]).squeeze(1)
            told = torch.tensor(line["logprobs"])
            worst["log-probabilities"] = max(worst["log-probabilities"], (found - told).abs().max().item())
            worst["largest logit"] = max(worst["largest logit"], logits.abs().max().item())
            if adapted:
                apart = (adapted(tokens).logits[0] - logits).abs().max().item()
                worst["logits with the adapter"] = max(worst["logits with the adapter"], apart)
            count += len(line["places"])
    for name, value in worst.items():
        print(f"{name}: {value:.3g}")
    print(f"{count} tokens that the policy wrote")
    assert count, "nothing was compared"
    assert worst["log-probabilities"] <= 1e-4, "log-probabilities differ"
    # Two orders of the same sums in f32.
    assert worst["logits with the adapter"] <= 1e-5 * worst["largest logit"], "the adapter is another model"


main()
