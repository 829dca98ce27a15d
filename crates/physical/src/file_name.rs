//! Decodes names of databases and tables from names of files.

/// The letters that have a short code: a digit and one of `g` to `z`, or one of `g` to `z` and a digit or
/// letter. For each digit, and then for each second character, there is a line: twenty small letters, then
/// the twenty of the same codes in capitals, and a point where there is none. This is what servers answer.
const LETTERS: &str = include_str!("file_name/letters.txt");
/// Small letters of each line.
const SMALL: usize = 20;
/// Behind a name that is that of a device elsewhere, such as `con`.
const DEVICE: &str = "@@@";

/// The name that a file or folder stands for: `@002d` is a minus, `@0k` an a with two points, `con@@@` is
/// `con`. A name that is not encoded like this stands for itself.
///
/// The server's manual, "Identifier to File Name Mapping".
///
/// ```
/// assert_eq!(physical::table_name("my@002dtable"), "my-table");
/// assert_eq!(physical::table_name("gr@1i@1je"), "gr\u{f6}\u{df}e");
/// assert_eq!(physical::table_name("nul@@@"), "nul");
/// assert_eq!(physical::table_name("plain_1"), "plain_1");
/// ```
#[must_use]
pub fn decode(file: &str) -> String {
    let mut name = String::new();
    let mut rest = file.strip_suffix(DEVICE).unwrap_or(file);
    while let Some((plain, coded)) = rest.split_once('@') {
        name.push_str(plain);
        let short = || Some((short(coded.get(..2)?)?, 2));
        match number(coded).map(|character| (character, 4)).or_else(short) {
            Some((character, length)) => {
                name.push(character);
                rest = coded.get(length..).unwrap_or_default();
            }
            None => {
                name.push('@');
                rest = coded;
            }
        }
    }
    name + rest
}

/// The character whose number a text begins with.
fn number(text: &str) -> Option<char> {
    char::from_u32(u32::from_str_radix(text.get(..4)?, 16).ok()?)
}

/// The letter of a short code.
fn short(code: &str) -> Option<char> {
    let mut pair = code.chars();
    let (first, second) = (pair.next()?, pair.next()?);
    match (first, second) {
        ('@', 'a'..='z') => after('\u{24d0}', 'a', second),
        ('@', 'A'..='Z') => after('\u{24b6}', 'A', second),
        ('a'..='z', '@') => after('\u{ff41}', 'a', first),
        ('A'..='Z', '@') => after('\u{ff21}', 'A', first),
        _ => {
            let (row, column) = match first.to_digit(10) {
                Some(digit) => (digit, second),
                None => (10 + second.to_digit(36)?, first),
            };
            let column = usize::try_from(column.to_digit(36)?.checked_sub(16)?).ok()?;
            let capital = code.contains(|char: char| char.is_ascii_uppercase());
            let line = LETTERS.lines().nth(usize::try_from(row).ok()?)?;
            line.chars().nth(column + if capital { SMALL } else { 0 }).filter(|letter| *letter != '.')
        }
    }
}

/// The character that stands as far after `first` as `letter` after `from`.
fn after(first: char, from: char, letter: char) -> Option<char> {
    char::from_u32(u32::from(first) + u32::from(letter) - u32::from(from))
}
