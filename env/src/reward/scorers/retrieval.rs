//! Was an accepted answer found? This scorer looks at observations, and it is the only one of ours that does.

use std::borrow::Cow;

use serde::Deserialize;

use crate::escape::unescape;
use crate::experience::block;
use crate::render::frame;
use crate::reward::normalize::squad;
use crate::reward::scene::{Record, Scene};
use crate::reward::scorer::Verdict;
use crate::trajectory::{Action, Turn};
use crate::{Preset, Task, Trajectory};

/// What of an observation is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// Titles and texts of passages.
    Passages,
    /// All of it, as Search-R1's rule does: an answer such as `1` also stands in the number of a passage.
    Observation,
}

/// 1 where a passage that was shown holds an accepted answer, both normalised by SQuAD's rule.
///
/// What the policy writes is no observation, so nothing can be forged. An answer that a query of the same turn holds was not
/// found by it; else a policy would list answers as queries, since some recipes show the query again. It is a test of characters.
pub(in crate::reward) fn retrieval(scene: &Scene<'_>) -> Verdict {
    let is_found = scene.record.is_some_and(|record| found(record, scene.golds, Where::Passages));
    Verdict::of(f64::from(u8::from(is_found)), None)
}

/// For each search that was answered, whether a passage that it showed holds an accepted answer, as the scorer `retrieval` sees it.
pub fn searches_that_found(preset: &Preset, task: &Task, trajectory: &Trajectory) -> Vec<bool> {
    let (record, golds) = (Record { preset, trajectory }, readable_golds(task.gold().answers()));
    let searches = trajectory.turns.iter().filter(|turn| turn.is_search());
    searches.map(|turn| turn_found(record, &golds, Where::Passages, turn)).collect()
}

pub(super) fn found(record: Record<'_>, golds: &[String], place: Where) -> bool {
    let golds = readable_golds(golds);
    record.trajectory.turns.iter().any(|turn| turn_found(record, &golds, place, turn))
}

fn readable_golds(golds: &[String]) -> Vec<String> {
    golds.iter().map(|gold| squad(gold)).filter(|gold| !gold.is_empty()).collect()
}

fn turn_found(record: Record<'_>, golds: &[String], place: Where, turn: &Turn) -> bool {
    let spans = &record.trajectory.spans;
    let readable = |text: &str| squad(&unescape(&plain(text)));
    let is_shown = turn.found.iter().flatten().flatten().any(|found| found.shown);
    let (Action::Search { queries }, Some(index), true) = (&turn.action, turn.observation, is_shown) else {
        return false;
    };
    // In every form in which an observation could show them.
    let forms = |query: &String| [query.clone(), unescape(query).into_owned(), unescape(&plain(query)).into_owned()];
    let own: Vec<String> = queries.iter().flat_map(forms).map(|text| squad(&text)).collect();
    let observation = spans.get(index).map(|span| readable(&span.text)).unwrap_or_default();
    let around = match (place, &turn.found) {
        (Where::Passages, Some(found)) => {
            readable(&frame(&record.preset.observation, queries, found, &turn.experience))
        }
        // Experience is no passage, whoever looks.
        _ => readable(&block::behind(&turn.experience)),
    };
    let is_new = |gold: &&String| !own.iter().any(|text| text.contains(*gold));
    // What the observation has oftener than all that stands around its passages stands in one of them.
    let holds = |gold: &String| observation.matches(gold).count() > around.matches(gold).count();
    golds.iter().filter(is_new).any(holds)
}

/// The passages of an observation, also of one that shows them as the text of a JSON object.
fn plain(observation: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    struct Wrapped {
        result: String,
    }
    let json = observation.find("{\"result\": ").map(|at| &observation[at..]);
    let first = json.and_then(|json| serde_json::Deserializer::from_str(json).into_iter::<Wrapped>().next());
    first.and_then(Result::ok).map_or(Cow::Borrowed(observation), |wrapped| Cow::Owned(wrapped.result))
}
