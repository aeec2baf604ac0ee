#!/usr/bin/env python3
"""Makes the golden files of the reward scorers.

    python3 make_scorers.py CHECKOUTS [OUT]

CHECKOUTS is a folder with one checkout for each entry of SOURCES, named
`owner+name@commit7` (first seven digits of the commit). OUT is the folder for
the JSON files; the default is `scorers` beside this script. The script imports
the scorers from the checkouts, feeds them the cases below and writes down what
they answer. It holds no reference code. Needs numpy, pydantic, openai, regex.
"""

import ast
import asyncio
import contextlib
import importlib.util
import io
import json
import math
import sys
import types
import typing
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

SOURCES = {
    "search-r1": ("PeterGriffinJin/Search-R1", "a14dc3a4ffc6fe88c1e95038d9738e21ba3f7a06"),
    "verl": ("verl-project/verl", "1dda039b9c6311889a9c9a26040677e1254814f9"),
    "skyrl": ("NovaSky-AI/SkyRL", "a9564572eb8e91076be43c1bd5e4615e3de17265"),
    "slime": ("THUDM/slime", "624b824a898ab0ec1fcb4d373004c7f3852bf515"),
    "asearcher": ("inclusionAI/ASearcher", "813e804fc3b24b661b4f5625c77343d5daa14a03"),
    "research": ("Agent-RL/ReSearch", "f228480bbb90d433b07a333a70efc7c54cff7e9b"),
    "recall": ("Agent-RL/ReSearch", "3d976d26ade4950bc491335bb80da1659424b3cb"),
    "r1-searcher": ("RUCAIBox/R1-Searcher", "631167cbb3c2464f805730e3e364a690f5b136d4"),
    "autorefine": ("syr-cn/AutoRefine", "83637883d98801dab1bd2dc36b9186a25efdaa98"),
    "zerosearch": ("Alibaba-NLP/ZeroSearch", "2d4cdca033ee2c11b1fcfc7fc448b902d7cf8bf5"),
    "search-o1": ("sunnynexus/Search-o1", "6ced48f5d97ca277a5689f5c135926a39ff903eb"),
    "rllm": ("rllm-org/rllm", "9beb6e0f676a46d38858991fd79ac5f8e0b16d4c"),
    "tinker": ("thinking-machines-lab/tinker-cookbook", "9dfcc3a2cf44432d621a01005073dc6d76a1e87a"),
    "nemo-gym": ("NVIDIA-NeMo/Gym", "07d6b0d07b22fcf530b4c211dae2ee23100428e4"),
    "flashrag": ("RUC-NLPIR/FlashRAG", "1ee524901aa3daf009f97b7a31e7a1b58eee8206"),
    "verl-tool": ("TIGER-AI-Lab/verl-tool", "980962b4b8af660eb96421df9ecf603a2f790570"),
}

CHECKOUTS = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("checkouts")
OUT = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent / "scorers"


# ---------------------------------------------------------------- loading


class _Anything:
    """Stands for whatever a reference imports and its scorer does not use."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        # A bare decorator gives back what it decorates.
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return _Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __getitem__(self, key):
        return _Anything()

    def __or__(self, other):
        return _Anything()

    __ror__ = __or__


def stub(name, **attrs):
    """Puts an empty module (and its parents) into sys.modules."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules:
            module = types.ModuleType(path)
            module.__path__ = []
            module.__getattr__ = lambda attr: (_ for _ in ()).throw(AttributeError(attr)) if attr.startswith("__") else _Anything()
            sys.modules[path] = module
    for key, value in attrs.items():
        setattr(sys.modules[name], key, value)
    return sys.modules[name]


def source_path(key, path):
    repo, commit = SOURCES[key]
    return CHECKOUTS / f"{repo.replace('/', '+')}@{commit[:7]}" / path


class _NoPrinting:
    """A `random` whose randint never picks the case that prints."""

    @staticmethod
    def randint(low, high):
        return high


