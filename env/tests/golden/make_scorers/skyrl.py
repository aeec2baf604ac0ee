"""What does SkyRL's search environment answer?"""

from .loading import Anything, load, stub
from .responses import BAD, DICT_FORM, GOOD, SEARCH, THINK, forms, single, structural, tagged, target
from .running import Case, attempt, number, plain, write


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
    stub("skyrl_gym.tools", SearchToolGroup=Anything)
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
