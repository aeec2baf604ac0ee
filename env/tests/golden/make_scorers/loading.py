"""How is a scorer taken out of its checkout, without what it imports and does not use?"""

import ast
import importlib.util
import sys
import types
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


class Anything:
    """Stands for whatever a reference imports and its scorer does not use."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        # A bare decorator gives back what it decorates.
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, key):
        return Anything()

    def __or__(self, other):
        return Anything()

    __ror__ = __or__


def stub(name, **attrs):
    """Puts an empty module (and its parents) into sys.modules."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules:
            module = types.ModuleType(path)
            module.__path__ = []
            module.__getattr__ = lambda attr: (_ for _ in ()).throw(AttributeError(attr)) if attr.startswith("__") else Anything()
            sys.modules[path] = module
    for key, value in attrs.items():
        setattr(sys.modules[name], key, value)
    return sys.modules[name]


def source_path(key, path):
    repo, commit = SOURCES[key]
    return CHECKOUTS / f"{repo.replace('/', '+')}@{commit[:7]}" / path


class NoPrinting:
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
        module.random = NoPrinting
    return module


def load_function(key, path, function, **names):
    """Imports one function of a file whose other imports are too heavy."""
    tree = ast.parse(source_path(key, path).read_text(encoding="utf-8"))
    nodes = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
    scope = dict(names)
    exec(compile(ast.Module(nodes, []), path, "exec"), scope)
    return scope[function]
