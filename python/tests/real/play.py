"""What all trainers are given here: 64 questions, a scripted policy, a real server, and the rewards that each must come to.

The policy answers most questions rightly, some wrongly, some without a search and some after nonsense. Each trainer's own loop
has to earn, episode by episode, what `SearchEnv` alone earns.
"""

import atexit
import json
import os
import subprocess
from pathlib import Path

from hindsearch import Client
from hindsearch._core import tasks
from hindsearch.env import SearchEnv

ROOT = Path(__file__).resolve().parents[3]
TASKS = tasks("sample")[:64]
QUESTIONS = [task["question"] for task in TASKS]
GOLDS = [task["golds"] for task in TASKS]


def script(number):
    """The messages of an episode."""
    question, gold = QUESTIONS[number], GOLDS[number][0]
    look, right = f"<think>I do not know.</think><search>{question}</search>", f"<answer>{gold}</answer>"
    return [
        [look, right],
        [look, f"<search>more about {question}</search>", "<answer>nobody knows</answer>"],
        [right],
        ["I would rather not.", look, f"<answer>{gold.upper()}</answer>"],
    ][number % 4]


def calls(number):
    """The same episode as calls of tools: `(name, argument)`; nonsense and thoughts are left out."""
    question, gold = QUESTIONS[number], GOLDS[number][0]
    look = ("search", question)
    return [
        [look, ("answer", gold)],
        [look, ("search", f"more about {question}"), ("answer", "nobody knows")],
        [("answer", gold)],
        [look, ("answer", gold.upper())],
    ][number % 4]


def number_of(text):
    """Which question a prompt asks."""
    found = [number for number, question in enumerate(QUESTIONS) if question in text]
    return max(found, key=lambda number: len(QUESTIONS[number]))


def reply(text):
    """The next message for an episode whose whole text so far this is; some trainers leave thoughts out of it."""
    return next(message for message in script(number_of(text)) if message.split("</think>")[-1] not in text)


def rewards(url):
    """What `SearchEnv` alone earns."""
    env, earned = SearchEnv(Client(url)), []
    for number, task in enumerate(TASKS):
        env.reset(**task)
        earned.append([env.step(message) for message in script(number)][-1].reward)
    assert 0 < sum(earned) < len(earned), earned
    return earned


def server():
    """The URL of a server of the sample corpus: `SEARCH_ENV_URL`, or one that is started."""
    if os.environ.get("SEARCH_ENV_URL"):
        return os.environ["SEARCH_ENV_URL"]
    program = os.environ.get("REAL_PROGRAM", ROOT / "target/debug/hindsearch")
    index = os.environ.get("REAL_INDEX", ROOT / ".cache/example")
    command = [program, "--json", "serve", index, "--port", "0", "--no-access-log"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    atexit.register(process.terminate)
    os.environ["SEARCH_ENV_URL"] = json.loads(process.stdout.readline())["address"]
    return os.environ["SEARCH_ENV_URL"]


def same(what, found, url):
    """Says what was played, and ends the program where the rewards differ."""
    expected = rewards(url)
    wrong = [(number, found[number], expected[number]) for number in range(len(expected)) if found[number] != expected[number]]
    assert len(found) == len(expected) and not wrong, f"{what}: (episode, found, expected) {wrong}"
    print(f"{what}: {len(found)} episodes, reward {sum(found):g}, each as SearchEnv's")
