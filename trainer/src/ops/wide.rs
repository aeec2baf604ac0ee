//! Loops over numbers in the machine's widest registers, with the same result on every machine.

use pulp::Arch;

/// Running sums: value `i` goes to sum `i % LANES`.
const LANES: usize = 16;

/// Runs `work`, compiled for the widest registers that this processor has. Loops inside it are vectorised by the compiler.
#[inline(always)]
pub(crate) fn wide<T>(work: impl FnOnce() -> T) -> T {
    Arch::new().dispatch(work)
}

/// The sum of `f(i)` over `0..count`, in an order that is fixed; values of 0 behind the end change no bit.
#[inline(always)]
pub(crate) fn sum(count: usize, f: impl Fn(usize) -> f32) -> f32 {
    let mut sums = [0f32; LANES];
    let whole = count / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += f(first + lane);
        }
    }
    for (lane, at) in (whole..count).enumerate() {
        sums[lane] += f(at);
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}

/// `e^x`, within 2 units in the last place; 0 below -87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding it leaves the nearest whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let bounded = x.clamp(-87.0, 88.0);
    let shifted = bounded.mul_add(std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    // ln 2 in two parts, the first exact in few bits.
    let rest = whole.mul_add(-0.693_145_75, bounded);
    let rest = whole.mul_add(-1.428_606_8e-6, rest);
    // Taylor's series, to the seventh power; |rest| is at most 0.35.
    let series = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let power = series.into_iter().fold(1.0 / 5040.0, |sum: f32, term| sum.mul_add(rest, term));
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
    if x < -87.0 { 0.0 } else { power * scale }
}
