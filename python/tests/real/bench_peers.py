"""Steps a second of our environments beside those that other packages ship: the same scripted policy, the same running server.

    VENV/bin/python bench_peers.py ours skyrl_gym verifiers          # with skyrl-gym and verifiers installed
    options: --episodes 256 --searches 2 --concurrency 16 --repeat 3

The policy searches `--searches` times, then answers; every search of every episode is another one. A step is one message and what
the environment makes of it; the last step of an episode asks the server for nothing. Each line is the median of `--repeat` runs
after one to warm up, so the server has all queries' vectors by then: environment and transport are measured, not the model.

- `ceiling`: searches a second that one process gets from the server, by our client, one query a call; what asks for each step by
  itself can be faster only by its steps without a search.
- `ours_batch`: `SearchEnvs`, all episodes side by side, one call a turn.
- `ours_native`: the server's own batches, `/env/v1`, over one connection: nothing of ours runs in the client.
- `ours_threads`: `SearchEnv`, `--concurrency` threads, one call a step.
- `ours_skyrl`: our adapter in the very loop of `skyrl_gym`.
- `skyrl_gym`: its own `search` environment, as its generator drives it, over the server's `/retrieve`.
- `verifiers_ours`: our environment and harness in verifiers' own loop.
- `verifiers`: the shape of verifiers' own search example, a tool server for each worker and its `null` harness, over the same
  server. A harness program starts for every episode, which is most of the time.

verifiers' steps hold a model call through its interception server; the model is scripted, in a process of its own.
"""

import argparse
import asyncio
import concurrent.futures
import http.client
import json
import logging
import os
import statistics
import subprocess
import sys
import time
import urllib.parse

import play

from hindsearch import Client
from hindsearch.env import SearchEnv, SearchEnvs

QUESTION, ANSWER = "Who discovered radium?", "<answer>Marie Curie</answer>"
TASK = {"question": QUESTION, "golds": ["Marie Curie"]}


def policy(options, episode):
    looks = [f"<think>I do not know.</think><search>{QUESTION} ({episode}) {turn}</search>" for turn in range(options.searches)]
    return [*looks, ANSWER]


def in_threads(options, episode):
    with concurrent.futures.ThreadPoolExecutor(options.concurrency) as pool:
        played = list(pool.map(episode, range(options.episodes)))
    assert all(reward == 1 for _, reward in played), played[0]
    return sum(steps for steps, _ in played)


def ceiling(options):
    client = Client(options.url)
    return in_threads(options, lambda number: (len(client.search(f"{QUESTION} ({number}) 0", top_k=3)), 1))


def ours_batch(options):
    envs = SearchEnvs(Client(options.url))
    envs.reset([TASK] * options.episodes)
    for messages in zip(*(policy(options, number) for number in range(options.episodes))):
        steps = envs.step(messages)
    assert all(step.reward == 1 for step in steps)
    return options.episodes * (options.searches + 1)


def ours_native(options):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(options.url).netloc, timeout=120)

    def ask(route, items):
        connection.request("POST", f"/env/v1/{route}", json.dumps({"items": items}), {"Content-Type": "application/json"})
        return json.load(connection.getresponse())["items"]

    row = {"question": QUESTION, "golden_answers": TASK["golds"]}
    ids = [begun["episode_id"] for begun in ask("reset", [{"task": row}] * options.episodes)]
    for messages in zip(*(policy(options, number) for number in range(options.episodes))):
        steps = ask("step", [{"episode_id": id, "action": message} for id, message in zip(ids, messages)])
    assert all(step["reward"] == 1 for step in steps), steps[0]
    return options.episodes * (options.searches + 1)


def ours_threads(options):
    client = Client(options.url)

    def episode(number):
        env = SearchEnv(client)
        env.reset(**TASK)
        steps = [env.step(message) for message in policy(options, number)]
        return len(steps), steps[-1].reward

    return in_threads(options, episode)


def gym(options, name, config, **row):
    import skyrl_gym

    logging.getLogger("skyrl_gym").setLevel(logging.ERROR)
    row = {"reward_spec": {"ground_truth": {"target": TASK["golds"]}}, "data_source": "nq", "max_turns": 9, **row}

    def episode(number):
        env = skyrl_gym.make(name, env_config=config, extras=dict(row))
        env.init([{"role": "user", "content": QUESTION}])
        steps = [env.step(message) for message in policy(options, number)]
        env.close()
        assert steps[-1]["done"]
        return len(steps), sum(step["reward"] for step in steps)

    return in_threads(options, episode)


