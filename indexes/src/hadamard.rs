//! How are the values of a vector mixed without a matrix?

/// Multiplies `values` with the Hadamard matrix of their length, which is a power of two, in n log n additions. The
/// matrix is not scaled: the square of the length grows by `values.len()`.
#[inline(always)]
pub(crate) fn hadamard(values: &mut [f32]) {
    debug_assert!(values.len().is_power_of_two(), "{} values", values.len());
    let mut half = 1;
    if values.len() >= 8 {
        // The first three rounds in registers; the loop below would be slow for them.
        for [a, b, c, d, e, f, g, h] in values.as_chunks_mut::<8>().0 {
            let (a1, b1, c1, d1) = (*a + *b, *a - *b, *c + *d, *c - *d);
            let (e1, f1, g1, h1) = (*e + *f, *e - *f, *g + *h, *g - *h);
            let (a2, b2, c2, d2) = (a1 + c1, b1 + d1, a1 - c1, b1 - d1);
            let (e2, f2, g2, h2) = (e1 + g1, f1 + h1, e1 - g1, f1 - h1);
            (*a, *b, *c, *d) = (a2 + e2, b2 + f2, c2 + g2, d2 + h2);
            (*e, *f, *g, *h) = (a2 - e2, b2 - f2, c2 - g2, d2 - h2);
        }
        half = 8;
    }
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            for (x, y) in left.iter_mut().zip(right) {
                (*x, *y) = (*x + *y, *x - *y);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_matrix_of_the_parities_of_common_bits() {
        for length in [1, 2, 4, 8, 32, 128] {
            for at in 0..length {
                let mut values = vec![0.0; length];
                values[at] = 1.0;
                hadamard(&mut values);
                for (row, value) in values.iter().enumerate() {
                    let sign = if (row & at).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                    assert_eq!(*value, sign, "{length}: row {row}, column {at}");
                }
            }
        }
    }
}
