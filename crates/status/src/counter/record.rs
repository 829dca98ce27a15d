//! Samples as lines of JSON: the output of `remora stat --record`. docs/formats/status.md describes it.
//!
//! All lines are complete, except perhaps the last, if the writer was killed. A sample contains the values
//! that differ from the server's previous sample; the first one of each run, and one in 600, contains all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::number::Number;
use super::part::{Digest, Queue, Replica, Settings};
use super::sample::{Begin, Names, Sample, Value};

/// The version that is written.
pub const VERSION: u32 = 1;
/// One in this many samples contains all values.
const WHOLE_EVERY: u32 = 600;

/// What is wrong with a recording.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line} {what}")]
pub struct Corrupt {
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

/// The first line of every run.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    remora_status: u32,
}

/// The names of a server's values, in their order.
#[derive(Debug, Serialize, Deserialize)]
struct NamesLine {
    server: String,
    names: Vec<String>,
    settings: Settings,
}

/// A sample.
#[derive(Debug, Serialize, Deserialize)]
struct SampleLine {
    server: String,
    unix_ms: i64,
    at_us: u64,
    took_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begin: Option<String>,
    /// By the index of the name.
    values: BTreeMap<usize, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    own: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replicas: Option<Vec<Replica>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queues: Vec<Queue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digests: Option<Vec<Digest>>,
    /// What differs from the sample before; null is there no longer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    beside: BTreeMap<String, Json>,
}

/// What was found besides a sample, by its name: this format does not know what it is.
pub type Beside = BTreeMap<String, Json>;

/// A sample of a recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The server's name.
    pub server: String,
    /// The sample.
    pub sample: Sample,
    /// What was found besides.
    pub beside: Beside,
}

enum Line {
    Sample(SampleLine),
    Names(NamesLine),
    Head(Head),
}

impl Line {
    /// The fields of a line show its kind. (An untagged enum of serde accepts no numbers as keys.)
    fn read(text: &str) -> Option<Line> {
        let sample = serde_json::from_str(text).map(Line::Sample);
        let names = |_| serde_json::from_str(text).map(Line::Names);
        let head = |_| serde_json::from_str(text).map(Line::Head);
        sample.or_else(names).or_else(head).ok()
    }
}

/// What writer and reader know about a server.
#[derive(Debug)]
struct LastValues {
    names: Arc<Names>,
    settings: Arc<Settings>,
    values: Vec<Value>,
    beside: Beside,
    /// The number of samples since one that contains all values, counting that one.
    since_whole: u32,
}

/// Turns samples into lines.
#[derive(Debug, Default)]
pub struct Writer {
    servers: BTreeMap<String, LastValues>,
}

impl Writer {
    /// The first line of a run.
    #[must_use]
    pub fn head() -> String {
        line(&Head { remora_status: VERSION })
    }

    /// A sample as one line or two, with line ends.
    #[must_use]
    pub fn sample(&mut self, server: &str, sample: &Sample, beside: Beside) -> String {
        let known = self.servers.remove(server).filter(|known| {
            known.since_whole < WHOLE_EVERY
                && known.names == sample.names
                && known.settings == sample.settings
        });
        let mut text = String::new();
        if known.is_none() {
            let names = sample.names.all().iter().map(|name| name.text.to_string()).collect();
            let settings = Settings::clone(&sample.settings);
            text = line(&NamesLine { server: server.to_owned(), names, settings });
        }
        let before = known.as_ref().map_or(&[][..], |known| &known.values);
        let differs =
            |(at, value): (usize, &Value)| (before.get(at) != Some(value)).then(|| (at, value.to_string()));
        let beside_before = known.as_ref().map_or_else(Beside::new, |known| known.beside.clone());
        text.push_str(&line(&SampleLine {
            server: server.to_owned(),
            unix_ms: sample.unix_ms,
            at_us: micros(sample.at),
            took_us: micros(sample.took),
            begin: sample.begin.map(|begin| begin.name().to_owned()),
            values: sample.values.iter().enumerate().filter_map(differs).collect(),
            own: sample.own.iter().map(|(name, number)| (name.to_string(), number.to_string())).collect(),
            replicas: sample.replicas.clone(),
            queues: sample.queues.clone(),
            digests: sample.digests.clone(),
            beside: changes(&beside_before, &beside),
        }));
        let since_whole = known.map_or(1, |known| known.since_whole + 1);
        let (names, settings) = (Arc::clone(&sample.names), Arc::clone(&sample.settings));
        let known = LastValues { names, settings, values: sample.values.clone(), beside, since_whole };
        self.servers.insert(server.to_owned(), known);
        text
    }
}

