//! Does a passage hold an answer? A match of whole words, in the manner of DPR's evaluation.

/// Whether `text` holds any of `answers` as a run of whole words.
///
/// Both sides are lower-cased, everything but letters and digits breaks words (as in DPR's tokeniser; SQuAD's removes
/// punctuation instead), and the articles a, an, the are dropped. So `the U.S.` is found in `in the U S army`. An answer
/// with no words left never matches.
pub fn holds_answer(text: &str, answers: &[String]) -> bool {
    let text = words(text);
    answers.iter().any(|answer| {
        let answer = words(answer);
        !answer.is_empty() && text.windows(answer.len()).any(|run| run == answer)
    })
}

fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !matches!(*word, "a" | "an" | "the"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::holds_answer;

    fn holds(text: &str, answer: &str) -> bool {
        holds_answer(text, &[answer.to_owned()])
    }

    #[test]
    fn whole_words_only() {
        assert!(holds("Born in Pau, France.", "pau"));
        assert!(!holds("Born in Pauillac.", "Pau"));
        assert!(holds("It opened in The Hague's port.", "Hague"));
    }

    #[test]
    fn articles_case_and_punctuation_do_not_matter() {
        assert!(holds("the Lord of the Rings", "Lord of Rings"));
        assert!(holds("Émile Zola wrote it", "émile zola"));
        assert!(holds("on 14 December 1972", "14 December, 1972"));
    }

    #[test]
    fn an_answer_without_words_never_matches() {
        assert!(!holds("anything", ""));
        assert!(!holds("anything", "the"));
        assert!(!holds("anything", "?!"));
        assert!(!holds_answer("anything", &[]));
    }
}
