//! Median and spread.

use serde::Serialize;

/// What a series of measurements says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Median.
    pub median: f64,
    /// Least.
    pub least: f64,
    /// Most.
    pub most: f64,
}

impl Summary {
    /// Summary of a series; `None` of an empty one.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: (sorted.get((sorted.len().checked_sub(1)?) / 2)?
                + sorted.get(sorted.len() / 2)?)
                / 2.0,
            least: *sorted.first()?,
            most: *sorted.last()?,
        })
    }

    /// Summary of `values` each divided by the one of `by` that was measured beside it.
    pub fn of_ratios(values: &[f64], by: &[f64]) -> Option<Self> {
        let ratios: Vec<f64> = values.iter().zip(by).map(|(a, b)| a / b).collect();
        Self::of(&ratios)
    }

    /// Summary of `values`, each less the one of `less` that was measured beside it.
    pub fn of_differences(values: &[f64], less: &[f64]) -> Option<Self> {
        let differences: Vec<f64> = values.iter().zip(less).map(|(a, b)| a - b).collect();
        Self::of(&differences)
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn median_of_odd_even_and_none() {
        let summary = Summary::of(&[3.0, 1.0, 2.0]).expect("three values");
        assert_eq!(
            (summary.least, summary.median, summary.most),
            (1.0, 2.0, 3.0)
        );
        let summary = Summary::of(&[4.0, 1.0]).expect("two values");
        assert!((summary.median - 2.5).abs() < f64::EPSILON);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_are_of_one_round() {
        let summary = Summary::of_ratios(&[2.0, 40.0], &[1.0, 10.0]).expect("two values");
        assert_eq!((summary.least, summary.most), (2.0, 4.0));
        let summary = Summary::of_differences(&[2.0, 40.0], &[1.0, 10.0]).expect("two values");
        assert_eq!((summary.least, summary.most), (1.0, 30.0));
    }
}
