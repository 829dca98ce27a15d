//! The differences between two snapshots in a thin pool, from the pool's own metadata.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;

use host::Machine;

/// Bytes of a sector in device-mapper.
const SECTOR: u64 = 512;

/// A thin pool, by its names in device-mapper.
pub(crate) struct Pool {
    /// The pool's device.
    device: String,
    /// The device of its metadata.
    metadata: String,
}

impl Pool {
    /// A pool of a volume group, by its names in LVM.
    pub(crate) fn new(group: &str, name: &str) -> Pool {
        // As libdevmapper combines names: it joins them with a dash and doubles the dashes in them.
        let name = format!("{}-{}", group.replace('-', "--"), name.replace('-', "--"));
        Pool { device: format!("{name}-tpool"), metadata: format!("/dev/mapper/{name}_tmeta") }
    }

    /// Bytes that may differ between two snapshots, given by their numbers in the pool.
    pub(crate) fn delta(&self, machine: &Machine, was: &str, is: &str) -> io::Result<Vec<Range<u64>>> {
        // The metadata change all the time, so a snapshot of them is read. A pool has at most one.
        self.tell(machine, "reserve_metadata_snap").map_err(|error| {
            let free = format!("dmsetup message {} 0 release_metadata_snap", self.device);
            io::Error::other(format!("{error}; should a killed run have left it so, '{free}' helps"))
        })?;
        let words = ["thin_delta", "--metadata-snap", "--snap1", was, "--snap2", is, &self.metadata];
        let told = machine.tool(&words.map(OsStr::new));
        let released = self.tell(machine, "release_metadata_snap");
        let told = told?;
        released?;
        ranges(&String::from_utf8_lossy(&told)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "thin_delta said something that is not understood")
        })
    }

    fn tell(&self, machine: &Machine, message: &str) -> io::Result<()> {
        machine.tool(&["dmsetup", "message", &self.device, "0", message].map(OsStr::new)).map(drop)
    }
}

/// The bytes that are not reported as equal. Bytes that only the left snapshot has are zeros in the right
/// one.
fn ranges(told: &str) -> Option<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let (mut block, mut whole) = (None, false);
    for tag in told.split('<').skip(1) {
        let (tag, _) = tag.split_once('>')?;
        let number = |name: &str| -> Option<u64> {
            let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
            rest.split_once('"')?.0.parse().ok()
        };
        match tag.split([' ', '/']).find(|word| !word.is_empty())? {
            // The last tag.
            "superblock" if tag.starts_with('/') => whole = true,
            "superblock" => block = Some(number("data_block_size")?.checked_mul(SECTOR)?),
            "diff" | "same" => {}
            "different" | "left_only" | "right_only" => {
                let start = number("begin")?.checked_mul(block?)?;
                ranges.push(start..start.checked_add(number("length")?.checked_mul(block?)?)?);
            }
            _ => return None,
        }
    }
    whole.then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of thin_delta 0.9.0.
    const TOLD: &str = r#"<superblock uuid="" time="3" transaction="5" data_block_size="128" nr_data_blocks="0">
  <diff left="4" right="5">
    <left_only begin="3" length="1"/>
    <same begin="4" length="1"/>
    <different begin="7" length="2"/>
    <right_only begin="100" length="3"/>
  </diff>
</superblock>
"#;

    #[test]
    fn all_that_is_not_said_to_be_the_same_may_differ() {
        let chunk = 65536;
        let expected = [3 * chunk..4 * chunk, 7 * chunk..9 * chunk, 100 * chunk..103 * chunk];
        assert_eq!(ranges(TOLD), Some(expected.to_vec()));
        assert_eq!(ranges(&TOLD.replace("different", "same")).unwrap().len(), 2);
    }

    #[test]
    fn an_incomplete_or_unknown_delta_is_refused() {
        let end = TOLD.find("</superblock>").unwrap();
        for cut in 0..=end {
            assert_eq!(ranges(&TOLD[..cut]), None, "{cut}");
        }
        for (from, to) in [
            ("different", "moved"),
            ("begin=\"7\"", "begin=\"x\""),
            ("begin=\"7\"", "begin=\"18446744073709551615\""),
            (" data_block_size=\"128\"", ""),
            (" length=\"2\"", ""),
        ] {
            assert_eq!(ranges(&TOLD.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn names_of_a_pool() {
        let pool = Pool::new("vg0", "pool-a");
        assert_eq!((&*pool.device, &*pool.metadata), ("vg0-pool--a-tpool", "/dev/mapper/vg0-pool--a_tmeta"));
    }
}
