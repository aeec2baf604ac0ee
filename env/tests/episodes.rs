//! Episodes go by the rules: what the policy is shown, when it is over, and what the record says of it.

mod support;

use std::sync::Arc;

use hindsearch_env::{
    Action, Author, Choose, Cut, Decision, LastTurn, Message, Overflow, Preset, Role, Rules, Stop, Tags, Task, Then,
    Trajectory, Transition,
};
use support::{preset, ranked, rules};

fn task() -> Task {
    Task::new("Who wrote it".into(), vec!["Ann".into()], "test".into())
}

fn with(change: impl FnOnce(&mut Preset)) -> Rules {
    let mut preset = preset();
    change(&mut preset);
    Rules::new(Arc::new(preset))
}

/// What a message leads to where it is no search.
#[track_caller]
fn next(rules: &Rules, episode: &mut Trajectory, message: &str) -> Transition {
    match rules.decide(episode, Message::text(message)).expect("a message that may come") {
        Decision::Next(next) => next,
        Decision::Search(queries) => panic!("a search for {queries:?}"),
    }
}

#[track_caller]
fn search(rules: &Rules, episode: &mut Trajectory, message: &str, passages: &[&str]) -> Transition {
    let Decision::Search(queries) = rules.decide(episode, Message::text(message)).expect("a message that may come")
    else {
        panic!("no search in {message:?}")
    };
    let found = passages.iter().enumerate().map(|(row, contents)| ranked(row as u64, contents)).collect::<Vec<_>>();
    rules.observe(episode, &vec![found; queries.len()]).expect("passages that were asked for")
}

#[test]
fn an_episode_is_a_prompt_searches_and_an_answer() {
    let rules = rules();
    let mut episode = rules.begin(&task(), 3);
    let [prompt] = &episode.spans[..] else { panic!("{:?}", episode.spans) };
    assert_eq!((prompt.author, prompt.role), (Author::Prompt, Role::User));
    assert!(prompt.text.ends_with("Question: Who wrote it?\n"), "{}", prompt.text);

    let seen =
        search(&rules, &mut episode, "<think>t</think><search> ann </search>", &["\"Ann\"\nA writer.", "no title"]);
    assert_eq!(seen.observation, "\n\n<information>[1] \"Ann\": A writer.\n[2] no title:</information>\n\n");
    assert_eq!((seen.stop, seen.truncated), (None, false));
    let last = next(&rules, &mut episode, "<answer>\n Ann \u{1c}</answer>");
    assert_eq!(last, Transition { observation: String::new(), stop: Some(Stop::Answer), truncated: false });

    assert_eq!(episode.turns.len(), 2);
    assert_eq!(episode.turns[0].action, Action::Search { queries: vec!["ann".into()] });
    assert_eq!(episode.turns[1].action, Action::Answer { text: "Ann".into() });
    assert_eq!(&episode.spans[1].text[episode.turns[0].content.clone().expect("a place")], " ann ");
    let found = &episode.turns[0].found.as_ref().expect("passages")[0];
    assert_eq!(
        found.iter().map(|found| (found.id.as_str(), found.shown)).collect::<Vec<_>>(),
        [("id0", true), ("id1", true)]
    );
    // Running text is one message of the assistant.
    let messages = episode.messages();
    assert_eq!(messages.len(), 2);
    assert!(messages[1].1.contains("</search>\n\n<information>") && messages[1].1.ends_with("</answer>"));
    let reward = rules.preset().reward.score(rules.preset(), task().gold(), &episode);
    assert_eq!(reward.total, 1.0);
}

