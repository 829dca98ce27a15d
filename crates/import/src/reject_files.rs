//! Writes rejected rows to files next to the input.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use disk::{Disk, Output};

use crate::job::Job;
use crate::{Error, Reject};

/// Writes the rejects of one input. `INPUT.rejects` contains the rows unchanged, with the header, so that
/// they can be fixed and imported again; `INPUT.rejects.why` says for each where it was and what was wrong.
/// Returns the name of the first file.
pub(crate) fn write(
    disk: &dyn Disk,
    input: &Path,
    (job, file): (&Job, usize),
    rejects: &[&Reject],
) -> Result<PathBuf, Error> {
    let beside = |end: &str| {
        let mut name = input.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let end = job.dialect.line_end.bytes();
    let mut rows = Vec::new();
    if job.header && job.format.has_header() {
        rows.extend(job.format.restore(&job.dialect, job.heading_in(file)));
        rows.extend_from_slice(end);
    }
    let mut reasons = String::new();
    for reject in rejects {
        rows.extend(job.format.restore(&job.dialect, &reject.record));
        rows.extend_from_slice(end);
        reasons.push_str(&format!("{reject}\n"));
    }
    let (name, why) = (beside(".rejects"), beside(".rejects.why"));
    for (path, bytes) in [(&name, rows.as_slice()), (&why, reasons.as_bytes())] {
        let written = Output::create(disk, path).and_then(|mut output| {
            output.write_all(bytes)?;
            output.finish()
        });
        written.map_err(|source| Error::Write { name: path.display().to_string(), source })?;
    }
    Ok(name)
}
