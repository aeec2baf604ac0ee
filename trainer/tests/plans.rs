//! Before anything is loaded it is known what fits on a machine.

use hindsearch_trainer::{Error, Machine, Method, PlanSettings, Shape, plan};

const QWEN_3B: Shape = Shape {
    hidden: 2048,
    layers: 36,
    heads: 16,
    kv_heads: 2,
    head_dim: 128,
    intermediate: 11008,
    vocabulary: 151_936,
    tied: true,
    qkv_bias: true,
};

const QWEN_7B: Shape = Shape {
    hidden: 3584,
    layers: 28,
    heads: 28,
    kv_heads: 4,
    intermediate: 18944,
    vocabulary: 152_064,
    tied: false,
    ..QWEN_3B
};

const SMOL_135M: Shape = Shape {
    hidden: 576,
    layers: 30,
    heads: 9,
    kv_heads: 3,
    head_dim: 64,
    intermediate: 1536,
    vocabulary: 49_152,
    tied: true,
    qkv_bias: false,
};

const FULL: PlanSettings = PlanSettings {
    method: Method::Full,
    episodes: 2560,
    parallel: 128,
    context: 4096,
    generated: 1024,
    batch_tokens: 16_384,
    head_rows: 1024,
    epochs: 1,
    reference: true,
};

const LORA: PlanSettings = PlanSettings { method: Method::Lora { rank: 32 }, ..FULL };

fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

// By hand, from the published shapes; gigabytes are 10^9 bytes. In the sum is the head in f32: 1.2 and 2.2.
#[test]
fn models_of_known_size_need_what_was_reckoned_by_hand() {
    let h200 = Machine::h200();
    let table = [
        // shape, settings, weights, master and moments, gradients, reference, cache, inputs, sum, fits
        (QWEN_3B, FULL, 6.2, 37.1, 12.4, 6.2, 19.3, 2.4, 91.2, true),
        (QWEN_3B, LORA, 6.2, 0.7, 0.3, 0.0, 19.3, 2.4, 35.2, true),
        (QWEN_7B, LORA, 15.2, 1.0, 0.3, 0.0, 30.1, 3.3, 59.2, true),
        (QWEN_7B, FULL, 15.2, 91.4, 30.5, 15.2, 30.1, 3.3, 198.2, false),
    ];
    for (shape, settings, weights, optimizer, gradients, reference, cache, inputs, sum, fits) in table {
        let plan = plan(&shape, &settings, &h200).expect("a plan");
        let m = plan.memory;
        for (found, expected) in [
            (m.weights, weights),
            (m.masters + m.moments, optimizer),
            (m.gradients, gradients),
            (m.reference, reference),
            (m.kv_cache, cache),
            (m.block_inputs, inputs),
        ] {
            assert!((gigabytes(found) - expected).abs() <= 0.11, "{} {expected}\n{plan}", gigabytes(found));
        }
        assert!((gigabytes(plan.total) - sum).abs() <= 1.5, "{sum}\n{plan}");
        assert_eq!(plan.fits, fits, "{plan}");
    }
}

#[test]
fn parameters_are_those_of_the_published_models() {
    let count = |shape| plan(&shape, &FULL, &Machine::h200()).expect("a plan").parameters;
    // As the models' own checkpoints count them.
    assert_eq!(count(QWEN_3B), 3_085_938_688);
    assert_eq!(count(QWEN_7B), 7_615_616_512);
    assert_eq!(count(SMOL_135M), 134_515_008);
}

#[test]
fn weights_in_f32_are_their_own_masters() {
    let cpu = Machine::cpu(2, 24_000_000_000);
    let settings = PlanSettings { episodes: 8, parallel: 8, context: 512, generated: 128, batch_tokens: 2048, ..FULL };
    let plan = plan(&SMOL_135M, &settings, &cpu).expect("a plan");
    assert_eq!(plan.memory.masters, 0);
    assert_eq!(plan.memory.weights, 4 * plan.parameters);
    assert_eq!(plan.memory.moments, 8 * plan.parameters);
    assert!(plan.fits);
    assert!(plan.step.play_seconds > 0.0 && plan.step.update_seconds > plan.step.score_seconds);
}

#[test]
fn the_table_names_each_part_and_the_verdict_and_json_holds_the_same_numbers() {
    let plan = plan(&QWEN_7B, &FULL, &Machine::h200()).expect("a plan");
    let table = plan.to_string();
    for word in ["weights", "moments, f32", "keys and values", "does not fit: there are 141.0", "an estimate", "update"]
    {
        assert!(table.contains(word), "no {word:?} in\n{table}");
    }
    assert!(table.lines().all(|line| line.len() < 80), "{table}");
    let json = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(json["fits"], false);
    assert_eq!(json["memory"]["kv_cache"], plan.memory.kv_cache);
    let parts: u64 =
        json["memory"].as_object().expect("parts").values().map(|part| part.as_u64().expect("bytes")).sum();
    assert_eq!(json["total"], parts);
}

#[test]
fn sizes_that_make_no_sense_are_refused_by_name() {
    let h200 = Machine::h200();
    for (name, shape, settings) in [
        ("hidden", Shape { hidden: 0, ..QWEN_3B }, FULL),
        ("layers", Shape { layers: u64::MAX, ..QWEN_3B }, FULL),
        ("generated", QWEN_3B, PlanSettings { generated: 5000, ..FULL }),
        ("rank", QWEN_3B, PlanSettings { method: Method::Lora { rank: 0 }, ..FULL }),
    ] {
        let error = plan(&shape, &settings, &h200).expect_err("refused");
        assert!(
            matches!(error, Error::InvalidInput { .. }) && error.to_string().contains(&format!("`{name}`")),
            "{error}"
        );
    }
    // The largest that are accepted do not overflow.
    let most = Shape {
        hidden: 1 << 18,
        layers: 1 << 10,
        heads: 1 << 10,
        kv_heads: 1 << 10,
        head_dim: 1 << 10,
        intermediate: 1 << 20,
        vocabulary: 1 << 24,
        ..QWEN_7B
    };
    let settings = PlanSettings {
        parallel: 1 << 14,
        context: 1 << 24,
        batch_tokens: 1 << 24,
        head_rows: 1 << 20,
        episodes: 1 << 24,
        epochs: 1 << 24,
        ..FULL
    };
    assert!(!plan(&most, &settings, &h200).expect("a plan").fits);
}
