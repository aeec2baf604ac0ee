"""GEM, whose environments ROLL plays: `make`, `reset` with a seed, `step`, and `make_vec`."""

import gem
import play

from hindsearch.adapters import roll

URL = play.server()
earned = []
for task in play.TASKS:
    env = gem.make("hindsearch/Search-v0", tasks=[task], url=URL)
    seen, _ = env.reset(seed=1)
    while True:
        # ROLL hands over what the tokenizer makes of the end of a message, too.
        text = play.reply(seen)
        shown, reward, terminated, truncated, info = env.step(text + "<|im_end|>")
        seen += text + shown
        if terminated:
            break
    assert set(info["metrics_agg_mode"]) == set(info["metrics"])
    earned.append(reward)
play.same("gem", earned, URL)

env = gem.make("hindsearch/Search-v0", tasks=play.TASKS, url=URL)
assert env.reset(seed=7)[0] == env.spawn().reset(seed=7)[0] != env.reset(seed=8)[0]
vector = gem.make_vec([roll.ID] * 4, vec_kwargs=[{"tasks": play.TASKS, "url": URL}] * 4)
seen, _ = vector.reset(seed=[1, 2, 3, 4])
_, rewards, *_ = vector.step([f"<answer>{play.GOLDS[play.number_of(text)][0]}</answer>" for text in seen])
assert list(rewards) == [1.0] * 4, rewards
