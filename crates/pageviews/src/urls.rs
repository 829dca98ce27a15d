//! Addresses of pages that nobody has: hosts in the domain that is reserved for examples (RFC 2606).

use crate::random::Random;

const HOSTS: [&str; 12] = [
    "www.harbour-news",
    "shop.lighthouse",
    "wiki.tides",
    "forum.sailors",
    "www.northwind-travel",
    "blog.compass",
    "video.regatta",
    "www.anchor-books",
    "maps.coastline",
    "jobs.shipyard",
    "recipes.galley",
    "weather.seaside",
];

const SECTIONS: [&str; 10] = [
    "news",
    "products",
    "articles",
    "category",
    "guides",
    "reviews",
    "archive",
    "people",
    "events",
    "questions",
];

const WORDS: [&str; 40] = [
    "storm", "over", "the", "harbour", "how", "to", "repair", "a", "sail", "best", "winter", "jackets", "of",
    "2026", "new", "bridge", "opens", "for", "cyclists", "ten", "places", "with", "view", "lost", "island",
    "found", "again", "fresh", "fish", "soup", "in", "an", "hour", "old", "maps", "and", "their", "makers",
    "night", "ferry",
];

/// So many different addresses, those of a host together.
pub(crate) fn urls(count: usize) -> Vec<String> {
    let mut random = Random::new(20_261_128);
    (0..count).map(|at| url(HOSTS[at * HOSTS.len() / count.max(1)], at, &mut random)).collect()
}

fn url(host: &str, number: usize, random: &mut Random) -> String {
    let section = random.pick(&SECTIONS);
    let page = match random.below(4) {
        0 => format!("{section}/{}/{}-{number}.html", words(random, 1), words(random, 4)),
        1 => format!("{section}/2026/11/{:02}/{}/{number}", 1 + random.below(28), words(random, 3)),
        2 => format!(
            "index.php?section={section}&id={number}&sort={}",
            random.pick(&["price", "date", "name"])
        ),
        _ => format!("{section}/{}?page={number}", words(random, 5)),
    };
    format!("https://{host}.example/{page}")
}

fn words(random: &mut Random, count: usize) -> String {
    (0..count).map(|_| random.pick(&WORDS)).collect::<Vec<_>>().join("-")
}
