//! Fewer points than samples, for a plot that is narrower.

/// The most samples that are drawn one by one: a plot has 552 pixels.
const POINTS_MAX: usize = 600;

/// Points of several lines over the same times.
pub(super) struct Reduced {
    /// Milliseconds since 1970.
    pub(super) times: Vec<i64>,
    pub(super) lines: Vec<Vec<Option<f64>>>,
    /// How many samples two points stand for; 1 if there is a point for each sample.
    pub(super) samples: usize,
}

/// If there are many samples, two points for each group of some: the lowest and the highest value, in the
/// order in which they came. Neither a peak nor a stall is lost. A value that is unknown in a group takes the
/// place of the second point.
pub(super) fn reduced(times: &[i64], lines: &[Vec<Option<f64>>]) -> Reduced {
    let samples = if times.len() > POINTS_MAX { (2 * times.len()).div_ceil(POINTS_MAX) } else { 1 };
    if samples == 1 {
        return Reduced { times: times.to_vec(), lines: lines.to_vec(), samples };
    }
    let ends = |group: &[i64]| [group.first().copied(), group.last().copied()];
    Reduced {
        times: times.chunks(samples).flat_map(ends).flatten().collect(),
        lines: lines.iter().map(|line| line.chunks(samples).flat_map(extremes).collect()).collect(),
        samples,
    }
}

/// The lowest and the highest value, in their order.
fn extremes(group: &[Option<f64>]) -> [Option<f64>; 2] {
    let known = || group.iter().enumerate().filter_map(|(at, point)| Some((at, (*point)?)));
    let lowest = known().min_by(|a, b| a.1.total_cmp(&b.1));
    let highest = known().max_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(lowest), Some(highest)) = (lowest, highest) else { return [None, None] };
    let pair = if lowest.0 < highest.0 { [lowest.1, highest.1] } else { [highest.1, lowest.1] };
    if group.iter().any(Option::is_none) { [Some(highest.1), None] } else { pair.map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_and_stalls_and_gaps_of_many_samples_are_drawn() {
        let times: Vec<i64> = (0..3600).map(|second| second * 1000).collect();
        let mut line = vec![Some(5.0); 3600];
        (line[1000], line[1001], line[2000], line[3000]) = (Some(0.0), Some(90.0), None, Some(0.0));
        let found = reduced(&times, &[line]);
        assert_eq!((found.samples, found.times.len(), found.lines[0].len()), (12, 600, 600));
        assert_eq!((found.times[0], found.times[1], found.times[599]), (0, 11_000, 3_599_000));
        let at = |sample: usize| &found.lines[0][sample / 12 * 2..][..2];
        assert_eq!(at(0), [Some(5.0), Some(5.0)]);
        assert_eq!(at(1000), [Some(0.0), Some(90.0)]);
        assert_eq!(at(2000), [Some(5.0), None]);
        assert_eq!(at(3000), [Some(0.0), Some(5.0)]);
        assert_eq!(extremes(&[Some(9.0), Some(1.0)]), [Some(9.0), Some(1.0)]);
        assert_eq!(extremes(&[None, None]), [None, None]);
    }

    #[test]
    fn few_samples_are_drawn_one_by_one() {
        let times: Vec<i64> = (0..600).collect();
        let found = reduced(&times, &[vec![Some(1.0); 600]]);
        assert_eq!((found.samples, found.times, found.lines[0].len()), (1, times, 600));
        // One more than that, and a group at the end that is not full.
        let times: Vec<i64> = (0..601).collect();
        let found = reduced(&times, &[vec![Some(1.0); 601]]);
        assert_eq!((found.samples, found.times.len(), found.lines[0].len()), (3, 402, 402));
    }
}
