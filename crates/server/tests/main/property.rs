//! Properties that hold for any input.

use std::cell::RefCell;

use proptest::prelude::*;
use server::{Environment, Overrides, TableName, Target, Version};

use crate::support::shared;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_name_is_read_back_as_written(schema in "[^\\x00]{1,8}", table in "[`.a\u{e9}]{1,8}") {
        let name = TableName { schema, table };
        prop_assert_eq!(name.to_string().parse::<TableName>().unwrap(), name);
    }

    #[test]
    fn no_text_makes_the_table_name_reader_panic(text in "[`.a \u{e9}]{0,12}") {
        if let Ok(name) = text.parse::<TableName>() {
            prop_assert!(!name.schema.is_empty() && !name.table.is_empty());
        }
    }

    #[test]
    fn no_url_makes_the_reader_panic_or_show_it(
        scheme in prop::sample::select(vec!["mysql", "unix", "mariadb", "ftp"]),
        text in "[a:/@?&=%\\[\\]25\u{e9}]{0,24}",
    ) {
        let url = format!("{scheme}://{text}");
        let given = Overrides { url: Some(url), no_defaults: true, ..Overrides::default() };
        drop(Target::resolve(&given, &Environment::default()));
        let secret = format!("{scheme}://u:hunter2{text}");
        let given = Overrides { url: Some(secret), no_defaults: true, ..Overrides::default() };
        if let Err(error) = Target::resolve(&given, &Environment::default()) {
            prop_assert!(!format!("{error} {error:?}").contains("hunter2"), "{}", error);
        }
    }

    #[test]
    fn a_url_carries_any_login(user in "\\PC{1,8}", password in "\\PC{0,8}", db in "\\PC{1,8}") {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let url = format!("mysql://{}:{}@db1/{}", encode(&user), encode(&password), encode(&db));
        let given = Overrides { url: Some(url), no_defaults: true, ..Overrides::default() };
        let target = Target::resolve(&given, &Environment::default()).unwrap();
        prop_assert_eq!(target.user, user);
        prop_assert_eq!(target.password.as_ref().unwrap().expose(), password);
        prop_assert_eq!(target.database, Some(db));
    }

    #[test]
    fn no_version_text_makes_the_reader_panic(text in "\\PC{0,20}") {
        Version::parse(&text);
    }
}

/// One connection for all cases: the server is the judge.
#[test]
fn a_quoted_text_is_what_the_server_sees() {
    let session = RefCell::new(shared().root());
    for mode in ["", "NO_BACKSLASH_ESCAPES"] {
        session.borrow_mut().execute(&format!("SET sql_mode = '{mode}'")).unwrap();
        proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() },
            |(text in prop_oneof!["[\\\\'\"%_\0\n\u{1f600}nb0]{0,12}", any::<String>()])| {
            let literal = session.borrow().quote(&text);
            let seen = session.borrow_mut().value(&format!("SELECT {literal}")).unwrap();
            prop_assert_eq!(seen, Some(text));
        });
    }
}
