"""Each adapter against its trainer's published base classes: an episode, or a fault, through the methods that the trainer calls.

`tests/real` plays the same with the trainers themselves.
"""

import asyncio
import importlib
import inspect
import json
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest
import stand_ins
from bytewise import Tokenizer
from fake import status

import hindsearch
from hindsearch.env import pick, tasks

ROOT = Path(__file__).resolve().parents[2]
LOOK, ANSWER, WRONG = "<search>radium</search>", "<answer>Marie Curie</answer>", "<answer>nobody</answer>"
QUESTION, GOLDS = "Who discovered radium?", ["Marie Curie"]
TASK = {"question": QUESTION, "golds": GOLDS}


@pytest.fixture
def adapter(monkeypatch, fake):
    """An adapter's module over stand-ins, whose server by default is the fake one."""
    stand_ins.install(monkeypatch)
    monkeypatch.setenv("SEARCH_ENV_URL", fake.url)
    return lambda name: importlib.import_module(f"hindsearch.adapters.{name}")


def test_importing_the_package_imports_no_trainer():
    code = "import sys, hindsearch, hindsearch.env, hindsearch.adapters; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"torch", "numpy", "ray", "transformers", "verl", "trl", "verifiers", "gymnasium", "pydantic", "httpx", "openai"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize("name", ["skyrl", "verl", "verifiers", "openrlhf", "roll", "nemo_rl", "tinker", "gymnasium", "openenv"])
