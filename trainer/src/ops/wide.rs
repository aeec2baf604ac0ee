//! Loops over numbers in the machine's widest registers, with the same result on every machine.

use pulp::Arch;
pub(crate) use pulp::NullaryFnOnce;

/// Running sums: value `i` goes to sum `i % LANES`.
const LANES: usize = 16;

/// Runs `work`, compiled for the widest registers that this processor has. Loops inside it are vectorised by the compiler.
///
/// It should be a struct whose `call` is always inlined, and so should be what that calls: a closure may be compiled apart, for the
/// narrowest registers, where each fused multiply-add is a call.
#[inline(always)]
pub(crate) fn wide<W: NullaryFnOnce>(work: W) -> W::Output {
    Arch::new().dispatch(work)
}

/// The sum of `f` of the values at each place, in an order that is fixed; values of 0 behind the end change no bit. As many places
/// as the shortest has.
#[inline(always)]
pub(crate) fn sum<const N: usize>(values: [&[f32]; N], f: impl Fn([f32; N]) -> f32) -> f32 {
    let count = values.iter().map(|values| values.len()).min().unwrap_or(0);
    let parts = values.map(|values| values[..count].as_chunks::<LANES>());
    let mut sums = [0f32; LANES];
    for at in 0..count / LANES {
        let part: [&[f32; LANES]; N] = std::array::from_fn(|n| &parts[n].0[at]);
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += f(std::array::from_fn(|n| part[n][lane]));
        }
    }
    for (lane, sum) in sums.iter_mut().enumerate().take(count % LANES) {
        *sum += f(std::array::from_fn(|n| parts[n].1[lane]));
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}

/// The greatest value; NaN is passed over.
#[inline(always)]
pub(crate) fn greatest(values: &[f32]) -> f32 {
    let (parts, rest) = values.as_chunks::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for part in parts.iter().copied() {
        most.iter_mut().zip(part).for_each(|(most, value)| *most = most.max(value));
    }
    most.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, f32::max)
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
