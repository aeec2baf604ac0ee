//! How much better was a rollout than its siblings?

use std::collections::HashMap;

use hindsearch_env::Trajectory;
use serde::{Deserialize, Serialize};

/// Added to a standard deviation before it divides, as in Search-R1's code.
const EPSILON: f64 = 1e-6;

/// How rewards become advantages. The default is GRPO's (Shao et al. 2024, section 4.1, with Search-R1's deviation); Dr. GRPO
/// is `std = "none"`, RLOO `baseline = "leave-one-out"` with it, REINFORCE with the batch's mean `baseline = "batch"` with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Advantage {
    /// What a reward is compared with.
    pub baseline: Baseline,
    /// What the difference is divided by.
    pub std: Deviation,
    /// What becomes of a reward that has nothing to be compared with.
    pub single: Single,
}

/// What a reward is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// The mean of its group: GRPO and Dr. GRPO.
    #[default]
    Group,
    /// The mean of the *other* rollouts of its group: RLOO (Ahmadian et al. 2024, section 2.3).
    LeaveOneOut,
    /// The mean of the whole batch: REINFORCE with the plainest baseline.
    Batch,
}

/// What centred rewards are divided by: a standard deviation (plus 1e-6) over what the baseline is the mean of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deviation {
    /// Squares over n - 1, as Search-R1's code.
    #[default]
    Unbiased,
    /// Squares over n.
    Biased,
    /// Nothing: Dr. GRPO (Liu et al. 2025, section 3.2), because a deviation favours questions that are nearly always or
    /// nearly never solved.
    None,
}

/// What becomes of a reward that has nothing to be compared with: the only one of its group, or of the batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Single {
    /// It teaches nothing: 0.
    #[default]
    Zero,
    /// It counts as it is, as though the mean were 0 and the deviation 1: Search-R1's code.
    Reward,
}

impl Advantage {
    /// One advantage for each reward of each group, in order. Equal rewards give exactly 0; a reward that is not finite
    /// gives advantages that are not finite.
    pub fn of(&self, groups: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self.baseline {
            Baseline::Group | Baseline::LeaveOneOut => groups.iter().map(|rewards| self.compare(rewards)).collect(),
            Baseline::Batch => {
                let mut all = self.compare(&groups.concat()).into_iter();
                groups.iter().map(|group| all.by_ref().take(group.len()).collect()).collect()
            }
        }
    }

    /// How much better each episode was than the others of its task; nothing for one without a reward, which something outside kept
    /// from its end and which is in no group.
    pub fn of_episodes(&self, episodes: &[Trajectory]) -> Vec<Option<f64>> {
        let (mut places, mut groups, mut placed) = (HashMap::new(), Vec::<Vec<f64>>::new(), Vec::new());
        for Trajectory { reward, source, task, .. } in episodes {
            placed.push(reward.as_ref().map(|reward| {
                let group = *places.entry((source, task)).or_insert(groups.len());
                if group == groups.len() {
                    groups.push(Vec::new());
                }
                groups[group].push(reward.total);
                (group, groups[group].len() - 1)
            }));
        }
        let found = self.of(&groups);
        placed.into_iter().map(|place| place.map(|(group, at): (usize, usize)| found[group][at])).collect()
    }

    /// The advantages of rewards that are compared with one another.
    fn compare(&self, rewards: &[f64]) -> Vec<f64> {
        let n = rewards.len() as f64;
        if let [reward] = rewards {
            return vec![match (self.single, self.std) {
                (Single::Zero, _) => 0.0,
                (Single::Reward, Deviation::None) => *reward,
                (Single::Reward, _) => reward / (1.0 + EPSILON),
            }];
        }
        // A mean of equal rewards can be off by a rounding error, which the division would blow up.
        if rewards.windows(2).all(|pair| pair[0] == pair[1]) {
            return vec![0.0; rewards.len()];
        }
        let mean = rewards.iter().sum::<f64>() / n;
        let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
        let scale = match self.std {
            Deviation::Unbiased => (squares / (n - 1.0)).sqrt() + EPSILON,
            Deviation::Biased => (squares / n).sqrt() + EPSILON,
            Deviation::None => 1.0,
        };
        let others = match self.baseline {
            // reward - (sum - reward) / (n - 1) is the centred reward times n / (n - 1).
            Baseline::LeaveOneOut => n / (n - 1.0),
            Baseline::Group | Baseline::Batch => 1.0,
        };
        rewards.iter().map(|reward| (reward - mean) * others / scale).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
    }

    fn advantage(baseline: Baseline, std: Deviation) -> Advantage {
        Advantage { baseline, std, single: Single::Zero }
    }

    fn kinds() -> impl Iterator<Item = Advantage> {
        [Baseline::Group, Baseline::LeaveOneOut, Baseline::Batch].into_iter().flat_map(|baseline| {
            [Deviation::Unbiased, Deviation::Biased, Deviation::None].map(|std| advantage(baseline, std))
        })
    }

    // One success among four: mean 0.25, standard deviation 0.5 over n - 1 and 0.433 over n.
    const REWARDS: [f64; 4] = [1.0, 0.0, 0.0, 0.0];

    #[test]
    fn each_baseline_by_hand() {
        let of = |kind: Advantage| kind.of(&[REWARDS.to_vec()]).concat();
        close(&of(advantage(Baseline::Group, Deviation::Unbiased)), &[1.5, -0.5, -0.5, -0.5]);
        close(&of(advantage(Baseline::Group, Deviation::Biased)), &[1.732_047, -0.577_349, -0.577_349, -0.577_349]);
        close(&of(advantage(Baseline::Group, Deviation::None)), &[0.75, -0.25, -0.25, -0.25]);
        close(&of(advantage(Baseline::LeaveOneOut, Deviation::None)), &[1.0, -1.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0]);
    }

    #[test]
    fn a_batch_baseline_compares_across_groups() {
        let groups = [vec![1.0, 1.0], vec![0.0], vec![0.0]];
        let found = advantage(Baseline::Batch, Deviation::None).of(&groups);
        assert_eq!(found, [vec![0.5, 0.5], vec![-0.5], vec![-0.5]]);
    }

    #[test]
    fn a_group_without_contrast_teaches_nothing() {
        for kind in kinds() {
            assert_eq!(kind.of(&[vec![0.1; 3]]), [vec![0.0; 3]], "{kind:?}");
            assert_eq!(kind.of(&[vec![1.0]]), [vec![0.0]], "{kind:?}");
            assert_eq!(kind.of(&[vec![]]), [Vec::<f64>::new()], "{kind:?}");
            assert!(kind.of(&[]).is_empty());
        }
    }

    #[test]
    fn a_group_of_one_can_count_as_it_is() {
        let kind = |std| Advantage { std, single: Single::Reward, ..Advantage::default() };
        close(&kind(Deviation::Unbiased).of(&[vec![1.0]]).concat(), &[1.0 / (1.0 + 1e-6)]);
        assert_eq!(kind(Deviation::None).of(&[vec![0.7]]), [[0.7]]);
    }
}
