//! The NATS protocol: lines, some of them followed by a payload.
//!
//! The format: <https://docs.nats.io/reference/reference-protocols/nats-protocol>.

/// The longest line, with room to spare: INFO lists the servers of a cluster.
const LINE_MAX: usize = 1 << 20;
/// The largest payload that a server can be configured to accept.
const BODY_MAX: usize = 64 << 20;

/// An operation sent by the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Operation {
    /// Server information, as JSON.
    Info(String),
    Message(Message),
    Ping,
    Pong,
    Ok,
    /// An error message.
    Err(String),
}

/// A delivered message.
#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) subject: String,
    /// The reply subject.
    pub(crate) reply: Option<String>,
    /// Status code instead of an answer, such as 503.
    pub(crate) status: Option<u16>,
    pub(crate) body: Vec<u8>,
}

/// Parses the first operation and returns it with its length in bytes; `None` if it is incomplete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(Operation, usize)>, &'static str> {
    let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else {
        return if input.len() > LINE_MAX { Err("a line without an end") } else { Ok(None) };
    };
    let line = std::str::from_utf8(&input[..end]).map_err(|_| "a line that is not UTF-8")?;
    let begin = end + 2;
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let rest = rest.trim();
    let operation = match word.to_ascii_uppercase().as_str() {
        "INFO" => Operation::Info(rest.to_owned()),
        "PING" => Operation::Ping,
        "PONG" => Operation::Pong,
        "+OK" => Operation::Ok,
        "-ERR" => Operation::Err(rest.trim_matches('\'').to_owned()),
        word @ ("MSG" | "HMSG") => return message(rest, word == "HMSG", input, begin),
        _ => return Err("an unknown operation"),
    };
    Ok(Some((operation, begin)))
}

/// `MSG subject sid [reply] bytes`, `HMSG subject sid [reply] header-bytes bytes`: the body comes behind the
/// line.
fn message(
    line: &str,
    has_header: bool,
    input: &[u8],
    begin: usize,
) -> Result<Option<(Operation, usize)>, &'static str> {
    const BAD: &str = "a malformed message line";
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let mut number = || words.pop().and_then(|word| word.parse::<usize>().ok()).ok_or(BAD);
    let total = number()?;
    let header = if has_header { number()? } else { 0 };
    let (subject, reply) = match words[..] {
        [subject, _] => (subject, None),
        [subject, _, reply] => (subject, Some(reply.to_owned())),
        _ => return Err(BAD),
    };
    if header > total || total > BODY_MAX {
        return Err(BAD);
    }
    let Some(content) = input.get(begin..begin + total + 2) else { return Ok(None) };
    if !content.ends_with(b"\r\n") {
        return Err("a message of another length than its line says");
    }
    // NATS/1.0 503
    let status = content[..header].strip_prefix(b"NATS/1.0 ").and_then(|rest| rest.get(..3));
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let body = content[header..total].to_vec();
    let message = Message { subject: subject.to_owned(), reply, status, body };
    Ok(Some((Operation::Message(message), begin + total + 2)))
}

#[cfg(test)]
mod tests {
    use super::{Message, Operation, parse};

    #[test]
    fn operations_are_read_once_they_are_whole() {
        let message = |reply: Option<&str>, status, body: &str| {
            let (reply, body) = (reply.map(str::to_owned), body.as_bytes().to_vec());
            Operation::Message(Message { subject: "a.b".to_owned(), reply, status, body })
        };
        for (text, wanted) in [
            ("INFO {\"a\": 1} \r\n", Operation::Info("{\"a\": 1}".to_owned())),
            ("PING\r\n", Operation::Ping),
            ("pong\r\n", Operation::Pong),
            ("+OK\r\n", Operation::Ok),
            ("-ERR 'no, no'\r\n", Operation::Err("no, no".to_owned())),
            ("MSG a.b 1 4\r\n\r\n\r\n\r\n", message(None, None, "\r\n\r\n")),
            ("MSG a.b 1 to.me 2\r\nhi\r\n", message(Some("to.me"), None, "hi")),
            ("HMSG a.b 1 16 18\r\nNATS/1.0 503\r\n\r\nhi\r\n", message(None, Some(503), "hi")),
            ("HMSG a.b 1 12 12\r\nNATS/1.0\r\n\r\n\r\n", message(None, None, "")),
        ] {
            for cut in 0..text.len() {
                assert_eq!(parse(&text.as_bytes()[..cut]), Ok(None), "{text:?} {cut}");
            }
            let more = format!("{text}PING");
            assert_eq!(parse(more.as_bytes()), Ok(Some((wanted, text.len()))), "{text:?}");
        }
        for wrong in [
            "HELLO\r\n",
            "MSG a.b 1\r\n",
            "MSG a.b 1 x\r\n",
            "MSG a b c d 1\r\n",
            "HMSG a.b 1 9 8\r\n12345678\r\n",
            "MSG a.b 1 2\r\nhi, you\r\n",
            "MSG a.b 1 99999999999\r\n",
            "MSG a.b 1 18446744073709551615\r\n",
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(parse(&[0xff, 0xff, b'\r', b'\n']).is_err());
        assert!(parse(&vec![b'a'; 2 << 20]).is_err());
    }
}
