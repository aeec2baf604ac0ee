"""What adapters import of each trainer: base classes with the published signatures, and nothing behind them.

The real packages are played in `tests/real`. Here a class that lacks a method, or has it with other arguments, cannot be made or
called.
"""

import abc
import asyncio
import random
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

A, B, C = TypeVar("A"), TypeVar("B"), TypeVar("C")


class Tensor(list):
    """As much of a tensor as adapters give away."""

    def __init__(self, value, dtype=None):
        self.value = value
        super().__init__(value if isinstance(value, list) else [value])

    def item(self):
        return self.value


# skyrl-gym 0.4


class BaseTextEnv:
    def __init__(self):
        self.turns, self.max_turns = 0, 1

    def close(self):
        pass


# verl 0.9


class BaseTool:
    def __init__(self, config: dict, tool_schema):
        self.config, self.tool_schema = config, tool_schema

    async def release(self, instance_id, **kwargs):
        pass


@dataclass
class ToolResponse:
    text: Any = None


class AgentLoopBase(abc.ABC):
    def __init__(self, trainer_config, server_manager, tokenizer, processor=None, **kwargs):
        self.rollout_config, self.server_manager, self.tokenizer = trainer_config, server_manager, tokenizer

    async def ct_build_initial_tokens(self, messages, tools=None):
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)

    @abc.abstractmethod
    async def run(self, sampling_params: dict, **kwargs): ...


@dataclass
class AgentLoopOutput:
    prompt_ids: list
    response_ids: list
    response_mask: list
    num_turns: int
    metrics: dict
    response_logprobs: Any = None
    reward_score: Any = None
    extra_fields: dict = field(default_factory=dict)


# OpenRLHF 0.11


class AgentInstanceBase(abc.ABC):
    @abc.abstractmethod
    def __init__(self, *args, **kwargs): ...

    @abc.abstractmethod
    async def step(self, state_dict: dict, **kwargs): ...


class MultiTurnAgentExecutor:
    def __init__(self, agent_instance_cls):
        assert issubclass(agent_instance_cls, AgentInstanceBase)
        self.agent_instance_cls = agent_instance_cls


# slime


class Sample:
    Status = types.SimpleNamespace(COMPLETED="completed", TRUNCATED="truncated", ABORTED="aborted")

    def __init__(self, **fields):
        self.metadata, self.reward, self.response = {}, None, ""
        self.__dict__.update(fields)


# GEM 0.1


class GemEnv(abc.ABC):
    @abc.abstractmethod
    def step(self, action): ...

    @abc.abstractmethod
    def reset(self, seed=None): ...


# NeMo RL


class EnvironmentReturn(NamedTuple):
    observations: list
    metadata: list
    next_stop_strings: list
    rewards: Any
    terminateds: Any
    answers: Any = None


class EnvironmentInterface(abc.ABC):
    @abc.abstractmethod
    def step(self, message_log_batch, metadata): ...

    @abc.abstractmethod
    def global_post_process_and_metrics(self, batch): ...


# tinker-cookbook 0.6


class MessageEnv(abc.ABC):
    @abc.abstractmethod
    async def initial_observation(self): ...

    @abc.abstractmethod
    async def step(self, message): ...


@dataclass
class MessageStepResult:
    reward: float
    episode_done: bool
    next_messages: list
    metrics: dict = field(default_factory=dict)


@dataclass
class EnvFromMessageEnv:
    renderer: Any
    message_env: MessageEnv
    max_trajectory_tokens: Any = None


class EnvGroupBuilder(abc.ABC):
    @abc.abstractmethod
    async def make_envs(self): ...


class RLDataset(abc.ABC):
    @abc.abstractmethod
    def get_batch(self, index): ...

    @abc.abstractmethod
    def __len__(self): ...


# gymnasium 1.4


class Space(Generic[A]):
    def __init__(self, shape=None, dtype=None, seed=None):
        self.random = random.Random(seed)


class GymnasiumEnv(Generic[A, B]):
    np_random = None

    def reset(self, *, seed=None, options=None):
        if seed is not None or self.np_random is None:
            self.np_random = types.SimpleNamespace(integers=random.Random(seed).randrange)


# OpenEnv 0.10


class Model:
    """As much of pydantic's as is needed: fields with defaults, and no others."""

    def __init__(self, **given):
        names = {name for kind in type(self).__mro__ for name in getattr(kind, "__annotations__", {})}
        assert set(given) <= names, given
        self.__dict__.update(given)


class Action(Model):
    metadata: dict = {}


class Observation(Model):
    done: bool = False
    reward: Any = None
    metadata: dict = {}


class State(Model):
    episode_id: Any = None
    step_count: int = 0


class Environment(abc.ABC, Generic[A, B, C]):
    @abc.abstractmethod
    def reset(self, seed=None, episode_id=None, **kwargs): ...

    @abc.abstractmethod
    def step(self, action, timeout_s=None, **kwargs): ...

    @property
    @abc.abstractmethod
    def state(self): ...


class EnvClient(abc.ABC, Generic[A, B, C]):
    def __init__(self, base_url): ...

    @abc.abstractmethod
    def _step_payload(self, action): ...

    @abc.abstractmethod
    def _parse_result(self, payload): ...

    @abc.abstractmethod
    def _parse_state(self, payload): ...


@dataclass
class StepResult(Generic[A]):
    observation: A
    reward: Any = None
    done: bool = False


# verifiers 0.4


class TaskData(Model):
    name: str = ""
    prompt: Any = None
    system_prompt: Any = None


