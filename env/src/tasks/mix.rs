//! In which order are tasks drawn, alone and from several sets? The same for a seed on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::set::TaskSet;
use crate::{Error, Result, Task};

/// Draws `count` tasks from several sets: each time a set by its weight, then a task of it. No task of a set comes again before
/// all have been drawn; then they are shuffled anew.
///
/// # Errors
/// [`Error::InvalidInput`] for weights that are negative or not finite, when none is above zero, and for an empty set with a
/// weight above zero.
pub fn mix<'a>(sets: &[(&'a TaskSet, f64)], seed: u64, count: usize) -> Result<Vec<&'a Task>> {
    let refuse = |expected: &str, found: String| Err(Error::invalid("mixture of task sets", expected, found));
    for (number, (set, weight)) in sets.iter().enumerate() {
        if !weight.is_finite() || *weight < 0.0 {
            return refuse("weights that are finite and not negative", format!("{weight} for set {}", number + 1));
        }
        if *weight > 0.0 && set.tasks().is_empty() {
            return refuse("tasks in each set that has a weight", format!("none in set {}", number + 1));
        }
    }
    let total: f64 = sets.iter().map(|(_, weight)| weight).sum();
    if !total.is_finite() || total <= 0.0 {
        return refuse("weights with a finite sum above zero", total.to_string());
    }
    let mut choice = Chance::new(seed, 0);
    let mut decks: Vec<Deck> =
        sets.iter().zip(1..).map(|((set, _), stream)| Deck::new(set.tasks().len(), seed, stream)).collect();
    let mut drawn = Vec::new();
    while drawn.len() < count {
        let number = by_weight(sets.iter().map(|(_, weight)| *weight), choice.fraction() * total);
        let task = decks.get_mut(number).and_then(Deck::draw).and_then(|at| sets[number].0.tasks().get(at));
        drawn.extend(task);
    }
    Ok(drawn)
}

/// Which of `count` tasks a seed chooses; nothing where there are none. The program, the server and the Python package all choose by
/// this rule.
pub fn pick(seed: u64, count: usize) -> Option<usize> {
    (count > 0).then(|| Chance::new(seed, 0).below(count))
}

/// The numbers below `count` in an order by chance.
pub(crate) fn shuffled(seed: u64, stream: u64, count: usize) -> Vec<usize> {
    let mut deck = Deck::new(count, seed, stream);
    (0..count).filter_map(|_| deck.draw()).collect()
}

/// In which of the lengths laid end to end the point lies. Rounding may put it behind all of them: then it lies in the last.
fn by_weight(weights: impl Iterator<Item = f64>, mut point: f64) -> usize {
    let mut last = 0;
    for (number, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
        if point < weight {
            return number;
        }
        point -= weight;
        last = number;
    }
    last
}

/// Numbers to draw from, shuffled anew whenever all have been drawn.
pub(super) struct Deck {
    cards: Vec<usize>,
    next: usize,
    chance: Chance,
}

impl Deck {
    /// The numbers below `length`.
    pub fn new(length: usize, seed: u64, stream: u64) -> Self {
        Self { cards: (0..length).collect(), next: length, chance: Chance::new(seed, stream) }
    }

    /// The next number; nothing where there are none.
    pub fn draw(&mut self) -> Option<usize> {
        if self.next == self.cards.len() {
            for end in (1..self.cards.len()).rev() {
                let at = self.chance.below(end + 1);
                self.cards.swap(at, end);
            }
            self.next = 0;
        }
        let card = self.cards.get(self.next).copied()?;
        self.next += 1;
        Some(card)
    }
}

/// ChaCha8 with the seed as the first eight bytes of its key. Ranges and fractions are made here rather than by the `rand` crate,
/// which may change how it makes them.
struct Chance(ChaCha8Rng);

impl Chance {
    fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(stream);
        Self(random)
    }

    /// A number below `end`; uneven by at most `end` in 2^64.
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.0.next_u64()) * end as u128) >> 64) as usize
    }

    /// From 0 to below 1, in steps of 2^-53.
    fn fraction(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
