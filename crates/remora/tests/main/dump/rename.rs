//! Copies under another name of the database, also onto the same server.

use super::copy::{copy, halfway, url};
use super::{Pair, fill};
use crate::support::{Ended, of_today, on_products, products, remora};

/// A database with all kinds of objects that name their database, and one that is not copied.
const OBJECTS: &str = "CREATE DATABASE shop DEFAULT CHARACTER SET latin1; CREATE DATABASE web; USE shop;
    CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) COMMENT 'not `shop`.`customers`');
    CREATE TABLE orders (id INT PRIMARY KEY, customer INT, note CHAR(200) NOT NULL DEFAULT 'x',
        FOREIGN KEY (customer) REFERENCES customers (id));
    CREATE TABLE web.hits (id INT PRIMARY KEY, customer INT,
        FOREIGN KEY (customer) REFERENCES shop.customers (id));
    CREATE FUNCTION twice(v INT) RETURNS INT DETERMINISTIC RETURN v * 2;
    CREATE VIEW names AS SELECT name, twice(id) AS d, 'the `shop`.`shop`' AS text FROM shop.customers;
    CREATE VIEW web.buyers AS SELECT customers.name FROM shop.customers JOIN web.hits ON customers.id = customer;
    CREATE PROCEDURE fine() SELECT COUNT(*) FROM orders;
    CREATE PROCEDURE named() SELECT COUNT(*) FROM shop.orders;
    CREATE TRIGGER notes BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = UPPER(NEW.note);
    CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM Shop.orders WHERE id < 0;
    INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace');
    INSERT INTO web.hits VALUES (1, 2)";

#[test]
fn a_database_is_copied_under_another_name() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        for sql in OBJECTS.split(";\n").flat_map(|line| line.split("; ")) {
            source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let rename = ["--rename", "shop:shop 2", "--rename", "web:shop"];
        let plan = copy(&pair, &[&["shop", "web", "--dry-run"][..], &rename].concat()).exits(3);
        assert!(plan.out.contains("rewritten: database `web`: its name becomes `shop`"), "{}", plan.out);
        let ended = copy(&pair, &[&["shop", "web"][..], &rename].concat()).exits(3);
        for left_out in ["procedure `shop`.`named`", "event `shop`.`nightly`"] {
            let words = format!("not copied: {left_out}: its text has the name of database `shop`");
            assert!(ended.err.contains(&words), "{words} in {}", ended.err);
        }
        let mut target = pair.target();
        let mut value = |sql: &str| {
            target.value(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap_or_default()
        };
        // What was shop is now `shop 2`, and what is shop was web.
        assert_eq!(value("SELECT GROUP_CONCAT(name, d, text ORDER BY name) FROM `shop 2`.names"), {
            "Ada2the `shop`.`shop`,Grace4the `shop`.`shop`"
        });
        assert_eq!(value("SELECT name FROM shop.buyers"), "Grace");
        let keys = "SELECT GROUP_CONCAT(TABLE_SCHEMA, '-', REFERENCED_TABLE_SCHEMA ORDER BY TABLE_SCHEMA) \
                    FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME = 'customers'";
        assert_eq!(value(keys), "shop-shop 2,shop 2-shop 2");
        let comment = "SELECT COLUMN_COMMENT FROM information_schema.COLUMNS WHERE COLUMN_NAME = 'name' \
                       AND TABLE_NAME = 'customers'";
        assert_eq!(value(comment), "not `shop`.`customers`");
        let set =
            "SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'shop 2'";
        assert_eq!(value(set), "latin1");
        assert_eq!(value("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'web'"), "0");
        let programs = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'shop 2'";
        assert_eq!(value(programs), "2");
        let trigger =
            "SELECT EVENT_OBJECT_SCHEMA FROM information_schema.TRIGGERS WHERE TRIGGER_NAME = 'notes'";
        assert_eq!(value(trigger), "shop 2");
        for (rename, words) in [
            ("shop:web", "another database would have that name"),
            ("shops:web", "no such database is copied"),
        ] {
            copy(&pair, &["shop", "web", "--rename", rename]).exits(1).says(&[words]);
        }
        copy(&pair, &["shop", "--rename", "shop"]).exits(2).says(&["is not OLD:NEW"]);
    });
}

#[test]
fn a_database_is_copied_within_one_server_and_a_killed_copy_is_resumed() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        fill(&mut source, 12);
        source.execute("CREATE PROCEDURE d.p() SELECT COUNT(*) FROM t").unwrap();
        let rename = ["d", "--rename", "d:e"];
        source.execute("CREATE EVENT d.zzz ON SCHEDULE EVERY 1 DAY DO SELECT 1").unwrap();
        halfway(&pair, &rename, 3).kill();
        // The event comes last, and can't be made.
        pair.target().execute("CREATE EVENT e.zzz ON SCHEDULE EVERY 2 DAY DO SELECT 1").unwrap();
        copy(&pair, &[&rename[..], &["--resume"]].concat()).exits(4).says(&["event `e`.`zzz` differs"]);
        pair.target().execute("DROP EVENT e.zzz").unwrap();
        source.execute("DROP PROCEDURE d.p").unwrap();
        source.execute("UPDATE d.t SET v = 'y' WHERE id = 1").unwrap();
        copy(&pair, &["d", "--resume"]).exits(1).says(&["no stopped copy"]);
        copy(&pair, &[&rename[..], &["--resume"]].concat()).exits(0);
        let sums = |sql: &str, session: &mut server::Session| session.strings(sql).unwrap()[0][1].clone();
        let expected = sums("CHECKSUM TABLE d.t", &mut source);
        assert_eq!(sums("CHECKSUM TABLE e.t", &mut pair.target()), expected);
        let programs = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'e'";
        assert_eq!(pair.target().value(programs).unwrap().as_deref(), Some("0"));
        // Within one server every database needs another name.
        let own = url(&pair.from);
        let within = |arguments: &[&str]| {
            let mut command = remora(pair.folder.path());
            command.args(["copy", "--no-defaults", "-u", "root", &own, &own, "d"]).args(arguments);
            Ended::of(&command.output().unwrap())
        };
        within(&[]).exits(1).says(&["the same server", "--rename"]);
        within(&["--rename", "d:d"]).exits(1).says(&["the same server"]);
        within(&["--rename", "d:f"]).exits(0);
        assert_eq!(sums("CHECKSUM TABLE f.t", &mut source), expected);
        within(&["--rename", "d:f"]).exits(1).says(&["`f`.`t`", "exists"]);
    });
}
