"""How does a case become a line of a golden file?"""

import contextlib
import io
import json
import math
import sys
from pathlib import Path

from .loading import SOURCES

OUT = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parents[1] / "scorers"


def plain(value):
    """Turns tuples, numpy numbers and booleans into plain JSON values."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return str(value)
    return value


def attempt(expected, key, call):
    """Adds the value of a call under a key, or null and the error's text."""
    try:
        expected[key] = plain(call())
    except Exception as error:  # what the reference raises is part of the golden
        expected[key] = None
        text = str(error).split("\n")[0]
        note = f"{key}: {type(error).__name__}: {text}"
        expected["error"] = f"{expected['error']}; {note}" if "error" in expected else note
    return expected[key]


def number(value):
    return float(value)


ABSENT = object()


class Case:
    """One input: a name, the fields of the input, the golds, the raw golds."""

    def __init__(self, name, golds, raw=ABSENT, **fields):
        self.name, self.golds, self.raw, self.fields = name, golds, raw, fields


def write(scorer, key, path, how, options, cases, expect):
    """Runs every case and writes one golden file, one case a line."""
    repo, commit = SOURCES[key]
    head = {"scorer": scorer, "source": {"repository": repo, "path": path, "commit": commit}, "how": how, "options": options}
    lines, names = [], set()
    for case in cases:
        assert case.name not in names, (scorer, case.name)
        names.add(case.name)
        fields = dict(case.fields)
        if case.raw is not ABSENT:
            fields["ground_truth"] = case.raw
        with contextlib.redirect_stdout(io.StringIO()):
            expected = expect(case)
        lines.append(json.dumps({"name": case.name, "input": fields, "golds": case.golds, "expected": expected}))
    body = json.dumps(head, indent=2)[:-2] + ',\n  "cases": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n"
    json.loads(body)
    (OUT / f"{scorer}.json").write_text(body, encoding="utf-8")
    errors = sum('"error":' in line for line in lines)
    print(f"{scorer}.json: {len(lines)} cases, {errors} with an error")
