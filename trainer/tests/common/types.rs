//! Tensors in other types than f32, and how far numbers are apart.

use candle_core::{DType, Device, Tensor};
use hindsearch_trainer::ops::Placement;

pub fn place(dtype: DType) -> Placement {
    Placement { device: Device::Cpu, dtype }
}

pub fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The greatest, by its amount.
pub fn size(values: &[f64]) -> f64 {
    assert!(values.iter().all(|value| value.is_finite()));
    values.iter().fold(0.0, |most, value| value.abs().max(most))
}

/// The greatest difference, as a share of the greatest value.
pub fn off(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let differences: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    size(&differences) / size(expected)
}
