"""AReaL: `workflow: hindsearch.adapters.areal.SearchAgent`, with `workflow_kwargs: {url: ..., preset: ...}`.

It asks the model in OpenAI's manner, through the proxy whose address AReaL hands over. It imports nothing of AReaL's.
"""

from __future__ import annotations

from typing import Any

from .._tasks import task_of
from ..client import Client
from ._settings import chat_role, make_env

OWN = ("url", "preset", "top_k", "token", "ca_file", "timeout")


class SearchAgent:
    """One episode a call. It can be pickled."""

    def __init__(self, model: str = "default", **kwargs: Any) -> None:
        """`kwargs` are the settings of every adapter, and what else is to go into each request: `temperature`, `max_tokens`."""
        self._model = model
        self._settings = {name: value for name, value in kwargs.items() if name in OWN}
        self._request = {name: value for name, value in kwargs.items() if name not in OWN}

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        """Plays a row with `question`, or `messages`, and accepted answers."""
        env = make_env(self._settings)
        if isinstance(env.retriever, Client):
            env.retriever = env.retriever.asynchronous()
        messages: list[Any] = list(env.reset(**task_of(data, data.get("messages"))))
        from openai import AsyncOpenAI

        model = AsyncOpenAI(
            base_url=extra.get("base_url"), api_key=extra.get("api_key"), http_client=extra.get("http_client"), max_retries=0
        )
        while True:
            answer = await model.chat.completions.create(model=self._model, messages=messages, **self._request)
            choice = answer.choices[0]
            text = choice.message.content or ""
            step = await env.step_async(text, cut_off=choice.finish_reason == "length")
            if step.done:
                # AReaL takes no other kind of number.
                return float(step.reward)
            messages.append({"role": "assistant", "content": text})
            if step.observation:
                messages.append({"role": chat_role(env.preset), "content": step.observation})
