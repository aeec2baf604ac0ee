"""Gymnasium: `check_env`, `make` with its checkers, and a vector environment."""

import gymnasium
import play
from gymnasium.utils.env_checker import check_env

from hindsearch.adapters.gymnasium import SearchEnv

URL = play.server()
check_env(SearchEnv(url=URL), skip_render_check=True)
env = gymnasium.make("hindsearch/Search-v0", tasks=play.TASKS, url=URL)
earned = []
for number in range(64):
    seen, info = env.reset(seed=number, options={"task": number})
    while True:
        text = play.reply(seen)
        assert env.action_space.contains(text)
        shown, reward, terminated, truncated, info = env.step(text)
        assert env.observation_space.contains(shown)
        seen += text + shown
        if terminated or truncated:
            break
    assert terminated and not truncated
    earned.append(reward)
play.same("gymnasium", earned, URL)

vector = gymnasium.make_vec("hindsearch/Search-v0", num_envs=4, vectorization_mode="sync", tasks=play.TASKS, url=URL)
seen, _ = vector.reset(seed=0)
_, rewards, terminated, *_ = vector.step(tuple(f"<answer>{play.GOLDS[play.number_of(text)][0]}</answer>" for text in seen))
assert rewards.tolist() == [1.0] * 4 and terminated.all()
