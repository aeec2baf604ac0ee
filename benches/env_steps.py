#!/usr/bin/env python3
"""How many steps of episodes a server does in a second, over HTTP.

    env_steps.py http://127.0.0.1:8000 [--batch 256] [--processes 1] [--seconds 10] [--searches 0] [--protocol native]

Each process plays episodes in batches: a reset, `--searches` searches (no two the same) and the rest of three messages that are
no action, then an answer. Counted are the steps, not the resets. `--protocol single` sends each step of an episode in a request
of its own, as clients without batches do, with `--batch` connections a process. Start the server with `--no-access-log`.
Prints one JSON object a run: steps a second, and milliseconds a request (median, 99th percentile). Needs nothing but Python; it
is a client on the same machine, whose own time counts.
"""
import argparse
import http.client
import json
import multiprocessing
import statistics
import threading
import time
from urllib.parse import urlparse


class Client:
    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urlparse(url).hostname, urlparse(url).port, timeout=120)
        self.times = []

    def ask(self, route, items):
        body = json.dumps({"items": items})
        begun = time.perf_counter()
        self.connection.request("POST", f"/env/v1/{route}", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        data = answer.read()
        self.times.append(time.perf_counter() - begun)
        if answer.status != 200:
            raise SystemExit(f"/env/v1/{route}: {answer.status} {data[:300]!r}")
        answers = json.loads(data)["items"]
        wrong = next((answer for answer in answers if "error" in answer), None)
        if wrong:
            raise SystemExit(f"/env/v1/{route}: {wrong}")
        return answers


def episodes(client, batch, searches, mark, until):
    """Plays until the time is over; how many steps were done."""
    steps, play = 0, 0
    while time.perf_counter() < until:
        play += 1
        ids = [begun["episode_id"] for begun in client.ask("reset", [{"seed": play * batch + at} for at in range(batch)])]
        for turn in range(4):
            if turn == 3:
                action = lambda at: "<think>Enough.</think><answer>unknown</answer>"
            elif turn < searches:
                action = lambda at: f"<think>So.</think><search>river {mark} {play} {at} {turn}</search>"
            else:
                action = lambda at: "<think>I do not know what to do.</think>"
            client.ask("step", [{"episode_id": id, "action": action(at)} for at, id in enumerate(ids)])
            steps += batch
    return steps


def process(number, arguments, queue):
    until = time.perf_counter() + arguments.seconds
    single = arguments.protocol == "single"
    clients = [Client(arguments.url) for _ in range(arguments.batch if single else 1)]
    counts = [0] * len(clients)

    def run(at):
        counts[at] = episodes(clients[at], 1 if single else arguments.batch, arguments.searches, f"{number}-{at}", until)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(clients))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    queue.put((sum(counts), [time for client in clients for time in client.times]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--searches", type=int, default=0, choices=range(4))
    parser.add_argument("--protocol", choices=["native", "single"], default="native")
    arguments = parser.parse_args()
    queue = multiprocessing.Queue()
    begun = time.perf_counter()
    players = [multiprocessing.Process(target=process, args=(number, arguments, queue)) for number in range(arguments.processes)]
    [player.start() for player in players]
    results = [queue.get() for _ in players]
    seconds = time.perf_counter() - begun
    times = sorted(time for _, times in results for time in times)
    print(json.dumps({
        "protocol": arguments.protocol, "batch": arguments.batch, "processes": arguments.processes, "searches": arguments.searches,
        "steps": sum(steps for steps, _ in results), "steps_per_second": round(sum(steps for steps, _ in results) / seconds),
        "request_ms_p50": round(statistics.median(times) * 1e3, 2), "request_ms_p99": round(times[int(len(times) * 0.99)] * 1e3, 2),
    }))


if __name__ == "__main__":
    main()
