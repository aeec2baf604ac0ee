"""verl: the search tool with the settings of its old YAML, and an agent loop for recipes of running text.

In the file of `multi_turn.tool_config_path`: `class_name: hindsearch.adapters.verl.SearchTool`.
In the file of `agent.agent_loop_config_path`:
`- {name: hindsearch, _target_: hindsearch.adapters.verl.SearchAgentLoop, url: ...}`.
A function tool and a function that rewards: `hindsearch.adapters.verl_function`, `hindsearch.adapters.verl_reward`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
    from verl.tools.base_tool import BaseTool
    from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
except ImportError as error:
    raise ImportError("`hindsearch.adapters.verl` needs verl: `pip install verl`") from error

from .._core import Preset, escape
from .._retrieval import search_async
from .._tasks import task_of
from ..env import SearchEnv, look_up_async
from ..types import Hit
from ._settings import faults_end_the_run, make_env
from ._tokens import TokenEpisode, counter, split

MISSING = "Error: 'query_list' is missing, empty, or not a list in parameters."


class SearchTool(BaseTool):
    """verl's tool of that name, which has left verl: the same settings, argument and text.

    `retrieval_service_url`, `topk` and `timeout` are read; `num_workers`, `rate_limit` and others have no use here. Two are new:
    `preset` shows passages as a recipe does, and `escape: false` shows them as they are, even where they look like tags.
    """

    def __init__(self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema) -> None:
        super().__init__(config, tool_schema)
        own = {"url": config.get("retrieval_service_url"), "top_k": config.get("topk")}
        self._env = make_env(own, config)
        self._has_preset = bool(config.get("preset"))
        self._escape = bool(config.get("escape", True))

    async def create(self, instance_id: str | None = None, **kwargs: Any) -> tuple[str, ToolResponse]:
        return instance_id or str(uuid4()), ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        queries = parameters.get("query_list") or parameters.get("query")
        queries = [queries] if isinstance(queries, str) else queries
        if not queries or not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
            return ToolResponse(text=MISSING), 0.0, {"status": "invalid", "query_count": 0}
        # verl tells the model of any exception, as if the tool had answered.
        with faults_end_the_run():
            text = await self._text(queries)
        return ToolResponse(text=text), 0.0, {"status": "success", "query_count": len(queries)}

    async def _text(self, queries: list[str]) -> str:
        if self._has_preset:
            return await look_up_async(self._env, queries)
        found = await search_async(self._env.retriever, queries, self._env.top_k)
        return json.dumps({"result": "\n---\n".join(map(self._passages, found))}, ensure_ascii=False)

    def _passages(self, hits: Sequence[Hit]) -> str:
        """As `verl/tools/utils/search_r1_like_utils.py` had it: the first line of the contents is the title, quotes and all."""
        lines = []
        for number, hit in enumerate(hits, 1):
            title, _, text = (hit.contents or f"{hit.title or ''}\n{hit.text or ''}").partition("\n")
            if self._escape:
                title, text = escape(title), escape(text)
            lines.append(f"Doc {number} (Title: {title})\n{text}\n\n")
        return "".join(lines).strip()


class SearchAgentLoop(AgentLoopBase):
    """Episodes of a recipe, token by token. The reward comes from here, so that no reward function is called.

    A row with `extra_info.question` gets the recipe's prompt, others keep `raw_prompt`.
    """

    def __init__(
        self, *args: Any, url: Any = None, preset: Any = None, top_k: int | None = None, token: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._settings = {"url": url, "preset": preset, "top_k": top_k, "token": token}

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        env = make_env(self._settings, count=counter(self.tokenizer))
        play = TokenEpisode(env, self.tokenizer, task_of(row, list(row["raw_prompt"])))
        play.begin(None if env.preset.bare else await self._prompt(env.preset, play.messages))
        limit = self.rollout_config.response_length
        request, has_logprobs = uuid4().hex, True
        while room := play.room(len(play.prompt) + limit):
            output = await self.server_manager.generate(
                request_id=request, prompt_ids=play.tokens, sampling_params=self._sampling(env, sampling_params, room)
            )
            has_logprobs = has_logprobs and bool(output.log_probs)
            cut_off = output.stop_reason == "length" or len(output.token_ids) >= room
            step = await play.step(output.token_ids, output.log_probs, cut_off)
            if step.done:
                break
        tokens, mask, logprobs = play.response()
        reward = play.reward()
        return AgentLoopOutput(
            prompt_ids=play.prompt,
            response_ids=tokens[:limit],
            response_mask=[int(own) for own in mask[:limit]],
            response_logprobs=logprobs[:limit] if has_logprobs else None,
            num_turns=2 * env.episode.turns,
            metrics={},
            reward_score=reward,
            extra_fields={
                "turn_scores": [],
                "tool_rewards": [],
                "reward_extra_info": {"searches": env.episode.searches, "answered": env.episode.stop == "answer"},
            },
        )

    async def _prompt(self, preset: Preset, messages: list[dict[str, str]]) -> list[int]:
        chat, begun = split(messages)
        tokens = await self.ct_build_initial_tokens(chat, tools=json.loads(preset.tools) if preset.tools else None)
        return [*tokens, *(self.tokenizer.encode(begun, add_special_tokens=False) if begun else [])]

    def _sampling(self, env: SearchEnv, given: dict[str, Any], room: int) -> dict[str, Any]:
        # Each engine has its own word for stop strings that stay in the text.
        keep = "no_stop_trim" if self.rollout_config.name == "sglang" else "include_stop_str_in_output"
        stop = {"stop": env.preset.stop, keep: True} if env.preset.stop else {}
        return {**given, **stop, "max_tokens": room}
