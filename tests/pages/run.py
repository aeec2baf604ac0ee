#!/usr/bin/env python3
"""Tests the pages at `/` and `/docs` in headless Chromium (`apt-get install chromium chromium-driver`).

    python3 tests/pages/run.py --hindsearch target/debug/hindsearch      # builds an index of hostile.jsonl and serves it
    python3 tests/pages/run.py --hindsearch PATH --index DIR             # serves that index
    python3 tests/pages/run.py --server http://127.0.0.1:8000            # asks a server that runs already

Exit code 0: all passed; 1: something failed; 77: skipped, because Chromium is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import checks
from webdriver import Browser, Missing

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(program, folder):
    """An index of the hostile passages and one of 200,000 characters without a space, by the small model of the tests."""
    corpus = folder / "corpus.jsonl"
    long = json.dumps({"id": "long", "contents": '"Long"\n' + "x" * 200_000})
    corpus.write_text((HERE / "hostile.jsonl").read_text() + long + "\n")
    environment = {"HINDSEARCH_MODEL_SOURCE": str(ROOT / "tests/fixtures/tiny-bert"), "HINDSEARCH_CACHE": str(ROOT / ".cache/hindsearch"), **os.environ}
    subprocess.run([program, "build", str(corpus), "--out", str(folder / "index")], check=True, env=environment, stdout=subprocess.DEVNULL)
    return folder / "index"


class Server:
    """`hindsearch serve` on a free port; a context manager that gives its address and ends it by SIGTERM."""

    def __init__(self, program, index, *arguments):
        self.command = [program, "serve", str(index), "--port", "0", "--json", *arguments]

    def __enter__(self):
        environment = {"HINDSEARCH_CACHE": str(ROOT / ".cache/hindsearch"), **os.environ}
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.log, env=environment, text=True)
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            sys.exit(f"`{' '.join(self.command)}` ended with {self.process.wait()} before it served:\n{self.log.read().decode(errors='replace')}")
        return json.loads(line)["address"]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)


def test(servers, folder):
    with Browser() as browser:
        checks.Page.browser, checks.Page.servers, checks.Page.pictures = browser, servers, folder
        suite = unittest.defaultTestLoader.loadTestsFromModule(checks)
        return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", metavar="URL", help="a running server")
    parser.add_argument("--hindsearch", metavar="PATH", help="the program, to start a server with")
    parser.add_argument("--index", metavar="DIR", help="the index to serve; default: one built of hostile.jsonl")
    parser.add_argument("--pictures", metavar="DIR", help="where screenshots go; default: none are taken")
    options = parser.parse_args()
    if bool(options.server) == bool(options.hindsearch):
        parser.error("exactly one of --server and --hindsearch is needed")
    try:
        if options.server:
            return test({"open": options.server.rstrip("/")}, options.pictures)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            index = options.index or build(options.hindsearch, folder)
            (folder / "token").write_text(checks.TOKEN)
            with Server(options.hindsearch, index) as free, Server(options.hindsearch, index, "--token-file", str(folder / "token")) as closed:
                return test({"open": free, "closed": closed}, options.pictures)
    except Missing as missing:
        print(f"SKIPPED: the pages were NOT tested: {missing}", file=sys.stderr)
        return 77


if __name__ == "__main__":
    sys.exit(main())
