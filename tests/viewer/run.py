#!/usr/bin/env python3
"""Tests the page of `hindsearch view` in headless Chromium (`apt-get install chromium chromium-driver`).

    python3 tests/viewer/run.py --hindsearch target/debug/hindsearch [--pictures DIR]

Exit code 0: all passed; 1: something failed; 77: skipped, because Chromium is missing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "pages"))

import trajectories  # noqa: E402
import viewing  # noqa: E402
from checks import Page  # noqa: E402
from webdriver import Browser, Missing  # noqa: E402

ORDINARY = 600


class Viewer:
    """`hindsearch view` on a free port; a context manager that gives its address and ends it by SIGTERM."""

    def __init__(self, program, run):
        self.command = [program, "view", str(run), "--port", "0", "--json"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"`{' '.join(self.command)}` ended with {self.process.wait()} before it served:\n{self.process.stderr.read()}")
        return json.loads(line)["address"]

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(10)
        assert code == 0, f"SIGTERM is the ordinary end, but the exit code is {code}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hindsearch", metavar="PATH", required=True, help="the program")
    parser.add_argument("--pictures", metavar="DIR", help="where screenshots go; default: none are taken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        viewing.RUN = Path(folder) / "trajectories.jsonl"
        viewing.RECORDS = trajectories.write(viewing.RUN, ORDINARY)
        try:
            with Viewer(options.hindsearch, folder) as address, Browser() as browser:
                Page.browser, Page.servers, Page.pictures = browser, {"open": address}, options.pictures
                suite = unittest.defaultTestLoader.loadTestsFromModule(viewing)
                return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1
        except Missing as missing:
            print(f"SKIPPED: the page was NOT tested: {missing}", file=sys.stderr)
            return 77


if __name__ == "__main__":
    sys.exit(main())
