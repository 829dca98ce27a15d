//! Nodes of OpenStreetMap in the order of their ids, as people draw them: ways in small steps, changesets of
//! one mapper, some of them edited later. They are generated, so that everybody measures the same; general
//! compressors shrink them about as much as a real file.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use pageviews::Random;

const USERS: u64 = 8000;
const DAY_S: u64 = 86_400;
/// Letters for names.
const LETTERS: &[u8; 20] = b"aeioubcdlmnrstvzjk_0";

/// A later change to some consecutive nodes.
struct Edit {
    changeset: u64,
    user: usize,
    second: u64,
    version: u64,
    left: u64,
}

struct Nodes {
    random: Random,
    users: Vec<(u64, String)>,
    id: u64,
    second: u64,
    changeset: u64,
    user: usize,
    left_of_changeset: u64,
    left_of_way: u64,
    place: [i64; 2],
    step: [i64; 2],
    scale: u64,
    stamp: u64,
    edit: Option<Edit>,
}

/// Writes this many rows; an existing file is assumed to be right.
pub(in crate::bench) fn write(path: &Path, rows: u64) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let partial = path.with_extension("partial");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&partial)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut nodes = Nodes::new();
    for _ in 0..rows {
        nodes.write_next(&mut out)?;
    }
    out.flush()?;
    #[expect(clippy::disallowed_methods, reason = "data that can be made again")]
    std::fs::rename(partial, path)?;
    Ok(())
}

impl Nodes {
    fn new() -> Nodes {
        let mut random = Random::new(46_741_126);
        let users = (0..USERS).map(|_| {
            let letters = (0..4 + random.below(9))
                .map(|_| char::from(LETTERS[usize::try_from(random.below(20)).unwrap_or(0)]))
                .collect();
            let bits = 8 + random.below(16);
            (1 + random.below(1 << bits), letters)
        });
        let users = users.collect();
        Nodes {
            random,
            users,
            id: 171_772,
            second: 1_141_000_000,
            changeset: 4000,
            user: 0,
            left_of_changeset: 0,
            left_of_way: 0,
            place: [400_000_000, -37_000_000],
            step: [0, 0],
            scale: 1000,
            stamp: 0,
            edit: None,
        }
    }

    /// How many trials until an event with a chance of one in `mean` happens.
    fn times(&mut self, mean: u64) -> u64 {
        let mut count = 1;
        while self.random.below(mean) != 0 {
            count += 1;
        }
        count
    }

    /// A step around zero; small steps are more frequent.
    fn around(&mut self, scale: u64) -> i64 {
        let sum: u64 = (0..4).map(|_| self.random.below(scale)).sum();
        i64::try_from(sum).unwrap_or(0) - i64::try_from(2 * scale).unwrap_or(0)
    }

    /// Some mappers map a lot.
    fn mapper(&mut self) -> usize {
        let product = self.random.below(USERS) * self.random.below(USERS) * self.random.below(USERS);
        usize::try_from(product / (USERS * USERS)).unwrap_or(0)
    }

    fn begin_changeset(&mut self) {
        self.user = self.mapper();
        self.left_of_changeset = self.times(26);
        self.changeset += 1 + self.random.below(250);
        self.second += self.random.below(7000);
        self.stamp = self.second;
        self.left_of_way = 0;
        self.id += self.random.below(3) * self.random.below(40);
        if self.random.below(3) > 0 {
            let at = |random: &mut Random, from: i64, width| {
                from + i64::try_from(random.below(width)).unwrap_or(0)
            };
            self.place = [
                at(&mut self.random, 360_000_000, 75_000_000),
                at(&mut self.random, -95_000_000, 130_000_000),
            ];
        }
    }

    fn begin_way(&mut self) {
        self.left_of_way = self.times(11);
        self.scale = [350, 700, 1400, 3000][usize::try_from(self.random.below(4)).unwrap_or(0)];
        for axis in 0..2 {
            self.place[axis] += self.around(20 * self.scale);
            self.step[axis] = self.around(self.scale);
        }
        self.stamp += self.random.below(3) / 2 * self.random.below(60);
        self.edit = None;
    }

    fn begin_edit(&mut self) {
        let ahead = self.random.below(200_000_000);
        let second = (self.second + ahead + self.random.below(90_000)).min(1_410_000_000);
        let version = 2 + self.times(2) / 2 + self.random.below(2);
        let (user, left) = (self.mapper(), self.times(8));
        self.edit = Some(Edit { changeset: self.changeset + ahead / 14, user, second, version, left });
    }

    fn write_next(&mut self, out: &mut impl Write) -> Result<()> {
        if self.left_of_changeset == 0 {
            self.begin_changeset();
        }
        if self.left_of_way == 0 {
            self.begin_way();
        }
        self.left_of_changeset -= 1;
        self.left_of_way -= 1;
        if self.edit.as_ref().is_some_and(|edit| edit.left == 0) {
            self.edit = None;
        } else if self.edit.is_none() && self.random.below(24) == 0 {
            self.begin_edit();
        }
        self.id += if self.random.below(50) > 0 { 1 } else { 2 + self.random.below(60) };
        for axis in 0..2 {
            self.step[axis] = self.step[axis] * 3 / 4 + self.around(self.scale);
            self.place[axis] += self.step[axis];
        }
        let (version, second, changeset, user) = match &mut self.edit {
            Some(edit) => {
                edit.left -= 1;
                (edit.version, edit.second, edit.changeset, edit.user)
            }
            None => (1, self.stamp, self.changeset, self.user),
        };
        let (year, month, day) = civil(second / DAY_S);
        let clock = second % DAY_S;
        let [lat, lon] = self.place.map(|place| {
            let sign = if place < 0 { "-" } else { "" };
            let place = place.unsigned_abs();
            format!("{sign}{}.{:07}", place / 10_000_000, place % 10_000_000)
        });
        let (uid, name) = &self.users[user];
        writeln!(
            out,
            "{}\t{lat}\t{lon}\t{version}\t{year}-{month:02}-{day:02} {:02}:{:02}:{:02}\t{changeset}\t{uid}\t{name}",
            self.id,
            clock / 3600,
            clock / 60 % 60,
            clock % 60,
        )?;
        Ok(())
    }
}

/// A day since 1970 as year, month and day, after Howard Hinnant's civil_from_days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + days / 146_097 * 400 + u64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}
