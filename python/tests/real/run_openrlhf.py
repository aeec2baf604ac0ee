"""OpenRLHF: the real `MultiTurnAgentExecutor.execute`, by the executor that the file exports."""

import asyncio
import importlib.util
import json
import types

import play
import tiny

URL = play.server()
TOKENIZER = tiny.tokenizer()
spec = importlib.util.spec_from_file_location("agent", importlib.util.find_spec("hindsearch.adapters.openrlhf").origin)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)


class Engine:
    async def generate(self, tokens, sampling, multi_modal_data=None):
        text = play.reply(TOKENIZER.decode(tokens))
        output = types.SimpleNamespace(token_ids=TOKENIZER.encode(text), text=text, finish_reason="stop", logprobs=None)
        return types.SimpleNamespace(outputs=[output])


async def main():
    executor = module.AgentExecutor()

    def execute(question, golds):
        chat = [{"role": "user", "content": question}]
        prompt = TOKENIZER.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        sampling = types.SimpleNamespace(max_tokens=512, logprobs=None)  # which the executor changes
        return executor.execute(prompt, json.dumps(golds), sampling, 16384, TOKENIZER, Engine())

    played = await asyncio.gather(*map(execute, play.QUESTIONS, play.GOLDS))
    play.same("openrlhf", [float(one["reward"]) for one in played], URL)
    for number, one in enumerate(played):
        said = "".join(TOKENIZER.decode(one["observation_tokens"][start:end]) for start, end in one["action_ranges"])
        assert said == "".join(play.script(number)), said


asyncio.run(main())
