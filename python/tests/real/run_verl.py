"""verl: the real `AgentLoopWorker.generate_sequences` with our loop, with the old YAML's tool and with a function tool; then its
reward manager with our function."""

import asyncio
import importlib.util
import json
import os
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false")

import numpy as np
import play
import tiny
import verl
import verl.experimental.agent_loop.tool_agent_loop  # noqa: F401 (registers its loop)
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from trl.chat_template_utils import qwen2_5_chat_template
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.protocol import DataProto
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.workers.rollout.replica import TokenOutput

URL = play.server()
TOKENIZER = tiny.tokenizer(qwen2_5_chat_template)
FOLDER = tempfile.mkdtemp()
TOKENIZER.save_pretrained(FOLDER)
tiny.model(TOKENIZER).save_pretrained(FOLDER)
OLD_YAML = f"""
tools:
  - class_name: hindsearch.adapters.verl.SearchTool
    config:
      retrieval_service_url: {URL}/retrieve
      num_workers: 120
      rate_limit: 120
      timeout: 30
      type: native
    tool_schema:
      type: function
      function:
        name: search
        description: Searches the web for relevant information based on the given query.
        parameters:
          type: object
          properties:
            query_list:
              type: array
              item:
                type: string
              description: A list of fully-formed semantic queries. The tool will return search results for each query.
          required:
            - query_list
"""
with open(f"{FOLDER}/tool.yaml", "w") as file:
    file.write(OLD_YAML)
with open(f"{FOLDER}/loop.yaml", "w") as file:
    file.write(f"- {{name: hindsearch, _target_: hindsearch.adapters.verl.SearchAgentLoop, url: '{URL}'}}\n")


class Model:
    tokenizer = None

    def __init__(self, argument=None):
        self.argument = argument
        self.seen = []

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        text = TOKENIZER.decode(prompt_ids)
        self.seen.append((text, sampling_params))
        tokens = TOKENIZER.encode(self.tool(text) if self.argument else play.reply(text)) + [TOKENIZER.eos_token_id]
        return TokenOutput(token_ids=tokens, log_probs=[-0.5] * len(tokens), stop_reason="completed")

    def tool(self, text):
        number, done = play.number_of(text), text.count("<tool_response>")
        left = play.calls(number)[done:]
        name, argument = left[0]
        if name == "answer":
            return f"<answer>{argument}</answer>"
        arguments = {self.argument: [argument] if self.argument == "query_list" else argument}
        return f"<tool_call>\n{json.dumps({'name': 'search', 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def config(**options):
    rollout = "actor_rollout_ref.rollout."
    options = {
        "actor_rollout_ref.model.path": FOLDER,
        rollout + "name": "vllm",
        rollout + "prompt_length": 4096,
        rollout + "response_length": 8192,
        rollout + "multi_turn.enable": "true",
        rollout + "multi_turn.format": "hermes",
        rollout + "multi_turn.max_tool_response_length": 4000,
        rollout + "multi_turn.max_assistant_turns": 5,
        rollout + "calculate_log_probs": "true",
        "data.return_raw_chat": "true",
        **{rollout + name: value for name, value in options.items()},
    }
    with initialize_config_dir(os.path.dirname(verl.__file__) + "/trainer/config", version_base=None):
        return compose("ppo_trainer", overrides=[f"{name}={value}" for name, value in options.items()])


def objects(items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


async def generate(agent, model, **options):
    worker = AgentLoopWorker(config(**options), model)
    batch = {
        "raw_prompt": objects([[{"role": "user", "content": question}] for question in play.QUESTIONS]),
        "agent_name": objects([agent] * 64),
        "data_source": objects(["searchR1_nq"] * 64),
        "reward_model": objects([{"style": "rule", "ground_truth": {"target": golds}} for golds in play.GOLDS]),
        "extra_info": objects([{"index": number, "question": question} for number, question in enumerate(play.QUESTIONS)]),
        "index": np.arange(64),
    }
    meta = {"global_steps": 0, "validate": False}
    return await worker.generate_sequences(DataProto(batch=None, non_tensor_batch=batch, meta_info=meta))


async def loop():
    model = Model()
    out = await generate("hindsearch", model, **{"agent.agent_loop_config_path": f"{FOLDER}/loop.yaml"})
    play.same("verl, agent loop", out.batch["rm_scores"].sum(1).tolist(), URL)
    for number in range(64):
        response, mask = out.batch["responses"][number], out.batch["response_mask"][number].bool()
        assert TOKENIZER.decode(response[mask]) == "".join(play.script(number))
        logprobs = out.batch["rollout_log_probs"][number]
        assert (logprobs[mask] == -0.5).all() and (logprobs[~mask] == 0).all()
    text, sampling = model.seen[0]
    assert sampling["stop"] == ["</search>", "</answer>"] and sampling["include_stop_str_in_output"], sampling


async def tool(what, model, **options):
    out = await generate("tool_agent", model, **options)
    settings = {"path": "pkg://hindsearch.adapters.verl_reward", "name": "compute_score", "reward_kwargs": {}}
    function = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": settings}}))
    manager = NaiveRewardManager(OmegaConf.create({}), TOKENIZER, function)
    out.non_tensor_batch["tool_extra_fields"] = objects([{}] * 64)
    scored = [await manager.run_single(out[number : number + 1]) for number in range(64)]
    play.same(what, [one["reward_score"] for one in scored], URL)
    assert set(scored[0]["reward_extra_info"]) >= {"em", "score"}, scored[0]
    return max((text for text, _ in model.seen), key=lambda text: text.count("<tool_response>"))


async def main():
    await loop()
    multi = "multi_turn."
    shown = await tool("verl, old YAML's tool", Model("query_list"), **{multi + "tool_config_path": f"{FOLDER}/tool.yaml"})
    assert '<tool_response>\n{"result": "Doc 1 (Title: \\"' in shown, shown
    path = importlib.util.find_spec("hindsearch.adapters.verl_function").origin
    shown = await tool("verl, function tool", Model("query"), **{multi + "function_tool_path": path})
    assert "<tool_response>\n<information>[1] " in shown, shown


asyncio.run(main())