def load(key, path):
    """Imports one file of a checkout under a name of its own."""
    name = f"ref_{key}_{path}".replace("/", "_").replace(".", "_").replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, source_path(key, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if hasattr(module, "random"):
        module.random = _NoPrinting
    return module


def load_function(key, path, function, **names):
    """Imports one function of a file whose other imports are too heavy."""
    tree = ast.parse(source_path(key, path).read_text(encoding="utf-8"))
    nodes = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
    scope = dict(names)
    exec(compile(ast.Module(nodes, []), path, "exec"), scope)
    return scope[function]


# ---------------------------------------------------------------- running


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


# ---------------------------------------------------------------- cases: single answers

LONG = " ".join(["word"] * 900)

# (name, answer, golds)
PAIRS = [
    ("exact", "Paris", ["Paris"]),
    ("wrong", "London", ["Paris"]),
    ("case", "pARIS", ["PAris"]),
    ("padded", "  Paris\n", ["\tParis "]),
    ("inner-blanks", "New    York", ["New York"]),
    ("newline-inside", "New\nYork", ["New York"]),
    ("crlf-inside", "New\r\nYork", ["New York"]),
    ("tab-inside", "New\tYork", ["New York"]),
    ("vertical-tab-form-feed", "New\x0b\x0cYork", ["New York"]),
    ("article-leading", "The Beatles", ["Beatles"]),
    ("article-middle", "war of the worlds", ["War of Worlds"]),
    ("article-all", "a an the", ["A"]),
    ("article-in-word", "Theodore", ["odore"]),
    ("article-hyphen", "A-Team", ["Team"]),
    ("article-apostrophe", "a'b", ["b"]),
    ("article-curly-apostrophe", "a\u2019b", ["\u2019b"]),
    ("article-underscore", "the_end", ["end"]),
    ("article-digit", "a1 the2", ["1 2"]),
    ("article-cjk-neighbour", "the\u5317\u4eac", ["\u5317\u4eac"]),
    ("article-combining-mark", "a\u0301 b", ["\u0301 b"]),
    ("article-combining-mark-kept", "the\u0302 x", ["the\u0302 x"]),
    ("article-before-nfd-letter", "an e\u0301t\u00e9", ["\u00e9t\u00e9"]),
    ("article-zero-width-joiner", "a\u200db", ["\u200db"]),
    ("article-zero-width-non-joiner", "the\u200cx", ["\u200cx"]),
    ("article-superscript", "a\u00b2", ["\u00b2"]),
    ("article-fraction", "a\u00bd", ["\u00bd"]),
    ("article-circled-letter", "a\u24d0", ["\u24d0"]),
    ("article-roman-numeral", "a\u2163", ["\u2163"]),
    ("article-undertie", "a\u203fb", ["\u203fb"]),
    ("article-devanagari-sign", "a\u093e", ["\u093e"]),
    ("article-variation-selector", "a\ufe0f", ["\ufe0f"]),
    ("article-enclosing-mark", "a\u20e3", ["\u20e3"]),
    ("article-middle-dot", "a\u00b7b", ["\u00b7b"]),
    ("article-thai-vowel", "a\u0e31", ["\u0e31"]),
    ("article-ordinal-indicator", "a\u00aa", ["\u00aa"]),
    ("article-fullwidth", "\uff41 \uff54\uff48\uff45 x", ["x"]),
    ("lower-dotted-i", "\u0130stanbul", ["i\u0307stanbul"]),
    ("lower-dotted-i-not-plain", "\u0130stanbul", ["istanbul"]),
    ("lower-dotless-i", "ISTANBUL", ["\u0131stanbul"]),
    ("lower-sharp-s", "STRASSE", ["stra\u00dfe"]),
    ("lower-capital-sharp-s", "STRA\u1e9eE", ["stra\u00dfe"]),
    ("lower-final-sigma", "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3", ["\u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2"]),
    ("lower-final-sigma-not-medial", "\u039f\u0394\u03a5\u03a3", ["\u03bf\u03b4\u03c5\u03c3"]),
    ("lower-lone-sigma", "\u03a3", ["\u03c3"]),
    ("lower-sigma-before-full-stop", "\u0391\u03a3.", ["\u03b1\u03c2"]),
    ("lower-sigma-full-stop-letter", "\u0391\u03a3.\u0392", ["\u03b1\u03c3\u03b2"]),
    ("lower-sigma-combining-mark", "\u0391\u03a3\u0301", ["\u03b1\u03c2\u0301"]),
    ("lower-sigma-before-digit", "\u0391\u03a31", ["\u03b1\u03c21"]),
    ("lower-kelvin", "300 \u212a", ["300 K"]),
    ("lower-angstrom", "\u212b", ["\u00e5"]),
    ("lower-digraph", "\u01c4\u01c5", ["\u01c6\u01c6"]),
    ("lower-ligature-kept", "\ufb01sh", ["fish"]),
    ("lower-deseret", "\U00010400", ["\U00010428"]),
    ("lower-cherokee", "\u13a0", ["\uab70"]),
    ("lower-georgian", "\u1c90", ["\u10d0"]),
    ("lower-accents", "\u00c9COLE", ["\u00e9cole"]),
    ("space-001c", "New\x1cYork", ["New York"]),
    ("space-001d-001e-001f", "A\x1dB\x1eC\x1fD", ["B C D"]),
    ("space-0085", "New\x85York", ["New York"]),
    ("space-00a0", "New\xa0York", ["New York"]),
    ("space-1680", "New\u1680York", ["New York"]),
    ("space-2003-200a", "New\u2003Jersey\u200aCity", ["New Jersey City"]),
    ("space-2028-2029", "New\u2028York\u2029City", ["New York City"]),
    ("space-202f-205f-3000", "A B\u202fC\u205fD\u3000E", ["B C D E"]),
    ("space-at-the-ends", "\x1f\x85Paris\u2028\x1c", ["Paris"]),
    ("no-space-200b", "New\u200bYork", ["New York"]),
    ("no-space-feff", "\ufeffParis", ["Paris"]),
    ("no-space-180e-2060", "New\u180eYork\u2060City", ["New York City"]),
    ("punctuation-dots", "U.S.A.", ["USA"]),
    ("punctuation-hyphens", "rock-n-roll", ["rocknroll"]),
    ("punctuation-hyphens-as-blanks", "rock-n-roll", ["rock n roll"]),
    ("punctuation-all-ascii", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~x", ["x"]),
    ("punctuation-curly-quote", "O\u2019Brien", ["O'Brien"]),
    ("punctuation-straight-quote", "O'Brien", ["OBrien"]),
    ("punctuation-en-dash", "1914\u20131918", ["1914-1918"]),
    ("punctuation-quotation-marks", "\u201cHello\u201d", ["Hello"]),
    ("punctuation-acute-and-grave", "rock\u00b4n`roll\u2018s", ["rock n roll s"]),
    ("punctuation-inverted", "\u00bfQu\u00e9?", ["qu\u00e9"]),
    ("punctuation-fullwidth", "\uff08x\uff09\uff0c", ["x"]),
    ("punctuation-collapses-names", "C++", ["C#"]),
    ("punctuation-underscore", "snake_case", ["snake case"]),
    ("punctuation-only-both", "...", ["!!!"]),
    ("empty-both", "", [""]),
    ("empty-answer", "", ["Paris"]),
    ("empty-gold", "Paris", [""]),
    ("blank-answer", "   \n ", ["Paris"]),
    ("article-against-empty", "the", [""]),
    ("blank-gold", "Paris", ["  "]),
    ("no-golds", "Paris", []),
    ("gold-in-answer", "It is Paris, in France", ["Paris"]),
    ("answer-in-gold", "Paris", ["Paris, the capital of France"]),
    ("gold-inside-a-word", "party", ["art"]),
    ("gold-across-words", "new yorkers", ["new york"]),
    ("several-golds", "Paris", ["London", "Paris", "Rome"]),
    ("several-golds-none", "Oslo", ["London", "Paris", "Rome"]),
    ("several-golds-best-f1", "New York City", ["York", "New York", "The City of New York"]),
    ("same-gold-twice", "Paris", ["Rome", "Rome"]),
    ("forty-golds", "item 39", [f"item {i}" for i in range(40)]),
    ("yes-yes", "Yes.", ["yes"]),
    ("no-yes", "no", ["yes"]),
    ("yes-with-words", "yes it is", ["yes"]),
    ("words-against-yes", "Paris", ["yes"]),
    ("yes-against-words", "yes", ["yes it is"]),
    ("yes-and-no-golds", "no", ["yes", "no"]),
    ("noanswer", "noanswer", ["noanswer"]),
    ("noanswer-other", "noanswer", ["no answer"]),
    ("true-yes", "True", ["yes"]),
    ("false-no", "False", ["no"]),
    ("true-lower", "true", ["yes"]),
    ("gold-true", "yes", ["True"]),
    ("true-true", "True", ["True"]),
    ("number-commas", "1,000,000", ["1000000"]),
    ("number-decimals", "12.5", ["12.50"]),
    ("number-blank-groups", "1 000", ["1000"]),
    ("number-arabic-digits", "\u0661\u0662\u0663", ["123"]),
    ("number-fullwidth-digits", "\uff11\uff12\uff13", ["123"]),
    ("number-minus-sign", "\u22125", ["-5"]),
    ("number-percent", "50%", ["50"]),
    ("number-currency", "$5", ["5"]),
    ("number-ordinal", "1st", ["1"]),
    ("cjk-equal", "\u5317\u4eac", ["\u5317\u4eac"]),
    ("cjk-partial", "\u5317\u4eac\u5e02", ["\u5317\u4eac"]),
    ("cjk-digits", "2008\u5e748\u6708", ["2008\u5e749\u6708"]),
    ("cjk-digits-and-blanks", "\u5317\u4eac 2008 \u5e74", ["\u5317\u4eac2008\u5e74"]),
    ("cjk-digits-not-joined", "\u5e7412\u670812", ["12\u6708 12\u65e5\u5e74"]),
    ("cjk-fullwidth-digits", "\uff12\uff10\u5e74", ["\uff12\uff10\u6708"]),
    ("cjk-superscript-digit", "\u5e73\u65b9\u7c73\u00b2", ["\u7c73\u00b2"]),
    ("cjk-fullwidth-comma", "\u4e1c\u4eac\uff0c\u5927\u962a\u3002", ["\u4e1c\u4eac\u5927\u962a"]),
    ("cjk-mixed", "\u4e2d\u56fd China", ["China \u4e2d\u56fd"]),
    ("cjk-answer-only", "\u5317\u4eac", ["Beijing"]),
    ("cjk-extension-a", "\u3400\u3401", ["\u3401"]),
    ("cjk-extension-b", "\U00020000\U00020001", ["\U00020001"]),
    ("cjk-compatibility", "\uf900x", ["\uf900"]),
    ("kana", "\u30bd\u30cb\u30fc", ["\u30bd\u30cb\u30fc"]),
    ("hangul-nfc-nfd", "\ud55c\uad6d", ["\u1112\u1161\u11ab\u1100\u116e\u11a8"]),
    ("nfc-nfd", "caf\u00e9", ["cafe\u0301"]),
    ("nfd-nfd", "CAFE\u0301", ["cafe\u0301"]),
    ("emoji", "\U0001f389 Paris", ["Paris"]),
    ("emoji-joined", "\U0001f468\u200d\U0001f469\u200d\U0001f467", ["\U0001f468\u200d\U0001f469\u200d\U0001f467"]),
    ("emoji-variation-selector", "\u2764\ufe0f", ["\u2764"]),
    ("repeated-tokens", "Paris Paris Paris", ["Paris"]),
    ("repeated-in-gold", "duran", ["Duran Duran"]),
    ("word-order", "York New", ["New York"]),
    ("partial-overlap", "New York City", ["New York"]),
    ("long-without-gold", LONG, ["Paris"]),
    ("long-with-gold-at-the-end", LONG + " Paris", ["Paris"]),
    ("eleven-words", "one two three four five six seven eight nine ten Paris", ["Paris"]),
    ("latex-boxed", "\\boxed{Paris}", ["Paris"]),
    ("latex-text", "\\text{Paris}", ["Paris"]),
    ("latex-fraction", "\\frac{1}{2}", ["\\frac{1}{2}"]),
    ("latex-dollar", "$x^2$", ["x2"]),
    ("braces-unbalanced", "a}b{c", ["b"]),
    ("parentheses", "(Paris)", ["Paris"]),
    ("special-token-end", "Paris<|im_end|>", ["Paris"]),
    ("special-token-eos", "Paris<|endoftext|>", ["Paris imend"]),
    ("special-token-start", "<|im_start|>assistant\nParis", ["Paris"]),
    ("markup", "<b>Paris</b>", ["Paris"]),
    ("entity", "AT&amp;T", ["AT&T"]),
    ("nul", "Par\x00is", ["Paris"]),
    ("bidi", "\u202eParis\u202c", ["Paris"]),
    ("soft-hyphen", "Pa\u00adris", ["Paris"]),
    ("zero-width-space-inside", "Pa\u200bris", ["Paris"]),
    ("backslash-n-literal", "New\\nYork", ["New York"]),
    ("quote-marks-both", "it's \"Paris\"", ["its Paris"]),
    ("word-question", "the question is invalid", ["question"]),
]


# ---------------------------------------------------------------- cases: whole responses in the tags of Search-R1

DOC = 'Doc 1(Title: "France") Paris is the capital of France.\n'
OTHER = 'Doc 1(Title: "Italy") Rome is the capital of Italy.\n'
THINK = "<think> I reason. </think>"
SEARCH = "<search> capital of France </search>"
INFO = f"\n\n<information>{DOC.strip()}</information>\n\n"
INFO_OTHER = f"\n\n<information>{OTHER.strip()}</information>\n\n"
GOOD = "<answer> Paris </answer>"
BAD = "<answer> Rome </answer>"

# (name, response, golds)
RESPONSES = [
    ("valid-direct", f"{THINK}\n{GOOD}", ["Paris"]),
    ("valid-direct-wrong", f"{THINK}\n{BAD}", ["Paris"]),
    ("valid-search", f"{THINK}\n{SEARCH}{INFO}{THINK}\n{GOOD}", ["Paris"]),
    ("valid-search-wrong-retrieved", f"{THINK}\n{SEARCH}{INFO}{THINK}\n{BAD}", ["Paris"]),
    ("valid-search-wrong-not-retrieved", f"{THINK}\n{SEARCH}{INFO_OTHER}{THINK}\n<answer> Oslo </answer>", ["Paris"]),
    ("valid-two-searches", f"{THINK}{SEARCH}{INFO_OTHER}{THINK}{SEARCH}{INFO}{THINK}{GOOD}", ["Paris"]),
    ("valid-newline-after", f"{THINK}\n{GOOD}\n\n", ["Paris"]),
    ("valid-unicode-blanks-between", f"{THINK}\x1c\x85\u2028{GOOD}", ["Paris"]),
    ("content-zero-width-between", f"{THINK}\u200b{GOOD}", ["Paris"]),
    ("content-between", f"{THINK} so {GOOD}", ["Paris"]),
    ("content-before", f"Well. {THINK}{GOOD}", ["Paris"]),
    ("content-after", f"{THINK}{GOOD} done", ["Paris"]),
    ("eos-after", f"{THINK}{GOOD}<|endoftext|>", ["Paris"]),
    ("im-end-after", f"{THINK}{GOOD}<|im_end|>", ["Paris"]),
    ("no-think", GOOD, ["Paris"]),
    ("no-answer", f"{THINK}\n", ["Paris"]),
    ("no-answer-gold-beijing", f"{THINK}\n", ["Beijing"]),
    ("no-answer-gold-and", f"{THINK}\n", ["and"]),
    ("no-answer-after-search", f"{THINK}{SEARCH}{INFO}", ["Paris"]),
    ("valid-wrong-gold-and", f"{THINK}{BAD}", ["and"]),
    ("valid-wrong-gold-empty", f"{THINK}{BAD}", [""]),
    ("answer-untagged", "The answer is Paris.", ["Paris"]),
    ("empty-response", "", ["Paris"]),
    ("blank-response", " \n\t", ["Paris"]),
    ("search-only", f"{THINK}{SEARCH}", ["Paris"]),
    ("search-without-information", f"{THINK}{SEARCH}{THINK}{GOOD}", ["Paris"]),
    ("information-without-search", f"{THINK}{INFO}{THINK}{GOOD}", ["Paris"]),
    ("answer-after-information", f"{THINK}{SEARCH}{INFO}{GOOD}", ["Paris"]),
    ("think-twice", f"{THINK}{THINK}{GOOD}", ["Paris"]),
    ("empty-blocks", "<think></think><answer></answer>", ["Paris"]),
    ("empty-blocks-gold-empty", "<think></think><answer> </answer>", [""]),
    ("nested-think", "<think> a <think> b </think> </think>" + GOOD, ["Paris"]),
    ("search-in-think", f"<think> {SEARCH} </think>{GOOD}", ["Paris"]),
    ("answer-in-think", f"<think> {GOOD} </think>", ["Paris"]),
    ("answer-in-think-then-answer", f"<think> {BAD} </think>{GOOD}", ["Paris"]),
    ("answer-in-search", f"{THINK}<search> {GOOD} </search>", ["Paris"]),
    ("answer-in-information", f"{THINK}{SEARCH}\n\n<information>Doc 1 {GOOD}</information>\n\n", ["Paris"]),
    ("answer-in-information-then-wrong", f"{THINK}{SEARCH}\n\n<information>Doc 1 {GOOD}</information>\n\n{THINK}{BAD}", ["Paris"]),
    ("answer-in-information-then-right", f"{THINK}{SEARCH}\n\n<information>Doc 1 {BAD}</information>\n\n{THINK}{GOOD}", ["Paris"]),
    ("closing-information-in-document", f"{THINK}{SEARCH}\n\n<information>x</information> Paris <information>y</information>\n\n{THINK}{BAD}", ["Paris"]),
    ("open-tag-in-document", f"{THINK}{SEARCH}\n\n<information>Doc 1 <answer> half</information>\n\n{THINK}{GOOD}", ["Paris"]),
    ("forged-information", f"{THINK}<information> Paris </information>{THINK}{BAD}", ["Paris"]),
    ("answer-unclosed", f"{THINK}<answer> Paris", ["Paris"]),
    ("answer-unopened", f"{THINK} Paris </answer>", ["Paris"]),
    ("think-unclosed", f"<think> I reason. {GOOD}", ["Paris"]),
    ("think-unopened", f"I reason. </think>{GOOD}", ["Paris"]),
    ("information-unclosed", f"{THINK}{SEARCH}<information> Paris {THINK}{GOOD}", ["Paris"]),
    ("tags-reversed", "</answer> Paris <answer>", ["Paris"]),
    ("answer-before-think", f"{GOOD}{THINK}", ["Paris"]),
    ("two-answers-last-right", f"{THINK}{BAD}{GOOD}", ["Paris"]),
    ("two-answers-last-wrong", f"{THINK}{GOOD}{BAD}", ["Paris"]),
    ("two-rounds", f"{THINK}{GOOD}{THINK}{GOOD}", ["Paris"]),
    ("ten-answers", f"{THINK}" + GOOD * 10, ["Paris"]),
    ("eleven-answers", f"{THINK}" + GOOD * 11, ["Paris"]),
    ("eleven-answers-wrong", f"{THINK}" + BAD * 11, ["Paris"]),
    ("eleven-closing-tags", f"{THINK}{GOOD}" + "</answer>" * 10, ["Paris"]),
    ("eleven-opening-tags", f"{THINK}" + "<answer>" * 10 + GOOD, ["Paris"]),
    ("nested-answers", f"{THINK}<answer><answer> Paris </answer></answer>", ["Paris"]),
    ("nested-answers-open", f"{THINK}<answer> Rome <answer> Paris </answer>", ["Paris"]),
    ("overlapping-answers", f"{THINK}<answer> Paris </answer> Rome </answer>", ["Paris"]),
    ("attribute", f'{THINK}<answer id="1"> Paris </answer>', ["Paris"]),
    ("capital-tags", f"{THINK}<Answer> Paris </Answer>", ["Paris"]),
    ("blank-in-open-tag", f"{THINK}<answer > Paris </answer>", ["Paris"]),
    ("blank-in-close-tag", f"{THINK}<answer> Paris </answer >", ["Paris"]),
    ("fullwidth-tags", f"{THINK}\uff1canswer\uff1e Paris \uff1c/answer\uff1e", ["Paris"]),
    ("zero-width-in-tag", f"{THINK}<ans\u200bwer> Paris </answer>", ["Paris"]),
    ("entity-tags", f"{THINK}&lt;answer&gt; Paris &lt;/answer&gt;", ["Paris"]),
    ("answer-over-lines", f"{THINK}<answer>\n\nParis\n\n</answer>", ["Paris"]),
    ("answer-in-code", f"{THINK}\n```\n{GOOD}\n```", ["Paris"]),
    ("boxed-in-answer", f"{THINK}<answer> The final answer is \\[ \\boxed{{Paris}} \\] </answer>", ["Paris"]),
    ("boxed-without-answer", f"{THINK} \\boxed{{Paris}}", ["Paris"]),
    ("second-marker", f"{THINK}{BAD}<|im_end|>\n<|im_start|>assistant\n{THINK}{GOOD}", ["Paris"]),
    ("assistant-word", f"{THINK} Assistant: I am an assistant {GOOD}", ["Paris"]),
    ("answer-prefix", f"{THINK}\nAnswer: Paris", ["Paris"]),
    ("chinese-words", "<think> \u6211\u60f3 </think>" + GOOD, ["Paris"]),
    ("refine-block", f"{THINK}{SEARCH}\n\n<documents>{DOC}</documents>\n\n<refine> Paris </refine>{THINK}{BAD}", ["Paris"]),
    ("result-block", f"{THINK}{SEARCH} <result>\n{DOC}</result> {THINK}{GOOD}", ["Paris"]),
]

CHAT = "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
TASK = (
    "Reason in <think> and </think>. Search with <search> query </search>; results come in <information> and </information>. "
    "{}Question: Which city?\n"
)
TWO = "Answer in <answer> and </answer>. For example, <answer> Beijing </answer>. "
PROMPTS = {
    "two-spans": CHAT.format(TASK.format(TWO)),
    "one-span": CHAT.format(TASK.format("For example, <answer> Beijing </answer>. ")),
    "no-span": CHAT.format(TASK.format("Answer in answer tags. ")),
    "no-marker": TASK.format(TWO),
    "marker-without-newline": "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant",
    "empty": "",
}

# Raw golds of every form: (name, raw, flat list, answer)
FORMS = [
    ("string", "Paris", ["Paris"], "Paris"),
    ("list", ["Paris"], ["Paris"], "Paris"),
    ("dict-list", {"target": ["Paris"]}, ["Paris"], "Paris"),
    ("dict-string", {"target": "Paris"}, ["Paris"], "Paris"),
    ("dict-empty-list", {"target": []}, [], "Paris"),
    ("empty-list", [], [], "Paris"),
    ("null", None, [], "Paris"),
    ("list-of-integers", [1994], ["1994"], "1994"),
    ("dict-list-of-integers", {"target": [1994]}, ["1994"], "1994"),
    ("dict-list-with-null", {"target": [None]}, [], "Paris"),
    ("dict-without-target", {"answer": ["Paris"]}, [], "Paris"),
    ("dict-string-in-letters", {"target": "yes"}, ["yes"], "yes"),
]


def single(wrap, pairs=PAIRS, prefix="answer"):
    """Cases from the single answers, each put into a response by `wrap`."""
    return [Case(f"{prefix}/{name}", golds, response=wrap(answer)) for name, answer, golds in pairs]


def structural(responses=RESPONSES, prefix="response"):
    return [Case(f"{prefix}/{name}", golds, response=response) for name, response, golds in responses]


def forms(wrap, prefix="form"):
    return [Case(f"{prefix}/{name}", flat, raw, response=wrap(answer)) for name, raw, flat, answer in FORMS]


def with_prompts(cases, default, others=()):
    """Names a prompt in every case; repeats some cases with other prompts."""
    out = []
    for case in cases:
        case.fields = {"prompt": default, **case.fields}
        out.append(case)
        short = case.name.split("/", 1)[1]
        for prompt, chosen in others:
            if case.name.startswith("response/") and short in chosen:
                fields = {**case.fields, "prompt": prompt}
                out.append(Case(f"{prompt}/{short}", case.golds, case.raw, **fields))
    return out


def tagged(answer):
    return f"<think> I reason. </think>\n<answer> {answer} </answer>"


def target(case):
    return case.raw if case.raw is not ABSENT else {"target": case.golds}


def as_list(case):
    return case.raw if case.raw is not ABSENT else case.golds


def scored(case, prompts=PROMPTS):
    return prompts[case.fields["prompt"]] + case.fields["response"]


FORM_NOTE = "when input has no ground_truth, the reference got {}; when it has one, the reference got that value as it is"
DICT_FORM = FORM_NOTE.format('{"target": golds}')
LIST_FORM = FORM_NOTE.format("golds")

CHOSEN = {
    "valid-direct", "valid-direct-wrong", "valid-search-wrong-retrieved", "no-answer", "no-answer-gold-beijing", "two-answers-last-right",
    "two-answers-last-wrong", "answer-in-information", "answer-unclosed", "empty-response", "valid-wrong-gold-and",
}
FEW = {"valid-direct", "no-answer", "two-answers-last-right", "second-marker"}
OTHER_PROMPTS = [("one-span", CHOSEN), ("no-span", CHOSEN), ("no-marker", FEW), ("marker-without-newline", FEW), ("empty", FEW)]


def searchr1_cases():
    cases = single(tagged) + structural() + forms(tagged)
    return with_prompts(cases, "two-spans", OTHER_PROMPTS)


# ---------------------------------------------------------------- the scorers


def make_search_r1():
    path = "verl/utils/reward_score/qa_em.py"
    ref = load("search-r1", path)
    sources = ["nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"]
    base = {
        "scored_text": "prompts[input.prompt] + input.response",
        "data_sources": sources,
        "minimum_spans": 2,
        "score": 1.0,
        "ground_truth": DICT_FORM,
        "score_with_format_score": "the same call with format_score = 0.1",
        "prompts": PROMPTS,
    }

    def expect(function):
        def run(case):
            text, gold, out = scored(case), target(case), {}
            attempt(out, "answer", lambda: ref.extract_solution(text))
            attempt(out, "score", lambda: number(function(text, gold, format_score=0.0)))
            attempt(out, "score_with_format_score", lambda: number(function(text, gold, format_score=0.1)))
            return out

        return run

    how = "The two functions of the reference were called on the whole decoded text, with and without a format score."
    write("search-r1-em", "search-r1", path, how, {**base, "format_score": 0.0}, searchr1_cases(), expect(ref.compute_score_em))
    write("search-r1-sub-em", "search-r1", path, how, {**base, "format_score": 0.0}, searchr1_cases(), expect(ref.compute_score_subem))

    path = "verl/utils/reward_score/qa_em_format.py"
    form = load("search-r1", path)

    def run(case):
        text, gold, out = scored(case), target(case), {}
        call = lambda **kw: number(form.compute_score_em(text, gold, **kw))
        attempt(out, "valid", lambda: form.is_valid_sequence(text)[0])
        attempt(out, "reason", lambda: form.is_valid_sequence(text)[1])
        attempt(out, "answer", lambda: form.extract_solution(text))
        attempt(out, "retrieved", lambda: form.is_retrieval_correct(text, gold["target"]))
        attempt(out, "score", lambda: call(structure_format_score=0.2, final_format_score=0.1, retrieval_score=0))
        attempt(out, "score_with_retrieval", lambda: call(structure_format_score=0.2, final_format_score=0.1, retrieval_score=0.1))
        attempt(out, "score_all_zero", lambda: call())
        return out

    options = {
        "scored_text": base["scored_text"],
        "data_sources": sources + ["web_questions", "strategyqa"],
        "minimum_spans": 2,
        "score": 1.0,
        "structure_format_score": 0.2,
        "final_format_score": 0.1,
        "retrieval_score": 0,
        "score_with_retrieval": "the same call with retrieval_score = 0.1",
        "score_all_zero": "the same call with every format score at its default, 0",
        "retrieved": "the retrieval check alone; the reference asks it only when the format is valid",
        "ground_truth": DICT_FORM,
        "prompts": PROMPTS,
    }
    how = "The score, the format check and the retrieval check of the reference were called on the whole decoded text."
    write("search-r1-v0.3-format", "search-r1", path, how, options, searchr1_cases(), run)


def make_verl():
    path = "verl/utils/reward_score/search_r1_like_qa_em.py"
    ref = load("verl", path)

    def run(case):
        text, gold, out = case.fields["response"], target(case), {}
        attempt(out, "answer", lambda: ref.extract_solution(text))
        attempt(out, "opening_tags", lambda: ref.count_answer_tags(text)[0])
        attempt(out, "closing_tags", lambda: ref.count_answer_tags(text)[1])
        attempt(out, "score", lambda: number(ref.compute_score(text, gold)))
        attempt(out, "score_with_format_score", lambda: number(ref.compute_score(text, gold, format_score=0.1)))
        attempt(out, "sub_em", lambda: number(ref.compute_score_subem(text, gold)))
        return out

    names = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
    options = {
        "scored_text": "input.response",
        "data_sources": [f"searchR1_{name}" for name in names],
        "minimum_spans": 1,
        "score": 1.0,
        "format_score": 0.0,
        "score_with_format_score": "the same call with format_score = 0.1",
        "sub_em": "compute_score_subem of the same file; it has no division by four",
        "ground_truth": DICT_FORM,
    }
    how = "The functions of the reference were called on the response alone."
    write("verl-search-r1-like-qa-em", "verl", path, how, options, single(tagged) + structural() + forms(tagged), run)


def make_verl_tool():
    path = "verl_tool/workers/reward_manager/search_r1_qa_em.py"
    # The file imports a trainer; its functions stand on their own.
    tree = ast.parse(source_path("verl-tool", path).read_text(encoding="utf-8"))
    keep = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    import regex

    scope = {"re": regex, "random": _NoPrinting}
    exec(compile(ast.Module(keep, []), path, "exec"), scope)

    def run(case):
        text, gold, out = scored(case), target(case), {}
        attempt(out, "answer", lambda: scope["extract_solution"](text))
        attempt(out, "score", lambda: number(scope["compute_score"](text, gold)))
        return out

    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "minimum_spans": 1,
        "score": 1.0,
        "format_score": 0.0,
        "ground_truth": DICT_FORM,
        "note": "the reference uses the third-party module regex in place of re, so its word boundary differs for some characters",
        "prompts": PROMPTS,
    }
    how = "The functions of the reference were called on the whole decoded text."
    write("verl-tool", "verl-tool", path, how, options, searchr1_cases(), run)


def make_skyrl():
    class Base:
        def __init__(self):
            self.turns = 0

        def init_tool_groups(self, groups):
            pass

        def _execute_tool(self, group, name, tool_input):
            self.queries.append(plain(tool_input))
            if not self.outputs:
                raise RuntimeError("no output left")
            return self.outputs.pop(0)

    class Output(dict):
        def __init__(self, **kw):
            super().__init__(**kw)

    stub("skyrl_gym.envs.base_text_env", BaseTextEnv=Base, BaseTextEnvStepOutput=Output, ConversationType=list)
    stub("skyrl_gym.tools", SearchToolGroup=_Anything)
    stub("omegaconf", DictConfig=dict)
    ref = load("skyrl", "skyrl-gym/skyrl_gym/envs/search/utils.py")
    stub("skyrl_gym.envs.search.utils", compute_score=ref.compute_score)
    env_path = "skyrl-gym/skyrl_gym/envs/search/env.py"
    env_ref = load("skyrl", env_path)

    def make_env(gold, max_turns=2, outputs=()):
        env = env_ref.SearchEnv(env_ref.SearchEnvConfig(), {"reward_spec": {"ground_truth": gold}, "max_turns": max_turns})
        env.outputs, env.queries = list(outputs), []
        return env

    def episode(case):
        env, steps = make_env(target(case), case.fields["max_turns"], case.fields["tool_outputs"]), []
        for action in case.fields["actions"]:
            step = env.step(action)
            steps.append({"done": step["done"], "reward": number(step["reward"]), "observations": step["observations"]})
            if step["done"]:
                break
        return steps, env.queries

    def run(case):
        out = {}
        if "actions" in case.fields:
            attempt(out, "steps", lambda: episode(case)[0])
            attempt(out, "queries", lambda: episode(case)[1])
            out["score"] = out["steps"][-1]["reward"] if out["steps"] else None
            return out
        messages = case.fields["messages"]
        text = "".join(m["content"] for m in messages)

        def reward():
            env = make_env(target(case))
            env.chat_history = messages
            return number(env._get_reward("", True))

        attempt(out, "answer", lambda: ref.extract_solution(text))
        attempt(out, "score", reward)
        attempt(out, "sub_em", lambda: number(ref.compute_score_subem(text, target(case))))
        return out

    cases = []
    for case in single(tagged) + structural() + forms(tagged):
        cases.append(Case(case.name, case.golds, case.raw, messages=[{"role": "assistant", "content": case.fields["response"]}]))
    mess = lambda *texts: [{"role": "assistant" if i % 2 == 0 else "user", "content": t} for i, t in enumerate(texts)]
    obs = lambda text: f'\n<information>{{"result": "{text}"}}</information>\n'
    for name, texts in [
        ("answer-split-over-messages", ("<answer> Pa", "ris </answer>")),
        ("observation-answers", (SEARCH, obs("<answer> Paris </answer>"))),
        ("observation-answers-after-wrong", (BAD, obs("<answer> Paris </answer>"))),
        ("observation-wrong-then-right", (SEARCH, obs("<answer> Rome </answer>"), GOOD)),
        ("tag-opened-by-observation", ("think", obs("<answer>"), " Paris </answer>")),
        ("no-messages", ()),
    ]:
        cases.append(Case(f"messages/{name}", ["Paris"], messages=mess(*texts)))
    for name, actions, outputs, turns in [
        ("search-then-answer", [THINK + SEARCH, GOOD], ["doc"], 2),
        ("answer-first", [GOOD], [], 2),
        ("last-turn-searches", [SEARCH, SEARCH], ["doc", "doc"], 2),
        ("last-turn-after-poisoned-observation", [SEARCH, "no tags"], [GOOD], 2),
        ("no-query", ["nothing", GOOD], ["doc"], 2),
        ("two-queries-first-counts", ["<search> a </search><search> b </search>", GOOD], ["doc"], 2),
        ("query-keeps-blanks", ["<search>\n a \n</search>", GOOD], ["doc"], 2),
        ("tags-in-wrong-order-end-it", ["</answer> Paris <answer>", GOOD], ["doc"], 3),
        ("answer-and-search-in-one-turn", [SEARCH + GOOD], ["doc"], 3),
        ("tool-error-becomes-observation", [SEARCH, GOOD], [], 2),
        ("one-turn", [SEARCH], ["doc"], 1),
    ]:
        cases.append(Case(f"episode/{name}", ["Paris"], actions=actions, tool_outputs=outputs, max_turns=turns))
    options = {
        "scored_text": "the contents of input.messages joined by nothing, assistant and user alike",
        "minimum_spans": 1,
        "score": 1.0,
        "format_score": 0.0,
        "sub_em": "compute_score_subem of utils.py on the same text; the environment does not use it",
        "episodes": "cases with input.actions run the environment with a tool that answers input.tool_outputs one by one; an empty list raises RuntimeError",
        "ground_truth": DICT_FORM,
    }
    how = "The reward method and the step method of the reference environment were called, with its search tool replaced by canned outputs."
    write("skyrl-gym-search", "skyrl", env_path, how, options, cases, run)


def make_slime():
    form = load("slime", "examples/search-r1/qa_em_format.py")
    stub("qa_em_format", compute_score_em=form.compute_score_em)

    class Sample:
        def __init__(self, prompt, response, label):
            self.prompt, self.response, self.label = prompt, response, label

    stub("slime.rollout.sglang_rollout")
    stub("slime.utils.http_utils")
    stub("slime.utils.types", Sample=Sample)
    path = "examples/search-r1/generate_with_search.py"
    ref = load("slime", path)

    def run(case):
        out, gold = {}, target(case)
        prompt = PROMPTS[case.fields["prompt"]]
        sample = Sample(prompt, case.fields["response"], {"ground_truth": gold})
        attempt(out, "valid", lambda: form.is_valid_sequence(scored(case))[0])
        attempt(out, "answer", lambda: form.extract_solution(scored(case)))
        attempt(out, "score", lambda: number(asyncio.run(ref.reward_func(None, sample))))
        return out

    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "minimum_spans": 2,
        "format_score": 0.2,
        "note": "format_score has no effect: the called function never reads it",
        "ground_truth": DICT_FORM,
        "prompts": PROMPTS,
    }
    write("slime", "slime", path, "The reward function of the example was awaited with a plain sample.", options, searchr1_cases(), run)


