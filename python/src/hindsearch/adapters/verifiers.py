"""verifiers (v1), and prime-rl: a taskset, the environment that answers its searches, and a harness.

verifiers finds plugins by the name of a module at the top, which is `hindsearch_verifiers`:

    [taskset]
    id = "hindsearch_verifiers"
    tasks = "train.jsonl"
    url = "http://127.0.0.1:8000"
    [agent]
    runtime = { type = "subprocess" }
    harness = { id = "hindsearch_verifiers" }

The harness asks the model from the worker itself; others start a program for every message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Optional
from weakref import WeakKeyDictionary

try:
    import httpx
    import verifiers.v1 as vf
    from verifiers.v1.configs.harness import HarnessConfig
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.harness import Harness
    from verifiers.v1.runtimes import ProgramResult
except ImportError as error:
    raise ImportError("`hindsearch.adapters.verifiers` needs verifiers 0.4 or newer: `pip install verifiers`") from error

from ..client import Client
from ..env import SearchEnv as CoreEnv
from ._settings import make_env, read

__all__ = ["InProcess", "SearchEnv", "SearchTaskset"]


class SearchData(vf.TaskData):
    question: str
    golds: list[str]
    augmented: list[str] = []
    source: str = ""


class SearchTask(vf.Task[SearchData]):
    """Its reward is the recipe's, which the environment records."""


class SearchTasksetConfig(vf.TasksetConfig):
    tasks: str = "sample"
    """A file (see `hindsearch.env.tasks`), or a built-in set."""
    limit: Optional[int] = None  # noqa: UP045 (pydantic reads it)
    """The first tasks only."""
    url: Optional[str] = None  # noqa: UP045
    preset: Optional[str] = None  # noqa: UP045
    top_k: Optional[int] = None  # noqa: UP045
    token: Optional[str] = None  # noqa: UP045


class SearchTaskset(vf.Taskset[SearchTask, SearchTasksetConfig]):
    def load(self) -> Iterator[SearchTask]:
        env = make_env(self.config)
        for number, task in enumerate(read(self.config.tasks)[: self.config.limit]):
            messages = env.reset(**task)
            system = "\n".join(message["content"] for message in messages if message["role"] == "system")
            # A chat cannot begin the model's own message for it.
            prompt = "\n".join(message["content"] for message in messages if message["role"] == "user")
            yield SearchTask(SearchData(name=str(number), prompt=prompt, system_prompt=system or None, **task), self.config.task)


class SearchEnvConfig(vf.EnvConfig):
    # Ours cannot be named here, while its module is being imported.
    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class SearchEnv(vf.Env[SearchEnvConfig]):
    """Plays the user: a search is answered by what the recipe shows of its passages."""

    async def run(self, task: SearchTask, agents: Any) -> None:
        data = task.data
        env: CoreEnv = make_env(self.taskset.config)
        if isinstance(env.retriever, Client):
            env.retriever = env.retriever.asynchronous()
        env.reset(data.question, data.golds, augmented=data.augmented, source=data.source)
        reward = None
        async with agents.agent.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                step = await env.step_async(segment.last_reply)
                if step.done:
                    reward = step.reward
                    break
                segment = await interaction.turn(step.observation or " ")
        trace = interaction.trace
        trace.record_reward("hindsearch", env.score() if reward is None else reward)
        trace.record_metric("searches", env.episode.searches)


class InProcessConfig(HarnessConfig):
    pass


class InProcess(Harness[InProcessConfig]):
    """Asks the model and nothing else: no tools, no program."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    _clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any, *_: Any, **__: Any
    ) -> ProgramResult:
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(message_to_wire, prompt or [])
        return await self._ask(ctx, endpoint, secret, messages)

    async def resume(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: Any,
        data: Any,
        messages: Any,
        *_: Any,
        **__: Any,
    ) -> ProgramResult:
        said = trace.branches[-1].messages if trace.branches else []
        return await self._ask(ctx, endpoint, secret, [message_to_wire(message) for message in [*said, *messages]])

    async def _ask(self, ctx: Any, endpoint: str, secret: str, messages: list[Any]) -> ProgramResult:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # verifiers has limits of its own.
            limits = httpx.Limits(max_connections=None)
            self._clients[loop] = httpx.AsyncClient(timeout=None, limits=limits)
        answer = await self._clients[loop].post(
            f"{endpoint}/chat/completions",
            headers={"Authorization": f"Bearer {secret}"},
            json={"model": ctx.model, "messages": messages},
        )
        fine = answer.status_code == 200
        return ProgramResult(exit_code=0 if fine else 1, stdout="", stderr="" if fine else answer.text[-500:])
