//! The fourth part: URLs in less space.

use anyhow::Result;

use super::stage::Stage;
use super::{Shown, import};

const LIBRARY: &str = "liburlpack_udf.so";

const RANGE: &str = "u BETWEEN url_prefix_min('https://blog.compass.example/') AND \
                     url_prefix_max('https://blog.compass.example/')";

pub(super) fn show(stage: &mut Stage) -> Result<Shown> {
    import::table(stage)?;
    stage.title("URLs in less space")?;
    if let Some(why) = stage.without(LIBRARY)? {
        return Ok(Shown::Not(why));
    }
    stage.say("url_pack() makes a URL small and keeps the order, so an index still finds ranges.")?;
    stage.sql("CREATE TABLE web.views (id INT PRIMARY KEY, u VARBINARY(512) NOT NULL, KEY (u))")?;
    stage.sql("INSERT INTO web.views SELECT id, url_pack(url) FROM web.hits")?;
    stage.sql(
        "SELECT SUM(LENGTH(url)) AS plain, SUM(LENGTH(u)) AS packed, \
         ROUND(100 * SUM(LENGTH(u)) / SUM(LENGTH(url))) AS percent FROM web.hits JOIN web.views USING (id)",
    )?;
    stage.say("What is read on one site? Nothing is unpacked but the answer.")?;
    stage.sql(&format!(
        "SELECT COUNT(*) AS hits, LEFT(url_unpack(u), 60) AS url FROM web.views WHERE {RANGE} \
         GROUP BY u ORDER BY hits DESC LIMIT 4"
    ))?;
    Ok(Shown::Whole)
}
