//! HTML in which foreign text stays text.

/// A part of a page. Only markup of the program itself goes in as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Html(String);

impl Html {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Html {
        Html::default()
    }

    /// Appends markup of the program: a text that is known when it is compiled.
    pub fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Appends a text from anywhere.
    pub fn text(&mut self, text: &str) -> &mut Html {
        push_escaped(&mut self.0, text);
        self
    }

    /// Appends an attribute, with a space before it.
    pub fn attribute(&mut self, name: &'static str, value: &str) -> &mut Html {
        self.0.push(' ');
        self.0.push_str(name);
        self.0.push_str("=\"");
        push_escaped(&mut self.0, value);
        self.0.push('"');
        self
    }

    /// Appends another part.
    pub fn part(&mut self, part: &Html) -> &mut Html {
        self.0.push_str(&part.0);
        self
    }

    /// A part that other code has made, which has escaped all foreign text itself.
    #[must_use]
    pub fn escaped_elsewhere(markup: String) -> Html {
        Html(markup)
    }

    /// The markup.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Characters that change the order in which others are shown, so that a name could look like another one.
fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_escaped(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(c),
            c if c.is_control() || reorders(c) => html.extend(c.escape_unicode()),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let mut html = Html::new();
        html.raw("<td>").text("<script>alert('x')</script> & \"y\"").raw("</td>");
        assert_eq!(
            html.into_string(),
            "<td>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;</td>"
        );
        let mut html = Html::new();
        html.raw("<a").attribute("title", "\" onclick='x' <").raw(">");
        assert_eq!(html.into_string(), "<a title=\"&quot; onclick=&#39;x&#39; &lt;\">");
    }

    #[test]
    fn what_is_not_seen_is_written_out() {
        let mut html = Html::new();
        html.text("a\u{202e}b\u{0}c\u{7f}\u{2066}\nd\u{e9}");
        assert_eq!(html.into_string(), "a\\u{202e}b\\u{0}c\\u{7f}\\u{2066}\nd\u{e9}");
    }
}