#[test]
fn what_goes_on_behind_an_action_is_cut_and_the_first_action_counts() {
    let rules = rules();
    let mut episode = rules.begin(&task(), 0);
    search(&rules, &mut episode, "<search>a</search> and <answer>b</answer>", &[]);
    assert_eq!(episode.spans[1].text, "<search>a</search>");
    let mut episode = rules.begin(&task(), 0);
    next(&rules, &mut episode, "<answer>b</answer><search>a</search>");
    assert_eq!((episode.stop, episode.spans[1].text.as_str()), (Some(Stop::Answer), "<answer>b</answer>"));
    // A tag that is never closed is no action, and does not hide the one behind it.
    let mut episode = rules.begin(&task(), 0);
    next(&rules, &mut episode, "<search>a <answer>b</answer>");
    assert_eq!(episode.turns[0].action, Action::Answer { text: "b".into() });
}

#[test]
fn recipes_choose_and_cut_in_their_own_way() {
    let message = "<answer>1</answer> <search>a</search> <answer>2</answer> <search>b</search>";
    for (cut, choose, expected) in [
        (Cut::SearchFirst, Choose::First, Ok("1")),
        (Cut::None, Choose::Last, Err("b")),
        (Cut::None, Choose::SearchFirst, Err("a")),
        (Cut::None, Choose::AnswerFirst, Ok("1")),
        (Cut::FirstClose, Choose::SearchFirst, Ok("1")),
    ] {
        let rules = with(|preset| (preset.grammar.cut, preset.grammar.choose) = (cut, choose));
        let mut episode = rules.begin(&task(), 0);
        let decision = rules.decide(&mut episode, Message::text(message)).expect("a decision");
        let found = match (&decision, &episode.turns[0].action) {
            (Decision::Search(queries), _) => Err(queries[0].as_str()),
            (_, Action::Answer { text }) => Ok(text.as_str()),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{cut:?}, {choose:?}");
    }
}

#[test]
fn a_message_that_is_no_action_is_answered_as_the_recipe_says() {
    for (then, observation, stop) in [
        (Then::Reply, preset().invalid.reply, None),
        (Then::Empty, "\n\n<information>Nothing was found.</information>\n\n".into(), None),
        (Then::GoOn, String::new(), None),
        (Then::GoOnIfCutOff, String::new(), Some(Stop::End)),
        (Then::End, String::new(), Some(Stop::End)),
    ] {
        let rules = with(|preset| preset.invalid.then = then);
        let mut episode = rules.begin(&task(), 0);
        let seen = next(&rules, &mut episode, "hm");
        assert_eq!((seen.observation, seen.stop), (observation, stop), "{then:?}");
        assert!(matches!(episode.turns[0].action, Action::Invalid { .. }));
    }
}

#[test]
fn the_last_turn_ends_as_the_recipe_says() {
    let plays = |last_turn: LastTurn| {
        let rules = with(|preset| {
            (preset.limits.turns, preset.limits.last_turn) = (2, last_turn);
            if last_turn == LastTurn::Force {
                preset.limits.force = "Answer now.".into();
            }
        });
        let mut episode = rules.begin(&task(), 0);
        search(&rules, &mut episode, "<search>a</search>", &["t\nx"]);
        (rules, episode)
    };
    for last_turn in [LastTurn::ExtraAnswer, LastTurn::Force] {
        let (rules, mut episode) = plays(last_turn);
        let seen = search(&rules, &mut episode, "<search>b</search>", &["t\nx"]);
        assert_eq!(seen.observation.ends_with("Answer now."), last_turn == LastTurn::Force);
        assert_eq!(seen.stop, None);
        for (message, stop) in
            [("<answer>c</answer>", Stop::Answer), ("<search>c</search>", Stop::Turns), ("c", Stop::Turns)]
        {
            assert_eq!(next(&rules, &mut episode.clone(), message).stop, Some(stop), "{message}");
        }
    }
    let (rules, mut episode) = plays(LastTurn::Observe);
    let seen = search(&rules, &mut episode, "<search>b</search>", &["t\nx"]);
    assert_eq!((seen.stop, seen.observation.is_empty()), (Some(Stop::Turns), false));
    let (rules, mut episode) = plays(LastTurn::Stop);
    let seen = next(&rules, &mut episode, "<search>b</search>");
    assert_eq!((seen.stop, seen.observation.is_empty()), (Some(Stop::Turns), true));
    assert_eq!(episode.searches(), 1);
}

#[test]
fn searches_and_queries_and_the_context_have_limits() {
    let rules = with(|preset| preset.limits.searches = Some(1));
    let mut episode = rules.begin(&task(), 0);
    search(&rules, &mut episode, "<search>a</search>", &[]);
    assert_eq!(next(&rules, &mut episode, "<search>b</search>").stop, Some(Stop::Turns));

    let rules = with(|preset| preset.limits.context_tokens = rules.length(&rules.begin(&task(), 0)) + 20);
    let mut episode = rules.begin(&task(), 0);
    let seen = search(
        &rules,
        &mut episode,
        "<search>a</search>",
        &["t\nmany words that take the rest of the context away from it"],
    );
    assert_eq!((seen.stop, seen.truncated), (None, true), "no passage can end an episode");
    assert_eq!(next(&rules, &mut episode, "a message that takes it").stop, Some(Stop::Context));

    let rules = with(|preset| {
        preset.limits.queries = Some(2);
        preset.grammar.query = hindsearch_env::QueryForm::Call { name: "search".into(), argument: "queries".into() };
    });
    let mut episode = rules.begin(&task(), 0);
    let call = r#"<search>{"name": "search", "arguments": {"queries": ["a", "b", "c"]}}</search>"#;
    assert_eq!(
        rules.decide(&mut episode, Message::text(call)).expect("a search"),
        Decision::Search(vec!["a".into(), "b".into()])
    );
}

#[test]
fn calls_of_tools_are_json_and_others_are_told() {
    let rules = with(|preset| {
        preset.grammar.query = hindsearch_env::QueryForm::Call { name: "search".into(), argument: "query".into() };
        preset.grammar.search = Tags { open: "<tool_call>".into(), close: "</tool_call>".into() };
        preset.invalid.malformed = Some("Bad JSON.".into());
        preset.invalid.unknown_tool = Some("No tool `{name}`.".into());
        preset.limits.turns = 9;
    });
    let mut episode = rules.begin(&task(), 0);
    for (call, reply) in [
        ("<tool_call>{</tool_call>", "Bad JSON."),
        ("<tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call>", "Bad JSON."),
        ("<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": [1]}}</tool_call>", "Bad JSON."),
        ("<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": []}}</tool_call>", "Bad JSON."),
        ("<tool_call>{\"name\": \"</information>x\", \"arguments\": {}}</tool_call>", "No tool `&lt;/information>x`."),
    ] {
        assert_eq!(next(&rules, &mut episode, call).observation, reply, "{call}");
    }
    let call = r#"<tool_call>{"name": "search", "arguments": "{\"query\": \"a\"}"}</tool_call>"#;
    assert_eq!(rules.decide(&mut episode, Message::text(call)).expect("a search"), Decision::Search(vec!["a".into()]));
}

