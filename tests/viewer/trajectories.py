"""Trajectories for the tests of the viewer: ordinary ones over the sample corpus, and hostile ones. Seeded, so always the same."""

import json
import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMPT = """Answer the question below. Before every step, think inside <think> and </think>. When you lack knowledge, ask the search engine \
with <search> query </search>; the passages it finds are shown between <information> and </information>. When you know the answer, give it \
inside <answer> and </answer>.
Question: """
MARKERS = r"\[(?=/?INST\]|/?SYSTEM_PROMPT\]|AVAILABLE_TOOLS\]|TOOL_CALLS\]|/?TOOL_RESULTS\])"


def lines(path):
    return [json.loads(line) for line in (ROOT / path).read_text().splitlines()]


def escape(text):
    """What the environment makes of a passage: nothing in it looks like a tag."""
    replace = {"&": "&amp;", "<": "&lt;", "[": "&#91;"}
    return re.sub(rf"&(?=lt;|#91;|amp;)|<(?![0-9=])|{MARKERS}", lambda found: replace[found[0]], text)


def span(author, role, text, tokens=True, seed=0):
    made = {"author": author, "role": role, "text": text}
    if tokens:
        # Words with the blank before them, in pieces of up to six characters: about what a tokenizer does.
        pieces = re.findall(r"\s?\w{1,6}|\s?[^\w\s]|\s", text)
        ends, end = [], 0
        for piece in pieces:
            end += len(piece.encode())
            ends.append(end)
        made["tokens"] = [sum(map(ord, piece)) * 31 % 150_000 for piece in pieces]
        made["ends"] = ends
        if author == "policy":
            dice = random.Random(seed)
            made["logprobs"] = [round(-dice.expovariate(2.5), 4) for _ in pieces]
    return made


def content(text, tag):
    """Where the tag's inside stands, in bytes."""
    before, inside = text.split(f"<{tag}>", 1)[0] + f"<{tag}>", text.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]
    return {"start": len(before.encode()), "end": len((before + inside).encode())}


class Episode:
    """Builds a trajectory turn by turn."""

    def __init__(self, task, sample, question, tokens=True, source="sample", preset="hindsearch"):
        self.tokens, self.seed = tokens, hash_of(task, sample)
        self.record = {
            "version": 1, "task": task, "sample": sample, "source": source, "question": question, "preset": preset,
            "spans": [span("prompt", "user", f"{PROMPT}{question}\n", tokens)], "turns": [],
        }

    def say(self, text, action, tag=None, **more):
        self.record["spans"].append(span("policy", "assistant", text, self.tokens, self.seed + len(text)))
        turn = {"span": len(self.record["spans"]) - 1, "action": action, **more}
        if tag:
            turn["content"] = content(text, tag)
        self.record["turns"].append(turn)
        return turn

    def see(self, text):
        self.record["spans"].append(span("environment", "assistant", text, self.tokens))
        self.record["turns"][-1]["observation"] = len(self.record["spans"]) - 1

    def search(self, thought, query, passages, shown=None):
        """Passages are (row, id, contents, score); `shown` of them are, all where it is not given."""
        shown = len(passages) if shown is None else shown
        turn = self.say(f"<think>{thought}</think>\n<search> {query} </search>", {"kind": "search", "queries": [query]}, "search")
        turn["found"] = [[{"id": id, "row": row, "score": score, "shown": rank < shown} for rank, (row, id, _, score) in enumerate(passages)]]
        if shown < len(passages):
            turn["truncated"] = True
        text = "".join(f"[{rank + 1}] {contents.split(chr(10), 1)[0]}: {contents.split(chr(10), 1)[-1]}\n" for rank, (_, _, contents, _) in enumerate(passages[:shown]))
        inside = escape(text).strip() if self.record["preset"] == "hindsearch" else text.strip()
        self.see(f"\n\n<information>{inside or 'Nothing was found.'}</information>\n\n")

    def answer(self, thought, answer):
        self.say(f"<think>{thought}</think>\n<answer> {answer} </answer>", {"kind": "answer", "text": answer}, "answer")
        self.record["stop"] = "answer"

    def guide(self, planning, step, entry="0123456789abcdef"):
        """What experience says in the prompt, and behind the passages of each search."""
        self.record["experience"] = [{"entry": entry, "score": 0.5, "text": planning}]
        for turn in self.record["turns"]:
            if turn["action"]["kind"] == "search":
                turn["experience"] = [{"entry": entry, "score": 0.875, "text": step}]

    def earn(self, *terms):
        """Terms are (name, weight, value)."""
        self.record["reward"] = {
            "total": sum(weight * value for _, weight, value in terms),
            "terms": [{"name": name, "weight": weight, "value": value} for name, weight, value in terms],
        }
        return self.record


def hash_of(task, sample):
    return sum(map(ord, task)) * 131 + sample


