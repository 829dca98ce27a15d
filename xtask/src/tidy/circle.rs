//! Finds modules of a crate that import each other in a circle. None of them can be understood, tested or
//! moved alone.
//!
//! A module and the modules below it may import each other. For any other two modules an arrow is drawn
//! between the sibling modules that contain them, below the module that contains both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::{Visit, visit_item, visit_path};

/// A module of a crate: the names from the crate's root down; empty for the root.
type Module = Vec<String>;

/// What an imported name means in a module: a module, and the rest of the path.
type Aliases = BTreeMap<(Module, String), Vec<String>>;

/// Every circle is a problem.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    for source in sources(root)? {
        let folder = source.parent().and_then(|folder| folder.strip_prefix(root).ok());
        let shown = folder.unwrap_or(&source).display();
        for circle in Crate::read(&source)?.circles() {
            let modules = circle.modules.join(", ");
            complaints.push(format!("{shown}: a circle of {modules}:{}", circle.told()));
        }
    }
    Ok(())
}

/// The files of a source folder.
pub(super) fn files(source: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(source, &mut Vec::new(), &mut files)?;
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// The source folders of the crates.
pub(super) fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.join("xtask/src")];
    for shelf in ["crates", "plugin"] {
        for entry in std::fs::read_dir(root.join(shelf))? {
            found.push(entry?.path().join("src"));
        }
    }
    found.retain(|source| source.is_dir());
    found.sort();
    Ok(found)
}

/// Modules that import each other, and which names.
struct Circle {
    modules: Vec<String>,
    ties: Vec<String>,
}

impl Circle {
    fn told(&self) -> String {
        self.ties.iter().map(|tie| format!("\n    {tie}")).collect()
    }
}

/// What the modules of a crate import from each other.
#[derive(Default)]
struct Crate {
    modules: BTreeSet<Module>,
    aliases: Aliases,
    /// The paths that each module names, from the crate's root.
    named: BTreeSet<(Module, Vec<String>)>,
}

impl Crate {
    fn read(source: &Path) -> Result<Crate> {
        let mut krate = Crate::default();
        let mut files = Vec::new();
        collect(source, &mut Vec::new(), &mut files)?;
        krate.modules.extend(files.iter().map(|(module, _)| module.clone()));
        for (module, path) in files {
            let text = std::fs::read_to_string(&path)?;
            let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
            Reader { krate: &mut krate, module }.visit_file(&file);
        }
        Ok(krate)
    }

    /// The module of a path, and the name in it.
    fn resolve(&self, path: &[String], depth: u32) -> (Module, String) {
        let mut module = Module::new();
        for (at, name) in path.iter().enumerate() {
            module.push(name.clone());
            if self.modules.contains(&module) {
                continue;
            }
            module.pop();
            let alias = self.aliases.get(&(module.clone(), name.clone()));
            return match alias {
                Some(alias) if depth > 0 => {
                    let further: Vec<String> = alias.iter().chain(&path[at + 1..]).cloned().collect();
                    self.resolve(&further, depth - 1)
                }
                _ => (module, name.clone()),
            };
        }
        (module, String::new())
    }

    /// The arrows between sibling modules, with the names that cause them.
    fn arrows(&self) -> BTreeMap<(Module, Module), BTreeSet<String>> {
        let mut arrows: BTreeMap<(Module, Module), BTreeSet<String>> = BTreeMap::new();
        for (from, path) in &self.named {
            let (to, name) = self.resolve(path, 8);
            let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if shared < from.len() && shared < to.len() {
                let name = if name.is_empty() { to.last().cloned().unwrap_or_default() } else { name };
                arrows.entry((from[..=shared].to_vec(), to[..=shared].to_vec())).or_default().insert(name);
            }
        }
        arrows
    }

    fn circles(&self) -> Vec<Circle> {
        let arrows = self.arrows();
        let modules: BTreeSet<&Module> = arrows.keys().flat_map(|(from, to)| [from, to]).collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            modules.iter().map(|from| (*from, reach(&arrows, from))).collect();
        let mut circles: BTreeSet<Vec<&Module>> = BTreeSet::new();
        for module in modules.iter().filter(|module| reached[**module].contains(**module)) {
            let back = |other: &&&Module| reached[**other].contains(*module);
            circles.insert(reached[module].iter().filter(back).copied().collect());
        }
        let told = |module: &Module| module.join("::");
        let ties = |circle: &Vec<&Module>| {
            let inside =
                arrows.iter().filter(|((from, to), _)| circle.contains(&from) && circle.contains(&to));
            let line = |((from, to), names): (&(Module, Module), &BTreeSet<String>)| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!("{} takes from {}: {}", told(from), told(to), names.join(", "))
            };
            inside.map(line).collect()
        };
        let circle = |circle: Vec<&Module>| Circle {
            ties: ties(&circle),
            modules: circle.into_iter().map(told).collect(),
        };
        circles.into_iter().map(circle).collect()
    }
}