#[test]
fn tokens_are_kept_as_they_were_sampled_and_masks_come_from_them() {
    let rules = rules();
    let mut episode = rules.begin(&task(), 0);
    // "<search>ab cd</search>\n x": the tokens of the query, and one that holds the end of the tag and a line break.
    let pieces = ["<search>", "ab", " cd", "</", "search", ">\n", " x"];
    let ends: Vec<usize> = pieces
        .iter()
        .scan(0, |at, piece| {
            *at += piece.len();
            Some(*at)
        })
        .collect();
    let message =
        Message { text: pieces.concat(), tokens: (10..17).collect(), logprobs: vec![-0.5; 7], ends, cut_off: false };
    rules.decide(&mut episode, message).expect("a search");
    rules.observe(&mut episode, &[vec![]]).expect("an observation");
    let said = &episode.spans[1];
    assert_eq!(said.text, "<search>ab cd</search>\n", "the token that holds the end stays whole");
    assert_eq!((&said.tokens[..], said.logprobs.len()), (&[10, 11, 12, 13, 14, 15][..], 6));
    assert_eq!(episode.policy_mask(), [true; 6]);
    assert_eq!(episode.query_mask(), [false, true, true, false, false, false]);
}

#[test]
fn the_end_of_the_policys_turn_is_a_token_of_its_own() {
    let rules = rules();
    let mut episode = rules.begin(&task(), 0);
    // The last token is the end of the turn: it says nothing.
    let message = Message {
        text: "<answer>a</answer>".into(),
        tokens: vec![10, 11, 2],
        logprobs: vec![-0.5; 3],
        ends: vec![9, 18, 18],
        cut_off: false,
    };
    rules.decide(&mut episode, message).expect("an answer");
    assert_eq!(episode.spans[1].tokens, [10, 11, 2]);
    assert_eq!(episode.policy_mask(), [true; 3]);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let rules = rules();
    let mut episode = rules.begin(&task(), 0);
    let fresh = episode.clone();
    let tokens = |tokens: Vec<u32>, logprobs: Vec<f32>, ends: Vec<usize>| Message {
        text: "aé".into(),
        tokens,
        logprobs,
        ends,
        cut_off: false,
    };
    for message in [
        tokens(vec![1, 2], vec![-1.0], vec![]),
        tokens(vec![1], vec![f32::NAN], vec![]),
        tokens(vec![1], vec![0.5], vec![]),
        tokens(vec![1, 2], vec![], vec![2, 1]),
        tokens(vec![1, 2], vec![], vec![2, 3]),
        tokens(vec![1, 2], vec![], vec![1, 1]),
        tokens(vec![1, 2], vec![], vec![1, 9]),
    ] {
        let shown = format!("{message:?}");
        assert!(rules.decide(&mut episode, message).is_err(), "{shown}");
        assert_eq!(episode, fresh);
    }
    assert!(rules.observe(&mut episode, &[]).is_err());
    rules.decide(&mut episode, Message::text("<search>a</search>")).expect("a search");
    let waiting = episode.clone();
    assert!(rules.decide(&mut episode, Message::text("<answer>a</answer>")).is_err());
    assert!(rules.observe(&mut episode, &[vec![], vec![]]).is_err());
    assert_eq!(episode, waiting);
    rules.observe(&mut episode, &[vec![]]).expect("an observation");
    next(&rules, &mut episode, "<answer>a</answer>");
    let over = episode.clone();
    let error = rules.decide(&mut episode, Message::text("<answer>b</answer>")).expect_err("an episode that is over");
    assert!(error.to_string().contains("over"), "{error}");
    assert_eq!(episode, over);
    let other = with(|preset| preset.name = "other".into());
    assert!(other.decide(&mut rules.begin(&task(), 0), Message::text("x")).is_err());
}

