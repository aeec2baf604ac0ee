//! How is a report read?

use std::fmt::{self, Write};

use super::report::{ArmReport, Report};
use super::spread::Spread;

impl Report {
    /// The report as a text in Markdown. It claims no more than the runs say.
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    /// Which settings the arms have, in Markdown.
    pub fn settings(&self) -> String {
        let mut text = String::new();
        let _ = self.write_settings(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        writeln!(out, "# What was compared, and what was found\n")?;
        write!(out, "`{}`", self.metric)?;
        if let Some(tested) = self.tested.filter(|_| self.metric.starts_with("test/")) {
            write!(out, " on {tested} held-out tasks")?;
        }
        write!(out, "; n = {} seeds ({}); ", self.seeds.len(), seeds.join(", "))?;
        writeln!(out, "model `{}`, index `{}`; hindsearch {}.", self.model, self.index, self.version)?;
        writeln!(
            out,
            "Means over the runs that have ended, with the sample standard deviation over seeds (sd) and Student's 95 % interval of the mean. \
             They are about these seeds, this model and these tasks: what holds here may not hold elsewhere.\n"
        )?;
        self.write_arms(out)?;
        writeln!(out, "\n![scores over steps](curves.svg)")?;
        self.write_orders(out)?;
        self.write_hindsight(out)?;
        writeln!(out, "\n## Settings\n")?;
        self.write_settings(out)?;
        if !self.failures.is_empty() {
            writeln!(out, "\n## Runs that failed\n")?;
            self.failures.iter().try_for_each(|(run, why)| writeln!(out, "- {run}: {}", one_line(why)))?;
        }
        Ok(())
    }

    fn write_arms(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "| arm | runs ended | at the start | at the end | 95 % interval | best step | time of a step | teacher's share |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|")?;
        for arm in &self.arms {
            let ended = arm.runs.iter().filter(|run| run.scores.is_some()).count();
            let best: Vec<String> =
                arm.runs.iter().filter_map(|run| Some(run.scores.as_ref()?.best_step?.to_string())).collect();
            let interval = arm.end_interval.map_or("-".into(), |(low, high)| format!("{low:.4} to {high:.4}"));
            let seconds = arm.step_seconds.map_or("-".into(), |spread| format!("{:.2} s", spread.mean));
            let share = arm.teacher_share.map_or("-".into(), |spread| format!("{:.1} %", 100.0 * spread.mean));
            let best = if best.is_empty() { "-".into() } else { best.join(", ") };
            let (name, total, start, end) = (&arm.name, arm.runs.len(), told(arm.start), told(arm.end));
            writeln!(
                out,
                "| {name} | {ended} of {total} | {start} | {end} | {interval} | {best} | {seconds} | {share} |"
            )?;
        }
        writeln!(
            out,
            "\nThe best step is where a run's own test was highest, seed by seed. It was found with the tasks that are tested, so its score would be too good, and is not told."
        )
    }

    fn write_orders(&self, out: &mut String) -> fmt::Result {
        if self.expectations.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n## Published orders\n")?;
        self.expectations.iter().try_for_each(|finding| writeln!(out, "- {}", one_line(&finding.to_string())))?;
        writeln!(
            out,
            "\nAn order holds here if the 95 % interval of the difference, paired by seed, lies above 0; it does not hold here if it lies below; else it is not decided, nor is it where all seeds differ by the same."
        )
    }

    fn write_hindsight(&self, out: &mut String) -> fmt::Result {
        let with: Vec<&ArmReport> = self.arms.iter().filter(|arm| !arm.hindsight.is_empty()).collect();
        if with.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n## In hindsight\n\nMeans over steps and seeds.\n\n| arm | number | mean |\n|---|---|---|")?;
        for arm in with {
            for (name, spread) in &arm.hindsight {
                writeln!(out, "| {} | `{name}` | {} |", arm.name, told(Some(*spread)))?;
            }
        }
        Ok(())
    }

    fn write_settings(&self, out: &mut String) -> fmt::Result {
        let unequal: Vec<String> = self.unequal_budgets().into_iter().map(|key| format!("`{key}`")).collect();
        if unequal.is_empty() {
            writeln!(out, "All arms make the same number of steps, of as many tasks and episodes.\n")?;
        } else {
            writeln!(out, "The budgets of the arms are not equal: they differ in {}.\n", unequal.join(", "))?;
        }
        for (number, arm) in self.arms.iter().enumerate() {
            let preset = arm.preset.as_ref().map_or("no preset".into(), |name| format!("preset `{name}`"));
            let differs: Vec<String> =
                arm.differs.iter().map(|(key, value)| format!("`{key} = {}`", one_line(value))).collect();
            let differs = match (number, differs.is_empty()) {
                (0, _) => "what the others are compared with".to_owned(),
                (_, true) => "the same settings".to_owned(),
                _ => differs.join(", "),
            };
            writeln!(out, "- {} ({preset}): {differs}", arm.name)?;
        }
        Ok(())
    }
}

/// A mean with its standard deviation.
fn told(spread: Option<Spread>) -> String {
    match spread {
        None => "-".into(),
        Some(Spread { mean, deviation: None, .. }) => format!("{mean:.4}"),
        Some(Spread { mean, deviation: Some(deviation), .. }) => format!("{mean:.4} (sd {deviation:.4})"),
    }
}

/// Text that makes no further line and no further cell.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
