"""The Rust core: the rules of episodes and their rewards. See `python/core`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

class _Hit(Protocol):
    """`hindsearch.Hit`, or anything with its attributes."""

    @property
    def id(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def contents(self) -> str | None: ...
    @property
    def score(self) -> float | None: ...
    @property
    def row(self) -> int | None: ...

class _Passage(Protocol):
    """`hindsearch.Passage` or `hindsearch.Hit`, or anything with their attributes."""

    @property
    def id(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def contents(self) -> str | None: ...
    @property
    def row(self) -> int | None: ...

class Preset:
    """A published recipe as data."""

    @staticmethod
    def named(name: str) -> Preset:
        """A preset that is built in; `NotFound` lists those that there are."""
    @staticmethod
    def load(name: str) -> Preset:
        """A preset that is built in, or one of a file, whose name ends in `.toml`."""
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def stop(self) -> list[str]:
        """Strings that end a message of the policy, and belong to it."""
    @property
    def bare(self) -> bool:
        """Whether messages stand one behind the other, without a chat template."""
    @property
    def tools(self) -> str | None:
        """The tools that a chat template is to tell of, as JSON."""
    @property
    def top_k(self) -> int:
        """Passages for a query."""
    @property
    def turns(self) -> int:
        """Messages of the policy in which it may search."""
    @property
    def response_tokens(self) -> int:
        """Tokens of a message of the policy."""
    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and episode together."""
    @property
    def observation_role(self) -> str:
        """In which message observations stand; `assistant` where they are running text."""
    def search_text(self, queries: Sequence[str]) -> str:
        """A search in this recipe's grammar, for trainers that parse calls of tools themselves."""
    def answer_text(self, text: str) -> str:
        """An answer in this recipe's grammar; a bare text where it has no tags for answers."""
    def to_json(self) -> str: ...

class Rules:
    """The rules of a recipe's episodes. Where no tokens are given, `count` says how many a text has, or else four characters are
    one."""

    def __init__(self, preset: Preset, count: Callable[[str], int] | None = None) -> None: ...
    @property
    def preset(self) -> Preset: ...
    @property
    def count(self) -> Callable[[str], int] | None:
        """The function that counts tokens. What it raises is raised by what counts, and nothing has changed then."""
    def begin(
        self,
        question: str,
        source: str = "",
        golds: Sequence[str] | None = None,
        sample: int = 0,
        *,
        prompt: Sequence[Any] | None = None,
    ) -> Episode:
        """A new episode. Of `golds` nothing is kept but a hash, in the task's id.

        `prompt` are the messages of a trainer that renders prompts itself; without them they are the recipe's.
        """
    def read(self, text: str, question: str = "", source: str = "", golds: Sequence[str] | None = None) -> Episode:
        """An episode of which only the text behind the prompt is known, as trainers hand it to functions that reward.

        What stands between the recipe's marks of an observation, or those of a tool's response, is taken for the environment's.
        """

class Transition:
    """What the policy is shown, and whether it goes on."""

    @property
    def observation(self) -> str:
        """Empty where nothing was added to the context."""
    @property
    def stop(self) -> str | None:
        """`answer`, `end`, `turns` or `context`; `None` while it goes on."""
    @property
    def truncated(self) -> bool:
        """Whether passages were left out or shortened for lack of room."""