def make_asearcher():
    rewards = load("asearcher", "AReaL/ASearcher/utils/rewards.py")
    logger = types.SimpleNamespace(info=print, warning=print)
    stub("realhf.base", logging=types.SimpleNamespace(getLogger=lambda name: logger))
    stub("ASearcher.utils.rewards", compute_score_em=rewards.compute_score_em, compute_score_f1=rewards.compute_score_f1)
    stub("ASearcher.utils.search_utils", make_search_client=None)
    path = "AReaL/ASearcher/utils/search_tool.py"
    ref = load("asearcher", path)

    class Client:
        async def query_async(self, request):
            return [{"documents": [], "urls": []}]

        async def access_async(self, urls):
            return {"result": [None]}

    def reward(case, kind):
        box = ref.SearchToolBox.__new__(ref.SearchToolBox)
        row = {"answer": as_list(case)}
        if "aug_answer" in case.fields:
            row["aug_answer"] = case.fields["aug_answer"]
        box.id2info, box.reward_type, box.topk = {"q": row}, kind, 5
        box.use_jina, box.search_client_type, box.search_client = False, "async-search-access", Client()
        return number(asyncio.run(box.step(("q@0", [case.fields["response"]])))[0]["score"])

    def gold_of(case):
        raw = as_list(case)
        return [str(g) for g in raw] if isinstance(raw, (list, tuple)) else str(raw)

    def run(case):
        out = {}
        if "turns" in case.fields:
            # Re-created: last score times format of all turns; -0.5 for words of refusal.
            turns, gold = case.fields["turns"], gold_of(case)
            score = rewards.compute_score_f1(turns[-1], gold)[1] if turns else 0
            good = float(all(rewards.correct_format_fn(i, t) for i, t in enumerate(turns)))
            answer = case.fields["agent_answer"]
            refuses = answer is not None and any(w in answer for w in ("question", "invalid", "appropriate", "valid"))
            out["format"] = good
            out["score"] = -0.5 if case.fields["valid_instruction"] and refuses else number((score or 0) * good)
            return out
        text, gold = case.fields["response"], gold_of(case)
        attempt(out, "answer", lambda: rewards.extract_solution(text))
        attempt(out, "em", lambda: number(rewards.compute_score_em(text, gold)[1]))
        attempt(out, "f1", lambda: number(rewards.compute_score_f1(text, gold)[1]))
        attempt(out, "cover_em", lambda: number(rewards.cover_exact_match_score_1(text, gold)[1]))
        attempt(out, "score", lambda: reward(case, "F1"))
        attempt(out, "score_em", lambda: reward(case, "EM"))
        attempt(out, "format", lambda: bool(rewards.correct_format_fn(0, text)))
        return out

    cases = single(tagged) + structural() + forms(tagged)
    for name, response, golds, aug in [
        ("better", tagged("New York"), ["New York City"], ["New York"]),
        ("worse", tagged("New York City"), ["New York City"], ["Rome"]),
        ("string", tagged("New York"), ["New York City"], "New York"),
        ("empty-list", tagged("New York"), ["New York City"], []),
        ("integers", tagged("7"), ["seven"], [7]),
        ("no-answer", THINK, ["Paris"], ["Paris"]),
        ("em-only-in-aug", tagged("NYC"), ["New York City"], ["NYC", "Big Apple"]),
    ]:
        cases.append(Case(f"aug/{name}", golds, response=response, aug_answer=aug))
    for name, response in [
        ("one-search", THINK + SEARCH),
        ("search-and-answer", THINK + SEARCH + GOOD),
        ("access", THINK + "<access> u </access>"),
        ("search-and-access", SEARCH + "<access> u </access>"),
        ("access-unclosed", THINK + "<access> u"),
        ("two-think-ends", "</think></think>" + GOOD),
        ("word-assistant", "the assistant says " + GOOD),
        ("word-Assistant", "Assistant " + GOOD),
        ("plain", "nothing"),
        ("empty", ""),
    ]:
        cases.append(Case(f"format/{name}", ["Paris"], response=response))
    for name, turns, answer, valid in [
        ("good", [THINK + SEARCH, THINK + GOOD], "Paris", True),
        ("bad-format-in-first-turn", [SEARCH + SEARCH, THINK + GOOD], "Paris", True),
        ("refusal", [THINK + "<answer> the question is invalid </answer>"], "the question is invalid", True),
        ("refusal-not-asked", [THINK + "<answer> the question is invalid </answer>"], "the question is invalid", False),
        ("capital-word-is-no-refusal", [THINK + "<answer> Question </answer>"], "Question", True),
        ("word-inside-a-right-answer", [THINK + "<answer> Validus </answer>"], "Validus", True),
        ("no-answer", [THINK + SEARCH], None, True),
        ("no-turns", [], None, True),
    ]:
        cases.append(Case(f"trajectory/{name}", ["Paris"], turns=turns, agent_answer=answer, valid_instruction=valid))
    options = {
        "scored_text": "input.response, one turn",
        "minimum_spans": 1,
        "reward_type": "F1",
        "score": "what the tool box gives for reward_type F1, augmented answers included",
        "score_em": "the same for reward_type EM",
        "format": "correct_format_fn on the response; in trajectory cases the product over all turns",
        "trajectory": "cases named trajectory/... are re-created from the trainer's loop; the other cases run the real code",
        "ground_truth": LIST_FORM + "; the tool box turns every gold into a string first, and em, f1 and cover_em got it in that shape",
    }
    how = "The scorers were called on the response, and the tool box step ran with a search client that answers nothing."
    write("asearcher", "asearcher", path, how, options, cases, run)


