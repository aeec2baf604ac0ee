"""What a teacher may be told: the same here and over HTTP, on the policy's own tokens, with no more of answers than is asked."""

import json

import pytest
from bytewise import Tokenizer

import hindsearch
from hindsearch import Hit, Passage
from hindsearch._core import Preset, Rules, tasks
from hindsearch.hindsight import align, critique_by_rules, critiques_by_model, sibling_block

RULES = Rules(Preset.named("hindsearch"))
GOLD = ["Warsaw"]
RADIUM = Hit(id="r", title="Radium", text="Marie Curie found it.", contents='"Radium"\nMarie Curie found it.', score=0.5, row=0)
CURIE = Passage(id="c", title="Marie Curie", text="Born in Warsaw.", contents='"Marie Curie"\nBorn in Warsaw.', row=1)
NEEDED = [Passage(id="r", title="Radium", text="Marie Curie found it.", row=0), CURIE]


def played(*messages, hits=(RADIUM,), golds=GOLD):
    """A play with a token a byte, and tokens on all that was shown."""
    tokenizer = Tokenizer(True)
    episode = RULES.begin("Where was the discoverer of radium born?", "test", golds)
    episode.set_prompt_tokens([1, 2, 3])
    for text in messages:
        tokens = tokenizer.encode(text)
        ends = [len(text.encode()[: at + 1].decode(errors="ignore")) for at in range(len(tokens))]
        if episode.decide(text, tokens=tokens, logprobs=[-0.5] * len(tokens), ends=ends) and episode.pending:
            episode.observe([list(hits)])
            episode.set_observation_tokens([7, 8, 9])
    return episode


WRONG = "<search>radium</search>", "<search>Radium</search>", "<answer>Paris</answer>"
RIGHT = "<search>Marie Curie birthplace</search>", "<answer>Warsaw</answer>"


def test_by_rule_the_passage_that_was_not_found_is_asked_for():
    critique = critique_by_rules(played(*WRONG), GOLD, NEEDED, names_turn=True)
    assert critique.text == 'Instead of "Radium", search for Marie Curie by name.'
    assert (critique.turn, critique.contains_gold) == (1, False)
    assert critique.hint == f"<HINT> {critique.text} </HINT>"
    assert critique_by_rules(played(*RIGHT), GOLD, NEEDED) is None
    assert critique_by_rules(played(*WRONG), GOLD, []) is None


def test_a_model_is_asked_about_failures_only_and_once_more_where_its_reply_is_of_no_use():
    asked = []

    def write(requests):
        asked.append(requests)
        return ["Ask for Marie Curie." if len(asked) > 1 or "lead" in request["user"] else "" for request in requests]

    other = played("<search>lead</search>", "<answer>Rome</answer>")
    failures = [(played(*WRONG), GOLD), (played(*RIGHT), GOLD), (other, GOLD)]
    first, second, third = critiques_by_model(write, failures, words=20, tokens=50)
    assert (first.text, second, third.text) == ("Ask for Marie Curie.", None, "Ask for Marie Curie.")
    assert [len(requests) for requests in asked] == [2, 1]
    assert "it is empty" in asked[1][0]["user"] and "20 words" in asked[1][0]["system"] and asked[1][0]["tokens"] == 50
    assert all("birthplace" not in request["user"] for requests in asked for request in requests)
    assert critiques_by_model(lambda requests: ["", ""][: len(requests)], [(other, GOLD)]) == [None]


def test_what_the_model_raises_is_raised():
    class Broken(Exception):
        pass

    def write(_):
        raise Broken("no model")

    with pytest.raises(Broken):
        critiques_by_model(write, [(played(*WRONG), GOLD)])
    with pytest.raises(hindsearch.Unavailable, match="0 texts for 1 requests"):
        critiques_by_model(lambda _: [], [(played(*WRONG), GOLD)])


def test_a_block_tells_queries_and_verdicts():
    episodes = [played(*WRONG), played(*RIGHT), played("<answer>Rome</answer>")]
    block = sibling_block(episodes, 0, GOLD)
    assert block.splitlines()[1:-1] == [
        "Attempt 1: INCORRECT",
        "  search: radium",
        "  search: Radium",
        "Attempt 2: CORRECT",
        "  search: Marie Curie birthplace",
        "Attempt 3: INCORRECT",
        "  (no search)",
    ]
    assert "Warsaw" not in block and "Paris" not in block and "found" not in block
    alone = sibling_block(episodes, 1, GOLD, which="leave-one-out", labels="none")
    assert "Attempt 2" not in alone and "CORRECT" not in alone
    assert "found:" in sibling_block(episodes, 0, GOLD, future_masking=False)
    assert sibling_block(episodes, 0, GOLD, budget=70).count("Attempt ") == 2
    assert sibling_block(episodes, 0, GOLD, budget=1) is None
    assert sibling_block(episodes[:1], 0, GOLD, which="correct-only") is None
    counted = Rules(Preset.named("hindsearch"), count=len)
    assert sibling_block([counted.begin("q")], 0, GOLD, budget=10) is None


