//! What a run does and refuses, seen from the files.

use serde_json::json;

use crate::support::{Shop, snapshots};

const ORDERS: &str = "CREATE TABLE shop.orders (id INT PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(50))";
const ROWS: &str =
    "INSERT INTO shop.orders SELECT seq, seq / 7, CONCAT('name ', seq) FROM shop.seq_1_to_1000";

#[test]
fn a_dump_becomes_a_snapshot_once() {
    let shop = Shop::open(&[ORDERS, ROWS, "CREATE TABLE shop.none (id INT PRIMARY KEY)"]);
    shop.dump("monday");
    let first = shop.register("monday", &["--json"]).exits(0).lines();
    assert_eq!(first.len(), 2, "{first:?}");
    let orders = first.iter().find(|line| line["table"] == "`shop`.`orders`").unwrap();
    assert_eq!((&orders["state"], &orders["rows"]), (&json!("registered"), &json!(1000)));
    let metadata = shop.metadata("shop.orders");
    assert_eq!(metadata["format-version"], 2);
    assert_eq!(metadata["current-snapshot-id"], orders["snapshot"]);
    assert_eq!(metadata["properties"]["gc.enabled"], "false");
    let summary = &snapshots(&metadata)[0]["summary"];
    assert_eq!((&summary["operation"], &summary["total-records"]), (&json!("append"), &json!("1000")));
    assert!(summary["remora.position"].as_str().unwrap().starts_with("binlog.0"), "{summary}");
    // No data in the warehouse.
    assert!(!shop.path("lake/shop/orders/data").exists());

    // The same again changes nothing, not even a file.
    let files = || std::fs::read_dir(shop.path("lake/shop/orders/metadata")).unwrap().count();
    let before = files();
    let again = shop.register("monday", &["--json"]).exits(0).lines();
    assert!(again.iter().all(|line| line["state"] == "unchanged"), "{again:?}");
    assert_eq!(files(), before);

    shop.sql("DELETE FROM shop.orders WHERE id > 900");
    shop.dump("tuesday");
    shop.register("tuesday", &["shop.orders"]).exits(0).says("900 rows");
    let metadata = shop.metadata("shop.orders");
    let summary = &snapshots(&metadata)[1]["summary"];
    assert_eq!(
        (&summary["operation"], &summary["deleted-records"], &summary["total-records"]),
        (&json!("overwrite"), &json!("1000"), &json!("900"))
    );
    assert_eq!(snapshots(&shop.metadata("shop.none")).len(), 1);
    // An earlier dump does not come back by itself.
    shop.register("monday", &["shop.orders"]).exits(0).says("there are later ones");
}

