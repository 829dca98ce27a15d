//! Fewer points than samples, for a plot that is narrower.

/// The most samples that are drawn one by one: a plot has 552 pixels.
const POINTS_MAX: usize = 600;

/// How many of so many samples two points stand for; 1 if each has a point of its own.
pub(super) fn samples_per_group(samples: usize) -> usize {
    if samples > POINTS_MAX { (2 * samples).div_ceil(POINTS_MAX) } else { 1 }
}

/// The times of the points: those of the first and the last sample of each group.
pub(super) fn times(times: &[i64], group: usize) -> Vec<i64> {
    if group == 1 {
        return times.to_vec();
    }
    let ends = |group: &[i64]| [group.first().copied(), group.last().copied()];
    times.chunks(group).flat_map(ends).flatten().collect()
}

/// The points of a line: the lowest and the highest value of each group, in the order in which they came, so
/// that neither a peak nor a stall is lost. If a value of the group is unknown, the second point is unknown
/// and the first is the highest value.
pub(super) fn line(line: &[Option<f64>], group: usize) -> Vec<Option<f64>> {
    if group == 1 { line.to_vec() } else { line.chunks(group).flat_map(extremes).collect() }
}

fn extremes(group: &[Option<f64>]) -> [Option<f64>; 2] {
    let known = || group.iter().enumerate().filter_map(|(at, point)| Some((at, (*point)?)));
    let lowest = known().min_by(|a, b| a.1.total_cmp(&b.1));
    let highest = known().max_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(lowest), Some(highest)) = (lowest, highest) else { return [None, None] };
    if group.iter().any(Option::is_none) {
        return [Some(highest.1), None];
    }
    if lowest.0 < highest.0 { [Some(lowest.1), Some(highest.1)] } else { [Some(highest.1), Some(lowest.1)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_and_stalls_and_gaps_of_many_samples_are_drawn() {
        let seconds: Vec<i64> = (0..3600).map(|second| second * 1000).collect();
        let mut values = vec![Some(5.0); 3600];
        (values[1000], values[1001], values[2000], values[3000]) = (Some(0.0), Some(90.0), None, Some(0.0));
        assert_eq!(samples_per_group(3600), 12);
        let (found, points) = (times(&seconds, 12), line(&values, 12));
        assert_eq!((found.len(), points.len()), (600, 600));
        assert_eq!((found[0], found[1], found[599]), (0, 11_000, 3_599_000));
        let at = |sample: usize| &points[sample / 12 * 2..][..2];
        assert_eq!(at(0), [Some(5.0), Some(5.0)]);
        assert_eq!(at(1000), [Some(0.0), Some(90.0)]);
        assert_eq!(at(2000), [Some(5.0), None]);
        assert_eq!(at(3000), [Some(0.0), Some(5.0)]);
        assert_eq!(extremes(&[Some(9.0), Some(1.0)]), [Some(9.0), Some(1.0)]);
        assert_eq!(extremes(&[None, None]), [None, None]);
    }

    #[test]
    fn few_samples_are_drawn_one_by_one() {
        let seconds: Vec<i64> = (0..601).collect();
        assert_eq!((samples_per_group(600), samples_per_group(601)), (1, 3));
        assert_eq!(
            (times(&seconds, 1), line(&[Some(1.0), None], 1)),
            (seconds.clone(), vec![Some(1.0), None])
        );
        // The group at the end is not full.
        assert_eq!((times(&seconds, 3).len(), line(&[Some(1.0); 601], 3).len()), (402, 402));
    }
}
