"""verl: search as a function tool. `multi_turn.function_tool_path` wants the path of this very file:

    python -c "import importlib.util as u; print(u.find_spec('hindsearch.adapters.verl_function').origin)"

The server is `SEARCH_ENV_URL`; `SEARCH_ENV_PRESET` says how passages are shown.
"""

from verl.tools.function_tool import function_tool

from hindsearch.adapters._settings import faults_end_the_run, make_env
from hindsearch.env import look_up


@function_tool("search")
def search(query: str) -> str:
    """Searches a collection of passages and returns those nearest in meaning to the query.

    Args:
        query: What to look for, as a question or a few words.
    """
    with faults_end_the_run():
        return look_up(make_env(), [query]).strip()