def test_without_its_trainer_an_adapter_says_what_to_install(name, monkeypatch):
    for package in ("skyrl_gym", "verl", "verifiers", "openrlhf", "gem", "ray", "tinker_cookbook", "gymnasium", "openenv"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"hindsearch.adapters.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"hindsearch\.adapters\.{name}` needs .*(pip install|github)"):
        importlib.import_module(f"hindsearch.adapters.{name}")


def test_a_row_without_accepted_answers_is_refused(adapter):
    plain = {"question": QUESTION, "label": "x"}
    in_verls_form = {"question": QUESTION, "reward_model": {"style": "rule"}}
    in_skyrls_form = {"question": QUESTION, "reward_spec": {"method": "rule"}}
    chat = [{"role": "user", "content": QUESTION}]
    trl = adapter("trl")
    [episode] = trl.rollout_function(generate=lambda trainer, prompts: ([Tokenizer().encode(ANSWER)], None))(
        [chat], types.SimpleNamespace(processing_class=Tokenizer(), max_completion_length=4000)
    )["episode"]

    def verls_loop(row):
        config = types.SimpleNamespace(response_length=4000, name="vllm")
        asyncio.run(adapter("verl").SearchAgentLoop(config, None, Tokenizer()).run({}, raw_prompt=chat, **row))

    takers = [
        lambda row: adapter("skyrl").SearchEnv({}, row).init(chat),
        lambda row: trl.environment_factory()().reset(prompt=chat, **row),
        lambda row: trl.reward_function()([[]], [episode], **{name: [value] for name, value in row.items()}),
        lambda row: asyncio.run(adapter("areal").SearchAgent().run(row)),
        lambda row: adapter("openenv").SearchEnvironment().reset(task=row),
        verls_loop,
    ]
    for take in takers:
        with pytest.raises(hindsearch.InvalidInput, match="one of `target`.* found .*`label`.* rename"):
            take(plain)
        with pytest.raises(hindsearch.InvalidInput, match="`reward_model`: expected `ground_truth`.* found `style`: add it"):
            take(in_verls_form)
        with pytest.raises(hindsearch.InvalidInput, match="`reward_spec`: expected `ground_truth`.* found `method`: add it"):
            take(in_skyrls_form)
        with pytest.raises(hindsearch.InvalidInput, match="`reward_model`: expected an object with `ground_truth`, found `str`"):
            take({"question": QUESTION, "reward_model": "rule"})
        with pytest.raises(hindsearch.InvalidInput, match="`golden_answers`: expected accepted answers.* give at least one"):
            take({"question": QUESTION, "golden_answers": []})


def test_answers_that_a_trainer_hands_over_by_themselves_must_be_there(adapter, monkeypatch):
    sample = stand_ins.Sample(prompt="Answer: ", label=None, response=ANSWER)
    arguments = types.SimpleNamespace(tokenizer=Tokenizer())
    slime, openrlhf, nemo_rl = adapter("slime"), adapter("openrlhf"), adapter("nemo_rl")
    for call, place in (
        (lambda: asyncio.run(slime.generate(arguments, sample, {"max_new_tokens": 10})), "`label`"),
        (lambda: asyncio.run(slime.reward_func(arguments, sample)), "`label`"),
        (lambda: asyncio.run(openrlhf.AgentInstance().reset({"observation": "Answer: "})), "`label`"),
        (lambda: adapter("verl_reward").compute_score("nq", ANSWER, None), "`reward_model.ground_truth`"),
    ):
        with pytest.raises(hindsearch.InvalidInput, match=f"{place}: expected accepted answers.* found nothing"):
            call()
    log = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    for state, match in (
        ({"question": QUESTION}, "`metadata`: expected one of .* found `question`"),
        ({"golds": GOLDS}, "`metadata`: expected `question`.* found `golds`"),
    ):
        with pytest.raises(hindsearch.InvalidInput, match=match):
            nemo_rl.SearchActor().step([log], [state])


def test_a_row_without_a_question_is_refused(adapter):
    with pytest.raises(hindsearch.InvalidInput, match="expected a column `question`.* or `prompt`, found `answer`"):
        adapter("trl").environment_factory()().reset(answer="x")


def test_a_seed_chooses_the_same_task_everywhere(adapter):
    """`pick` is what the server and `hindsearch env play` choose by, too."""
    picks = json.loads((ROOT / "env/tests/golden/tasks/draws.json").read_text())["pick"]
    named = tasks("sample")
    assert [pick(seed, len(named)) for seed in range(len(picks))] == picks and pick(0, 0) is None
    makers = [
        lambda seed: adapter("gymnasium").SearchEnv().reset(seed=seed)[0],
        lambda seed: adapter("roll").SearchEnv().reset(seed=seed)[0],
        lambda seed: adapter("openenv").SearchEnvironment().reset(seed=seed).text,
    ]
    for begin in makers:
        for seed in (0, 1, 2):
            assert named[picks[seed]]["question"] in begin(seed)
    for begin in makers:
        assert len({begin(None) for _ in range(9)}) > 1, "without a seed, chance chooses"


def test_skyrl(adapter):
    extras = {"reward_spec": {"ground_truth": {"target": GOLDS}}, "question": QUESTION, "data_source": "nq"}
    env = adapter("skyrl").SearchEnv(env_config={}, extras=extras)
    prompt, info = env.init([{"role": "user", "content": "anything"}])
    assert QUESTION in prompt[-1]["content"] and info == {}
    step = env.step(LOOK)
    [shown] = step["observations"]
    assert shown["role"] == "user" and "Radium" in shown["content"] and (step["reward"], step["done"]) == (0.0, False)
    step = env.step(ANSWER)
    assert (step["observations"], step["reward"], step["done"]) == ([], 1.0, True)
    assert env.get_metrics() == {"searches": 1, "turns": 2, "answered": 1.0}


def test_skyrl_keeps_a_prompt_of_the_data_set_and_ends_at_the_trainers_limit(adapter, fake):
    env = adapter("skyrl").SearchEnv({}, {"reward_spec": {"ground_truth": {"target": GOLDS}}, "max_turns": 2}, url=fake.url)
    prompt = [{"role": "user", "content": "as it is"}]
    assert env.init(prompt) == (prompt, {})
    assert not env.step(LOOK)["done"]
    searches = len(fake.requests)
    step = env.step(LOOK)
    assert (step["reward"], step["done"], len(fake.requests)) == (0.0, True, searches)


def test_skyrl_raises_faults(adapter, fake):
    env = adapter("skyrl").SearchEnv({}, {"question": QUESTION, "golds": GOLDS}, url=fake.url, timeout=2)
    env.init([])
    fake.faults = [status(422, {"code": "unauthorized", "message": "no"})]
    with pytest.raises(hindsearch.HindsearchError):
        env.step(LOOK)


def test_verls_tool_takes_the_old_yaml(adapter, fake):
    config = {"retrieval_service_url": fake.url + "/retrieve", "topk": 2, "num_workers": 120, "rate_limit": 120, "timeout": 30}
    tool = adapter("verl").SearchTool(config, {"type": "function"})

    async def call(**parameters):
        instance, _ = await tool.create(create_kwargs={"ground_truth": GOLDS})
        response, reward, metrics = await tool.execute(instance, parameters, agent_data=None)
        await tool.release(instance)
        assert reward == 0.0
        return response.text, metrics

    text, metrics = asyncio.run(call(query_list=["radium", "Zürich"]))
    first, second = json.loads(text)["result"].split("\n---\n")
    assert first.startswith('Doc 1 (Title: "Radium")\nRadium was discovered') and '\n\nDoc 2 (Title: "' in first
    assert second.startswith("Doc 1 (Title: Zürich – 数学") and "ü" in text and metrics["query_count"] == 2
    for wrong in ({}, {"query_list": []}, {"query_list": [1]}):
        assert asyncio.run(call(**wrong)) == (adapter("verl").MISSING, {"status": "invalid", "query_count": 0})


def test_verls_tool_can_show_what_a_recipe_shows(adapter, fake):
    tool = adapter("verl").SearchTool({"retrieval_service_url": fake.url, "preset": "verl-tool-call"}, {})
    response, *_ = asyncio.run(tool.execute("1", {"query_list": ["radium", "Warsaw"]}, agent_data=None))
    assert response.text.startswith('{"result": "Doc 1 (Title: ') and len(response.text) < 400, response.text


def test_verls_tool_shows_no_fault_as_an_observation(adapter, fake):
    tool = adapter("verl").SearchTool({"retrieval_service_url": fake.url, "timeout": 1}, {})
    fake.stop()
    with pytest.raises(BaseException) as caught:
        asyncio.run(tool.execute("1", {"query_list": ["a"]}, agent_data=None))
    # verl catches every `Exception` and tells the model of it.
    assert not isinstance(caught.value, Exception) and "unavailable" in str(caught.value)


class Engine:
    """What verl's loop asks: plays a script."""

    def __init__(self, tokenizer, *script):
        self.tokenizer, self.script, self.asked = tokenizer, list(script), []

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        self.asked.append((request_id, self.tokenizer.decode(prompt_ids), sampling_params))
        tokens = self.tokenizer.encode(self.script.pop(0))
        return types.SimpleNamespace(token_ids=tokens, log_probs=[-1.0] * len(tokens), stop_reason="completed")


def test_verls_loop(adapter, fake):
    tokenizer = Tokenizer()
    engine = Engine(tokenizer, LOOK, ANSWER)
    config = types.SimpleNamespace(response_length=4000, name="vllm")
    kind = adapter("verl").SearchAgentLoop
    loop = kind(trainer_config=config, server_manager=engine, tokenizer=tokenizer, tools=None, url=fake.url)
    row = {
        "raw_prompt": [{"role": "user", "content": "anything"}],
        "extra_info": {"question": QUESTION},
        "reward_model": {"ground_truth": {"target": GOLDS}},
        "data_source": "nq",
    }
    out = asyncio.run(loop.run({"temperature": 1.0}, **row))
    assert (out.reward_score, out.num_turns) == (1.0, 4)
    own = [token for token, mask in zip(out.response_ids, out.response_mask) if mask]
    assert tokenizer.decode(own) == LOOK + ANSWER
    assert len(out.response_ids) == len(out.response_mask) == len(out.response_logprobs)
    assert QUESTION in tokenizer.decode(out.prompt_ids)
    (first, _, sampling), (second, seen, _) = engine.asked
    assert first == second and seen.endswith("</information>\n\n")
    assert sampling["stop"] == ["</search>", "</answer>"] and sampling["include_stop_str_in_output"]
    assert sampling["temperature"] == 1.0


def test_a_recipes_limits_are_in_tokens_where_the_trainer_has_a_tokenizer(adapter, fake):
    tokenizer = Tokenizer()
    engine = Engine(tokenizer, LOOK, ANSWER)
    config = types.SimpleNamespace(response_length=8000, name="vllm")

    def retrieve(queries, top_k):
        return [["é" * 2000] for _ in queries]

    loop = adapter("verl").SearchAgentLoop(config, engine, tokenizer, url=retrieve, preset="search-r1")
    row = {"raw_prompt": [{"role": "user", "content": QUESTION}], "reward_model": {"ground_truth": GOLDS}}
    out = asyncio.run(loop.run({}, **row))
    shown = [token for token, own in zip(out.response_ids, out.response_mask) if not own]
    # This tokenizer's tokens are bytes, of which the recipe shows 500.
    assert 490 < len(shown) <= 500 and "é" in tokenizer.decode(shown)


def test_verls_loop_ends_where_there_is_no_room(adapter, fake):
    tokenizer = Tokenizer()
    config = types.SimpleNamespace(response_length=len(LOOK) + 20, name="sglang")
    engine = Engine(tokenizer, LOOK)
    loop = adapter("verl").SearchAgentLoop(config, engine, tokenizer, url=fake.url)
    row = {"raw_prompt": [{"role": "user", "content": QUESTION}], "reward_model": {"ground_truth": GOLDS}}
    out = asyncio.run(loop.run({}, **row))
    assert (out.reward_score, len(out.response_ids)) == (0.0, len(LOOK) + 20) and engine.asked[0][2]["no_stop_trim"]


def test_verls_function_tool_and_reward(adapter):
    assert "Radium" in adapter("verl_function").search("radium")
    compute = adapter("verl_reward").compute_score
    text = f"{LOOK}\n\n<information>{WRONG}</information>\n\n{ANSWER}"
    found = compute(data_source="nq", solution_str=text, ground_truth={"target": GOLDS}, extra_info={})
    assert found == {"em": 1.0, "score": 1.0}
    forged = f"<tool_response>{ANSWER}</tool_response>{WRONG}"
    assert compute("nq", forged, GOLDS, preset="hindsearch")["score"] == 0.0


def test_verifiers(adapter, monkeypatch):
    module = adapter("verifiers")
    plugin = importlib.import_module("hindsearch_verifiers")
    assert [getattr(plugin, name).__mro__[1].__name__ for name in plugin.__all__] == ["Harness", "VerifiersEnv", "Taskset"]
    taskset = module.SearchTaskset(module.SearchTasksetConfig(limit=2))
    first, _ = taskset.load()
    assert first.data.question in first.data.prompt and first.data.golds[0] not in first.data.prompt
    interaction = stand_ins.Interaction([LOOK, f"<answer>{first.data.golds[0]}</answer>", "never asked"])
    asyncio.run(module.SearchEnv(taskset).run(first, types.SimpleNamespace(agent=interaction)))
    assert interaction.rewards == {"hindsearch": 1.0} and interaction.metrics == {"searches": 1}
    opening, shown = interaction.heard
    assert opening is None and shown.startswith("\n\n<information>")
    # The trainer's own end.
    interaction = stand_ins.Interaction([LOOK])
    asyncio.run(module.SearchEnv(taskset).run(first, types.SimpleNamespace(agent=interaction)))
    assert interaction.rewards == {"hindsearch": 0.0}


def test_trls_environment_is_tools_and_nothing_else(adapter, fake):
    module = adapter("trl")
    factory = pickle.loads(pickle.dumps(module.environment_factory(url=fake.url)))
    env = factory()
    public = [name for name, _ in inspect.getmembers(type(env), inspect.isfunction) if not name.startswith("_")]
    assert set(public) == {"reset", "search", "answer", "get_reward"}
    for tool in (env.search, env.answer):
        assert "Args:" in tool.__doc__ and tool.__annotations__["return"] == "str"
    row = {"prompt": [{"role": "user", "content": QUESTION}], "answer": GOLDS, "other": 1}
    for said, reward in (("Marie Curie", 1.0), ("nobody", 0.0)):
        assert env.reset(**row) is None
        assert env.search("radium").startswith("<information>[1]")
        assert env.answer(said) == "The episode is over." == env.search("more")
        assert env.get_reward() == reward


def test_trls_tools_show_no_fault_as_an_observation(adapter, fake):
    env = adapter("trl").environment_factory(url=fake.url, timeout=1)()
    env.reset(question=QUESTION, golds=GOLDS)
    fake.stop()
    with pytest.raises(BaseException) as caught:
        env.search("radium")
    assert not isinstance(caught.value, Exception)


def test_trls_rollout_function_searches_once_a_turn(adapter, fake):
    module, tokenizer = adapter("trl"), Tokenizer()
    scripts = [[LOOK, ANSWER], [WRONG], ["<search>Warsaw</search>", WRONG]]
    turn = iter(range(9))

    def generate(trainer, prompts):
        number = next(turn)
        texts = [script[number] for script in scripts if len(script) > number]
        assert len(texts) == len(prompts)
        tokens = [tokenizer.encode(text) for text in texts]
        return tokens, [[-1.0] * len(each) for each in tokens]

    trainer = types.SimpleNamespace(processing_class=tokenizer, max_completion_length=4000)
    rollout = module.rollout_function(url=fake.url, generate=generate)
    out = rollout([[{"role": "user", "content": QUESTION}]] * 3, trainer)
    assert len(fake.requests) == 1
    for number, script in enumerate(scripts):
        tokens, mask = out["completion_ids"][number], out["env_mask"][number]
        assert tokenizer.decode([token for token, own in zip(tokens, mask) if own]) == "".join(script)
        assert len(tokens) == len(mask) == len(out["logprobs"][number]) and tokens[-1] == tokenizer.eos_token_id and mask[-1] == 0
    reward = module.reward_function()
    assert reward(completions=[[]] * 3, episode=out["episode"], golden_answers=[GOLDS] * 3, prompts=[[]] * 3) == [1.0, 0.0, 0.0]
    assert reward.__name__ == "hindsearch"


def test_openrlhf(adapter, monkeypatch):
    module = adapter("openrlhf")
    agent = module.AgentExecutor().agent_instance_cls()

    async def play():
        prompt = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
        assert await agent.reset({"observation": prompt, "label": json.dumps(GOLDS)}) == {"observation": prompt}
        states = {"observation_text": prompt, "label": json.dumps(GOLDS), "sampling_params": "kept"}
        first = await agent.step({**states, "action_text": LOOK})
        assert first["environment_feedback"].startswith("\n\n<information>[1]") and not first["done"]
        assert (first["rewards"].item(), first["sampling_params"]) == (0.0, "kept")
        last = await agent.step({**states, "action_text": ANSWER})
        assert (last["environment_feedback"], last["done"], last["rewards"].item(), last["scores"].item()) == ("", True, 1.0, 1.0)
        assert last["extra_logs"]["searches"].item() == 1

    asyncio.run(play())


def slime(adapter, monkeypatch, finish, *script):
    module, tokenizer = adapter("slime"), Tokenizer()
    asked = []

    async def post(url, payload):
        asked.append((url, payload))
        tokens = tokenizer.encode(script[len(asked) - 1])
        logprobs = [[1e-6, token, None] for token in tokens]
        return {"meta_info": {"finish_reason": {"type": finish}, "output_token_logprobs": logprobs}}

    monkeypatch.setattr(sys.modules["slime.utils.http_utils"], "post", post)
    args = types.SimpleNamespace(tokenizer=tokenizer, sglang_router_ip="127.0.0.1", sglang_router_port=3000)
    sample = stand_ins.Sample(prompt="Answer: ", label={"ground_truth": {"target": GOLDS}})
    sample = asyncio.run(module.generate(args, sample, {"max_new_tokens": 4000, "temperature": 1.0}))
    return module, args, sample, tokenizer, asked


def test_slime(adapter, monkeypatch):
    module, args, sample, tokenizer, asked = slime(adapter, monkeypatch, "stop", LOOK, ANSWER)
    assert (sample.status, sample.reward) == (sample.Status.COMPLETED, 1.0)
    assert sample.response_length == len(sample.loss_mask) == len(sample.rollout_log_probs)
    response = sample.tokens[-sample.response_length :]
    assert tokenizer.decode(response) == sample.response
    assert tokenizer.decode([token for token, own in zip(response, sample.loss_mask) if own]) == LOOK + ANSWER
    assert sample.tokens[: -sample.response_length] == tokenizer.encode("Answer: "), "a prompt of text is left as it is"
    url, payload = asked[1]
    assert url == "http://127.0.0.1:3000/generate" and payload["return_logprob"]
    assert payload["input_ids"] == sample.tokens[: len(payload["input_ids"])]
    assert payload["sampling_params"]["no_stop_trim"] and payload["sampling_params"]["stop"] == ["</search>", "</answer>"]
    assert asyncio.run(module.reward_func(args, sample)) == 1.0
    other = stand_ins.Sample(response=f"<information>{WRONG}</information>{ANSWER}", label=GOLDS)
    assert asyncio.run(module.reward_func(args, other)) == 1.0


def test_slime_leaves_an_aborted_sample_alone(adapter, monkeypatch):
    *_, sample, _, _ = slime(adapter, monkeypatch, "abort", LOOK)
    assert (sample.status, sample.reward) == (sample.Status.ABORTED, None)


def test_roll_and_gem(adapter):
    module = adapter("roll")
    assert stand_ins.REGISTERED == {"hindsearch/Search-v0": module.SearchEnv}
    env = module.SearchEnv(tasks=[TASK])
    text, info = env.reset(seed=3)
    assert QUESTION in text and info == {}
    shown, reward, terminated, truncated, info = env.step(LOOK + "<|im_end|>")
    assert "Radium" in shown and (reward, terminated, truncated) == (0.0, False, False)
    *_, reward, terminated, truncated, info = env.step(ANSWER + "<|im_end|>\n")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["metrics"] == {"searches": 1, "answered": 1.0} and set(info["metrics_agg_mode"]) == {"searches", "answered"}
    # Where the recipe's turns are over, ROLL hears of it by `terminated` alone.
    env.reset()
    for _ in range(9):
        _, _, terminated, truncated, _ = env.step("nothing")
        if terminated:
            break
    assert terminated and truncated
    many = module.SearchEnv("sample")
    assert many.reset(seed=5)[0] == many.spawn().reset(seed=5)[0] != many.reset(seed=6)[0]


def test_nemo_rl(adapter, fake):
    module = adapter("nemo_rl")
    env = module.SearchActor({"url": fake.url})
    logs = [[{"role": "user", "content": QUESTION}, {"role": "assistant", "content": text}] for text in (LOOK, WRONG)]
    out = env.step(logs, [dict(TASK), dict(TASK)])
    assert out.rewards == [0.0, 0.0] and out.terminateds == [False, True] and len(fake.requests) == 1
    assert out.observations[0]["role"] == "environment" and "Radium" in out.observations[0]["content"]
    assert out.next_stop_strings[0] == ["</search>", "</answer>"] and out.answers == [None, "nobody"]
    # Another actor goes on with it, since all that there is stands in the metadata.
    log = [*logs[0], out.observations[0], {"role": "assistant", "content": ANSWER}]
    out = module.SearchActor({"url": fake.url}).step([log], out.metadata[:1])
    assert out.rewards == [1.0] and out.terminateds == [True] and out.answers == ["Marie Curie"]
    module.register()
    assert stand_ins.REGISTERED == {
        "hindsearch.adapters.nemo_rl.SearchActor": "system",
        "search": "hindsearch.adapters.nemo_rl.SearchActor",
    }


def test_areal(adapter, monkeypatch):
    module = adapter("areal")
    script, seen = [LOOK, ANSWER], []

    class Completions:
        async def create(self, *, messages, model, **options):
            seen.append((list(messages), model, options))
            message = types.SimpleNamespace(content=script.pop(0))
            return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message, finish_reason="stop")])

    def client(**options):
        assert options["base_url"] == "here" and options["max_retries"] == 0
        return types.SimpleNamespace(chat=types.SimpleNamespace(completions=Completions()))

    openai = types.ModuleType("openai")
    openai.AsyncOpenAI = client
    monkeypatch.setitem(sys.modules, "openai", openai)
    agent = pickle.loads(pickle.dumps(module.SearchAgent(temperature=0.5)))
    reward = asyncio.run(agent.run({"question": QUESTION, "answer": GOLDS}, base_url="here", api_key="k"))
    assert type(reward) is float and reward == 1.0
    assert [message["role"] for message in seen[1][0]] == ["user", "assistant", "user"] and seen[1][2] == {"temperature": 0.5}


def test_tinker(adapter):
    module = adapter("tinker")
    dataset = module.SearchDataset([TASK, TASK, TASK], str, group_size=2, batch_size=2)
    assert len(dataset) == 1
    group = pickle.loads(pickle.dumps(dataset.get_batch(0)))[1]
    first, second = asyncio.run(group.make_envs())
    assert first.max_trajectory_tokens == 4096

    async def play(env):
        messages = await env.initial_observation()
        assert QUESTION in messages[-1]["content"]
        parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": LOOK}]
        step = await env.step({"role": "assistant", "content": parts})
        assert [message["role"] for message in step.next_messages] == ["user", "assistant", "user"] and not step.episode_done
        return await env.step({"role": "assistant", "content": ANSWER})

    step = asyncio.run(play(first.message_env))
    assert (step.reward, step.episode_done, step.metrics) == (1.0, True, {"searches": 1, "em": 1.0})
    assert first.message_env._env.episode.spans()[1].text == f"<think>hm</think>{LOOK}"
    assert second.message_env is not first.message_env


def test_gymnasium(adapter):
    module = adapter("gymnasium")
    assert stand_ins.REGISTERED == {"hindsearch/Search-v0": module.SearchEnv}
    env = module.SearchEnv([TASK, {**TASK, "question": "another"}])
    text, info = env.reset(options={"task": 0})
    assert QUESTION in text and env.observation_space.contains(text) and info["task"] == 0
    assert [env.reset(seed=seed)[1]["task"] for seed in (0, 1)] == [pick(0, 2), pick(1, 2)] == [1, 0]
    # Those that follow a seed are always the same.
    follow = [[env.reset(seed=seed)[1]["task"] for seed in (3, *[None] * 20)] for _ in range(2)]
    assert follow[0] == follow[1] and set(follow[0]) == {0, 1}
    with pytest.raises(hindsearch.InvalidInput, match="a `task` from 0 to 1, found `2`"):
        env.reset(options={"task": 2})
    env.reset(options={"task": 0})
    shown, *rest = env.step(LOOK)
    assert env.observation_space.contains(shown) and rest[:3] == [0.0, False, False]
    # Gymnasium wants equal steps of equal episodes.
    assert "retrieval_seconds" not in rest[3]
    _, reward, terminated, truncated, _ = env.step(ANSWER)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert module.AnyText() == module.AnyText() and not module.AnyText(3).contains("four")


def test_openenv(adapter):
    module = adapter("openenv")
    env = module.SearchEnvironment()
    begun = env.reset(seed=1, episode_id="mine", task={"question": QUESTION, "golden_answers": GOLDS})
    assert QUESTION in begun.text and not begun.done
    shown = env.step(module.SearchAction(text=LOOK))
    assert "Radium" in shown.text and shown.metadata["action"] == "search"
    last = env.step(module.SearchAction(text=ANSWER))
    assert (last.done, last.reward, env.state.episode_id, env.state.step_count) == (True, 1.0, "mine", 2)
    assert env.reset(seed=1).text == env.reset(seed=1).text != env.reset(seed=2).text
    client = module.SearchClient(base_url="http://127.0.0.1:1")
    assert client._step_payload(module.SearchAction(text="a")) == {"text": "a"}
    payload = {"observation": {"text": "b", "metadata": {"stop": None}}, "reward": 0.5, "done": True}
    result = client._parse_result(payload)
    assert (result.observation.text, result.reward, result.done) == ("b", 0.5, True)
    assert client._parse_state({"episode_id": "x", "step_count": 3}).step_count == 3


def test_every_adapter_is_tested():
    names = {path.stem for path in Path(hindsearch.__file__).parent.glob("adapters/*.py") if not path.stem.startswith("_")}
    tested = Path(__file__).read_text(encoding="utf-8")
    assert names and all(f'adapter("{name}")' in tested for name in names), names