/// What is new or different, and null for what is gone.
fn changes(before: &Beside, now: &Beside) -> Beside {
    let gone = before.keys().filter(|name| !now.contains_key(*name)).map(|name| (name.clone(), Json::Null));
    let differs = |(name, value): &(&String, &Json)| before.get(*name) != Some(value);
    let new = now.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone()));
    gone.chain(new).collect()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn line<T: Serialize>(value: &T) -> String {
    // JSON can represent maps of numbers and texts, so this can't fail.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// Turns lines back into samples.
#[derive(Debug, Default)]
pub struct Reader {
    servers: BTreeMap<String, LastValues>,
    lines: u64,
}

impl Reader {
    /// Reads the next line, without its line end. Most lines are a sample of a server.
    ///
    /// # Errors
    /// [`Corrupt`] for a line that does not have this format, or whose names did not come before it.
    pub fn line(&mut self, text: &str) -> Result<Option<Recorded>, Corrupt> {
        self.lines += 1;
        let number = self.lines;
        let corrupt = |what: String| Corrupt { line: number, what };
        let line =
            Line::read(text).ok_or_else(|| corrupt("is no line of a recording of remora stat".to_owned()))?;
        if number == 1 && !matches!(line, Line::Head(_)) {
            return Err(corrupt("is not the beginning of a recording of remora stat".to_owned()));
        }
        match line {
            Line::Head(Head { remora_status: VERSION }) => {
                // Another run of the program: all sequences start again.
                self.servers.clear();
                Ok(None)
            }
            Line::Head(Head { remora_status: other }) => {
                Err(corrupt(format!("is of format {other}; this remora reads format {VERSION}")))
            }
            Line::Names(NamesLine { server, names, settings }) => {
                let names = Arc::new(Names::new(names.into_iter()));
                let (settings, values, beside) = (Arc::new(settings), Vec::new(), Beside::new());
                let known = LastValues { names, settings, values, beside, since_whole: 0 };
                self.servers.insert(server, known);
                Ok(None)
            }
            Line::Sample(line) => self.sample(line).map(Some).map_err(corrupt),
        }
    }

    fn sample(&mut self, line: SampleLine) -> Result<Recorded, String> {
        let known = self.servers.get_mut(&line.server).ok_or("has a sample of a server without names")?;
        let count = known.names.all().len();
        for (at, value) in line.values {
            let so_far = known.values.len();
            match known.values.get_mut(at) {
                Some(place) => *place = Value::parse(&value),
                // The first sample has all values, in order.
                None if at == so_far && at < count => known.values.push(Value::parse(&value)),
                None => return Err(format!("has a value at place {at} of {count}")),
            }
        }
        if known.values.len() != count {
            return Err(format!("has {} of {count} values", known.values.len()));
        }
        let begin = match line.begin {
            None => None,
            Some(word) => Some(Begin::of(&word).ok_or_else(|| format!("begins by {word:?}"))?),
        };
        let own = |(name, number): (String, String)| Some((name.into(), Number::parse(&number)?));
        let sample = Sample {
            at: Duration::from_micros(line.at_us),
            unix_ms: line.unix_ms,
            took: Duration::from_micros(line.took_us),
            begin,
            names: Arc::clone(&known.names),
            values: known.values.clone(),
            own: line.own.into_iter().filter_map(own).collect(),
            replicas: line.replicas,
            queues: line.queues,
            digests: line.digests,
            processes: None,
            settings: Arc::clone(&known.settings),
        };
        for (name, value) in line.beside {
            match value {
                Json::Null => drop(known.beside.remove(&name)),
                value => drop(known.beside.insert(name, value)),
            }
        }
        Ok(Recorded { server: line.server, sample, beside: known.beside.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[(&str, &str)], second: u64) -> Sample {
        Sample {
            begin: (second == 0).then_some(Begin::First),
            own: [("Questions".into(), Number::from(1))].into(),
            replicas: Some(vec![Replica { delay_s: None, io: "Yes".into(), ..Replica::default() }]),
            ..Sample::of(second, values)
        }
    }

    #[test]
    fn samples_come_back_as_they_were() {
        let samples = [
            sample(&[("Questions", "9007199254740993"), ("Query_time", "0.123456"), ("Ssl_cipher", "")], 0),
            sample(
                &[("Questions", "9007199254740994"), ("Query_time", "0.123456"), ("Ssl_cipher", "x\n\"")],
                1,
            ),
            // Another server version after a restart.
            sample(&[("Questions", "1"), ("Ssl_cipher", "")], 2),
        ];
        let mut writer = Writer::default();
        let mut text = Writer::head();
        for sample in &samples {
            text.push_str(&writer.sample("a", sample, Beside::new()));
            text.push_str(&writer.sample("b", sample, Beside::new()));
        }
        // An unchanged value is not written again.
        assert_eq!(text.matches("0.123456").count(), 2);
        let mut reader = Reader::default();
        let read: Vec<_> = text.lines().filter_map(|line| reader.line(line).unwrap()).collect();
        assert_eq!(read.len(), 6);
        for (at, Recorded { server, sample: found, .. }) in read.iter().enumerate() {
            let sample = &samples[at / 2];
            assert_eq!(server, if at % 2 == 0 { "a" } else { "b" });
            assert_eq!((found.at, found.unix_ms, found.took), (sample.at, sample.unix_ms, sample.took));
            assert_eq!((&found.values, &found.own, found.begin), (&sample.values, &sample.own, sample.begin));
            assert_eq!((&found.names, &found.replicas), (&sample.names, &sample.replicas));
        }
    }

    #[test]
    fn what_was_found_besides_comes_back() {
        let all: [Beside; 4] = [
            [("locks".to_owned(), Json::from("three wait")), ("host".to_owned(), Json::from(1))].into(),
            [("locks".to_owned(), Json::from("three wait")), ("host".to_owned(), Json::from(2))].into(),
            [("host".to_owned(), Json::from(2))].into(),
            Beside::new(),
        ];
        let (mut writer, mut text) = (Writer::default(), Writer::head());
        for (second, beside) in (0..).zip(&all) {
            text.push_str(&writer.sample("a", &sample(&[("Questions", "1")], second), beside.clone()));
        }
        assert_eq!(text.matches("three wait").count(), 1, "what is the same is not written again");
        let mut reader = Reader::default();
        let read = text.lines().filter_map(|line| reader.line(line).unwrap());
        assert_eq!(read.map(|found| found.beside).collect::<Vec<_>>(), all);
    }

    #[test]
    fn everything_is_written_again_from_time_to_time() {
        let mut writer = Writer::default();
        let mut same = sample(&[("Questions", "123")], 1);
        let has_all = |text: &str| text.contains("123");
        let mut wholes = |count: u32, sample: &Sample| {
            (0..count).filter(|_| has_all(&writer.sample("a", sample, Beside::new()))).count()
        };
        assert_eq!((wholes(1, &same), wholes(WHOLE_EVERY - 1, &same)), (1, 0));
        assert_eq!((wholes(1, &same), wholes(WHOLE_EVERY - 1, &same)), (1, 0));
        assert_eq!((wholes(1, &same), wholes(1, &same)), (1, 0));
        // Settings that changed are told, and then everything is.
        same.settings = Arc::new(Settings([("version".to_owned(), "1".to_owned())].into()));
        assert_eq!((wholes(1, &same), wholes(1, &same)), (1, 0));
    }

    #[test]
    fn an_invalid_recording_is_refused_with_its_line() {
        let mut writer = Writer::default();
        let text = writer.sample("a", &sample(&[("Questions", "1"), ("Uptime", "5")], 0), Beside::new());
        let [names, values] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let head = Writer::head();
        let head = head.trim_end();
        let reading = |lines: &[&str]| {
            let mut reader = Reader::default();
            lines.iter().try_for_each(|line| reader.line(line).map(drop)).map_err(|error| error.to_string())
        };
        assert_eq!(reading(&[head, names, values]), Ok(()));
        let wrong = |lines: &[&str], what: &str| {
            let said = reading(lines).unwrap_err();
            assert!(said.contains(what), "{said}");
        };
        wrong(&["hello"], "line 1 is no line");
        wrong(&[names], "line 1 is not the beginning");
        wrong(&[head, values], "line 2 has a sample of a server without names");
        wrong(&["{\"remora_status\":2}"], "format 2");
        wrong(&[head, names, &values.replace("\"1\":\"5\"", "\"7\":\"5\"")], "line 3 has a value at place 7");
        wrong(&[head, names, &values.replace(",\"1\":\"5\"", "")], "line 3 has 1 of 2 values");
        wrong(&[head, names, &values.replace("\"1\":\"5\"", "\"1\":\"5\",\"2\":\"6\"")], "place 2 of 2");
        wrong(&[head, names, &values.replace("first", "second")], "line 3 begins by");
        // A second run does not know the first.
        wrong(&[head, names, head, values], "line 4 has a sample of a server without names");
    }
}
