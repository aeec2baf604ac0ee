//! Why do vectors not fit their passages? Each suspicion is tried out, so that the message can say what to do.

use super::super::vectors::cosine;
use super::{FLOOR, Pairs, Sample};
use crate::Result;
use crate::embed::{CardOverrides, EmbedOptions, Embedder, InputKind, ModelCard, Pooling, Precision};

/// Rows before and behind that are looked at for one that is out of its place.
const NEAR: u64 = 64;
/// The cosine above which rounding may be what a vector differs by.
const ROUNDED: f64 = 0.9;
/// Passages that each suspicion is tried on.
const TRIED: usize = 4;

impl Pairs<'_> {
    /// What to do, as far as it can be found out.
    pub(super) fn likely_cause(&self, samples: &[Sample]) -> Result<String> {
        let differing: Vec<&Sample> = samples.iter().filter(|sample| !sample.fits()).collect();
        if let Some(cause) = self.moved(samples, &differing)? {
            return Ok(cause);
        }
        let card = self.embedder.card();
        for (overrides, advice) in suspicions(card) {
            self.interrupt.check()?;
            if self.fit_with(overrides, &differing)? {
                return Ok(format!("they fit with {advice}"));
            }
        }
        let mut cause = format!(
            "no neighbouring row and no other prefix, pooling or length fits: give the files in their order, and the corpus and \
             the model that the vectors were made from (`--model`; this is {})",
            card.id
        );
        let nearest = differing.iter().map(|sample| sample.cosine).fold(f64::NEG_INFINITY, f64::max);
        if nearest > ROUNDED && self.embedder.fingerprint().passages.precision == Precision::Int8 {
            cause.push_str(", and the model's fp32 graph: this one is int8, which rounds");
        }
        Ok(cause)
    }

    /// Whether rows stand elsewhere: shifted as a whole, or in another order.
    fn moved(&self, samples: &[Sample], differing: &[&Sample]) -> Result<Option<String>> {
        for sample in differing.iter().take(TRIED) {
            let first = sample.row.saturating_sub(NEAR);
            let near = self.file.read(first..self.file.rows().min(sample.row.saturating_add(NEAR + 1)))?;
            let matching = near.rows().zip(first..).find(|(row, _)| cosine(&sample.embedded, row) >= FLOOR);
            if let Some((_, place)) = matching {
                let by = i128::from(place) - i128::from(sample.row);
                let fitting = samples.iter().take_while(|sample| sample.fits()).last();
                let since = fitting.map_or("the first row on".into(), |fits| format!("a row after {} on", fits.row));
                return Ok(Some(format!(
                    "the vector of row {} is in row {place}: rows are shifted by {by:+} from {since}; give the corpus that the \
                     vectors were made from",
                    sample.row
                )));
            }
            for other in samples {
                if cosine(&sample.embedded, &self.stored(other.row)?) >= FLOOR {
                    return Ok(Some(format!(
                        "the vector of row {} is in row {}: rows are in another order; give the corpus that the vectors \
                         were made from",
                        sample.row, other.row
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Whether vectors made in this way are those of the file.
    fn fit_with(&self, wish: CardOverrides, differing: &[&Sample]) -> Result<bool> {
        let asked = &self.options.embed;
        let card = CardOverrides {
            passage_prefix: wish.passage_prefix.or_else(|| asked.card.passage_prefix.clone()),
            pooling: wish.pooling.or(asked.card.pooling),
            max_length: wish.max_length.or(asked.card.max_length),
            ..asked.card.clone()
        };
        // A way in which the model does not run explains nothing.
        let Ok(other) = Embedder::open(&self.options.model, EmbedOptions { card, ..asked.clone() }) else {
            return Ok(false);
        };
        let tried = &differing[..differing.len().min(TRIED)];
        let texts = tried.iter().map(|sample| sample.passage.contents().into_owned()).collect();
        let vectors = other.submit(texts, InputKind::Passage).wait_unless(self.interrupt)?.vectors;
        for (sample, vector) in tried.iter().zip(vectors.rows()) {
            if cosine(vector, &self.stored(sample.row)?) < FLOOR {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Other ways to run the same model, and how to ask for them.
fn suspicions(card: &ModelCard) -> Vec<(CardOverrides, String)> {
    let prefixes =
        ["", "passage: ", "query: "].into_iter().filter(|prefix| *prefix != card.passage_prefix).map(|prefix| {
            let overrides = CardOverrides { passage_prefix: Some(prefix.into()), ..CardOverrides::default() };
            (overrides, format!("the passage prefix {prefix:?}: add `--set model.passage_prefix={prefix:?}`"))
        });
    let poolings = [(Pooling::Mean, "mean"), (Pooling::Cls, "cls")].into_iter().filter(|(p, _)| *p != card.pooling);
    let poolings = poolings.map(|(pooling, name)| {
        let overrides = CardOverrides { pooling: Some(pooling), ..CardOverrides::default() };
        (overrides, format!("{name} pooling: add `--set model.pooling={name}`"))
    });
    let lengths = [128, 180, 256, 512].into_iter().filter(|length| *length != card.max_length).map(|length| {
        let overrides = CardOverrides { max_length: Some(length), ..CardOverrides::default() };
        (overrides, format!("texts cut after {length} tokens: add `--set model.max_length={length}`"))
    });
    prefixes.chain(poolings).chain(lengths).collect()
}
