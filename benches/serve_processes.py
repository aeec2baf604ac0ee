"""The servers of serve_load.py: how each is started, when it is ready, what it has used, and how it is stopped."""
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

QUIET = {"OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1",
         "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
START_LIMIT, STOP_LIMIT = 600, 30  # seconds


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process under a name. `command` has `{port}` where it wants one; without it, the address is on stdout."""

    def __init__(self, name, command, ready_path, environment=None):
        self.name, self.command, self.ready_path = name, [str(part) for part in command], ready_path
        self.environment = QUIET | (environment or {})
        self.process = self.url = None
        self.ready_seconds = 0.0

    def start(self, log):
        """Returns once it answers; its stderr goes to the file `log`."""
        begin, port = time.perf_counter(), free_port()
        command = [part.replace("{port}", str(port)) for part in self.command]
        announces = command == self.command
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, env=os.environ | self.environment, stderr=errors,
                                            stdout=subprocess.PIPE if announces else errors)
        self.url = self.announced(log) if announces else f"http://127.0.0.1:{port}"
        while not self.answers():
            if self.process.poll() is not None or time.perf_counter() > begin + START_LIMIT:
                raise SystemExit(f"`{self.name}` did not start: see `{log}`")
            time.sleep(0.05)
        self.ready_seconds = time.perf_counter() - begin

    def announced(self, log):
        try:
            return json.loads(self.process.stdout.readline())["address"]
        except ValueError:
            raise SystemExit(f"`{self.name}` did not say its address: see `{log}`") from None

    def answers(self):
        try:
            return urllib.request.urlopen(self.url + self.ready_path, timeout=5).status == 200
        except (urllib.error.URLError, OSError):
            return False

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """MB resident: all of it, and what is not a page of a mapped file."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmRSS", "RssAnon"))}
        return round(int(sizes["VmRSS"]) / 1024), round(int(sizes["RssAnon"]) / 1024)

    def stop(self):
        """The exit status; a server that SIGTERM does not end is killed."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def python_peer(encoder, args, vectors, corpus, inflight=0):
    here = Path(__file__).resolve().parent
    command = [args.python or sys.executable, here / "serve_peer.py", "--vectors", vectors, "--corpus", corpus, "--model", args.model,
               "--encoder", encoder, "--threads", args.threads, "--port", "{port}", "--inflight", inflight]
    if args.onnx:
        command += ["--onnx", args.onnx]
    name = {"st": "FastAPI, sentence-transformers, faiss", "ort": "FastAPI, onnxruntime, faiss"}[encoder]
    return Server(name + (f", {inflight} at once" if inflight else ""), command, "/openapi.json")


def hindsearch(name, args, index):
    command = [args.hindsearch, "serve", index, "--port", "0", "--json", "--no-access-log", "--set", f"embed.threads={args.threads}",
               "--set", f"search.threads={args.threads}"]
    return Server(name, command, "/readyz")


def infinity(args, threads):
    command = [args.infinity, "v2", "--model-id", args.model, "--engine", "torch", "--device", "cpu", "--host", "127.0.0.1",
               "--port", "{port}", "--no-bettertransformer", "--no-model-warmup", "--url-prefix", "/v1", "--log-level", "warning"]
    return Server(f"infinity, torch, {threads} threads", command, "/health", {"OMP_NUM_THREADS": str(threads)})
