//! `hindsearch eval retrieval INDEX --questions FILE`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;
use hindsearch::indexes::{Effort, Progress, SearchParams};
use hindsearch::retriever::Retriever;
use hindsearch::retriever::evaluate::{Evaluation, Gold, Question, choose_gold, has_gold, read_questions, write_run};
use serde_json::json;

use crate::commands::search::open_options;
use crate::commands::{Context, write_whole};
use crate::failure::Failure;
use crate::output::count;

/// Questions embedded and searched at a time.
const BATCH: usize = 256;

/// Which hits count as right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GoldChoice {
    /// Passage ids where the questions have them, else answers
    Auto,
    /// Gold passage ids
    Id,
    /// Passages that hold a golden answer
    Answer,
}

/// Ask an index questions whose passages or answers are known
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch eval retrieval sample --questions examples/data/questions.jsonl
  hindsearch eval retrieval scifact --questions queries.jsonl --qrels qrels/test.tsv --run run.trec
  hindsearch eval retrieval wiki --questions nq_test.jsonl --gold answer --cutoffs 1,5,20,100")]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// FlashRAG JSONL, BEIR queries.jsonl, or TREC topics (id, tab, text)
    #[arg(long, value_name = "FILE")]
    questions: PathBuf,
    /// Relevance judgements: BEIR's TSV or TREC's qrels
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    /// What counts as right
    #[arg(long, value_enum, default_value = "auto")]
    gold: GoldChoice,
    /// The k of recall@k and success@k; the largest is the k of MRR
    #[arg(long, value_delimiter = ',', default_value = "1,5,20", value_parser = clap::value_parser!(u32).range(1..=1000))]
    cutoffs: Vec<u32>,
    /// Write the rankings in TREC's run format
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// Write each question's figures as JSON lines
    #[arg(long, value_name = "FILE")]
    per_question: Option<PathBuf>,
    /// How much an approximate index looks at: `calibrated`, `recall=0.95` (of the ten best hits), `exhaustive`, `exact`, or
    /// a number of candidates; for measuring, `lists=16:100` (lists, candidates). Exact indexes always look at all
    #[arg(long, default_value_t)]
    effort: Effort,
    /// Model folder or hub id, where it is not where the index was built with it
    #[arg(long)]
    model: Option<String>,
}

/// Prints each measure with its 95 % interval.
///
/// # Errors
/// Unreadable questions, questions without gold, a missing or damaged index.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let questions = read_questions(&args.questions, args.qrels.as_deref())?;
    let gold = match args.gold {
        GoldChoice::Auto => choose_gold(&questions)?,
        GoldChoice::Id => Gold::Id,
        GoldChoice::Answer => Gold::Answer,
    };
    // Questions without gold would only cost time, unless the rankings themselves are wanted.
    let total = questions.len();
    let questions: Vec<_> = questions.into_iter().filter(|q| args.run.is_some() || has_gold(q, gold)).collect();
    if !questions.iter().any(|q| has_gold(q, gold)) {
        return Err(Failure::Usage(format!(
            "`{}`: no question has gold of this kind; try `--gold auto` or `--qrels`",
            args.questions.display()
        )));
    }
    let retriever = Retriever::open(&args.index, open_options(context, args.model.as_deref(), args.effort)?)?;
    let mut cutoffs: Vec<usize> = args.cutoffs.iter().map(|&k| k as usize).collect();
    cutoffs.sort_unstable();
    cutoffs.dedup();
    let top_k = cutoffs.iter().copied().max().unwrap_or(0).max(10);
    let params = SearchParams { threads: context.config.search.threads, ..SearchParams::top(top_k) };

    let absent = absent_gold(&retriever, &questions, gold)?;
    let mut evaluation = Evaluation::new(gold, &cutoffs);
    let (progress, start) = (context.progress(), Instant::now());
    let mut ask = |run: &mut dyn Write| -> Result<(), Failure> {
        for (at, batch) in questions.chunks(BATCH).enumerate() {
            let texts: Vec<&str> = batch.iter().map(|q| q.text.as_str()).collect();
            for (question, ranking) in batch.iter().zip(retriever.retrieve_texts(&texts, &params)?) {
                write_run(run, question, &ranking)?;
                evaluation.add(question, &ranking);
            }
            let done = (at * BATCH + batch.len()) as u64;
            progress.show("asking", "questions", Progress { done, total: Some(questions.len() as u64) });
        }
        Ok(())
    };
    match &args.run {
        Some(path) => write_whole(path, ask)?,
        None => ask(&mut std::io::sink())?,
    }
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    let mut report = evaluation.report();
    report.skipped = total - report.questions;
    if let Some(path) = &args.per_question {
        write_whole(path, |sink| {
            report.per_question.iter().try_for_each(|score| {
                serde_json::to_writer(&mut *sink, score)?;
                Ok(writeln!(sink)?)
            })
        })?;
    }
    if context.json {
        return context.print_json(&json!({
            "index": args.index.display().to_string(), "questions_file": args.questions.display().to_string(),
            "seconds": seconds, "gold_absent_from_corpus": absent, "report": report,
        }));
    }
    let mut out = context.out();
    let kind = if gold == Gold::Id { "gold passage ids" } else { "golden answers" };
    writeln!(
        out,
        "{} questions by {kind} ({} without), {} passages, {seconds:.1} s",
        count(report.questions as u64),
        report.skipped,
        count(retriever.corpus().len())
    )?;
    for (name, estimate) in &report.measures {
        writeln!(out, "  {name:12}  {:.3}  [{:.3}, {:.3}]", estimate.mean, estimate.low, estimate.high)?;
    }
    if absent > 0 {
        writeln!(out, "  note: {absent} gold passages are not in this corpus, so no ranking can find them")?;
    }
    Ok(out.flush()?)
}

/// Gold passage ids that the corpus does not have.
fn absent_gold(retriever: &Retriever, questions: &[Question], gold: Gold) -> Result<usize, Failure> {
    let mut absent = 0;
    if gold == Gold::Id {
        for (id, _) in questions.iter().flat_map(|q| &q.relevant).filter(|(_, relevance)| **relevance > 0.0) {
            absent += usize::from(retriever.corpus().row_of(id)?.is_none());
        }
    }
    Ok(absent)
}
