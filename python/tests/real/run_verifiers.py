"""verifiers: the path of its evaluation, `load_environment`, `serving`, `run_slot`, with our taskset, environment and harness."""

import asyncio

import model_server
import play
import verifiers.v1 as vf
from verifiers.v1.clients import ModelContext

URL = play.server()


async def main():
    model = vf.EvalClientConfig(base_url=model_server.start(play.reply), api_key_var="NONE")
    settings = {
        "taskset": {"id": "hindsearch_verifiers", "tasks": "sample", "limit": 64, "url": URL},
        "agent": {"runtime": {"type": "subprocess"}, "harness": {"id": "hindsearch_verifiers"}},
    }
    env = vf.load_environment(vf.resolve_env_config(settings))
    context = ModelContext(client=model, model="scripted", sampling=vf.SamplingConfig())
    permits = asyncio.Semaphore(64)
    async with env.serving():
        slots = [slot for task in env.taskset for slot in env.slots(task, 1)]
        episodes = await asyncio.gather(*(env.run_slot(slot, context, permits) for slot in slots))
    wrong = [(episode.errors, [trace.errors for trace in episode.traces]) for episode in episodes if not episode.ok]
    assert not wrong, wrong[0]
    play.same("verifiers", [episode.traces[0].reward for episode in episodes], URL)
    searches = [episode.traces[0].metrics["searches"] for episode in episodes]
    assert searches == [[1, 2, 0, 1][number % 4] for number in range(64)], searches


asyncio.run(main())
