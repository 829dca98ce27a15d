//! Decodes names of databases and tables from names of files.

/// The name that a file or folder stands for: `@002d` is a minus. A name that is not encoded like this stands
/// for itself.
///
/// The server's manual, "Identifier to File Name Mapping". It also has short forms, such as `@0g`, for
/// letters of some alphabets; these are left unchanged.
///
/// ```
/// assert_eq!(physical::table_name("my@002dtable"), "my-table");
/// assert_eq!(physical::table_name("plain_1"), "plain_1");
/// ```
#[must_use]
pub fn decode(file: &str) -> String {
    let mut name = String::new();
    let mut rest = file;
    while let Some((plain, coded)) = rest.split_once('@') {
        name.push_str(plain);
        let code = coded.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code.and_then(char::from_u32) {
            Some(character) => {
                name.push(character);
                rest = coded.get(4..).unwrap_or_default();
            }
            None => {
                name.push('@');
                rest = coded;
            }
        }
    }
    name + rest
}
