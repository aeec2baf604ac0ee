"""SkyRL: the real `SkyRLGymGenerator.generate`, with observations as chat messages and as running text."""

import asyncio

import play
import skyrl_gym
import tiny
from skyrl.train.config import GeneratorConfig, SkyRLGymConfig
from skyrl.train.generators.base import BatchMetadata, TrajectoryID
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

URL = play.server()
TOKENIZER = tiny.tokenizer()
skyrl_gym.register(id="hindsearch", entry_point="hindsearch.adapters.skyrl:SearchEnv", kwargs={"url": URL})


class Engine:
    model_name, weight_version = "scripted", 0

    async def generate(self, batch, model=None):
        texts = [play.reply(TOKENIZER.decode(tokens)) for tokens in batch["prompt_token_ids"]]
        return {
            "responses": texts,
            "response_ids": [[*TOKENIZER.encode(text), TOKENIZER.eos_token_id] for text in texts],
            "stop_reasons": ["stop"] * len(texts),
            "response_logprobs": None,
        }

    async def finish_session(self, *_, **__):
        pass


async def generate(multi_turn):
    config = GeneratorConfig()
    config.max_turns, config.max_input_length, config.batched = 5, 16384, False
    config.use_conversation_multi_turn = multi_turn
    config.sampling_params.max_generate_length, config.sampling_params.logprobs = 512, None
    environments = SkyRLGymConfig()
    environments.max_env_workers = 16
    generator = SkyRLGymGenerator(config, environments, Engine(), TOKENIZER)
    rows = [{"reward_spec": {"ground_truth": {"target": golds}}, "data_source": "sample"} for golds in play.GOLDS]
    out = await generator.generate(
        {
            "prompts": [[{"role": "user", "content": question}] for question in play.QUESTIONS],
            "env_classes": ["hindsearch"] * 64,
            "env_extras": [{**row, "question": question} for row, question in zip(rows, play.QUESTIONS)],
            "sampling_params": None,
            "trajectory_ids": [TrajectoryID(str(number), 0) for number in range(64)],
            "batch_metadata": BatchMetadata(global_step=0, training_phase="train"),
        }
    )
    earned = [sum(reward) if isinstance(reward, list) else reward for reward in out["rewards"]]
    play.same(f"skyrl, {'chat' if multi_turn else 'running text'}", earned, URL)
    for number in range(64):
        own = [token for token, mask in zip(out["response_ids"][number], out["loss_masks"][number]) if mask]
        said = TOKENIZER.decode(own).replace("<|im_end|>", "")
        assert said == "".join(play.script(number)), said


for multi_turn in (True, False):
    asyncio.run(generate(multi_turn))