def make_research():
    def prompts(eos):
        return {
            "chat": "<|im_start|>system\nUse <think> </think> and <answer> \\boxed{answer here} </answer>.<|im_end|>\n<|im_start|>user\nWhich city?<|im_end|>\n<|im_start|>assistant\n",
            "base": "A conversation. The format is <answer> \\boxed{answer here} </answer>. User: Which city? Assistant:",
            "no-marker": "Which city? ",
        }

    end = "<|im_end|>"
    boxed = lambda a: f"<think> I reason. </think> <answer> The final answer is \\[ \\boxed{{{a}}} \\] </answer>{end}"
    native = [
        ("valid", boxed("Paris")),
        ("valid-wrong", boxed("Rome")),
        ("partial", boxed("Paris Texas")),
        ("no-eos", boxed("Paris")[: -len(end)]),
        ("blank-after-eos", boxed("Paris") + "\n"),
        ("other-eos", boxed("Paris")[: -len(end)] + "<|endoftext|>"),
        ("eos-twice", boxed("Paris") + end),
        ("search-result", f"{THINK} {SEARCH} <result>\n{DOC}</result> {boxed('Paris')}"),
        ("search-without-result", f"{THINK} {SEARCH} {boxed('Paris')}"),
        ("search-unclosed", f"{THINK} <search> q <result> d </result> {boxed('Paris')}"),
        ("result-unclosed", f"{THINK} {SEARCH} <result> d {boxed('Paris')}"),
        ("result-before-search", f"{THINK} <result> d </result> {SEARCH} {boxed('Paris')}"),
        ("result-without-search", f"{THINK} <result> d </result> {boxed('Paris')}"),
        ("result-inside-search", f"{THINK} <search> q <result> d </result> </search> {boxed('Paris')}"),
        ("two-searches", (f"{THINK} {SEARCH} <result> d </result> " * 2) + boxed("Paris")),
        ("second-search-open", f"{THINK} {SEARCH} <result> d </result> <search> q {boxed('Paris')}"),
        ("second-search-in-result", f"{THINK} {SEARCH} <result> <search> </result> {boxed('Paris')}"),
        ("think-missing", f"<answer> \\boxed{{Paris}} </answer>{end}"),
        ("think-unpaired", f"<think> x <answer> \\boxed{{Paris}} </answer>{end}"),
        ("think-reversed", f"</think> <think> <answer> \\boxed{{Paris}} </answer>{end}"),
        ("answer-first-then-think", f"<answer> \\boxed{{Paris}} </answer> {THINK}{end}"),
        ("two-answers", f"{THINK} <answer> \\boxed{{Rome}} </answer> <answer> \\boxed{{Paris}} </answer>{end}"),
        ("answer-reversed", f"{THINK} </answer> \\boxed{{Paris}} <answer>{end}"),
        ("answer-in-result", f"{THINK} {SEARCH} <result> <answer> </answer> </result> {boxed('Paris')}"),
        ("no-box", f"{THINK} <answer> Paris </answer>{end}"),
        ("box-outside-answer", f"{THINK} \\boxed{{Paris}} <answer> Paris </answer>{end}"),
        ("box-unclosed", f"{THINK} <answer> \\boxed{{Paris </answer>{end}"),
        ("box-closed-too-early", f"{THINK} <answer> }} \\boxed{{Paris </answer>{end}"),
        ("box-with-blank", f"{THINK} <answer> \\boxed Paris$ x \\boxed{{Rome}} </answer>{end}"),
        ("box-blank-and-brace", f"{THINK} <answer> \\boxed {{Paris}} \\boxed{{x}} </answer>{end}"),
        ("two-boxes", f"{THINK} <answer> \\boxed{{Rome}} \\boxed{{Paris}} </answer>{end}"),
        ("nested-braces", f"{THINK} <answer> \\boxed{{\\text{{Paris}}}} </answer>{end}"),
        ("nested-box", f"{THINK} <answer> \\boxed{{\\boxed{{Paris}}}} </answer>{end}"),
        ("empty-box", f"{THINK} <answer> \\boxed{{}} </answer>{end}"),
        ("fbox-after", f"{THINK} <answer> \\boxed{{Paris}} \\fbox{{Rome}} </answer>{end}"),
        ("capital-tags", f"<THINK> x </THINK> <answer> \\boxed{{Paris}} </answer>{end}"),
        ("attribute", f'{THINK} <answer id="1"> \\boxed{{Paris}} </answer>{end}'),
        ("second-marker", f"{THINK} x<|im_start|>assistant\n{boxed('Paris')}"),
        ("second-marker-after-valid", f"{boxed('Paris')}<|im_start|>assistant\n junk"),
    ]
    path = "src/verl/utils/reward_score/re_search.py"
    ref = load("research", path)
    tokenizer = types.SimpleNamespace(eos_token=end)
    table = prompts(end)

    def run(case):
        out, gold = {}, as_list(case)
        text = table[case.fields["prompt"]] + case.fields["response"]
        got = attempt(out, "score", lambda: ref.compute_score(tokenizer, text, gold))
        if got is not None:
            out["score"], out["reason"] = number(got[0]), got[1]
        return out

    cases = single(boxed) + structural() + structural([(n, r, ["Paris"]) for n, r in native], "native") + forms(boxed)
    picked = {"native/valid", "native/no-eos", "native/second-marker", "response/empty-response", "response/assistant-word"}
    for case in cases:
        case.fields = {"prompt": "chat", **case.fields}
    for prompt in ("base", "no-marker"):
        cases += [Case(f"{prompt}/{c.name.split('/')[1]}", c.golds, prompt=prompt, response=c.fields["response"]) for c in cases if c.name in picked]
    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "eos_token": end,
        "prompts": table,
        "ground_truth": LIST_FORM,
    }
    how = "The scorer of the reference was called on the whole decoded text with a tokenizer that only knows its end token."
    write("research", "research", path, how, options, cases, run)

    path = "src/verl/utils/reward_score/re_call.py"
    call_ref = load("recall", path)
    chat = {"chat": table["chat"]}
    boxed_call = lambda a: f"<think> I reason. </think> The final answer is \\[ \\boxed{{{a}}} \\]{end}"
    turn = "<|im_start|>assistant\n"
    tool = '<tool_call>\n{"name": "search", "arguments": {"q": "x"}}\n</tool_call>'
    user = f"\n<|im_start|>user\n<tool_response> d </tool_response>{end}\n{turn}"
    native = [
        ("valid", boxed_call("Paris")),
        ("no-eos", boxed_call("Paris")[: -len(end)]),
        ("tool-call", f"<think> x </think> {tool}{end}{user}{boxed_call('Paris')}"),
        ("tool-call-not-json", f'<think> x </think> <tool_call> "name" "arguments" {{ </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("tool-call-without-name", f'<think> x </think> <tool_call> {{"arguments": 1}} </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("tool-call-unpaired", f"<think> x </think> <tool_call>{end}{user}{boxed_call('Paris')}"),
        ("tool-call-json-list", f'<think> x </think> <tool_call> ["name", "arguments"] </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("tool-call-nan", f'<think> x </think> <tool_call> {{"name": "s", "arguments": NaN}} </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("second-turn-without-think", f"<think> x </think> {tool}{end}{user}\\boxed{{Paris}}{end}"),
        ("first-turn-boxes-only", f"<think> x </think> \\boxed{{Paris}}{end}{user}<think> y </think> Paris{end}"),
        ("box-word-only", f"<think> x </think> \\box Paris{end}"),
        ("boxed-with-blank", f"<think> x </think> \\boxed Paris $y{end}"),
        ("box-unclosed", f"<think> x </think> \\boxed{{Paris{end}"),
        ("fbox", f"<think> x </think> \\fbox{{Paris}} \\box{end}"),
        ("think-missing", f"\\boxed{{Paris}}{end}"),
        ("box-in-think", f"<think> \\boxed{{Paris}} </think>{end}"),
        ("text-after-end-token", boxed_call("Paris") + "\n" + end),
    ]

    def run_call(case):
        out, gold = {}, as_list(case)
        text = chat["chat"] + case.fields["response"]
        got = attempt(out, "score", lambda: call_ref.compute_score_with_format(tokenizer, text, gold))
        if got is not None:
            out["score"], out["reason"] = number(got[0]), got[1]
        return out

    cases = single(boxed_call) + structural([(n, r + end, g) for n, r, g in RESPONSES]) + structural([(n, r, ["Paris"]) for n, r in native], "native") + forms(boxed_call)
    for case in cases:
        case.fields = {"prompt": "chat", **case.fields}
    write("recall", "recall", path, how, {**options, "prompts": chat}, cases, run_call)


def make_r1_searcher():
    for name in ("uvicorn", "datasets", "transformers", "fastapi", "fastapi.responses", "openrlhf.utils", "jsonlines"):
        stub(name)
    stub("openrlhf.utils.logging_utils", init_logger=lambda name: types.SimpleNamespace(info=lambda *a: None))
    stub("ujson", dumps=json.dumps)
    docs = "<|begin_of_documents|>\n(1)Paris is a city.\n(2)Rome.\n<|end_of_documents|>\n\n"
    query = "<|begin_of_query|>capital<|end_of_query|>"
    wrap = lambda a: f" I reason. {query}\n\n{docs}I see. </think>\n<answer> {a} </answer>"
    good, bad = wrap("Paris"), wrap("Rome")
    native = [
        ("valid", good),
        ("valid-wrong", bad),
        ("valid-without-search", " I reason. </think>\n<answer> Paris </answer>"),
        ("two-searches", f" a {query}\n\n{docs} b {query}\n\n{docs} c </think><answer>Paris</answer>"),
        ("documents-without-blank-line", good.replace("<|end_of_documents|>\n\n", "<|end_of_documents|>\n")),
        ("documents-without-newline", good.replace("<|begin_of_documents|>\n", "<|begin_of_documents|>")),
        ("documents-without-number", good.replace("(1)", "")),
        ("query-unclosed", good.replace("<|end_of_query|>", "")),
        ("query-without-documents", f" a {query} b </think><answer>Paris</answer>"),
        ("forged-documents", f" a {docs} b </think><answer>Paris</answer>"),
        ("think-again", good.replace(" I reason.", " <think> I reason.")),
        ("think-closed-twice", good + "</think>"),
        ("think-not-closed", good.replace("</think>", "")),
        ("two-answers", good + "<answer> Paris </answer>"),
        ("answer-unclosed", good.replace("</answer>", "")),
        ("answer-reversed", " x </think></answer> Paris <answer>"),
        ("answer-missing", " x </think> Paris"),
        ("query-word-in-answer", wrap("begin_of_query Paris")),
        ("documents-word-in-answer", wrap("begin_of_documents")),
        ("ten-words", wrap("one two three four five six seven eight nine Paris")),
        ("chinese-in-reasoning", good.replace("I see", "\u6211")),
        ("chinese-in-documents", good.replace("Rome", "\u7f57\u9a6c")),
        ("chinese-outside-the-block", good.replace("Rome", "\u3400")),
        ("kana-in-reasoning", good.replace("I see", "\u30bd")),
        ("word-assistant", good.replace("I see", "the assistant")),
        ("word-Assistant-in-documents", good.replace("Rome", "Assistant professor")),
        ("word-ASSISTANT", good.replace("I see", "ASSISTANT")),
        ("prompt-marker-again", good + "\nAssistant: <think> x </think><answer> Rome </answer>"),
        ("user-marker-again", good + "\n\nUser: next"),
        ("eos-several", good + "<|endoftext|><|endoftext|>"),
        ("eot-several", good + "<|eot_id|><|eot_id|>"),
        ("blank-after", good + "\n\n"),
        ("crlf-documents", good.replace("<|begin_of_documents|>\n", "<|begin_of_documents|>\r\n")),
        ("documents-nested", good.replace("Rome", "<|begin_of_documents|>\n(1)x")),
    ]
    question = "Which city?"
    qwen = f"The User asks, and the Assistant answers in <think> </think> and <answer> </answer>.\n\nUser:{question}\nAssistant: <think>"
    head = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
    llama = f"{head}{question}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<think>"
    for scorer, path, prompt, eos, pad, list_result in [
        ("r1-searcher-qwen-zero", "train/reward_server_qwen_zero.py", qwen, "<|endoftext|>", "<|endoftext|>", False),
        ("r1-searcher-llama-stage1", "train/reward_server_llama_stage1.py", llama, "<|eot_id|>", None, True),
        ("r1-searcher-llama-stage2", "train/reward_server_llama_stage2.py", llama, "<|eot_id|>", None, False),
    ]:
        ref = load("r1-searcher", path)

        def run(case, ref=ref, prompt=prompt, eos=eos, pad=pad, list_result=list_result):
            proxy = ref.MathRuleProxy.__new__(ref.MathRuleProxy)
            proxy.tokenizer = types.SimpleNamespace(eos_token=eos, pad_token=pad)
            gold = case.raw if case.raw is not ABSENT else case.golds[0]
            proxy.eval_data_dict = proxy.get_answer_dict([{"question": question, "answer": gold}])
            proxy.log_file, proxy.cnt = None, 0
            out = {}
            text = prompt + case.fields["response"]
            ended = ref.strip_sequence(text, proxy.tokenizer.pad_token or eos, eos) + eos
            attempt(out, "answer", lambda: proxy.get_query_pred(proxy.get_qa(ended)[1]))
            got = attempt(out, "score", lambda: proxy.get_reward([text])[0])
            if got is not None:
                out["score"] = number(got[0] if list_result else got)
            return out

        one_gold = [(n, a, g[:1] or [""]) for n, a, g in PAIRS]
        cases = single(wrap, one_gold) + structural([(n, r, g) for n, r, g in RESPONSES]) + structural([(n, r, ["Paris"]) for n, r in native], "native") + forms(wrap)
        options = {
            "scored_text": "prompt + input.response; the reference cuts it into question and solution itself",
            "prompt": prompt,
            "eos_token": eos,
            "ground_truth": "the reference takes one gold, a string: golds[0] unless input has a ground_truth",
        }
        how = "The reward server's class was built without its tokenizer and data set, and asked for the reward of one text."
        write(scorer, "r1-searcher", path, how, options, cases, run)

    path = "evaluation/metric_calc_rule.py"
    ref = load("r1-searcher", path)

    def run_metrics(case):
        out, answer, golds = {}, case.fields["answer"], as_list(case)
        golds = golds if isinstance(golds, list) else [golds]
        attempt(out, "normalized", lambda: ref.normalize_answer(ref.bool_mapping(answer)))
        best = lambda f: ref.metric_max_over_ground_truths(f, answer, golds)
        attempt(out, "em", lambda: number(best(ref.exact_match_score)))
        attempt(out, "cover_em_1", lambda: number(best(ref.cover_exact_match_score_1)))
        attempt(out, "cover_em_2", lambda: number(best(ref.cover_exact_match_score_2)))
        for i, key in enumerate(("f1", "precision", "recall")):
            attempt(out, key, lambda: number(best(ref.f1_score)[i]))
        return out

    cases = [Case(f"answer/{n}", g, answer=a) for n, a, g in PAIRS] + [Case(f"form/{n}", f, r, answer=a) for n, r, f, a in FORMS]
    options = {"scored_text": "input.answer", "ground_truth": LIST_FORM + "; a value that is no list was put into a list of one, as the reference does"}
    write("r1-searcher-metrics", "r1-searcher", path, "The metric functions of the evaluation were called on single answers.", options, cases, run_metrics)


def make_autorefine():
    path = "verl/utils/reward_score/qa_em.py"
    ref = load("autorefine", path)
    prompts = {
        "refine": CHAT.format("Use <think> and </think>, <search> query </search>, <documents> and </documents>, <refine> and </refine>, <answer> and </answer>. For example, <answer> Donald Trump </answer>. Question: Which city?\n"),
        "no-refine": CHAT.format("Use <think> and </think>, <search> query </search>, <answer> and </answer>. Question: Which city?\n"),
    }
    docs = lambda t: f"\n\n<documents>{t}</documents>\n\n"
    wrap = lambda a: f"{THINK}{SEARCH}{docs(OTHER)}<refine> Rome </refine>{THINK}<answer> {a} </answer>"
    native = [
        ("valid", wrap("Paris"), ["Paris"]),
        ("wrong-refine-hit", wrap("Oslo"), ["Rome"]),
        ("wrong-refine-miss", wrap("Oslo"), ["Paris"]),
        ("no-answer-refine-hit", f"{THINK}{SEARCH}{docs(DOC)}<refine> Paris </refine>", ["Paris"]),
        ("refine-hit-across-blocks", f"<refine>New</refine>{THINK}<refine>York</refine>{BAD}", ["New York"]),
        ("refine-inside-a-word", f"<refine>party</refine>{BAD}", ["art"]),
        ("refine-unclosed", f"<refine> Paris {BAD}", ["Paris"]),
        ("refine-nested", f"<refine> a <refine> Paris </refine> b </refine>{BAD}", ["Paris"]),
        ("refine-empty-gold-empty", f"<refine></refine>{BAD}", [""]),
        ("refine-over-lines", f"<refine>\nParis\n</refine>{BAD}", ["Paris"]),
        ("refine-yes", f"<refine> yes </refine>{BAD}", ["yes"]),
        ("partial-f1", wrap("New York City"), ["New York"]),
        ("first-documents-skipped", f"{THINK}{SEARCH}{docs(DOC)}{THINK}{BAD}", ["Paris"]),
        ("second-documents-hit", f"{docs(OTHER)}{docs(DOC)}{BAD}", ["Paris"]),
        ("third-documents-hit", f"{docs(OTHER)}{docs(OTHER)}{docs(DOC)}{BAD}", ["Paris"]),
        ("both-documents-hit", f"{docs(OTHER)}{docs(DOC)}{docs(DOC)}{BAD}", ["Paris"]),
        ("documents-gold-yes", f"{docs(OTHER)}{docs(DOC)}{BAD}", ["yes"]),
        ("documents-gold-Yes", f"{docs(OTHER)}{docs(DOC)}{BAD}", ["Yes"]),
        ("two-answers", wrap("Rome") + GOOD, ["Paris"]),
        ("no-search", f"{THINK}<refine> x </refine>{BAD}", ["Paris"]),
        ("search-unpaired", f"{THINK}<search> q <refine> Paris </refine>{BAD}", ["Paris"]),
    ]

    def run(case):
        out, gold = {}, target(case)
        response = case.fields["response"]
        text = prompts[case.fields["prompt"]] + response
        call = lambda f, **kw: number(ref.compute_reward(text, response, gold, score_func=f, **kw))
        attempt(out, "answer", lambda: ref.extract_solution(response))
        attempt(out, "score", lambda: call(ref.compute_f1_scores, format_score=0.0, refine_score=0.1))
        attempt(out, "score_em", lambda: call(ref.em_check, format_score=0.0, refine_score=0.1))
        attempt(out, "score_cover_em", lambda: call(ref.cover_em_check, format_score=0.0, refine_score=0.1))
        attempt(out, "score_with_format", lambda: call(ref.compute_f1_scores, format_score=0.2, refine_score=0.1))
        attempt(out, "format_valid", lambda: int(ref.validate_format(text, response)))
        attempt(out, "refine_hit", lambda: number(ref.compute_refine_score_subem(response, gold)))
        attempt(out, "information_hit", lambda: number(ref.compute_information_score_subem(response, gold)))
        attempt(out, "reciprocal_rank", lambda: number(ref.compute_information_reverse_rank(response, gold)))
        return out

    cases = with_prompts(single(wrap) + structural() + structural(native, "native") + forms(wrap), "refine")
    two = docs(OTHER) + docs(DOC) + BAD
    for name, raw, flat in [
        ("documents-gold-string-yesterday", {"target": "yesterday"}, ["yesterday"]),
        ("documents-gold-string", {"target": "Paris"}, ["Paris"]),
        ("documents-gold-string-with-no-inside", {"target": "Casanova, nobleman"}, ["Casanova, nobleman"]),
        ("documents-gold-list-with-no", {"target": ["Paris", "no"]}, ["Paris", "no"]),
    ]:
        cases.append(Case(f"native/{name}", flat, raw, prompt="refine", response=two))
    cases += [Case(f"no-refine/{n}", g, prompt="no-refine", response=r) for n, r, g in native if n in ("valid", "wrong-refine-hit", "no-search", "search-unpaired")]
    options = {
        "scored_text": "input.response; the prompt only decides whether the format needs a refine block",
        "minimum_spans": 1,
        "reward_style": "F1",
        "refine_score": 0.1,
        "format_score": 0.0,
        "score_em": "the same with reward_style EM",
        "score_cover_em": "the same with reward_style CEM",
        "score_with_format": "reward_style F1 with format_score = 0.2",
        "ground_truth": DICT_FORM,
        "prompts": prompts,
    }
    write("autorefine", "autorefine", path, "The reward and the logged scores of the reference were called on prompt and response.", options, cases, run)


def make_zerosearch():
    path = "verl/utils/reward_score/qa_em.py"
    ref = load("zerosearch", path)

    def run(case):
        out, text, gold = {}, scored(case), target(case)
        attempt(out, "answer", lambda: ref.extract_solution(text))
        got = attempt(out, "score", lambda: ref.compute_score(text, gold))
        out["cover_em"] = number(got[0]) if got is not None else None
        out["score"] = number(got[1]) if got is not None else None
        return out

    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "minimum_spans": 2,
        "reward_function": "f1",
        "score": "the second value of the reference, used when reward_function is f1",
        "cover_em": "the first value, used when reward_function is em; it is a substring test",
        "ground_truth": DICT_FORM,
        "prompts": PROMPTS,
    }
    write("zerosearch", "zerosearch", path, "The scorer of the reference was called on the whole decoded text.", options, searchr1_cases(), run)


def make_search_o1():
    equivalence = load("search-o1", "scripts/utils/math_equivalence.py")
    stub("lcb_runner.evaluation", codegen_metrics=None)
    stub("utils.math_equivalence", is_equiv=equivalence.is_equiv)
    path = "scripts/evaluate.py"
    ref = load("search-o1", path)
    wrap = lambda a: f"I reason.\n\n**Final Answer**\n\\boxed{{{a}}}"
    native = [
        ("two-boxes-two-lines", "\\boxed{Rome}\n\\boxed{Paris}", ["Paris"]),
        ("two-boxes-one-line", "\\boxed{Rome} or \\boxed{Paris}", ["Paris"]),
        ("brace-later-in-the-line", "\\boxed{Paris} (see {x})", ["Paris"]),
        ("brace-over-two-lines", "\\boxed{Pa\nris}", ["Paris"]),
        ("box-with-blank", "\\boxed {Paris}", ["Paris"]),
        ("box-unclosed", "\\boxed{Paris", ["Paris"]),
        ("text", "\\boxed{\\text{Paris}}", ["Paris"]),
        ("two-texts", "\\boxed{\\text{Rome} \\text{Paris}}", ["Paris"]),
        ("text-and-more", "\\boxed{\\text{Paris} x}", ["Paris"]),
        ("parentheses", "\\boxed{((Paris)}", ["Paris"]),
        ("parentheses-inside", "\\boxed{Paris (France)}", ["Paris France"]),
        ("empty-box", "\\boxed{}", ["Paris"]),
        ("empty-box-gold-empty", "\\boxed{}", [""]),
        ("no-overlap-but-contained", "\\boxed{party}", ["art"]),
        ("nested-box", "\\boxed{\\boxed{Paris}}", ["Paris"]),
        ("carriage-return", "\\boxed{Pa\rris}", ["Paris"]),
        ("line-separator", "\\boxed{New\u2028York}", ["New York"]),
        ("search-markers", "<|begin_search_query|>q<|end_search_query|><|begin_search_result|>\\boxed{Rome}<|end_search_result|> \\boxed{Paris}", ["Paris"]),
        ("only-in-result", "<|begin_search_result|>\\boxed{Paris}<|end_search_result|>", ["Paris"]),
        ("box-in-the-prompt-words", "Put it in \\boxed{YOUR_ANSWER}.\n\\boxed{Paris}", ["Paris"]),
        ("capital", "\\Boxed{Paris}", ["Paris"]),
        ("without-backslash", "boxed{Paris}", ["Paris"]),
    ]

    def run(case):
        out, text, golds = {}, case.fields["response"], as_list(case)
        got = attempt(out, "answer", lambda: ref.evaluate_predictions(text, golds, mode="qa"))
        if got is not None:
            metric, out["answer"] = got
            for key in ("is_valid_answer", "em", "acc", "f1"):
                out[key] = metric[key] if key == "is_valid_answer" else number(metric[key])
        return out

    cases = single(wrap) + structural() + structural(native, "native") + forms(wrap)
    options = {"scored_text": "input.response", "mode": "qa", "ground_truth": LIST_FORM}
    write("search-o1", "search-o1", path, "The evaluation of one prediction was called in its mode for question answering.", options, cases, run)


def make_rllm():
    kinds = load("rllm", "rllm/rewards/reward_types.py")
    stub("rllm.rewards")
    stub("rllm.rewards.reward_types", RewardConfig=kinds.RewardConfig, RewardInput=kinds.RewardInput, RewardOutput=kinds.RewardOutput)
    path = "rllm/rewards/search_reward.py"
    ref = load("rllm", path)
    function = ref.RewardSearchFn(kinds.RewardConfig())
    wrap = lambda a: f"<think>maybe \\boxed{{Rome}}</think>The answer is \\boxed{{{a}}}."
    g = ["Paris"]
    native = [
        ("boxed-first-of-two", "\\boxed{Paris} \\boxed{Rome}", g),
        ("boxed-without-backslash", "boxed{Paris}", g),
        ("boxed-nested", "\\boxed{\\text{Paris}}", g),
        ("boxed-unbalanced", "\\boxed{Paris and **Rome**", g),
        ("boxed-unbalanced-then-balanced", "\\boxed{Paris \\boxed{Rome}", g),
        ("boxed-empty", "\\boxed{} **Paris**", g),
        ("boxed-square", "\\boxed[Paris]", g),
        ("boxed-only-in-think", "<think>\\boxed{Paris}</think> nothing here", g),
        ("think-unclosed", "<think> \\boxed{Paris}", g),
        ("think-twice", "<think>a</think>x<think>b</think> \\boxed{Paris}", g),
        ("think-nested", "<think>a<think>b</think> \\boxed{Paris}</think>", g),
        ("only-think", "<think>Paris</think>", g),
        ("empty", "", g),
        ("bold", "It is **Paris** of course", g),
        ("bold-short-skipped", "It is **A** and **Paris**", g),
        ("bold-punctuation-skipped", "**...** then **Paris**", g),
        ("bold-over-lines", "**New\nYork**", ["New York"]),
        ("bold-cjk-short", "**\u5317\u4eac** is it", ["\u5317\u4eac"]),
        ("bold-cjk", "**\u5317\u4eac\u5e02** is it", ["\u5317\u4eac\u5e02"]),
        ("italic", "It is *Paris* of course", g),
        ("bold-wins-over-date", "In **Paris** on 14 July 1789", g),
        ("italic-between-bolds", "** * ** Paris ** x **", g),
        ("date-long", "born March 3, 1999 in Rome", ["March 3, 1999"]),
        ("date-without-comma", "born march 3 1999", ["march 3 1999"]),
        ("date-slashes", "on 03/04/1999 it ended", ["03/04/1999"]),
        ("date-month-year", "in May 1999 it ended", ["May 1999"]),
        ("date-january-year-falls-to-year", "in January 1999", ["1999"]),
        ("year", "it was 1999 and 2001", ["1999"]),
        ("year-arabic-digits", "\u0661\u0669\u0669\u0669 was it", ["\u0661\u0669\u0669\u0669"]),
        ("year-glued", "abc1999 is Paris", g),
        ("year-underscore", "_1999_ Paris", g),
        ("month-long-s", "Augu\u017ft 1999", ["Augu\u017ft 1999"]),
        ("name", "we think Marie Curie did it", ["Marie Curie"]),
        ("name-excluded", "in New York with Marie Curie", ["Marie Curie"]),
        ("name-only-excluded", "in New York", ["New York"]),
        ("name-starts-sentence", "The Eiffel Tower stands", ["Eiffel Tower"]),
        ("name-five-words", "so Aa Bb Cc Dd Ee said", ["Aa Bb Cc Dd Ee"]),
        ("name-accents", "\u00c9mile Zola and Andr\u00e9 Gide", ["Andr\u00e9 Gide"]),
        ("number-with-unit", "about 1,234.5 people and 7", ["1,234.5"]),
        ("number-plain", "about 42", ["42"]),
        ("number-percent-needs-boundary", "about 12 % of it, 7 votes", ["7"]),
        ("number-unit-wins", "3 or 50 votes", ["50"]),
        ("number-ungrouped", "about 123456 things", ["123456"]),
        ("pattern-answer-is", "I say the answer is: paris!", g),
        ("pattern-correct-answer", "the correct answer is paris, no doubt", g),
        ("pattern-therefore", "therefore, paris. yes", g),
        ("pattern-so-inside-word", "also paris", g),
        ("pattern-short", "the answer is no. it is paris", g),
        ("pattern-conclusion", "in conclusion, paris", g),
        ("pattern-declarative", "Capital city is paris", g),
        ("pattern-declarative-any-case", "my city is paris", g),
        ("pattern-it-was", "hmm it was paris", g),
        ("pattern-trims", "the answer is \u201cparis\u201d", g),
        ("sentence-best", "hello there friend. lovely weather were here today", ["lovely weather were here today"]),
        ("sentence-first", "wow. paris yes", ["paris yes"]),
        ("sentence-short", "paris", g),
        ("sentence-very-short", "oui", ["oui"]),
        ("last-resort", "a!b?c.d", ["abcd"]),
        ("hundred-characters", "abc! " * 40, ["abc"]),
        ("f1-below-threshold", "\\boxed{Paris one two three four five six}", g),
        ("f1-near-threshold", "\\boxed{k1 k2 k3 a1 a2 a3 a4 a5 a6 a7}", ["k1 k2 k3 b1 b2 b3 b4 b5 b6 b7"]),
        ("f1-near-threshold-uneven", "\\boxed{k1 k2 k3 a1 a2 a3 a4 a5 a6 a7 a8 a9 c1 c2 c3}", ["k1 k2 k3 b1 b2"]),
        ("f1-above-threshold", "\\boxed{Paris one two}", g),
        ("tagged-answer-ignored", "<answer> paris </answer>", g),
        ("unicode-blanks-collapse", "New\u2028\x1cYork", ["New York"]),
    ]

    def run(case):
        out = {}
        gold = as_list(case)
        info = {"answer": case.fields["answer_field"]} if "answer_field" in case.fields else {"ground_truth": gold}

        def call():
            return function(kinds.RewardInput(task_info=info, action=case.fields["response"]))

        try:
            got = call()
        except Exception:
            attempt(out, "score", call)
            return out
        out["answer"] = got.metadata.get("extracted_answer")
        out["score"] = number(got.reward)
        out["correct"] = bool(got.is_correct)
        for key in ("f1_score", "precision", "recall"):
            if key in got.metadata:
                out["f1" if key == "f1_score" else key] = number(got.metadata[key])
        if "exact_match" in got.metadata:
            out["em"] = bool(got.metadata["exact_match"])
        return out

    cases = single(wrap) + structural() + structural(native, "native") + forms(wrap)
    cases.append(Case("field/answer-in-place-of-ground-truth", ["Paris"], response="\\boxed{Paris}", answer_field="Paris"))
    options = {
        "scored_text": "input.response",
        "correct_reward": 1.0,
        "incorrect_reward": 0.0,
        "f1_threshold": 0.3,
        "ground_truth": LIST_FORM + "; with input.answer_field the reference got only a field named answer",
    }
    write("rllm-search", "rllm", path, "The reward class was called with its default configuration.", options, cases, run)


def make_tinker():
    for name in ("chromadb", "chromadb.api", "chromadb.api.types", "chromadb.config", "google", "google.genai"):
        stub(name)
    stub("chz", chz=lambda cls: cls)
    content = load_function("tinker", "tinker_cookbook/renderers/base.py", "get_text_content", Message=dict)
    stub("tinker_cookbook.recipes.search_tool.embedding")
    stub("tinker_cookbook.renderers", get_text_content=content)
    stub("tinker_cookbook.renderers.base", Message=dict)
    stub("tinker_cookbook.tool_use", tool=lambda f: f)
    path = "tinker_cookbook/recipes/search_tool/tools.py"
    ref = load("tinker", path)
    user = {"role": "user", "content": "Which city? Answer: Rome"}
    said = lambda text: {"role": "assistant", "content": text}
    wrap = lambda a: f"I reason.\nAnswer: {a}"
    native = [
        ("two-prefixes", [user, said("Answer: Rome\nAnswer: Paris")]),
        ("prefix-inside-a-word", [user, said("MyAnswer: Paris")]),
        ("lower-case-prefix", [user, said("answer: Paris")]),
        ("upper-case-prefix", [user, said("ANSWER: Paris")]),
        ("blank-before-colon", [user, said("Answer : Paris")]),
        ("bold-prefix", [user, said("**Answer:** Paris")]),
        ("final-prefix", [user, said("Final Answer: Paris")]),
        ("nothing-after", [user, said("Answer:")]),
        ("lines-after", [user, said("Answer: Paris\nBecause it is.")]),
        ("earlier-message-only", [user, said("Answer: Paris"), user, said("I am done")]),
        ("tool-message-last", [user, said("Answer: Paris"), {"role": "tool", "content": "Answer: Rome"}]),
        ("no-assistant", [user]),
        ("no-messages", []),
        ("parts", [user, said([{"type": "thinking", "thinking": "Answer: Rome"}, {"type": "text", "text": "Answer: "}, {"type": "text", "text": "Paris"}])]),
        ("parts-without-text", [user, said([{"type": "thinking", "thinking": "Answer: Paris"}])]),
        ("think-in-text", [user, said("<think>Answer: Rome</think> Answer: Paris")]),
        ("empty-content", [user, said("")]),
    ]

    def run(case):
        out, golds = {}, as_list(case)
        reward = ref.TextAnswerReward(gold_answers=golds)
        got = attempt(out, "score", lambda: asyncio.run(reward(case.fields["messages"])))
        if got is not None:
            score, parts = asyncio.run(reward(case.fields["messages"]))
            out.update(score=number(score), format=parts["format"], correct=parts["correct"])
        return out

    cases = []
    for case in single(wrap) + structural() + forms(wrap):
        cases.append(Case(case.name, case.golds, case.raw, messages=[user, said(case.fields["response"])]))
    cases += [Case(f"native/{n}", ["Paris"], messages=m) for n, m in native]
    options = {"scored_text": "the text parts of the last assistant message", "format_coef": 0.1, "ground_truth": LIST_FORM}
    write("tinker", "tinker", path, "The reward class was awaited with a history of messages.", options, cases, run)


def make_nemo_gym():
    from pydantic import BaseModel

    names = ("_GLOBAL_AIOHTTP_CLIENT_REQUEST_DEBUG", "MAX_NUM_TRIES", "ClientResponse", "get_response_json", "raise_for_status", "request")
    stub("nemo_gym.server_utils", **{n: 1 for n in names})
    sys.modules["nemo_gym.server_utils"].ClientResponse = typing.Any
    # Only the types of one message are needed, not those of all requests.
    tree = ast.parse(source_path("nemo-gym", "nemo_gym/openai_utils.py").read_text(encoding="utf-8"))
    wanted = {"NeMoGymResponseOutputText", "NeMoGymResponseOutputRefusal", "NeMoGymContent", "NeMoGymResponseOutputMessage", "NeMoGymResponseFunctionToolCall"}
    named = lambda n: getattr(n, "name", None) or getattr(getattr(n, "target", None), "id", None)
    from openai.types.responses.response_output_text_param import Annotation, Logprob

    # The types resolve their own names, so they live in a module of their own.
    types_module = types.ModuleType("nemo_types")
    sys.modules["nemo_types"] = types_module
    types_module.__dict__.update(vars(typing))
    types_module.__dict__.update(BaseModel=BaseModel, Annotation=Annotation, Logprob=Logprob, TypeAlias=typing.TypeAlias)
    exec(compile(ast.Module([n for n in tree.body if named(n) in wanted], []), "openai_utils.py", "exec"), types_module.__dict__)
    item = types_module

    class Response(BaseModel):
        output: list[typing.Union[item.NeMoGymResponseOutputMessage, item.NeMoGymResponseFunctionToolCall]]

    class Run(BaseModel):
        pass

    class Verify(Run):
        response: Response

    class VerifyResponse(Verify):
        reward: float

    for name in ("requests", "trafilatura", "fastapi"):
        stub(name)
    stub("nemo_gym.base_resources_server", BaseResourcesServerConfig=BaseModel, BaseRunRequest=Run, BaseVerifyRequest=Verify, BaseVerifyResponse=VerifyResponse, SimpleResourcesServer=object)
    path = "resources_servers/google_search/app.py"
    ref = load("nemo-gym", path)
    verify = ref.GoogleSearchResourcesServer.verify
    wrap = lambda a: f"I reason. \\boxed{{{a}}}"

    def message(*texts):
        parts = [item.NeMoGymResponseOutputText(annotations=[], text=t) for t in texts]
        return item.NeMoGymResponseOutputMessage(id="m", content=parts)

    native = [
        ("two-boxes-first-counts", ["\\boxed{Paris} \\boxed{Rome}"], "Paris"),
        ("two-parts", ["\\boxed{Pa", "ris}"], "Paris"),
        ("second-part", ["nothing", "\\boxed{Paris}"], "Paris"),
        ("no-box", ["Paris"], "Paris"),
        ("no-box-expected-None", ["Paris"], "None"),
        ("nested-braces", ["\\boxed{\\text{Paris}}"], "\\text{Paris"),
        ("newline", ["\\boxed{New\nYork}"], "New\nYork"),
        ("newline-as-repr", ["\\boxed{New\nYork}"], "New\\nYork"),
        ("quote", ["\\boxed{it's}"], "it's"),
        ("quotes-of-both-kinds", ["\\boxed{it's \"x\"}"], "it's \"x\""),
        ("quotes-of-both-kinds-as-repr", ["\\boxed{it's \"x\"}"], "it\\'s \"x\""),
        ("backslash", ["\\boxed{a\\b}"], "a\\b"),
        ("backslash-as-repr", ["\\boxed{a\\b}"], "a\\\\b"),
        ("blank-padding", ["\\boxed{ Paris }"], "Paris"),
        ("blank-before-brace", ["\\boxed {Paris}"], "Paris"),
        ("escaped-by-repr", ["\\boxed{New\u2028York}"], "New\u2028York"),
        ("escaped-by-repr-as-repr", ["\\boxed{New\u2028York}"], "New\\u2028York"),
        ("double-backslash", ["\\\\boxed{Paris}"], "Paris"),
        ("without-backslash", ["boxed{Paris}"], "Paris"),
        ("empty-box", ["\\boxed{}"], ""),
        ("no-parts", [], "Paris"),
    ]

    def run(case):
        out = {}
        if "last_item" in case.fields:
            last = item.NeMoGymResponseFunctionToolCall(arguments="\\boxed{Paris}", call_id="c", name="search")
        else:
            texts = case.fields["texts"] if "texts" in case.fields else [case.fields["response"]]
            last = message(*texts)
        gold = case.raw if case.raw is not ABSENT else (case.golds or [""])[0]
        attempt(out, "parsed", lambda: ref.box_parser(None if "last_item" in case.fields else last.content))

        def call():
            body = ref.GoogleSearchVerifyRequest(response=Response(output=[last]), expected_answer=gold, task_difficulty_qwen3_32b_avg_8=0.5)
            return asyncio.run(verify(None, body)).reward

        attempt(out, "score", call)
        return out

    cases = single(wrap, [(n, a, g[:1] or [""]) for n, a, g in PAIRS]) + structural() + forms(wrap)
    cases += [Case(f"native/{n}", [g], texts=t) for n, t, g in native]
    cases.append(Case("native/last-item-is-a-call", ["Paris"], last_item="function_call"))
    options = {
        "scored_text": "Python's text form of the list of content parts of the last output item; input.response is one part, input.texts several",
        "ground_truth": "golds[0] unless input has a ground_truth",
        "note": "base classes of the server are re-created in the smallest form; the message types and the verify method are the real ones",
    }
    write("nemo-gym-google-search", "nemo-gym", path, "The verify method was awaited with a response of one message.", options, cases, run)


def make_f1():
    utils = load("flashrag", "flashrag/evaluator/utils.py")
    stub("flashrag.evaluator.utils", normalize_answer=utils.normalize_answer)
    path = "flashrag/evaluator/metrics.py"
    ref = load("flashrag", path)
    f1, em, sub = (c.__new__(c) for c in (ref.F1_Score, ref.ExactMatch, ref.Sub_ExactMatch))
    em.is_regex = sub.is_regex = False

    def run(case):
        out, answer, golds = {}, case.fields["answer"], as_list(case)
        attempt(out, "normalized", lambda: utils.normalize_answer(answer))
        for key in ("f1", "precision", "recall"):
            attempt(out, key, lambda: number(f1.token_level_scores(answer, golds)[key]))
        attempt(out, "em", lambda: number(em.calculate_em(answer, golds)))
        attempt(out, "sub_em", lambda: number(sub.calculate_sub_em(answer, golds)))
        return out

    cases = [Case(f"answer/{n}", g, answer=a) for n, a, g in PAIRS] + [Case(f"form/{n}", f, r, answer=a) for n, r, f, a in FORMS]
    options = {"scored_text": "input.answer", "ground_truth": LIST_FORM, "note": "precision and recall are maxima over the golds, each on its own"}
    write("f1-hotpotqa-style", "flashrag", path, "The metric classes were called on single answers.", options, cases, run)


def make_normalisation():
    """What each family of normalisers makes of one string."""
    qa = load("search-r1", "verl/utils/reward_score/qa_em.py")
    r1 = load("r1-searcher", "evaluation/metric_calc_rule.py")
    server = load("r1-searcher", "train/reward_server_qwen_zero.py")
    tokens = load("asearcher", "AReaL/ASearcher/utils/rewards.py")
    texts = []
    for name, answer, golds in PAIRS:
        texts.append((name, answer))
        texts += [(f"{name}-gold-{i}", gold) for i, gold in enumerate(golds[:2])]
    cases = [Case(name, [], text=text) for name, text in texts if text != LONG]

    def run(case):
        out, text = {}, case.fields["text"]
        attempt(out, "squad", lambda: qa.normalize_answer(text))
        attempt(out, "r1_searcher", lambda: r1.normalize_answer(text))
        attempt(out, "asearcher_f1", lambda: tokens.normalize_text(text))
        attempt(out, "r1_searcher_question", lambda: server.normalize_text(text))
        return out

    options = {
        "squad": "normalize_answer of Search-R1; the same in verl, SkyRL, slime, ReSearch, AutoRefine, ZeroSearch, Search-o1, rLLM, tinker, FlashRAG and the EM of ASearcher",
        "r1_searcher": "normalize_answer of evaluation/metric_calc_rule.py",
        "asearcher_f1": "normalize_text of AReaL/ASearcher/utils/rewards.py",
        "r1_searcher_question": "normalize_text of train/reward_server_qwen_zero.py, the key of its table of questions",
    }
    write("normalisation", "search-r1", "verl/utils/reward_score/qa_em.py", "Four normalisers were called on every answer and the first two golds; the options name their sources.", options, cases, run)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    steps = [make_normalisation, make_search_r1, make_verl, make_skyrl, make_research, make_r1_searcher, make_asearcher, make_autorefine]
    steps += [make_slime, make_zerosearch, make_search_o1, make_rllm, make_tinker, make_f1, make_nemo_gym, make_verl_tool]
    # The server modules of R1-Searcher need their stubs before the normalisers.
    for name in ("uvicorn", "datasets", "transformers", "fastapi", "fastapi.responses", "openrlhf.utils", "jsonlines"):
        stub(name)
    stub("openrlhf.utils.logging_utils", init_logger=lambda name: types.SimpleNamespace(info=lambda *a: None))
    stub("ujson", dumps=json.dumps)
    for step in steps:
        step()


if __name__ == "__main__":
    main()
