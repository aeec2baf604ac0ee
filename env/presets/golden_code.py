"""Where is the code of the recipes, and how does one ask it without what it needs for training?"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path

import pydantic  # noqa: F401, it must be there before the stand-ins, as the next one
import regex  # noqa: F401

CHECKOUTS = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("checkouts")

SOURCES = {
    "search-r1": "PeterGriffinJin+Search-R1@a14dc3a",
    "autorefine": "syr-cn+AutoRefine@8363788",
    "skyrl": "NovaSky-AI+SkyRL@a956457",
    "slime": "THUDM+slime@624b824",
    "verl": "verl-project+verl@1dda039",
    "verl-tool": "TIGER-AI-Lab+verl-tool@980962b",
    "research": "Agent-RL+ReSearch@f228480",
    "r1-searcher": "RUCAIBox+R1-Searcher@631167c",
    "asearcher": "inclusionAI+ASearcher@813e804",
    "zerosearch": "Alibaba-NLP+ZeroSearch@2d4cdca",
    "search-o1": "sunnynexus+Search-o1@6ced48f",
    "rllm": "rllm-org+rllm@9beb6e0",
    "tinker": "thinking-machines-lab+tinker-cookbook@9dfcc3a",
}


class _Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __call__(cls, *args, **kwargs):
        # A decorator leaves alone what it decorates.
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return super().__call__(*args, **kwargs)


class Anything(metaclass=_Meta):
    """Stands for whatever a recipe imports and what is asked of it does not use."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __class_getitem__(cls, key):
        return cls


class _StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: only for modules that are not installed."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _StandIn(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(_Finder())


def load(source, path):
    file = CHECKOUTS / SOURCES[source] / path
    name = f"golden_{source}_{path}".replace("/", "_").replace("-", "_").replace(".", "_")
    package = types.ModuleType(name)
    package.__path__ = []
    sys.modules[name] = package
    spec = importlib.util.spec_from_file_location(f"{name}.it", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"{name}.it"] = module
    spec.loader.exec_module(module)
    return module


def marked(question):
    question = question.strip()
    return question if question[-1] == "?" else question + "?"


def fake(cls, **values):
    """An object with the methods of a class, made without its constructor."""
    made = types.SimpleNamespace(**values)
    for name in dir(cls):
        if not name.startswith("__") and name not in values and callable(getattr(cls, name)):
            function = getattr(cls, name)
            setattr(made, name, lambda *args, _f=function, **kwargs: _f(made, *args, **kwargs))
    return made
