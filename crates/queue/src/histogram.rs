//! How often spans of time occurred, in classes that each reach ten times as far, or to a unit that people
//! use.

/// The end of each class but the last, in milliseconds: up to a day.
pub const CLASS_ENDS_MS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000];

/// How many classes there are.
pub const CLASSES: usize = CLASS_ENDS_MS.len() + 1;

/// How often spans of each class occurred. A class has those that are shorter than its end and in no earlier
/// class; the last one has all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub [u64; CLASSES]);

impl Histogram {
    pub(crate) fn count(&mut self, span_ms: u64, times: u64) {
        let class = CLASS_ENDS_MS.iter().take_while(|end| span_ms >= **end).count();
        self.0[class] += times;
    }

    /// The sum of both.
    pub(crate) fn and(&self, other: &Histogram) -> Histogram {
        Histogram(std::array::from_fn(|class| self.0[class] + other.0[class]))
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn a_span_is_in_the_class_that_ends_behind_it() {
        let mut times = Histogram::default();
        let spans = [0, 1, 9, 10, 59_999, 60_000, 86_399_999, 86_400_000, u64::MAX];
        spans.into_iter().for_each(|span| times.count(span, 1));
        assert_eq!(times.0, [1, 2, 1, 0, 0, 1, 1, 0, 1, 2]);
        assert_eq!(times.and(&times).0, [2, 4, 2, 0, 0, 2, 2, 0, 2, 4]);
    }
}
