//! JetStream: streams and durable consumers.
//!
//! Its requests and answers: <https://docs.nats.io/reference/reference-protocols/nats_api_reference>.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Error;
use crate::link::{ACKNOWLEDGE, Link, NEXT};
use crate::socket::ANSWER;

/// Whether the text is a valid subject: tokens separated by dots. The wildcards `*` (one token) and `>` (all
/// remaining tokens) are accepted if `wildcards` is true.
pub fn is_subject(text: &str, wildcards: bool) -> bool {
    let words: Vec<&str> = text.split('.').collect();
    words.iter().enumerate().all(|(at, word)| match *word {
        "*" => wildcards,
        ">" => wildcards && at + 1 == words.len(),
        word => is_name(word),
    })
}

/// Whether the text is a valid consumer name.
pub fn is_name(text: &str) -> bool {
    let is_bad = |letter: char| letter.is_whitespace() || letter.is_control() || ".*>/\\".contains(letter);
    !text.is_empty() && !text.contains(is_bad)
}

/// The header by which JetStream discards duplicates.
const ID: &str = "Nats-Msg-Id";
/// Status: no responders.
const NOBODY: u16 = 503;
/// Error code: not found.
const NOT_FOUND: u64 = 404;
/// Acknowledgement timeout, after which a message is redelivered; also how long the others wait after a
/// consumer was killed. A redelivered message does no harm.
const REDELIVERY_NS: u64 = 5_000_000_000;

/// The acknowledgement of a published message.
pub struct PublishAck {
    /// Sequence number in the stream.
    pub sequence: u64,
    /// Whether the stream already had a message with this id and discarded this one.
    pub is_repeated: bool,
}

/// Publishes a message and waits until the stream has stored it.
///
/// # Errors
///
/// No stream stores the subject; JetStream rejects the message, for example because the stream is full; the
/// message is too large; or the connection is lost, and it is unknown whether the message was stored.
pub fn publish(link: &mut Link, subject: &str, id: &str, body: &[u8]) -> Result<PublishAck, Error> {
    let answer = link.request(subject, &format!("{ID}: {id}\r\n"), body, ANSWER)?;
    if answer.status == Some(NOBODY) {
        return Err(Error::NoStream(subject.to_owned()));
    }
    let answer = read(&answer.body)?;
    match answer["seq"].as_u64() {
        Some(sequence) => Ok(PublishAck { sequence, is_repeated: answer["duplicate"] == true }),
        None => Err(Error::JetStream(
            "an answer without a sequence number; is something else subscribed to the subject?".to_owned(),
        )),
    }
}

/// Calls the JetStream API.
fn api_request(link: &mut Link, what: &str, body: &Value) -> Result<Value, Error> {
    let answer = link.request(&format!("$JS.API.{what}"), "", body.to_string().as_bytes(), ANSWER)?;
    if answer.status == Some(NOBODY) {
        return Err(Error::JetStream(
            "not enabled on the server; start it with nats-server --jetstream".to_owned(),
        ));
    }
    read(&answer.body)
}

/// Calls the JetStream API; `None` if the object does not exist.
fn api_request_optional(link: &mut Link, what: &str, body: &Value) -> Result<Option<Value>, Error> {
    let answer = link.request(&format!("$JS.API.{what}"), "", body.to_string().as_bytes(), ANSWER)?;
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if value["error"]["code"].as_u64() == Some(NOT_FOUND) {
        return Ok(None);
    }
    read(&answer.body).map(Some)
}

/// Parses an API answer, or returns its error.
fn read(body: &[u8]) -> Result<Value, Error> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| {
        Error::JetStream(
            "an answer that is not JSON; is something else subscribed to the subject?".to_owned(),
        )
    })?;
    match answer["error"]["description"].as_str() {
        Some(why) => Err(Error::JetStream(why.to_owned())),
        None => Ok(answer),
    }
}

/// A stream, and one of its subjects.
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Creation time as the server writes it. A recreated stream restarts its sequence numbers.
    pub created: String,
    /// The duplicate window: how long the server remembers message ids.
    pub window: Duration,
    subject: String,
}

