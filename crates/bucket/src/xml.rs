//! The subset of XML that stores respond with: elements without attributes, never nested in their own kind.

/// The contents of all elements of a name, in order.
pub(crate) fn all<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = text.split(&open).skip(1);
    parts.filter_map(|part| part.split_once(&close)).map(|(content, _)| content).collect()
}

/// The text of the first element of a name.
pub(crate) fn first(text: &str, name: &str) -> Option<String> {
    all(text, name).first().map(|content| plain(content))
}

/// Text with entities replaced.
fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#34;", "\"").replace("&apos;", "'").replace("&#39;", "'").replace("&amp;", "&")
}

/// Text escaped for use in an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_in_order() {
        let text = "<A><Key>a&amp;lt;</Key><Size>1</Size></A><A><Key>b</Key></A><Key>cut";
        let entries = all(text, "A");
        assert_eq!(entries.len(), 2);
        assert_eq!(first(text, "Key").as_deref(), Some("a&lt;"), "a reference is read once");
        assert_eq!(first("<Key>cut", "Key"), None);
        assert_eq!(first(&format!("<K>{}</K>", escaped("a<&>")), "K").as_deref(), Some("a<&>"));
    }
}
