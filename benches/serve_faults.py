#!/usr/bin/env python3
"""The server under more load than it can bear, with slow clients, while it is stopped, and over many generations.

    serve_faults.py --hindsearch target/release/hindsearch --index DIR [--parts overload,slow,drain,soak] [--seconds 20]
                    [--connections 512] [--set serve.queue_wait=100]... [--out DIR]

    overload  one client alone; 16 clients for the peak; then requests at twice the peak, at random times, over so many connections
              for so many seconds; then one client again until it is served as before. `due` counts from when a request was due,
              the wait for a free connection included
    slow      500 connections that send their head byte by byte, 500 their body, and 50 that take nothing of an answer of
              megabytes, against limits of 2 s, while one client asks as usual
    drain     200 requests in flight when SIGTERM comes
    soak      random requests at 70 % of the peak for so many seconds, with a new generation every 30 s

The index is copied; a new generation is a copy of the last. Questions are random words, none twice. Latencies are in ms. Writes one
JSON object a part to OUT/serve_faults.json, and the soak one line every 10 s to OUT/serve_soak.jsonl. Needs Linux and Python 3.11.
"""
import argparse
import asyncio
import json
import math
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

WORDS = "river mountain city king element planet film novel bridge queen island painter metal treaty comet opera poet".split()
SLOW, LIMIT = 500, 2000  # clients; ms
GENERATION_SECONDS, SAMPLE_SECONDS = 30, 10


def question():
    return " ".join(random.choices(WORDS, k=8)) + f" {random.getrandbits(40):x}"


def search(**more):
    body = json.dumps({"query": question()} | more).encode()
    return b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def percentile(values, share):
    ordered = sorted(values)
    return round(1000 * ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2) if ordered else None


