"""Loads the code of a client from its checkout, unchanged, without the heavy libraries that it imports.

A module is loaded whole where importing it runs nothing; of a script, single functions, assignments or statements are taken.
"""

import ast
import importlib.abc
import importlib.util
import re
import sys
import types
from pathlib import Path

import requests


class Anything:
    """Stands in for whatever a stubbed library offers: as a decorator it returns what it decorates."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], (type, types.FunctionType)):
            return args[0]
        return Anything()

    def __getitem__(self, key):
        return Anything()


class StubModule(types.ModuleType):
    """A library that is not there. Names in capitals are empty classes, so that they can be inherited from."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {}) if name[0].isupper() else Anything()
        setattr(self, name, value)
        return value


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers the import of any module under the given names."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if any(name == stub or name.startswith(stub + ".") for stub in self.names):
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StubModule(spec.name)

    def exec_module(self, module):
        pass


def load(path: Path, name: str, stubs=(), packages=None):
    """Imports the file as module `name`; `packages` maps package names to folders, whose `__init__.py` is not run."""
    finder = StubFinder(tuple(stubs))
    before = set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        for package, folder in (packages or {}).items():
            module = types.ModuleType(package)
            module.__path__ = [str(folder)]
            sys.modules[package] = module
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.meta_path.remove(finder)
        # Two checkouts have packages of one name (`verl`), and the stubs of one are the real modules of another.
        for added in set(sys.modules) - before:
            owner = getattr(sys.modules[added], "__file__", None) or ""
            if added == name or isinstance(sys.modules[added], StubModule) or added in (packages or {}) or str(path.parent) in owner:
                del sys.modules[added]


def take(path: Path, wanted, scope: dict):
    """Runs in `scope` the functions, classes and assignments of a script that have the given names, wherever they stand."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if any(name in wanted for name in names):
            found.append(node)
    run(path, found, scope, wanted)


def take_condition(path: Path, condition: str, scope: dict):
    """Runs in `scope` the `if` statement of a script that has the given condition."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == condition]
    run(path, found[:1], scope, condition)


def run(path: Path, nodes, scope: dict, wanted):
    if not nodes:
        raise LookupError(f"`{path}` has no {wanted}: another version of the client?")
    exec(compile(ast.Module(nodes, []), str(path), "exec"), scope)


class Redirected:
    """The `requests` of a client that has its server's address written into its code."""

    exceptions = requests.exceptions

    def __init__(self, server: str):
        self.server = server

    def post(self, url, **kwargs):
        return requests.post(re.sub(r"^https?://[^/]+", self.server, url), **kwargs)
