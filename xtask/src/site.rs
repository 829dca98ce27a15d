//! The manual as a site: mdBook makes it of the documents, and each of its links is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tidy::{self, SUMMARY};
use crate::{places, root, run, setup, target};

/// Pages that others link to, and that need no order: a heading, and the folder they are in.
const APPENDED: [(&str, &str); 4] = [
    ("Routines", "sql/routines"),
    ("Examples", "examples"),
    ("Clients", "clients"),
    ("Decisions", "docs/decisions"),
];

/// Single files that pages link to.
const LINKED: [&str; 4] = [
    "changelog/README.md",
    "crates/condition/src/lib.rs",
    "crates/remora/tests/dump/traps.md",
    "sql/queue.sql",
];

/// Builds the site in the target folder and checks it.
pub(crate) fn build() -> Result<()> {
    let mdbook = setup::bring_mdbook(&places()?.cache)?;
    let folder = target().join("site");
    let root = root();
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let source = folder.join("src");
    for file in tidy::tracked(&root)? {
        let is_at_the_top = file.components().count() == 1 && file.extension().is_some_and(|end| end == "md");
        let mut folders = APPENDED.iter().map(|(_, folder)| *folder).chain(["docs"]);
        if is_at_the_top
            || folders.any(|folder| file.starts_with(folder))
            || LINKED.iter().any(|path| file == Path::new(path))
        {
            stage(&root, &file, &source)?;
        }
    }
    std::fs::write(source.join("SUMMARY.md"), renamed(&summary(&root)?))?;
    for file in ["book.toml", "site.css"] {
        std::fs::copy(root.join("docs").join(file), folder.join(file))?;
    }
    run(Command::new(mdbook).arg("build").arg(&folder))?;
    let book = folder.join("book");
    let dead = dead_links(&book)?;
    dead.iter().for_each(|link| println!("site: {link}"));
    if !dead.is_empty() {
        bail!("{} links lead nowhere", dead.len());
    }
    println!("the site is in {}: open index.html there in a browser", book.display());
    Ok(())
}

/// Copies a file of the project to where mdBook finds it. mdBook makes `index.html` of a README.md, and does
/// not change the links to it.
fn stage(root: &Path, file: &Path, source: &Path) -> Result<()> {
    let to = source.join(renamed(&file.to_string_lossy()));
    std::fs::create_dir_all(to.parent().unwrap_or(source))?;
    if file.extension().is_some_and(|end| end == "md") {
        std::fs::write(&to, renamed(&std::fs::read_to_string(root.join(file))?))?;
    } else {
        std::fs::copy(root.join(file), &to).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

fn renamed(text: &str) -> String {
    text.replace("/README.md", "/index.md")
}

/// The order of all pages, for mdBook: that of [`SUMMARY`] from the root of the project, then the others.
fn summary(root: &Path) -> Result<String> {
    let mut text = std::fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    text = text
        .replace("](../", "](@")
        .replace("]()", "](@)")
        .replace("](", "](docs/")
        .replace("](docs/@", "](");
    for (heading, folder) in APPENDED {
        text.push_str(&format!("\n# {heading}\n\n"));
        let mut pages = BTreeMap::new();
        pages_below(&root.join(folder), &mut pages)?;
        for (path, title) in pages {
            let path = path.strip_prefix(root).unwrap_or(&path);
            text.push_str(&format!("- [{title}]({})\n", path.display()));
        }
    }
    for path in LINKED.iter().filter(|path| path.ends_with(".md")) {
        text.push_str(&format!("- [{}]({path})\n", title(&std::fs::read_to_string(root.join(path))?)));
    }
    Ok(text)
}

/// The first heading of a page.
fn title(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches("# ")
}

/// The pages in a folder and those below it, with their titles.
fn pages_below(folder: &Path, found: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages_below(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "md") {
            let text = std::fs::read_to_string(&path)?;
            found.insert(path, title(&text).to_owned());
        }
    }
    Ok(())
}

/// Links of a site to files that are not there, and to places in pages that have none of that name.
fn dead_links(book: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    html_below(book, &mut pages)?;
    let mut texts = BTreeMap::new();
    for page in pages {
        let text = std::fs::read_to_string(&page)?;
        texts.insert(page, text);
    }
    let anchors: BTreeMap<&Path, BTreeSet<&str>> =
        texts.iter().map(|(page, text)| (page.as_path(), attributes(text, " id=\""))).collect();
    let mut dead = Vec::new();
    // This one takes its links from the root of a server.
    for (page, text) in texts.iter().filter(|(page, _)| !page.ends_with("404.html")) {
        let links = attributes(text, " href=\"").into_iter().chain(attributes(text, " src=\""));
        for link in links.filter(|link| !link.contains(':')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = match path {
                "" => page.clone(),
                path => tidy::plain(&page.with_file_name("").join(path)),
            };
            let is_there = match anchors.get(to.as_path()) {
                Some(known) => anchor.is_empty() || known.contains(anchor),
                None => to.exists(),
            };
            if !is_there {
                let page = page.strip_prefix(book).unwrap_or(page);
                dead.push(format!("{}: {link} leads nowhere", page.display()));
            }
        }
    }
    Ok(dead)
}

fn html_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            html_below(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            found.push(path);
        }
    }
    Ok(())
}

/// What stands between such a beginning and the next quote.
fn attributes<'a>(text: &'a str, begin: &str) -> BTreeSet<&'a str> {
    text.split(begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        write("a.html", "<a href=\"below/b.html#here\"></a> <a href=\"#no\"></a> <img src=\"none.svg\">");
        write(
            "below/b.html",
            "<h1 id=\"here\"></h1> <a href=\"../a.html\"></a> <a href=\"https://x/y\"></a>",
        );
        let dead = dead_links(folder.path()).unwrap();
        assert_eq!(dead, ["a.html: #no leads nowhere", "a.html: none.svg leads nowhere"]);
    }

    #[test]
    fn pages_are_in_order_from_the_root() {
        let text = summary(&root()).unwrap();
        assert!(text.contains("](docs/guide/start.md)") && text.contains("](CONTRIBUTING.md)"), "{text}");
        assert!(text.contains("[Move data]()") && text.contains("](docs/decisions/0002"), "{text}");
    }
}