def spread(values):
    return {"count": len(values), "p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "max": percentile(values, 1)}


class Server:
    def __init__(self, args, index, *settings):
        options = [part for setting in (*args.set, *settings) for part in ("--set", setting)]
        command = [args.hindsearch, "serve", index, "--port", "0", "--json", "--no-access-log", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"`{' '.join(map(str, command))}` did not start")
        host, port = json.loads(line)["address"].removeprefix("http://").split(":")
        self.address = host, int(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def rss_mib(self):
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def mappings(self):
        return Path(f"/proc/{self.process.pid}/maps").read_text().count("/gen-")


class Client:
    """One connection, opened again when it was lost."""

    def __init__(self, address):
        self.address, self.writer = address, None

    async def ask(self, request):
        """The status and the seconds to come back after; status 0 where the connection was lost."""
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection(*self.address)
            self.writer.write(request)
            return await self.answer()
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0, None

    async def answer(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in head[1:] if line)
        await self.reader.readexactly(int(fields["content-length"]))
        if fields.get("connection") == "close":
            self.close()
        return int(head[0].split()[1]), fields.get("retry-after")

    def close(self):
        if self.writer:
            self.writer.transport.abort()
        self.writer = None


async def closed_loop(address, clients, seconds):
    """Latencies of so many clients that each ask again when they are answered, or a little later when they are refused."""
    latencies, end = [], time.perf_counter() + seconds

    async def one():
        client = Client(address)
        while (begin := time.perf_counter()) < end:
            status, _ = await client.ask(search())
            if status == 200:
                latencies.append(time.perf_counter() - begin)
            else:
                await asyncio.sleep(0.02)
        client.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return latencies


async def open_loop(address, rate, connections, seconds, on_answer):
    """Requests at random times, so many a second. `on_answer` is told when each was due and sent, its status and Retry-After."""
    free, tasks = asyncio.Queue(), set()
    for _ in range(connections):
        free.put_nowait(Client(address))

    async def one(due):
        client = await free.get()
        sent = time.perf_counter()
        status, wait = await client.ask(search())
        free.put_nowait(client)
        on_answer(due, sent, status, wait)

    due = begin = time.perf_counter()
    while due < begin + seconds:
        due += random.expovariate(rate)
        await asyncio.sleep(max(0, due - time.perf_counter()))
        task = asyncio.create_task(one(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    took = time.perf_counter() - begin
    while not free.empty():
        free.get_nowait().close()
    return took


async def measure_peak(address):
    await closed_loop(address, 16, 2)
    return len(await closed_loop(address, 16, 5)) / 5


async def overload(args, index):
    with Server(args, index) as server:
        await closed_loop(server.address, 1, 1)
        alone = await closed_loop(server.address, 1, 5)
        peak = await measure_peak(server.address)
        steady, highest = server.rss_mib(), 0.0
        good, due_good, refused, statuses, waits = [], [], [], Counter(), Counter()

        def on_answer(due, sent, status, wait):
            nonlocal highest
            now = time.perf_counter()
            statuses[status] += 1
            if status == 200:
                good.append(now - sent)
                due_good.append(now - due)
            elif status == 503:
                refused.append(now - sent)
                waits[wait] += 1
            if sum(statuses.values()) % 200 == 0:
                highest = max(highest, server.rss_mib())

        took = await open_loop(server.address, 2 * peak, args.connections, args.seconds, on_answer)
        over, recovery = time.perf_counter(), None
        while recovery is None and time.perf_counter() < over + 30:
            if percentile(await closed_loop(server.address, 1, 0.5), 0.99) <= 3 * percentile(alone, 0.99):
                recovery = time.perf_counter() - over
        return {"alone": spread(alone), "peak_per_second": peak, "offered_per_second": 2 * peak, "statuses": statuses,
                "accepted": spread(good), "accepted_due": spread(due_good), "refused": spread(refused), "retry_after": waits,
                "goodput_of_peak": len(good) / took / peak, "rss_mib": {"steady": steady, "highest": highest},
                "recovered_after_seconds": recovery}


async def connections(server):
    """Open ones, this one not counted."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    page = (await reader.read()).decode()
    writer.close()
    return int(page.split("\nhindsearch_connections ")[1].split()[0]) - 1


async def slow_client(server, kind, statuses):
    """One that sends a byte each half second until it is answered or cut off; or takes nothing of what it is sent."""
    reader, writer = await asyncio.open_connection(*server.address, limit=1 << 12)
    if kind == "reader":
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        writer.transport.pause_reading()
        body = json.dumps({"queries": [question()] * 10, "top_k": 1000}).encode()
        # One that is refused for lack of memory is gone at once.
        head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        return writer
    whole = search()
    sent = 10 if kind == "head" else whole.index(b"\r\n\r\n") + 14
    writer.write(whole[:sent])
    answer = asyncio.ensure_future(reader.read(1 << 12))
    while not answer.done() and sent < len(whole) - 1:
        writer.write(whole[sent:sent + 1])
        sent += 1
        await asyncio.wait([answer], timeout=0.5)
    try:
        first = await answer
        statuses[first[9:12].decode() or "closed"] += 1
    except OSError:
        statuses["reset"] += 1
    return writer


async def slow_kind(server, kind):
    """How long the server keeps slow clients, and how a normal one does meanwhile."""
    count, statuses, begin = SLOW // 10 if kind == "reader" else SLOW, Counter(), time.perf_counter()
    slow = asyncio.gather(*(slow_client(server, kind, statuses) for _ in range(count)))
    normal, highest, gone, seen = [], 0.0, None, 0
    while gone is None and time.perf_counter() < begin + 60:
        normal += await closed_loop(server.address, 1, 0.25)
        highest, now = max(highest, server.rss_mib()), await connections(server)
        seen = max(seen, now)
        if seen >= count and now <= 1:
            gone = time.perf_counter() - begin
    for writer in await slow:
        writer.transport.abort()
    return {"clients": count, "gone_after_seconds": gone, "statuses": statuses, "normal_client": spread(normal),
            "highest_rss_mib": highest}


async def slow(args, index):
    report = {}
    with Server(args, index, f"serve.head_time={LIMIT}", f"serve.body_time={LIMIT}") as server:
        await closed_loop(server.address, 1, 1)
        report["normal_client_alone"] = spread(await closed_loop(server.address, 1, 5))
        for kind in ("head", "body", "reader"):
            report[kind] = await slow_kind(server, kind)
            await asyncio.sleep(1)
    return report


async def drain(args, index):
    with Server(args, index) as server:
        clients = [Client(server.address) for _ in range(200)]
        tasks = [asyncio.create_task(client.ask(search())) for client in clients]
        await asyncio.sleep(0.1)
        begin = time.perf_counter()
        server.process.send_signal(signal.SIGTERM)
        answers = Counter(status for status, _ in await asyncio.gather(*tasks))
        code = await asyncio.to_thread(server.process.wait, 60)
        return {"statuses": answers, "exit_code": code, "ended_after_seconds": time.perf_counter() - begin}


def publish(index):
    """A copy of the current generation under the next number; the ones before it go."""
    last = index / (index / "CURRENT").read_text().strip()
    following = index / f"gen-{int(last.name.removeprefix('gen-')) + 1:06}"
    shutil.copytree(last, following)
    (index / "CURRENT.new").write_text(following.name + "\n")
    (index / "CURRENT.new").rename(index / "CURRENT")
    for old in index.glob("gen-*"):
        if old < last:
            shutil.rmtree(old)


def slope(samples, key):
    """Least squares, a minute, over the samples after the first fifth."""
    points = [(sample["seconds"] / 60, sample[key]) for sample in samples[len(samples) // 5:]]
    if len(points) < 2:
        return None
    middle, mean = (sum(column) / len(points) for column in zip(*points))
    return sum((x - middle) * (y - mean) for x, y in points) / sum((x - middle) ** 2 for x, _ in points)


async def soak(args, index):
    with Server(args, index) as server, open(args.out / "serve_soak.jsonl", "w", encoding="utf-8") as lines:
        peak = await measure_peak(server.address)
        begin, samples, recent, all_answers, statuses = time.perf_counter(), [], [], [], Counter()

        def on_answer(due, sent, status, wait):
            statuses[status] += 1
            if status == 200:
                recent.append(time.perf_counter() - due)
                all_answers.append((due - begin, recent[-1]))

        async def watch():
            published = 0
            while True:
                await asyncio.sleep(SAMPLE_SECONDS)
                if server.process.poll() is not None:
                    raise SystemExit(f"the server has ended with {server.process.returncode}; see `{lines.name}`")
                seconds = time.perf_counter() - begin
                if seconds >= (published + 1) * GENERATION_SECONDS:
                    await asyncio.to_thread(publish, index)
                    published += 1
                samples.append({"seconds": round(seconds, 1), "published": published, "rss_mib": round(server.rss_mib(), 2),
                                "descriptors": server.descriptors(), "mappings": server.mappings(), **spread(recent),
                                "statuses": dict(statuses)})
                print(json.dumps(samples[-1]), file=lines, flush=True)
                recent.clear()

        watching = asyncio.create_task(watch())
        await open_loop(server.address, 0.7 * peak, args.connections, args.seconds, on_answer)
        watching.cancel()
        tenth = args.seconds / 10
        return {"peak_per_second": peak, "statuses": statuses, "rss_mib_a_minute": slope(samples, "rss_mib"),
                "descriptors": [samples[0]["descriptors"], samples[-1]["descriptors"]] if samples else None,
                "first_tenth": spread([took for at, took in all_answers if at < tenth]),
                "last_tenth": spread([took for at, took in all_answers if at >= args.seconds - tenth])}


PARTS = {"overload": overload, "slow": slow, "drain": drain, "soak": soak}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hindsearch", required=True)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--parts", default="overload,slow,drain")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=int, default=512)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    args.out.mkdir(parents=True, exist_ok=True)
    report = {}
    for part in args.parts.split(","):
        with tempfile.TemporaryDirectory() as folder:
            index = Path(shutil.copytree(args.index, Path(folder) / "index"))
            report[part] = asyncio.run(PARTS[part](args, index))
        print(part, json.dumps(report[part], indent=1), flush=True)
    (args.out / "serve_faults.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
