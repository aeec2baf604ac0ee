//! What would a run need? Its settings, and the memory and time of a step.

use std::io::Write;

use hindsearch::env::Preset;
use hindsearch::trainer::ops::LOGIT_ROWS;
use hindsearch::trainer::{
    Machine, Method, ModelConfig, PlanSettings, Precision, Processor, Shape, TrainSettings, plan,
};

use crate::commands::Context;
use crate::failure::Failure;
use crate::output::count;

/// Says that episodes may not fit the model.
pub fn tell_narrow(preset: &Preset, config: &ModelConfig, context: &Context) {
    let (wanted, there) = (preset.limits.context_tokens, config.max_positions);
    if wanted > there {
        context.tell(format_args!(
            "recipe `{}` has episodes of up to {wanted} tokens, and the model {there} positions: a longer one fails and is not learnt \
             from; `context_tokens` of the recipe sets the limit",
            preset.name
        ));
    }
}

/// Prints the settings and what a step needs.
///
/// # Errors
/// A model for which nothing can be planned.
pub fn show_plan(
    settings: &TrainSettings,
    preset: &Preset,
    config: &ModelConfig,
    context: &Context,
) -> Result<(), Failure> {
    tell_narrow(preset, config, context);
    let size = |number: usize| number as u64;
    let shape = Shape {
        hidden: size(config.hidden),
        layers: size(config.layers),
        heads: size(config.heads),
        kv_heads: size(config.kv_heads),
        head_dim: size(config.head_dim),
        intermediate: size(config.intermediate),
        vocabulary: size(config.vocabulary),
        tied: config.tied,
        qkv_bias: config.qkv_bias,
    };
    let episodes = size(settings.rollout.tasks) * u64::from(settings.rollout.samples);
    let context_tokens = size(preset.limits.context_tokens.min(config.max_positions));
    let needs = PlanSettings {
        method: settings.lora.as_ref().map_or(Method::Full, |lora| Method::Lora { rank: size(lora.rank) }),
        episodes,
        parallel: episodes.min(size(settings.rollout.parallel)),
        context: context_tokens,
        generated: context_tokens.min(size(preset.limits.response_tokens) * (size(preset.limits.turns) + 1)),
        batch_tokens: size(settings.update.micro_tokens),
        head_rows: size(LOGIT_ROWS),
        epochs: size(settings.update.epochs),
        reference: settings.holds_another_model()?,
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let memory = hindsearch::retriever::build::available_memory().unwrap_or(0);
    let (machine, named) = match (settings.device, settings.precision()) {
        (Processor::Cpu, _) => (Machine::cpu(cores, memory), "this machine, in f32"),
        (Processor::Cuda, Precision::F32) => (Machine::h200_in_f32(), "one H200, in f32"),
        (Processor::Cuda, Precision::Bf16) => (Machine::h200(), "one H200, in bf16"),
    };
    let found = plan(&shape, &needs, &machine)?;
    if context.json {
        return context.print_json(&serde_json::json!({ "settings": settings, "plan": found, "machine": named }));
    }
    let mut out = context.out();
    writeln!(out, "{}", settings.to_toml()?)?;
    writeln!(out, "{found}")?;
    writeln!(
        out,
        "Planned for {named}; {} episodes a step; an episode is counted as long as it may be",
        count(episodes)
    )?;
    Ok(out.flush()?)
}
