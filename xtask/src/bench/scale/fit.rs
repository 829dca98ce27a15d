//! How a measure grows: a constant, and a power of the size.

/// `constant + factor * size ^ exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    constant: f64,
    factor: f64,
    exponent: f64,
}

/// Values whose largest is not this many times their smallest do not grow: that much is chance.
const CHANCE: f64 = 1.5;
/// Exponents that are tried.
const STEPS: u32 = 60;
const STEP: f64 = 0.05;
/// With a steeper power only the last value is larger than the others.
const STEEP: f64 = 2.5;

impl Growth {
    /// The growth for which the sum of the squares of relative errors is the smallest; with fewer than three
    /// points, or one that is nothing, there is none.
    pub(super) fn of(points: &[(f64, f64)]) -> Option<Growth> {
        if points.len() < 3 || points.iter().any(|(_, value)| *value <= 0.0) {
            return None;
        }
        let values = points.iter().map(|(_, value)| *value);
        let (least, most) = (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max));
        if most < least * CHANCE {
            return Some(Growth { constant: least.midpoint(most), factor: 0.0, exponent: 0.0 });
        }
        let all = (1..=STEPS).map(|step| fitted(points, f64::from(step) * STEP));
        all.min_by(|a, b| a.error(points).total_cmp(&b.error(points)))
    }

    fn at(&self, size: f64) -> f64 {
        self.constant + self.factor * size.powf(self.exponent)
    }

    fn error(&self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|(size, value)| ((self.at(*size) - value) / value).powi(2)).sum()
    }

    /// The size from which on the power is more than the constant.
    fn bend(&self) -> f64 {
        (self.constant / self.factor).powf(self.exponent.recip())
    }

    /// Whether the power, where there is one, is a steeper one than this.
    pub(super) fn exceeds(&self, exponent: f64) -> bool {
        self.factor > 0.0 && self.exponent > exponent && self.exponent <= STEEP
    }

    /// In words.
    pub(super) fn shown(&self, points: &[(f64, f64)]) -> String {
        if self.factor <= 0.0 {
            return "constant".to_owned();
        }
        if self.exponent > STEEP {
            return "no power fits".to_owned();
        }
        let power = format!("n^{:.2}", self.exponent);
        let first = points.first().map_or(0.0, |(size, _)| *size);
        if self.bend() > first { format!("{power} from {} on", rounded(self.bend())) } else { power }
    }
}

/// Constant and factor for an exponent, by weighted least squares; neither is negative.
fn fitted(points: &[(f64, f64)], exponent: f64) -> Growth {
    // Divided by the value, so that errors are relative: a * u + b * v = 1.
    let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (size, value) in points {
        let (u, v) = (value.recip(), size.powf(exponent) / value);
        (uu, uv, vv) = (uu + u * u, uv + u * v, vv + v * v);
        (u1, v1) = (u1 + u, v1 + v);
    }
    let determinant = uu * vv - uv * uv;
    let (constant, factor) = ((u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant);
    if factor <= 0.0 || !factor.is_finite() {
        return Growth { constant: u1 / uu, factor: 0.0, exponent };
    }
    if constant < 0.0 {
        return Growth { constant: 0.0, factor: v1 / vv, exponent };
    }
    Growth { constant, factor, exponent }
}

/// Two digits that count, with k and M.
fn rounded(size: f64) -> String {
    let digits = |number: f64| {
        let unit = 10f64.powf((number.max(1.0).log10().floor() - 1.0).max(0.0));
        (number / unit).round() * unit
    };
    match digits(size) {
        size if size >= 1e6 => format!("{} M", size / 1e6),
        size if size >= 1e3 => format!("{} k", size / 1e3),
        size => format!("{size}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        [1e2, 1e3, 1e4, 1e5].map(|size| (size, value(size))).to_vec()
    }

    fn shown(value: impl Fn(f64) -> f64) -> String {
        let points = points(value);
        Growth::of(&points).map(|growth| growth.shown(&points)).unwrap_or_default()
    }

    #[test]
    fn growth_is_found() {
        assert_eq!(shown(|size| size / 7.0), "n^1.00");
        assert_eq!(shown(|size| size * size), "n^2.00");
        assert_eq!(shown(|size| 5.0 + size / 1e3), "n^1.00 from 5 k on");
        assert_eq!(shown(|size| 30.0 + size.sqrt()), "n^0.50 from 900 on");
        assert_eq!(shown(|_| 3.0), "constant");
        assert_eq!(shown(|size| 3.0 + 1.0 / size), "constant");
        assert_eq!(shown(|size| if size > 5e4 { 9.0 } else { 3.0 }), "no power fits");
    }

    #[test]
    fn what_is_not_measured_has_no_growth() {
        assert_eq!(Growth::of(&points(|size| size)[..2]), None);
        assert_eq!(Growth::of(&points(|_| 0.0)), None);
    }
}
