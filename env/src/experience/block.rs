//! How does the policy read experience? One paragraph an entry, made inert like any text that others wrote.

use crate::escape::escape;
use crate::preset::Prompt;
use crate::text::words;
use crate::trajectory::Advice;

const PLANNING: &str = "Rules from earlier questions. They are hints, and may not apply to this one:";
const STEP: &str = "Experience from earlier searches, a hint that may not apply here:";

/// The system message with experience at its end; nothing where there is neither.
pub(crate) fn system(prompt: &Prompt, experience: &[Advice]) -> Option<String> {
    let own = prompt.system.as_deref();
    if experience.is_empty() {
        return own.map(str::to_owned);
    }
    let rules = experience.iter().enumerate().map(|(at, advice)| format!("\n{}. {}", at + 1, paragraph(&advice.text)));
    // Where no chat template stands between them, the question follows at once.
    let end = if prompt.bare { "\n\n" } else { "" };
    let rules = format!("{PLANNING}{}{end}", rules.collect::<String>());
    Some(match own {
        Some(own) => format!("{}\n\n{rules}", own.trim_end()),
        None => rules,
    })
}

/// What an observation shows behind the passages: a line an entry.
pub(crate) fn behind(experience: &[Advice]) -> String {
    experience.iter().map(|advice| format!("\n{STEP} {}\n", paragraph(&advice.text))).collect()
}

/// Whether a line of an observation is one of those.
pub(crate) fn is_experience(line: &str) -> bool {
    line.starts_with(STEP)
}

/// The text on one line, with nothing in it that looks like a tag.
fn paragraph(text: &str) -> String {
    escape(&words(text).collect::<Vec<_>>().join(" ")).into_owned()
}
