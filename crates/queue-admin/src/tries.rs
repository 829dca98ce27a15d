//! What is known of the tries of a row: columns for SQL, functions in a condition of `queue_wait`.

use server::catalogue::filled_column;

/// A condition in which the columns that FAILED and WHY name are the functions `failed()` and `why()`.
/// `definition` is the CREATE TABLE of the queue.
pub fn asked(condition: &str, definition: &str) -> String {
    let columns: Vec<(String, &str)> = [("failed", "failed()"), ("why", "why()")]
        .into_iter()
        .filter_map(|(option, function)| Some((filled_column(definition, option)?, function)))
        .collect();
    let function = |name: &str| {
        let name = name.to_lowercase();
        columns.iter().find(|(column, _)| *column == name).map(|(_, function)| *function)
    };
    let (mut out, mut rest) = (String::with_capacity(condition.len()), condition);
    while let Some(first) = rest.chars().next() {
        let len = token(rest, first);
        let (token, behind) = rest.split_at(len);
        let replaced = match first {
            '`' => function(&token.trim_matches('`').replace("``", "`")),
            _ if is_word(first) && !behind.trim_start().starts_with('(') => function(token),
            _ => None,
        };
        out.push_str(replaced.unwrap_or(token));
        rest = behind;
    }
    out
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}

/// How many bytes the first token has: a word, a number, something in quotes, or a character.
fn token(text: &str, first: char) -> usize {
    if is_word(first) {
        return text.find(|letter| !is_word(letter)).unwrap_or(text.len());
    }
    if !matches!(first, '\'' | '"' | '`') {
        return first.len_utf8();
    }
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && first != '`' {
            letters.next();
        } else if letter == first && letters.next_if(|(_, next)| *next == first).is_none() {
            return at + letter.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::asked;

    #[test]
    fn columns_of_tries_become_functions_and_nothing_else_does() {
        let definition = "CREATE TABLE `dead` (\n) ENGINE=QUEUE `FAILED`='times' `WHY`='what''s'";
        for (condition, expected) in [
            ("times > 5 and `what's` like '%times%'", "failed() > 5 and why() like '%times%'"),
            ("TIMES=1", "failed()=1"),
            ("name = 'it''s times' or times", "name = 'it''s times' or failed()"),
            ("name = 'a\\' times' and 1times", "name = 'a\\' times' and 1times"),
            ("sometimes > 1 and times_2 = 3", "sometimes > 1 and times_2 = 3"),
            ("times (3) + failed() = 4", "times (3) + failed() = 4"),
            ("name = '\u{e4}", "name = '\u{e4}"),
        ] {
            assert_eq!(asked(condition, definition), expected, "{condition}");
        }
        assert_eq!(asked("failed > 1", "CREATE TABLE t (\n) ENGINE=QUEUE"), "failed > 1");
    }
}
