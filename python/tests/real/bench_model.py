"""The model of `bench_peers.py`: searches so many times, by tags or by a tool, then answers. Prints its URL."""

import json
import re
import sys
import threading

import model_server

SEARCHES = int(sys.argv[1])


def reply(messages, tools):
    said = sum(message["role"] == "assistant" for message in messages)
    if said >= SEARCHES:
        return "<answer>Marie Curie</answer>", None
    [question] = re.findall(r"Who discovered radium\? \(\d+\)", json.dumps(messages))[:1]
    query = f"{question} {said}"
    if tools:
        return "", {"name": tools[0]["function"]["name"], "arguments": json.dumps({"query": query})}
    return f"<search>{query}</search>", None


print(model_server.start(reply, calls=True), flush=True)
threading.Event().wait()
