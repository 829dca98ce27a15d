//! Replication events between two samples.

use super::part::Replica;
use super::sample::Sample;

impl Replica {
    /// Whether it does not follow its source. A thread that connects for the first time is not counted.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.sql != "Yes" || self.io == "No" || self.io != "Yes" && !self.error.is_empty()
    }

    /// What stopped it, in a sentence; `None` if it runs.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        if !self.is_stopped() {
            return None;
        }
        let which = match (self.io.as_str(), self.sql.as_str()) {
            ("Yes", _) => "the thread that applies does not run",
            ("No", "Yes") => "the thread that reads does not run",
            ("No", _) => "neither of its threads runs",
            (_, "Yes") => "the thread that reads does not reach its source",
            _ => "the thread that reads does not reach its source, and the one that applies does not run",
        };
        let number = self.errno.map_or_else(String::new, |errno| format!(" {errno}"));
        let error = self.error.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = match error.as_str() {
            // MariaDB tells nothing about a thread that was ended by KILL.
            "" => "; the server tells no error: it was stopped, or its thread was killed".to_owned(),
            _ => format!("; error{number}: {error}"),
        };
        Some(format!("{} is stopped: {which}{why}", self.title()))
    }

    fn title(&self) -> String {
        match self.channel.as_str() {
            "" => format!("replication from {}", self.source),
            channel => format!("replication {channel} from {}", self.source),
        }
    }
}

/// What happened to replication since the sample before: it stopped, it has another error, it runs again.
/// What is stopped in the first sample is an event too.
#[must_use]
pub fn events(before: Option<&Sample>, now: &Sample) -> Vec<String> {
    let before = before.and_then(|before| before.replicas.as_deref()).unwrap_or_default();
    let of = |replica: &Replica| before.iter().find(|before| before.channel == replica.channel);
    let event = |replica: &Replica| match (of(replica).and_then(Replica::trouble), replica.trouble()) {
        (before, Some(now)) => (before.as_ref() != Some(&now)).then_some(now),
        (Some(_), None) => Some(format!("{} runs again", replica.title())),
        (None, None) => None,
    };
    now.replicas.iter().flatten().filter_map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(io: &str, sql: &str, errno: Option<u32>, error: &str) -> Sample {
        let replica = Replica {
            channel: "b".into(),
            source: "db1:3306".into(),
            io: io.into(),
            sql: sql.into(),
            error: error.into(),
            errno,
            ..Replica::default()
        };
        Sample { replicas: Some(vec![replica]), ..Sample::of(0, &[]) }
    }

    #[test]
    fn replication_that_stops_is_an_event_once() {
        let runs = sample("Yes", "Yes", None, "");
        let failed = sample("Yes", "No", Some(1062), "Duplicate entry");
        let other = sample("Yes", "No", Some(1032), "Can't find record");
        let of = |before: Option<&Sample>, now: &Sample| events(before, now).join("|");
        let stopped = "replication b from db1:3306 is stopped: the thread that applies does not run; error 1062: \
                       Duplicate entry";
        assert_eq!((of(None, &runs), of(Some(&runs), &runs)), (String::new(), String::new()));
        assert_eq!((of(None, &failed), of(Some(&runs), &failed)), (stopped.to_owned(), stopped.to_owned()));
        assert_eq!(of(Some(&failed), &failed), "");
        assert!(of(Some(&failed), &other).contains("error 1032: Can't"));
        assert_eq!(of(Some(&failed), &runs), "replication b from db1:3306 runs again");
        // What can't be seen is no event.
        assert_eq!(of(Some(&failed), &Sample::of(0, &[])), "");
    }

    #[test]
    fn a_stopped_replica_names_its_thread() {
        let trouble =
            |io: &str, sql: &str, error: &str| sample(io, sql, None, error).replicas.unwrap()[0].trouble();
        for (io, sql, error, said) in [
            (
                "No",
                "No",
                "",
                "neither of its threads runs; the server tells no error: it was stopped, or its thread was killed",
            ),
            ("No", "Yes", "x", "the thread that reads does not run; error: x"),
            ("Connecting", "Yes", "gone", "does not reach its source; error: gone"),
            ("Connecting", "No", "gone", "and the one that applies does not run; error: gone"),
        ] {
            let trouble = trouble(io, sql, error).unwrap();
            assert!(trouble.ends_with(said), "{trouble}");
        }
        assert_eq!((trouble("Connecting", "Yes", ""), trouble("Yes", "Yes", "old")), (None, None));
    }
}
