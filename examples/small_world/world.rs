//! Pages of made-up names with three words each, and questions about them.

use hindsearch::trainer::Position;
use rand::seq::{IndexedRandom, SliceRandom};

/// Pages of the world.
const PAGES: usize = 2400;
const WORDS: &str = "anchor apple arrow basket beacon bell blanket boat bottle branch bridge broom bucket butter button cabin candle \
                     canvas carpet castle chain chair cherry circle clock cloud coat coin copper cotton cradle cream crown cup curtain \
                     desk diamond door drum eagle earth engine feather fence field finger flag flame flour flute forest fountain fruit \
                     garden garlic gate glass glove grain grass guitar hammer harbor hat hill honey horn horse hotel ink iron island \
                     ivory jacket jar jewel juice kettle key kitchen kite ladder lake lamp lantern leaf leather lemon letter lion \
                     map marble market meadow metal mill mirror moon mountain needle nest oak ocean olive onion orange oven paint \
                     palace paper parrot pearl pencil pepper piano pillow pine pipe plate pocket pond potato queen rabbit rain ribbon \
                     ring river rock roof root rope rose ruby saddle salt sand school shell ship silk silver sky smoke snow soap \
                     spoon spring star steel stone storm street sugar sun swan sword table tent thread tiger tower tree tunnel \
                     valley velvet village violin wagon wall water wheat wheel whistle window wing winter wolf wood wool yard";
const BEGIN: [&str; 14] = ["Ba", "Do", "Fe", "Gi", "Ka", "Lu", "Mo", "Ne", "Pa", "Ri", "So", "Tu", "Va", "Ze"];
const MIDDLE: [&str; 10] = ["la", "ri", "no", "me", "du", "sa", "to", "vi", "ga", "pe"];
const END: [&str; 8] = ["k", "n", "r", "s", "lt", "rm", "sk", "x"];

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    pub id: String,
    pub name: String,
    /// What stands on it.
    pub words: String,
}

impl Page {
    /// What a tokenizer is to know of it.
    pub fn told(&self) -> String {
        format!(
            "<search> {} </search><information> {}: {} </information><answer> {} </answer>",
            self.name, self.name, self.words, self.words
        )
    }
}

/// A question: words of another page, then the name of the page that it is about. A search for all of it finds another page.
#[derive(Debug, Clone)]
pub struct Question {
    pub id: String,
    pub text: String,
    pub page: Page,
}

/// All pages; no name is there twice.
pub fn pages() -> Vec<Page> {
    let known: Vec<&str> = WORDS.split_whitespace().collect();
    let mut names = std::collections::BTreeSet::new();
    let mut pages = Vec::new();
    for sample in 0.. {
        let mut random = Position { seed: 0, purpose: "pages", update: 0, task: "", sample }.stream();
        let mut part = |parts: &[&'static str]| parts.choose(&mut random).copied().unwrap_or_default();
        let name = [part(&BEGIN), part(&MIDDLE), part(&END), " ", part(&BEGIN), part(&MIDDLE), part(&MIDDLE)].concat();
        if names.insert(name.clone()) {
            let words = known.sample(&mut random, 3).copied().collect::<Vec<_>>().join(" ");
            pages.push(Page { id: format!("p{}", pages.len()), name, words });
        }
        if pages.len() == PAGES {
            break;
        }
    }
    pages
}

/// A question about a page, with words of another one that is tested on where this one is.
pub fn question(pages: &[Page], number: usize, sample: u64, is_tested: bool) -> Question {
    let page = pages[number].clone();
    let mut random = Position { seed: 0, purpose: "questions", update: 0, task: &page.id, sample }.stream();
    let others: Vec<&Page> = pages
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != number && (other % super::TESTED == 0) == is_tested)
        .map(|(_, other)| other)
        .collect();
    let other = others.choose(&mut random).map_or("", |other| &other.words);
    Question { id: format!("{}-{sample}", page.id), text: format!("{other} {}", page.name), page }
}

/// The name in a question: its last two words.
pub fn name_in(question: &str) -> &str {
    let words = question.rmatch_indices(' ').nth(1);
    words.map_or(question, |(at, _)| &question[at + 1..])
}

/// Puts things in an order by chance, the same each time.
pub fn shuffle<T>(all: &mut [T], purpose: &str) {
    all.shuffle(&mut Position { seed: 0, purpose, update: 0, task: "order", sample: 0 }.stream());
}
