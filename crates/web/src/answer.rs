//! What is asked, and what is answered.

use crate::html::Html;

/// What a browser asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The path, beginning with a slash.
    pub path: String,
    /// What follows the question mark, decoded.
    pub query: Vec<(String, String)>,
    /// The fields of a form that was sent; empty for a page that is only read.
    pub form: Vec<(String, String)>,
}

impl Request {
    /// A value of the query.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        first(&self.query, name)
    }

    /// A field of the form.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        first(&self.form, name)
    }
}

fn first<'r>(pairs: &'r [(String, String)], name: &str) -> Option<&'r str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// A path with a query, as an address of a link.
#[must_use]
pub fn link(path: &str, query: &[(&str, &str)]) -> String {
    if query.is_empty() {
        return path.to_owned();
    }
    let query: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    format!("{path}?{query}")
}

/// What a browser gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The media type.
    pub media: &'static str,
    /// The text.
    pub body: String,
}

impl Answer {
    /// A page.
    #[must_use]
    pub fn page(status: u16, page: Html) -> Answer {
        Answer { status, media: "text/html; charset=utf-8", body: page.into_string() }
    }

    /// A text that is no page: a script, a style sheet, a message.
    #[must_use]
    pub fn text(status: u16, media: &'static str, text: &str) -> Answer {
        Answer { status, media, body: text.to_owned() }
    }

    /// A message for a person.
    pub(crate) fn plain(status: u16, text: &str) -> Answer {
        Answer::text(status, "text/plain; charset=utf-8", text)
    }
}

/// The pages. Both are called on a thread that may wait.
pub trait Site: Send + Sync + 'static {
    /// A page to read; `None` if there is none at that path.
    fn get(&self, request: &Request) -> Option<Answer>;

    /// Does what a form of ours asks for; `None` if nothing can be done at that path.
    fn post(&self, request: &Request) -> Option<Answer>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_its_values() {
        let address = link("/server", &[("at", "a&b=c d/\u{e9}"), ("part", "now")]);
        assert_eq!(address, "/server?at=a%26b%3Dc+d%2F%C3%A9&part=now");
        assert_eq!(link("/", &[]), "/");
    }
}
