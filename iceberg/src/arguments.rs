//! The command line.

use std::path::PathBuf;

use clap::Parser;
use dump::Pattern;

const AFTER: &str = "\
A table db.table of the dump is WAREHOUSE/db/table. Each run adds a snapshot that has the rows of the dump and no others,
so earlier dumps can be read as of their time, as long as their files are there. A dump that was registered before
changes nothing.

The data stay where the dump is, and Iceberg reads them there: keep the dump, or give --copy. Credentials and the address
of a store come from the environment, as for remora dump.

Examples:
  remora dump shop --format parquet -o /lake/dumps/monday
  remora-iceberg /lake/dumps/monday --warehouse /lake/warehouse

  spark-sql --packages org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0 \\
      --conf spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog \\
      --conf spark.sql.catalog.lake.type=hadoop --conf spark.sql.catalog.lake.warehouse=/lake/warehouse \\
      -e 'SELECT sum(total) FROM lake.shop.orders'
  duckdb -c \"SELECT sum(total) FROM iceberg_scan('/lake/warehouse/shop/orders')\"

Exit codes:
  0   done
  1   failed
  2   wrong command line
  3   finished, but some items were left out; each is named
  4   a file of the dump is damaged
  11  somebody else has changed the table meanwhile";

/// Registers the files of a dump of Parquet as tables of Iceberg
///
/// DUMP is what `remora dump --format parquet` has written, whole: with a manifest.json.
#[derive(Debug, Parser)]
#[command(name = "remora-iceberg", version, after_long_help = AFTER, after_help = AFTER)]
pub(crate) struct Arguments {
    /// The dump: a folder, or s3://BUCKET/FOLDER
    #[arg(value_name = "DUMP")]
    pub(crate) dump: PathBuf,
    /// Only these databases and tables: db, db.table with * and ?, or /expression/
    #[arg(value_name = "db.table")]
    pub(crate) names: Vec<Pattern>,
    /// Where the tables of Iceberg are: a folder, or s3://BUCKET/FOLDER
    #[arg(long, value_name = "FOLDER")]
    pub(crate) warehouse: PathBuf,
    /// Copy the data into the warehouse, so that the dump can be removed
    #[arg(long)]
    pub(crate) copy: bool,
    /// Print lines of JSON, each with a message_type
    #[arg(long)]
    pub(crate) json: bool,
}