def ordinary(count):
    """Episodes of the sample questions, five plays each, with all the ways to end."""
    corpus, questions, dice = lines("examples/data/corpus.jsonl"), lines("examples/data/questions.jsonl"), random.Random(7)
    for number in range(count):
        asked = questions[number // 5 % len(questions)]
        task, question, gold = f"{asked['id']}-{number // 5 // len(questions)}", asked["question"], asked["golden_answers"][0]
        episode = Episode(task, number % 5, question, tokens=number % 7 != 6)
        row = int(asked["metadata"]["gold_passage_ids"][0])
        fate = dice.random()
        searches = dice.choice([0, 1, 1, 1, 2, 2, 3])
        for turn in range(searches):
            rows = [(row + turn * 5 + step * step) % len(corpus) for step in range(3 + 2 * (turn == 1))]
            scores = sorted((round(dice.uniform(0.35, 0.83), 6) for _ in rows), reverse=True)
            found = [(at, corpus[at]["id"], corpus[at]["contents"], score) for at, score in zip(rows, scores)]
            thought = "I need to find out more about this." if turn == 0 else "The passages do not settle it; I ask in other words."
            query = question.rstrip("?").lower() if turn == 0 else " ".join(question.rstrip("?").split()[-4:])
            episode.search(thought, query, found, 3 if turn == 1 else None)
        if fate < 0.06:
            episode.record["error"] = "model: no answer from the server within 300 s; is it running?"
            yield episode.record
            continue
        if fate < 0.14:
            episode.say("<think>Perhaps I remember. It may be one of two, and I go on thinking about", {"kind": "invalid", "reason": "no action"}, cut_off=True)
            episode.see("\nThat was neither a search nor an answer. A query belongs between <search> and </search>, the final answer between <answer> and </answer>.\n")
        if fate < 0.2:
            episode.record["stop"] = dice.choice(["turns", "context", "end"])
            yield episode.earn(("em", 1, 0), ("format", 0.2, 0), ("searches", -0.05, searches))
            continue
        right = dice.random() < 0.3 + 0.2 * searches
        episode.answer("The first passage says so." if right else "I am not sure, but this is likely.", gold if right else "Paris")
        if number % 11 == 3:
            episode.record["critique"] = (
                "The second search repeated the first in other words and brought nothing new. A query that names the entity of the first passage would have found the gold passage."
                if searches > 1 else "The answer rests on memory; no passage supports it. Search once before you answer.")
        if number % 13 == 5:
            episode.guide("Rule of the prompt.", "Advice behind passages.")
        yield episode.earn(("em", 1, float(right)), ("format", 0.2, 1), ("searches", -0.05, searches))


def hostile():
    """Episodes in which every text attacks the page."""
    passages = [(row, one["id"], one["contents"], 0.9 - row / 50) for row, one in enumerate(lines("tests/pages/hostile.jsonl"))]
    attack = "<img src=x onerror=\"window.attacked='{0}'\"><script>window.attacked='{0}'</script>\u202e"
    for preset in ("hindsearch", "unescaped"):
        episode = Episode(f"hostile-{preset}", 0, "What do the hostile passages say?", preset=preset)
        episode.search("They may say anything.", "marie curie", passages)
        episode.answer("I do as I was told.", "radium")
        yield episode.earn(("em", 1, 1))
    texts = {name: attack.format(name) for name in ("task", "question", "source", "preset", "query", "answer", "thought", "term", "critique", "advice", "reason", "id")}
    episode = Episode(texts["task"], 0, texts["question"], source=texts["source"], preset=texts["preset"])
    episode.search(texts["thought"], texts["query"], [(2**53, texts["id"], "\"T\"\n" + attack.format("passage"), -1.5)])
    episode.say("</div></section><script>window.attacked='invalid'</script>", {"kind": "invalid", "reason": texts["reason"]})
    episode.answer(texts["thought"], texts["answer"])
    episode.record["critique"] = texts["critique"]
    episode.guide(texts["advice"], texts["advice"], entry=texts["id"])
    yield episode.earn((texts["term"], 1, -3.25))
    failed = Episode("hostile-error", 0, "Who fails?")
    failed.record["error"] = attack.format("error")
    yield failed.record
    long = Episode("hostile-long", 0, "x" * 100_000)
    long.search("y" * 30_000, "z" * 5000, [(row, f"id{row}", "\"Long\"\n" + "w" * 3000, 1.0) for row in range(120)])
    long.answer("I end.", "v" * 50_000)
    yield long.earn(("em", 1, 0))
    # A character over three tokens, tokens without ends, and places that lie outside of the text.
    odd = Episode("hostile-places", 0, "Where?")
    odd.record["spans"] += [
        {"author": "policy", "role": "assistant", "text": "é🎉x", "tokens": [1, 2, 3, 4], "ends": [2, 6, 6, 7], "logprobs": [-0.5, -1, -2, -0.25]},
        {"author": "policy", "role": "assistant", "text": "no ends", "tokens": [5, 6]},
        {"author": "policy", "role": "assistant", "text": "🎉", "tokens": [7, 8], "ends": [1, 999]},
        {"author": "policy", "role": "assistant", "text": "ends of others", "tokens": [9], "ends": [1, 2, 3]},
    ]
    odd.record["turns"] = [
        {"span": 1, "action": {"kind": "search", "queries": ["🎉"]}, "content": {"start": 2, "end": 6}, "found": [[]]},
        {"span": 77, "action": {"kind": "end"}, "content": {"start": 900, "end": 3}},
        {"span": 3, "action": {"kind": "search", "queries": ["a", "b"]}, "content": {"start": 3, "end": 1}, "found": [[]], "observation": 99},
    ]
    odd.record["stop"] = "end"
    yield odd.record


def write(path, count):
    """Hostile ones first, then `count` ordinary ones, the first of which is played again at the end."""
    records = [*hostile(), *ordinary(count)]
    if count:
        records.append({**records[-count], "critique": "Played again."})
    with open(path, "w") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return records


if __name__ == "__main__":
    import sys

    write(sys.argv[1], int(sys.argv[2]))
