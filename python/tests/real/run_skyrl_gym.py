"""skyrl-gym: register, make, init, step, close, as SkyRL's generator does it, with `{}` for the configuration."""

import concurrent.futures

import play
import skyrl_gym

URL = play.server()
skyrl_gym.register(id="hindsearch", entry_point="hindsearch.adapters.skyrl:SearchEnv", kwargs={"url": URL})


def episode(number):
    row = {
        "reward_spec": {"ground_truth": {"target": play.GOLDS[number]}},
        "data_source": "sample",
        "question": play.QUESTIONS[number],
        "max_turns": 5,
    }
    env = skyrl_gym.make("hindsearch", env_config={}, extras=row)
    chat, _ = env.init([{"role": "user", "content": play.QUESTIONS[number]}])
    reward = 0.0
    while True:
        text = play.reply("".join(message["content"] for message in chat))
        step = env.step(text)
        chat = [*chat, {"role": "assistant", "content": text}, *step["observations"]]
        reward += step["reward"]
        if step["done"]:
            break
    metrics = env.get_metrics()
    env.close()
    return reward, metrics


with concurrent.futures.ThreadPoolExecutor(16) as pool:
    played = list(pool.map(episode, range(64)))
play.same("skyrl-gym", [reward for reward, _ in played], URL)
print(skyrl_gym.envs.base_text_env.BaseTextEnv.aggregate_metrics([metrics for _, metrics in played]))