@pytest.mark.parametrize("placement", ["user-prefix", "raw-prefix", "user-suffix", "system-suffix", "step-prefix"])
def test_the_response_is_shared_token_by_token_wherever_the_hint_stands(placement):
    episode = played(*WRONG)
    aligned = align(episode, "<HINT> Do so. </HINT>", placement=placement)
    assert aligned.response == episode.tokens()[3:]
    assert (aligned.policy_mask, aligned.query_mask) == (episode.policy_mask()[3:], episode.query_mask()[3:])
    told = [aligned.before, *(message["content"] for message in aligned.messages), *(text for _, text in aligned.inserts)]
    assert sum("Do so." in text for text in told) == (2 if placement == "step-prefix" else 1)
    assert [at for at, _ in aligned.inserts] == ([0, aligned.response.index(7) + 3] if placement == "step-prefix" else [])
    assert aligned.straddling == 0
    plain = align(episode)
    assert plain.messages == episode.messages()[: len(plain.messages)] and plain.before == "" and plain.inserts == []


def test_masks_are_of_the_query_with_its_tags_or_without_and_of_one_turn():
    episode = played(*WRONG)
    written = Tokenizer(True).decode

    def asked(**options):
        aligned = align(episode, **options)
        return written([token for token, own in zip(aligned.response, aligned.query_mask) if own])

    assert asked() == "radiumRadium"
    assert asked(span="inclusive", turn=0) == "<search>radium</search>"
    assert asked(span="close-only", turn=1) == "Radium</search>"
    assert asked(turn=2) == ""


def test_what_cannot_be_used_is_told():
    episode = played(*WRONG)
    for call, words in [
        (lambda: align(episode, placement="nowhere"), "nowhere"),
        (lambda: align(episode, side="left"), "side"),
        (lambda: align(episode, turn=9), "turn"),
        (lambda: align(RULES.read("<answer>a</answer>")), "span 1"),
        (lambda: sibling_block([episode], 1, GOLD), "own"),
        (lambda: sibling_block([episode], 0, GOLD, labels="wrong"), "wrong"),
        (lambda: critique_by_rules(episode, GOLD, NEEDED, words=0), "words"),
    ]:
        with pytest.raises(hindsearch.InvalidInput, match=words):
            call()


def test_a_critique_is_kept_in_the_record():
    episode = played(*WRONG)
    episode.set_critique("Ask for Marie Curie.")
    assert json.loads(episode.to_json())["critique"] == "Ask for Marie Curie."


def test_items_go_to_their_route_and_come_back_in_their_order(connect, fake):
    client = connect(fake.url)
    items = [{"number": number} for number in range(5000)]
    assert client.hindsight("block", items) == [{"route": "block", "item": item} for item in items]
    assert [(path, len(body["items"])) for path, _, body in fake.requests] == [("/hindsight/v1/block", n) for n in (4096, 904)]
    assert client.hindsight("align", []) == []
    with pytest.raises(hindsearch.InvalidInput, match="nowhere"):
        client.hindsight("nowhere", [])


def test_the_server_says_what_is_said_here(connect, request):
    program = request.config.getoption("--program")
    if not program:
        pytest.skip("NOT RUN: no --program")
    client = connect(request.getfixturevalue("real"))
    task = next(task for task in tasks("sample") if task.get("golds"))
    golds = list(task["golds"])
    [found] = client.search(task["question"], top_k=2, fields=["id", "title", "text", "contents", "row", "score"])
    attempts = [played(*WRONG, golds=golds), played(f"<answer>{golds[0]}</answer>", golds=golds)]
    record = [json.loads(attempt.to_json()) for attempt in attempts]
    ids = [hit.id for hit in found.hits]
    [said] = client.hindsight("critique", [{"trajectory": record[0], "passages": ids, "ground_truth": golds}])
    here = critique_by_rules(attempts[0], golds, [client.passage(id) for id in ids])
    assert said["critique"]["text"] == here.text and said["hint"] == here.hint
    [told] = client.hindsight(
        "block", [{"attempts": record, "own": 0, "ground_truth": golds, "options": {"shuffle": True}, "seed": 3}]
    )
    assert told["hint"] == sibling_block(attempts, 0, golds, shuffle=True, seed=3) and told["labels"] == [False, True]
    [aligned, refused] = client.hindsight("align", [{"trajectory": record[0], "hint": told["hint"]}, {"trajectory": 7}])
    own = align(attempts[0], told["hint"])
    for name in ["before", "messages", "response", "policy_mask", "query_mask", "straddling"]:
        assert aligned[name] == getattr(own, name), name
    assert refused["error"]["code"] == "invalid_input"