class VerifiersTask(Generic[A]):
    def __init__(self, data, config):
        self.data = data


class TasksetConfig(Model):
    task: Any = None


class Taskset(Generic[A, B]):
    def __init__(self, config):
        self.config = config


class EnvConfig(Model):
    pass


class VerifiersEnv(Generic[A]):
    def __init__(self, taskset):
        self.taskset = taskset


class Harness(abc.ABC, Generic[A]):
    @abc.abstractmethod
    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None): ...


class Interaction:
    """Plays a script and notes what the environment says."""

    def __init__(self, script):
        self.script, self.heard, self.rewards, self.metrics = list(script), [], {}, {}
        self.trace = self

    async def turn(self, message=None):
        self.heard.append(message)
        return types.SimpleNamespace(terminated=not self.script, last_reply=self.script.pop(0) if self.script else None)

    def record_reward(self, name, value, weight=1.0):
        self.rewards[name] = value

    def record_metric(self, name, value):
        self.metrics[name] = value

    def interaction(self, task):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await asyncio.sleep(0)


def modules():
    """All modules by name."""
    made = {
        "skyrl_gym.envs.base_text_env": {"BaseTextEnv": BaseTextEnv, "BaseTextEnvStepOutput": dict},
        "verl.experimental.agent_loop.agent_loop": {"AgentLoopBase": AgentLoopBase, "AgentLoopOutput": AgentLoopOutput},
        "verl.tools.base_tool": {"BaseTool": BaseTool},
        "verl.tools.schemas": {"OpenAIFunctionToolSchema": dict, "ToolResponse": ToolResponse},
        "verl.tools.function_tool": {"function_tool": lambda name: lambda function: function},
        "openrlhf.utils.agent": {"AgentInstanceBase": AgentInstanceBase, "MultiTurnAgentExecutor": MultiTurnAgentExecutor},
        "slime.rollout.sglang_rollout": {"GenerateState": lambda args: args},
        "slime.utils.http_utils": {"post": None},
        "gem": {"Env": GemEnv, "register": lambda env_id, entry_point, **options: REGISTERED.update({env_id: entry_point})},
        "gem.envs.registration": {"ENV_REGISTRY": {}},
        "nemo_rl.environments.interfaces": {"EnvironmentInterface": EnvironmentInterface, "EnvironmentReturn": EnvironmentReturn},
        "nemo_rl.environments.utils": {"register_env": lambda name, path: REGISTERED.update({name: path})},
        "nemo_rl.distributed.ray_actor_environment_registry": {"ACTOR_ENVIRONMENT_REGISTRY": REGISTERED},
        "nemo_rl.distributed.virtual_cluster": {"PY_EXECUTABLES": types.SimpleNamespace(SYSTEM="system")},
        "ray": {"remote": lambda kind: kind},
        "torch": {"tensor": Tensor, "float32": float, "bool": bool},
        "tinker_cookbook.rl.message_env": {
            "EnvFromMessageEnv": EnvFromMessageEnv,
            "MessageEnv": MessageEnv,
            "MessageStepResult": MessageStepResult,
        },
        "tinker_cookbook.rl.types": {"Env": object, "EnvGroupBuilder": EnvGroupBuilder, "RLDataset": RLDataset},
        "gymnasium": {
            "Space": Space,
            "Env": GymnasiumEnv,
            "registry": {},
            "register": lambda id, entry_point: REGISTERED.update({id: entry_point}),
        },
        "openenv.core.client_types": {"StepResult": StepResult},
        "openenv.core.env_client": {"EnvClient": EnvClient},
        "openenv.core.env_server": {"Action": Action, "Environment": Environment, "Observation": Observation, "State": State},
        "verifiers.v1": {
            "TaskData": TaskData,
            "Task": VerifiersTask,
            "TasksetConfig": TasksetConfig,
            "Taskset": Taskset,
            "EnvConfig": EnvConfig,
            "AgentConfig": lambda **given: given,
            "Env": VerifiersEnv,
        },
        "verifiers.v1.configs.harness": {"HarnessConfig": Model},
        "verifiers.v1.dialects.chat": {"message_to_wire": dict},
        "verifiers.v1.harness": {"Harness": Harness},
        "verifiers.v1.runtimes": {"ProgramResult": types.SimpleNamespace},
        "httpx": {"AsyncClient": object, "Limits": object},
    }
    return {name: _module(name, values) for name, values in made.items()}


REGISTERED: dict = {}


def _module(name, values):
    module = types.ModuleType(name)
    module.__dict__.update(values)
    return module


def install(monkeypatch):
    """Puts all of them, and the packages around them, where `import` looks."""
    REGISTERED.clear()
    for name, module in modules().items():
        parts = name.split(".")
        for depth in range(1, len(parts)):
            parent = ".".join(parts[:depth])
            if not getattr(sys.modules.get(parent), "is_stand_in", False):
                package = types.ModuleType(parent)
                package.is_stand_in, package.__path__ = True, []
                monkeypatch.setitem(sys.modules, parent, package)
        module.is_stand_in, module.__path__ = True, []
        monkeypatch.setitem(sys.modules, name, module)
        if len(parts) > 1:
            setattr(sys.modules[".".join(parts[:-1])], parts[-1], module)
    for name in [name for name in sys.modules if name.startswith(("hindsearch.adapters.", "hindsearch_verifiers"))]:
        if not name.rsplit(".", 1)[-1].startswith("_"):
            monkeypatch.delitem(sys.modules, name)