impl Stream {
    /// Finds the stream that stores a subject, which may have wildcards.
    ///
    /// # Errors
    ///
    /// No stream or several streams store it, JetStream is not enabled, or the connection is lost.
    pub fn of(link: &mut Link, subject: &str) -> Result<Stream, Error> {
        let found = api_request(link, "STREAM.NAMES", &json!({ "subject": subject }))?;
        let names = found["streams"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let name = match names.collect::<Vec<_>>()[..] {
            [] => return Err(Error::NoStream(subject.to_owned())),
            [name] => name.to_owned(),
            ref several => {
                let why = format!(
                    "several streams store {subject} ({}); name a subject of one of them",
                    several.join(", ")
                );
                return Err(Error::JetStream(why));
            }
        };
        let info = api_request(link, &format!("STREAM.INFO.{name}"), &json!({}))?;
        let created = info["created"].as_str().unwrap_or_default().to_owned();
        let window = info["config"]["duplicate_window"].as_u64().unwrap_or_default();
        let window = Duration::from_nanos(window);
        Ok(Stream { name, created, window, subject: subject.to_owned() })
    }

    /// The id of the last message on the subject, if any.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn last_id(&self, link: &mut Link) -> Result<Option<String>, Error> {
        let asked = json!({ "last_by_subj": self.subject });
        let Some(found) = api_request_optional(link, &format!("STREAM.MSG.GET.{}", self.name), &asked)?
        else {
            return Ok(None);
        };
        let headers = STANDARD.decode(found["message"]["hdrs"].as_str().unwrap_or_default());
        let headers = String::from_utf8(headers.unwrap_or_default()).unwrap_or_default();
        let id = headers.lines().find_map(|line| line.split_once(':').filter(|(name, _)| *name == ID));
        Ok(id.map(|(_, id)| id.trim().to_owned()))
    }
}

/// A delivered message, to be acknowledged.
pub struct Delivery {
    /// Sequence number in the stream, from 1.
    pub sequence: u64,
    /// Payload.
    pub body: Vec<u8>,
    acknowledge: String,
}

/// A durable pull consumer: the server stores which messages it has acknowledged.
pub struct Consumer {
    stream: String,
    name: String,
}

impl Consumer {
    /// Opens the consumer of this name, or creates it. A new one starts with the first message of the subject
    /// and has one unacknowledged message at a time.
    ///
    /// # Errors
    ///
    /// The server refuses it; a consumer of this name exists with another acknowledgement policy or filter;
    /// or the connection is lost.
    pub fn open(link: &mut Link, stream: &Stream, name: &str) -> Result<Consumer, Error> {
        let consumer = Consumer { stream: stream.name.clone(), name: name.to_owned() };
        let config = match consumer.info(link)? {
            Some(info) => info["config"].clone(),
            None => {
                let config = json!({
                    "durable_name": name, "deliver_policy": "all", "ack_policy": "explicit", "replay_policy": "instant",
                    "ack_wait": REDELIVERY_NS, "max_ack_pending": 1, "filter_subject": stream.subject,
                });
                let asked = json!({ "stream_name": stream.name, "config": config });
                api_request(link, &format!("CONSUMER.DURABLE.CREATE.{}.{name}", stream.name), &asked)?;
                config
            }
        };
        let wanted = [
            ("ack_policy", "explicit", "has another acknowledgement policy"),
            ("filter_subject", stream.subject.as_str(), "has another filter"),
            ("deliver_subject", "", "is a push consumer"),
        ];
        for (key, value, else_) in wanted {
            if config[key].as_str().unwrap_or_default() != value {
                return Err(Error::JetStream(format!(
                    "the stream {} already has a consumer {name}, which {else_} ({key}); use another name",
                    stream.name
                )));
            }
        }
        Ok(consumer)
    }

    fn info(&self, link: &mut Link) -> Result<Option<Value>, Error> {
        api_request_optional(link, &format!("CONSUMER.INFO.{}.{}", self.stream, self.name), &json!({}))
    }

    /// The lowest sequence number that may still be delivered.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the consumer is gone.
    pub fn floor(&self, link: &mut Link) -> Result<u64, Error> {
        let info = self.info(link)?.ok_or_else(|| self.gone())?;
        Ok(info["ack_floor"]["stream_seq"].as_u64().unwrap_or_default() + 1)
    }