/// The modules that can be reached from one of them by arrows.
fn reach<'a>(
    arrows: &'a BTreeMap<(Module, Module), BTreeSet<String>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for (_, to) in arrows.keys().filter(|(one, _)| one == module) {
            if found.insert(to) {
                next.push(to);
            }
        }
    }
    found
}

/// The files below a folder with their modules. Tests may import everything.
fn collect(folder: &Path, module: &mut Module, files: &mut Vec<(Module, PathBuf)>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" {
            continue;
        }
        module.push(name.clone());
        if path.is_dir() {
            collect(&path, module, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let is_root = module.len() == 1 && ["lib", "main"].contains(&name.as_str());
            files.push((if is_root { Module::new() } else { module.clone() }, path));
        }
        module.pop();
    }
    Ok(())
}

/// Walks through a file and records the names in it.
struct Reader<'a> {
    krate: &'a mut Crate,
    module: Module,
}

impl Reader<'_> {
    /// The path from the crate's root, if it is within the crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = match path.first()?.as_str() {
            "crate" => Module::new(),
            "self" | "super" => self.module.clone(),
            // Perhaps a module below this one, which is not an arrow.
            _ => return None,
        };
        let mut rest = path;
        while let Some((first, more)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            rest = more;
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    fn note(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.krate.named.insert((self.module.clone(), path));
        }
    }

    fn import(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
            syn::UseTree::Name(name) => self.alias(before, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.alias(before, &rename.ident, &rename.rename),
            syn::UseTree::Glob(_) => self.note(before),
        }
    }

    fn alias(&mut self, before: &[String], name: &syn::Ident, here: &syn::Ident) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        self.note(&path);
        // A path without `crate` may lead below this module or to another crate.
        let absolute = self.absolute(&path).unwrap_or_else(|| [self.module.clone(), path].concat());
        self.krate.aliases.insert((self.module.clone(), here.to_string()), absolute);
    }

    /// The tokens in a macro are not parsed: words with `::` between them are taken for paths.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.note(&std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.note(&std::mem::take(&mut path));
                    colons = 0;
                    if let proc_macro2::TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return visit_item(self, item),
        };
        let test = |attribute: &syn::Attribute| {
            let list = attribute.meta.require_list();
            attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
        };
        if !attributes.iter().any(test) {
            visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&names);
        visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast syn::Macro) {
        self.tokens(invoked.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::{Crate, Reader};
    use syn::visit::Visit;

    /// The circles of a crate with these files, each as a list of its modules.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut krate = Crate::default();
        let module = |name: &str| name.split_terminator("::").map(str::to_owned).collect::<Vec<_>>();
        krate.modules.extend(files.iter().map(|(name, _)| module(name)));
        for (name, text) in files {
            let file = syn::parse_file(text).unwrap();
            Reader { krate: &mut krate, module: module(name) }.visit_file(&file);
        }
        krate.circles().into_iter().map(|circle| circle.modules).collect()
    }

    #[test]
    fn a_circle_is_seen_however_its_names_are_reached() {
        let a = ("a", "use crate::b::B; pub struct A;");
        let nobody: &[Vec<String>] = &[];
        assert_eq!(circles(&[("", ""), a, ("b", "pub struct B;")]), nobody);
        for b in [
            "use crate::a::A; pub struct B;",
            "use super::{a, c}; pub struct B;",
            "pub struct B; fn f() { crate::a::g() }",
            "pub struct B; fn f() { assert!(crate::a::g()) }",
            "use crate::A; pub struct B;",
        ] {
            assert_eq!(circles(&[("", "pub use a::A;"), a, ("b", b)]), [["a", "b"]], "{b}");
        }
    }

    #[test]
    fn child_modules_may_use_their_parents_and_tests_may_use_everything() {
        let below = [("a", "mod b; use b::B; pub struct A;"), ("a::b", "use super::A; pub struct B;")];
        assert!(circles(&below).is_empty());
        let tests = [("a", "use crate::b::B;"), ("b", "#[cfg(test)] mod tests { use crate::a::A; }")];
        assert!(circles(&tests).is_empty());
        // Children of two modules connect their parents.
        let parts = [("a", ""), ("a::x", "use crate::b::y::Y;"), ("b", "use crate::a::A;"), ("b::y", "")];
        assert_eq!(circles(&parts), [["a", "b"]]);
    }
}