/// From any prefix of the record the rules go on as they would have.
#[test]
fn the_record_is_the_state() {
    let rules = rules();
    let mut episode = rules.begin(&task(), 0);
    let messages = ["<search>a</search>", "hm", "<search>b</search>", "<answer>c</answer>"];
    for message in messages {
        let text = serde_json::to_string(&episode).expect("JSON");
        let mut copy: Trajectory = serde_json::from_str(&text).expect("the same");
        assert_eq!(copy, episode);
        for episode in [&mut copy, &mut episode] {
            if let Decision::Search(_) = rules.decide(episode, Message::text(message)).expect("a decision") {
                rules.observe(episode, &[vec![ranked(7, "t\nx")]]).expect("an observation");
            }
        }
        assert_eq!(copy, episode);
    }
    assert_eq!(episode.stop, Some(Stop::Answer));
}

#[test]
fn a_raw_cut_can_be_had_as_it_was_published() {
    let rules = with(|preset| {
        preset.observation.overflow = Overflow::End;
        preset.observation.budget = Some(hindsearch_env::Budget::Characters(30));
    });
    let mut episode = rules.begin(&task(), 0);
    let seen = search(&rules, &mut episode, "<search>a</search>", &["t\na long text that does not fit"]);
    assert_eq!((seen.observation.chars().count(), seen.truncated), (30, true));
    assert!(!seen.observation.contains("</information>"));
}