    /// The next message; `None` after the timeout.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the consumer is gone.
    pub fn next(&self, link: &mut Link, wait: Duration) -> Result<Option<Delivery>, Error> {
        let asked = match u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX) {
            0 => json!({ "batch": 1, "no_wait": true }),
            wait => json!({ "batch": 1, "expires": wait }),
        };
        let subject = format!("{NEXT}{}.{}", self.stream, self.name);
        let message = link.request(&subject, "", asked.to_string().as_bytes(), wait + ANSWER)?;
        match message.status {
            None => {}
            // Nothing is there; the time is over.
            Some(404 | 408) => return Ok(None),
            Some(NOBODY | 409) => return Err(self.gone()),
            Some(other) => return Err(Error::JetStream(format!("unexpected status {other}"))),
        }
        let (body, acknowledge) = (message.body, message.reply.unwrap_or_default());
        let sequence = sequence(&acknowledge)
            .ok_or_else(|| Error::JetStream(format!("a message without a sequence number: {acknowledge}")))?;
        Ok(Some(Delivery { sequence, body, acknowledge }))
    }

    /// Acknowledges a message. If the acknowledgement is lost, the message is redelivered.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn acknowledge(&self, link: &mut Link, delivery: &Delivery) -> Result<(), Error> {
        link.send(&delivery.acknowledge, None, "", b"+ACK")
    }

    /// Rejects a message (NAK), so that it is redelivered at once.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn give_back(&self, link: &mut Link, delivery: &Delivery) -> Result<(), Error> {
        link.send(&delivery.acknowledge, None, "", b"-NAK")?;
        link.flush()
    }

    /// Whether no message is pending or unacknowledged.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the consumer is gone.
    pub fn is_done(&self, link: &mut Link) -> Result<bool, Error> {
        let info = self.info(link)?.ok_or_else(|| self.gone())?;
        Ok(["num_pending", "num_ack_pending"]
            .iter()
            .all(|count| info[count].as_u64().unwrap_or_default() == 0))
    }

    fn gone(&self) -> Error {
        Error::JetStream(format!("the consumer {} of the stream {} no longer exists", self.name, self.stream))
    }
}

/// The number in a stream, from the subject to which a message is acknowledged:
/// `$JS.ACK.stream.consumer.deliveries.NUMBER.number.time.pending`; newer servers put a domain and an account
/// before the stream.
fn sequence(acknowledge: &str) -> Option<u64> {
    let words: Vec<&str> = acknowledge.split('.').collect();
    let at = match words.len() {
        9 => 5,
        11.. => 7,
        _ => return None,
    };
    acknowledge.strip_prefix(ACKNOWLEDGE).and(words[at].parse().ok())
}

#[cfg(test)]
mod tests {
    use super::{is_subject, sequence};

    #[test]
    fn subjects_are_words() {
        for good in ["a", "orders.new", "$x.1"] {
            assert!(is_subject(good, false) && is_subject(good, true), "{good}");
        }
        for wild in ["*", "orders.*", ">", "orders.>", "*.a.>"] {
            assert!(!is_subject(wild, false) && is_subject(wild, true), "{wild}");
        }
        for wrong in ["", "a..b", ".a", "a.", "a b", "a.>.b", "a\r\nb"] {
            assert!(!is_subject(wrong, true), "{wrong}");
        }
    }

    #[test]
    fn a_delivery_tells_its_number_in_both_forms() {
        assert_eq!(sequence("$JS.ACK.orders.us.1.77.3.1795643050000000000.5"), Some(77));
        assert_eq!(sequence("$JS.ACK._.acc.orders.us.1.78.3.1795643050000000000.5"), Some(78));
        assert_eq!(sequence("$JS.ACK._.acc.orders.us.1.79.3.1795643050000000000.5.token"), Some(79));
        for wrong in ["", "$JS.ACK.orders", "$XX.ACK.orders.us.1.77.3.1.5", "$JS.ACK.orders.us.1.x.3.1.5"] {
            assert_eq!(sequence(wrong), None);
        }
    }
}