#[test]
fn copied_data_do_not_need_the_dump() {
    let shop = Shop::open(&[ORDERS, ROWS]);
    shop.dump("monday");
    shop.register("monday", &["--copy"]).exits(0);
    let data = shop.path("lake/shop/orders/data");
    let dump = std::fs::read_dir(&data).unwrap().next().unwrap().unwrap().path();
    let copied = std::fs::read(dump.join("00000.parquet")).unwrap();
    assert_eq!(copied, std::fs::read(shop.path("monday/shop.orders/00000.parquet")).unwrap());
    assert!(shop.metadata("shop.orders")["properties"]["gc.enabled"].is_null());

    // What is copied is what was written.
    shop.sql("INSERT INTO shop.orders VALUES (0, 0, '')");
    shop.dump("tuesday");
    let path = shop.path("tuesday/shop.orders/00000.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    shop.register("tuesday", &["--copy"]).exits(4).says("its BLAKE3 is not that of the manifest");
    assert_eq!(snapshots(&shop.metadata("shop.orders")).len(), 1);
}

#[test]
fn columns_keep_their_numbers() {
    let shop = Shop::open(&[ORDERS, ROWS]);
    shop.dump("a");
    shop.register("a", &[]).exits(0);
    for (dump, change, says) in [
        ("b", "ADD COLUMN day DATE AFTER id", &["column day is new: date"][..]),
        ("c", "MODIFY id BIGINT, MODIFY total DECIMAL(12,2)", &["column id was int and is long"]),
        // What was wide stays wide.
        ("d", "MODIFY id INT", &[]),
        ("e", "DROP COLUMN day", &["column day is gone"]),
        ("f", "ADD COLUMN day DATE", &["column day is back: date"]),
    ] {
        shop.sql(&format!("ALTER TABLE shop.orders {change}"));
        shop.dump(dump);
        let ended = shop.register(dump, &[]).exits(0);
        assert_eq!(ended.out.contains("column"), !says.is_empty(), "{}", ended.out);
        says.iter().for_each(|text| assert!(ended.out.contains(text), "{}", ended.out));
    }
    let metadata = shop.metadata("shop.orders");
    let current = &metadata["current-schema-id"];
    let schemas = metadata["schemas"].as_array().unwrap();
    let schema = schemas.iter().find(|schema| schema["schema-id"] == *current).unwrap();
    let fields = schema["fields"].as_array().unwrap().iter();
    let fields: Vec<_> =
        fields.map(|field| (field["id"].as_i64().unwrap(), field["name"].as_str().unwrap())).collect();
    assert_eq!(fields, [(1, "id"), (2, "total"), (3, "name"), (4, "day")]);
    let mapping = metadata["properties"]["schema.name-mapping.default"].as_str().unwrap();
    assert!(mapping.contains(r#"{"field-id":4,"names":["day"]}"#), "{mapping}");
}

#[test]
fn what_can_not_be_registered_is_named_and_the_rest_is() {
    let shop = Shop::open(&[
        "CREATE TABLE shop.kinds (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE shop.`a#b` (id INT PRIMARY KEY)",
        "CREATE TABLE shop.zebra (id INT PRIMARY KEY, day DATE)",
        "INSERT INTO shop.zebra VALUES (1, '0000-00-00'), (2, '2026-11-30')",
    ]);
    assert_eq!(shop.dump_with("a", &[]).code, 3);
    let ended = shop.register("a", &[]).exits(3);
    for text in
        ["`shop`.`a#b` is left out", "column `day` of table `shop`.`zebra`: Parquet can't hold 1 value"]
    {
        assert!(ended.err.contains(text), "{}", ended.err);
    }
    assert!(
        ended.out.contains("`shop`.`kinds`") && ended.out.contains("`shop`.`zebra`: 2 rows"),
        "{}",
        ended.out
    );

    shop.sql("ALTER TABLE shop.kinds MODIFY v VARCHAR(20); DELETE FROM shop.zebra WHERE id = 1");
    shop.dump("b");
    let ended = shop.register("b", &["shop.kinds", "shop.zebra"]).exits(3);
    let text = "`shop`.`kinds` is left out: column v is string in the dump and was int";
    assert!(ended.err.contains(text), "{}", ended.err);
    assert!(ended.out.contains("`shop`.`zebra`: 1 row in 1 file"), "{}", ended.out);
    assert_eq!(snapshots(&shop.metadata("shop.kinds")).len(), 1);
}

#[test]
fn damage_and_wrong_command_lines_have_their_codes() {
    let shop = Shop::open(&[ORDERS, ROWS]);
    shop.register("none", &[]).exits(1).says("no such folder");
    shop.dump("a");
    shop.register("a", &["shop.orderz"]).exits(2).says("no rows of such a table");
    shop.register("a", &["--cop"]).exits(2);
    let line = shop.register("a", &["--cop", "--json"]).exits(2).lines().remove(0);
    assert_eq!(line["exit_code"], 2);
    let url = format!("unix://root@{}", shop.server.socket().display());
    assert_eq!(shop.remora(&["dump", "shop", "-o", "text", "--url", &url]).code, 0);
    shop.register("text", &[]).exits(2).says("--format parquet");

    let path = shop.path("a/shop.orders/00000.parquet");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[1..]).unwrap();
    shop.register("a", &[]).exits(4).says("the manifest says");
    let mut bytes = whole.clone();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    shop.register("a", &[]).exits(4).says("its end is not that of a file of Parquet").says("00000.parquet");
    assert!(!shop.path("lake/shop/orders/metadata/v1.metadata.json").exists());
    std::fs::write(&path, &whole).unwrap();
    let manifest = shop.path("a/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("orders", "ordres")).unwrap();
    shop.register("a", &[]).exits(4);
    std::fs::remove_file(&manifest).unwrap();
    shop.register("a", &[]).exits(1).says("no manifest.json");
}