def skyrl_gym(options):
    from omegaconf import DictConfig

    config = {"log_requests": False, "search_url": f"{options.url}/retrieve", "topk": 3, "timeout": 30}
    return gym(options, "search", DictConfig(config))


def ours_skyrl(options):
    import skyrl_gym

    if "hindsearch" not in skyrl_gym.envs.registration.registry:
        skyrl_gym.register(id="hindsearch", entry_point="hindsearch.adapters.skyrl:SearchEnv", kwargs={"url": options.url})
    return gym(options, "hindsearch", {}, question=QUESTION)


def in_verifiers(options, settings):
    import verifiers.v1 as vf
    from verifiers.v1.clients import ModelContext

    async def run():
        env = vf.load_environment(vf.resolve_env_config(settings))
        model = vf.EvalClientConfig(base_url=options.model, api_key_var="NONE")
        context = ModelContext(client=model, model="scripted", sampling=vf.SamplingConfig())
        permits = asyncio.Semaphore(options.concurrency)
        async with env.serving():
            slots = [slot for task in env.taskset for slot in env.slots(task, 1)]
            start = time.perf_counter()
            played = await asyncio.gather(*(env.run_slot(slot, context, permits) for slot in slots))
            seconds = time.perf_counter() - start
        wrong = [(one.errors, [trace.errors for trace in one.traces]) for one in played if not one.ok]
        assert not wrong and all(trace.reward == 1 for one in played for trace in one.traces), wrong[:1]
        return sum(trace.num_turns for one in played for trace in one.traces), seconds

    return asyncio.run(run())


def verifiers_ours(options):
    harness = {"runtime": {"type": "subprocess"}, "harness": {"id": "hindsearch_verifiers"}, "max_turns": 9}
    return in_verifiers(
        options, {"taskset": {"id": "hindsearch_verifiers", "tasks": options.file, "url": options.url}, "agent": harness}
    )


def verifiers(options):
    harness = {"runtime": {"type": "subprocess"}, "harness": {"id": "null"}, "max_turns": 9}
    taskset = {"id": "tool_taskset", "episodes": options.episodes, "tools": {"search_url": options.url}}
    return in_verifiers(options, {"taskset": taskset, "agent": harness})


def measure(run, options):
    rates = []
    for number in range(options.repeat + 1):
        start = time.perf_counter()
        found = run(options)
        steps, seconds = found if isinstance(found, tuple) else (found, time.perf_counter() - start)
        if number:
            rates.append(steps / seconds)
    return {"median": statistics.median(rates), "least": min(rates), "most": max(rates), "steps": steps}


RUNS = {
    "ours": [ceiling, ours_batch, ours_native, ours_threads],
    "skyrl_gym": [skyrl_gym, ours_skyrl],
    "verifiers": [verifiers_ours, verifiers],
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="+", choices=RUNS)
    for name, default in (("episodes", 256), ("searches", 2), ("concurrency", 16), ("repeat", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    options.url = play.server()
    here = os.path.dirname(os.path.abspath(__file__))
    # Harnesses and tool servers are programs of their own.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    os.environ["PYTHONPATH"] = here + os.pathsep + os.environ.get("PYTHONPATH", "")
    options.file = os.path.join(here, "bench_tasks.tmp")
    with open(options.file, "w") as file:
        for number in range(options.episodes):
            # Equal tasks would be one.
            file.write(json.dumps({"question": f"{QUESTION} ({number})", "golden_answers": TASK["golds"]}) + "\n")
    command = [sys.executable, os.path.join(here, "bench_model.py"), str(options.searches)]
    model = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        options.model = model.stdout.readline().strip()
        for run in [run for package in options.packages for run in RUNS[package]]:
            if run is verifiers:
                # Half a minute of program starts for 64 episodes is enough.
                options.episodes = min(options.episodes, 32)
                options.repeat = 1
            rate = {name: round(value, 1) for name, value in measure(run, options).items()}
            print(json.dumps({"what": run.__name__, **rate}), flush=True)
    finally:
        model.terminate()
        os.remove(options.file)


if __name__ == "__main__":
    main()