class Span:
    """A run of tokens by one author: `prompt`, `policy` or `environment`."""

    @property
    def author(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def logprobs(self) -> list[float]: ...
    @property
    def ends(self) -> list[int]:
        """Where each token ends in the text, in characters."""

class Episode:
    """One play of one task. The record is the state; it can be pickled."""

    def decide(
        self,
        text: str,
        tokens: Sequence[int] | None = None,
        logprobs: Sequence[float] | None = None,
        ends: Sequence[int] | None = None,
        cut_off: bool = False,
    ) -> list[str] | Transition:
        """Takes a message of the policy. A list are the queries of a search, which `observe` waits for.

        Args:
            tokens: as they were sampled.
            logprobs: natural logarithms, one a token.
            ends: where each token ends in `text`, in characters; with them what stands behind an action is cut off.
            cut_off: whether a limit of tokens ended it.
        """
    def observe(self, found: Sequence[Sequence[_Hit]]) -> Transition:
        """Takes what was found for the queries that wait, a list of hits for each."""
    def set_prompt_tokens(self, tokens: Sequence[int]) -> None:
        """Puts a trainer's tokens on the prompt, with those that its chat template adds."""
    def set_observation_tokens(self, tokens: Sequence[int]) -> None:
        """Puts a trainer's tokens on the newest observation, with those that its chat template adds."""
    def set_reward(self, reward: Reward) -> None:
        """Writes down what it earned."""
    def set_critique(self, text: str) -> None:
        """Writes down what to do instead, in hindsight; `hindsearch view` shows it."""
    def messages(self) -> list[dict[str, str]]:
        """The episode as a chat."""
    def spans(self) -> list[Span]: ...
    def tokens(self) -> list[int]: ...
    def policy_mask(self) -> list[bool]:
        """For each token whether the policy wrote it."""
    def query_mask(self) -> list[bool]:
        """For each token whether it belongs to a query that was searched for."""
    def to_json(self) -> str: ...
    @staticmethod
    def from_json(rules: Rules, json: str) -> Episode:
        """Goes on where `to_json` stopped."""
    @property
    def question(self) -> str: ...
    @property
    def task(self) -> str:
        """The task's id."""
    @property
    def stop(self) -> str | None: ...
    @property
    def pending(self) -> list[str] | None:
        """The queries that wait for passages."""
    @property
    def action(self) -> str | None:
        """What the last message was: `search`, `answer`, `end` or `invalid`."""
    @property
    def answer(self) -> str | None:
        """The answer that ended it."""
    @property
    def turns(self) -> int:
        """Messages of the policy."""
    @property
    def searches(self) -> int:
        """Searches that were answered."""
    @property
    def length(self) -> int:
        """Tokens of prompt and episode."""

class Reward:
    """A reward and its parts."""

    @property
    def total(self) -> float:
        """The weighted sum."""
    @property
    def terms(self) -> dict[str, float]:
        """Each scorer's value by its name, before it is weighted."""
    @property
    def retrieval_hit(self) -> bool | None:
        """Whether a passage that was shown holds an accepted answer, both normalised by SQuAD's rule; an answer that the query
        itself held was not found by it. `None` where only a text is known."""
    def __float__(self) -> float: ...

def score(recipe: Rules | Preset, episode: Episode, golds: Sequence[str], augmented: Sequence[str] = ...) -> Reward:
    """What the episode earns by a recipe. The only place that is given the accepted answers.

    `augmented` are further wordings of them, which some scorers count for less.
    """

def presets() -> list[str]:
    """Names of the presets that are built in."""

def pick(seed: int, count: int) -> int | None:
    """Which of `count` tasks a seed (0 to 2^64 - 1) chooses, by the rule of the program and of the server; `None` where there
    are none."""

def tasks(name: str) -> list[dict[str, Any]]:
    """The tasks of a set that is built in (`sample`), or of a file in a form that trainers or benchmarks use: JSON lines,
    compressed or not, or Parquet. Each holds the arguments of `SearchEnv.reset`."""

def escape(text: str) -> str:
    """The text made inert: nothing in it looks like a tag or a control token."""

def unescape(text: str) -> str:
    """The text as it was before `escape`."""

class Critique:
    """What a failed episode should have searched for."""

    @property
    def text(self) -> str: ...
    @property
    def turn(self) -> int | None:
        """The first turn that went wrong, from 0, where `names_turn` asked for it."""
    @property
    def contains_gold(self) -> bool:
        """Whether the text names an accepted answer."""
    @property
    def hint(self) -> str:
        """The text as a teacher reads it: between `<HINT>` and `</HINT>`."""

class Aligned:
    """An episode as its teacher reads it. Student and teacher share the response token by token."""

    @property
    def before(self) -> str:
        """What stands before the chat and its template; empty but for the placement `raw-prefix`."""
    @property
    def messages(self) -> list[dict[str, str]]:
        """The teacher's prompt, hint and all. One of the assistant at its end is the beginning of its own message."""
    @property
    def response(self) -> list[int]:
        """All tokens behind the prompt, as they were sampled and shown."""
    @property
    def policy_mask(self) -> list[bool]:
        """For each token of the response whether the policy wrote it."""
    @property
    def query_mask(self) -> list[bool]:
        """For each token of the response whether it is part of a query that was searched for."""
    @property
    def straddling(self) -> int:
        """Tokens that hold letters of a query and letters around it."""
    @property
    def inserts(self) -> list[tuple[int, str]]:
        """Hints within the response, each with the token before which it stands: for the placement `step-prefix`."""

def critique_by_rules(
    episode: Episode,
    golds: Sequence[str],
    passages: Sequence[_Passage],
    *,
    sees_gold: bool = ...,
    leak: Literal["allow", "redact", "reject"] = ...,
    names_turn: bool = ...,
    words: int = ...,
) -> Critique | None:
    """A critique of a failed episode by the passages that hold its answer, in the order in which they are needed. `None` for one
    that did not fail, and where nothing can be said.

    Args:
        sees_gold: whether it may name an accepted answer.
        leak: what happens to a critique that does.
        names_turn: whether it names the first turn that went wrong.
        words: the most that it may have.
    """

def critiques_by_model(
    write: Callable[[list[dict[str, Any]]], Sequence[str]],
    failures: Sequence[tuple[Episode, Sequence[str]]],
    *,
    sees_gold: bool = ...,
    leak: Literal["allow", "redact", "reject"] = ...,
    names_turn: bool = ...,
    words: int = ...,
    tokens: int = ...,
) -> list[Critique | None]:
    """A critique of each failed episode, given with its accepted answers, by a model.

    Args:
        write: is given requests with `system`, `user` and `tokens`, and gives a text for each. Replies that cannot be used are
            asked for once more; then there is no critique.
        tokens: that a reply may have.
    """

def sibling_block(
    episodes: Sequence[Episode],
    own: int,
    golds: Sequence[str],
    *,
    seed: int = 0,
    budget: int | None = None,
    future_masking: bool = ...,
    content: Literal["siblings", "step-documents"] = ...,
    labels: Literal["true", "none", "shuffled"] = ...,
    which: Literal["all", "correct-only", "own-only", "leave-one-out"] = ...,
    rho: float = ...,
    merge: bool = ...,
    shuffle: bool = ...,
) -> str | None:
    """What the attempts at a task tell the teacher of `episodes[own]`: their queries and verdicts (SD-Search).

    Args:
        budget: tokens at most, as the episode's rules count them; whole attempts are left out.
        future_masking: off, thoughts, documents and answers are told, too.
        rho: an attempt is correct where its answer's F1 is above this.
        merge: whether a query that an attempt asked more than once is told once.
        shuffle: whether the attempts stand in an order by chance.
    """

def align(
    episode: Episode,
    hint: str = "",
    *,
    placement: Literal["user-prefix", "raw-prefix", "user-suffix", "system-suffix", "step-prefix"] = ...,
    span: Literal["content", "inclusive", "close-only"] = ...,
    turn: int | None = ...,
) -> Aligned:
    """The episode with a hint, as its teacher reads it. Its tokens must be known.

    Args:
        span: which tokens of a search are its query: those between the tags, those of both tags too, or of the closing one.
        turn: the only turn whose query counts, from 0.
    """
