//! How much better was a rollout than its siblings?

/// Added to the standard deviation, as in Search-R1's code, so that a group of equal rewards gives zeros.
const EPSILON: f64 = 1e-6;

/// How a group's rewards become advantages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// Reward less the group's mean, over its sample standard deviation: GRPO (Shao et al. 2024, section 4.1).
    Grpo,
    /// Reward less the group's mean: Dr. GRPO (Liu et al. 2025, section 3.2), which leaves the deviation out because it
    /// favours questions that are nearly always or nearly never solved.
    DrGrpo,
    /// Reward less the mean of the *other* rollouts: RLOO (Ahmadian et al. 2024, section 2.3).
    Rloo,
}

/// One advantage for each reward of a group, in order. A group of one has nothing to be compared with: 0.
pub fn advantages(rewards: &[f64], baseline: Baseline) -> Vec<f64> {
    let n = rewards.len() as f64;
    if rewards.len() < 2 {
        return vec![0.0; rewards.len()];
    }
    let mean = rewards.iter().sum::<f64>() / n;
    let centred = rewards.iter().map(|reward| reward - mean);
    match baseline {
        Baseline::DrGrpo => centred.collect(),
        // (r - (sum - r) / (n - 1)) is the centred reward times n / (n - 1).
        Baseline::Rloo => centred.map(|c| c * n / (n - 1.0)).collect(),
        Baseline::Grpo => {
            let deviation = (centred.clone().map(|c| c * c).sum::<f64>() / (n - 1.0)).sqrt();
            centred.map(|c| c / (deviation + EPSILON)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
    }

    // One success among four: mean 0.25, sample standard deviation 0.5.
    const REWARDS: [f64; 4] = [1.0, 0.0, 0.0, 0.0];

    #[test]
    fn each_baseline_by_hand() {
        close(&advantages(&REWARDS, Baseline::Grpo), &[1.5, -0.5, -0.5, -0.5]);
        close(&advantages(&REWARDS, Baseline::DrGrpo), &[0.75, -0.25, -0.25, -0.25]);
        close(&advantages(&REWARDS, Baseline::Rloo), &[1.0, -1.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0]);
    }

    #[test]
    fn a_group_without_contrast_teaches_nothing() {
        for baseline in [Baseline::Grpo, Baseline::DrGrpo, Baseline::Rloo] {
            assert_eq!(advantages(&[1.0, 1.0, 1.0], baseline), [0.0; 3]);
            assert_eq!(advantages(&[1.0], baseline), [0.0]);
            assert!(advantages(&[], baseline).is_empty());
        }
    }
}
