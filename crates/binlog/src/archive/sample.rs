//! Which files of an archive belong to a sample.

use block::verify::Sample;

use super::timeline::numbered;

/// Whether a timeline's file belongs to a sample. Its own number decides, which stays the same when other
/// files are removed.
pub(super) fn is_in(sample: Option<Sample>, timeline: u32, file: &str) -> bool {
    let number = numbered(file).map_or(0, |(_, number)| number);
    sample.is_none_or(|sample| sample.has(number, timeline.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_in_one_part_of_a_sample_and_stays_there() {
        for number in 1..100 {
            let is_in = |part| is_in(Some(Sample { part, parts: 20 }), 1, &format!("binlog.{number:06}"));
            let parts: Vec<u64> = (0..20).filter(|part| is_in(*part)).collect();
            assert_eq!(parts, [(number + 1) % 20]);
        }
        assert!(is_in(None, 1, "binlog.000001"));
    }
}
