#!/usr/bin/env python3
"""A closed loop of HTTP clients: each keeps one connection open and sends its next request when its last is answered.

    load_client.py URL BODIES.jsonl --connections 16 --seconds 10
    load_client.py --floor [--connections 16] [--seconds 3]

Line i of BODIES.jsonl is the body of the i-th POST; `wrapped` says that they did not suffice and were sent again. Prints one
JSON object. Requests are sent for so many seconds and each is waited for; requests a second are all that were answered, over the
time until the last answer; latencies are in ms. An answer other than 200, and a connection lost, is an error. `--floor` measures this client alone,
against a server that does nothing. One thread, epoll, no library: `client_cpu_ms` is its own cost a request.
"""
import argparse
import json
import math
import multiprocessing
import select
import socket
import time
from collections import Counter
from urllib.parse import urlsplit

TIMEOUT = 180.0  # seconds for the last answers to come


class Connection:
    """One client's socket, the answer it waits for, and when it asked."""

    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.started, self.buffer, self.end, self.waiting = 0.0, b"", 0, False

    def send(self, request):
        self.buffer, self.end, self.waiting = b"", 0, True
        self.started = time.perf_counter()
        self.socket.sendall(request)

    def receive(self):
        """The status once the answer is complete, else None. ConnectionError where the server hung up."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionError("closed")
        self.buffer += part
        if not self.end:
            head = self.buffer.find(b"\r\n\r\n")
            if head < 0:
                return None
            fields = self.buffer[:head].lower().split(b"\r\n")
            length = next((int(f.split(b":")[1]) for f in fields if f.startswith(b"content-length:")), None)
            if length is None:
                raise ConnectionError("an answer without content-length")
            self.end = head + 4 + length
        if len(self.buffer) < self.end:
            return None
        self.waiting = False
        return int(self.buffer[9:12])


class Load:
    def __init__(self, url, bodies):
        parts = urlsplit(url)
        self.address = parts.hostname, parts.port
        self.head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.bodies, self.sent = bodies, 0
        self.latencies, self.errors, self.took = [], Counter(), 0.0

    def request(self):
        body = self.bodies[self.sent % len(self.bodies)]
        self.sent += 1
        return (self.head % len(body)).encode() + body

    def run(self, connections, seconds):
        poll, open_connections = select.epoll(), {}

        def connect():
            connection = Connection(self.address)
            open_connections[connection.socket.fileno()] = connection
            poll.register(connection.socket, select.EPOLLIN)
            return connection

        waiting = [connect() for _ in range(connections)]
        cpu, begin = time.process_time(), time.perf_counter()
        end = begin + seconds
        for connection in waiting:
            connection.send(self.request())
        outstanding = connections
        while outstanding and time.perf_counter() < end + TIMEOUT:
            for descriptor, _ in poll.poll(1.0):
                connection = open_connections[descriptor]
                if not connection.waiting:  # its work is done; a server may hang up on it while others still wait
                    poll.unregister(descriptor)
                    continue
                try:
                    status = connection.receive()
                except ConnectionError as error:
                    self.errors[f"connection {error}"] += 1
                    del open_connections[descriptor]
                    connection.socket.close()
                    connection, status = connect(), 0
                if status is None:
                    continue
                now = time.perf_counter()
                outstanding -= 1
                if status == 200:
                    self.latencies.append(now - connection.started)
                    self.took = now - begin
                elif status:
                    self.errors[f"status {status}"] += 1
                if now < end:
                    connection.send(self.request())
                    outstanding += 1
        if outstanding:
            self.errors["no answer"] += outstanding
        return self.report(connections, seconds, time.process_time() - cpu)

    def report(self, connections, seconds, cpu):
        ordered = sorted(self.latencies)

        def percentile(share):
            return round(1000 * ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3) if ordered else None

        return {"connections": connections, "seconds": seconds, "sent": self.sent, "answered": len(ordered),
                "errors": self.errors.total(), "kinds_of_error": self.errors, "per_second": len(ordered) / self.took if ordered else 0.0, "wrapped": self.sent > len(self.bodies),
                "p50": percentile(0.5), "p95": percentile(0.95), "p99": percentile(0.99), "max": percentile(1.0),
                "client_cpu_ms": 1000 * cpu / max(1, self.sent)}


def idle_server(listener, answer):
    """Answers every read with the same bytes."""
    poll, clients = select.epoll(), {}
    poll.register(listener, select.EPOLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client
                poll.register(client, select.EPOLLIN)
            elif clients[descriptor].recv(1 << 16):
                clients[descriptor].sendall(answer)
            else:
                clients.pop(descriptor).close()


def floor(connections, seconds):
    """What this client measures where the server costs next to nothing; the answer has the size of three passages."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2200\r\n\r\n" + b"x" * 2200
    server = multiprocessing.get_context("fork").Process(target=idle_server, args=(listener, answer), daemon=True)
    server.start()
    try:
        return Load(f"http://127.0.0.1:{listener.getsockname()[1]}/retrieve", [b'{"queries":["a question"],"topk":3}']).run(connections, seconds)
    finally:
        server.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?")
    parser.add_argument("bodies", nargs="?")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--floor", action="store_true")
    args = parser.parse_args()
    if args.floor:
        report = floor(args.connections, args.seconds)
    else:
        if not args.bodies:
            parser.error("give a URL and a file of bodies, or `--floor`")
        with open(args.bodies, "rb") as lines:
            report = Load(args.url, lines.read().splitlines()).run(args.connections, args.seconds)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
