//! Counts what grows without anybody noticing: types whose methods are spread over many files, and functions
//! that take more than the lint allows because some of their parameters are tuples.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{Visit, visit_impl_item_fn, visit_item_fn, visit_item_impl, visit_item_mod};
use syn::{FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, Type};

/// The most files of a crate in which one type has methods.
const METHOD_FILES_MAX: usize = 5;

/// Types in more files, with their crate; a number here may only decrease.
const SPREAD: [(&str, &str, usize); 4] =
    [("bucket", "Bucket", 6), ("dump", "Load", 6), ("queue", "Queue", 16), ("xtask", "Bench", 8)];

/// The most parameters of a function, as in clippy.toml. The elements of a tuple count each.
const PARAMETERS_MAX: usize = 5;

/// Checks every crate.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let mut longer = Vec::new();
    for source in super::circle::sources(root)? {
        let folder = source.parent().and_then(Path::file_name).unwrap_or_default();
        let name = folder.to_string_lossy().into_owned();
        let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in super::circle::files(&source)? {
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let text = std::fs::read_to_string(&file).with_context(|| shown.clone())?;
            let parsed = syn::parse_file(&text).with_context(|| shown.clone())?;
            let mut shape = Shape { file: shown, types: &mut types, longer: &mut longer };
            shape.visit_file(&parsed);
        }
        for (of, files) in types.iter().filter(|(_, files)| files.len() > METHOD_FILES_MAX) {
            let known = SPREAD.iter().find(|(in_crate, known, _)| *in_crate == name && known == of);
            let most = known.map_or(METHOD_FILES_MAX, |(_, _, most)| *most);
            if files.len() > most {
                complaints.push(format!(
                    "{name}: {of} has methods in {} files, at most {most} are allowed: give a part of it a type of its own",
                    files.len()
                ));
            }
        }
    }
    if !longer.is_empty() {
        complaints.push(format!(
            "more than {PARAMETERS_MAX} parameters if the elements of tuples count; make the tuple a struct:\n    {}",
            longer.join("\n    ")
        ));
    }
    Ok(())
}

struct Shape<'a> {
    file: String,
    /// The files with methods, by type.
    types: &'a mut BTreeMap<String, BTreeSet<String>>,
    longer: &'a mut Vec<String>,
}

impl Shape<'_> {
    fn count(&mut self, signature: &Signature) {
        let count: usize = signature.inputs.iter().map(parameters).sum();
        // A function for C has no structs of ours to take.
        if signature.abi.is_none() && count > PARAMETERS_MAX {
            self.longer.push(format!("{}: {} has {count}", self.file, signature.ident));
        }
    }
}

/// How many values a parameter stands for; `self` is none, as for the lint.
fn parameters(argument: &FnArg) -> usize {
    let FnArg::Typed(argument) = argument else { return 0 };
    let mut of = &*argument.ty;
    while let Type::Reference(reference) = of {
        of = &reference.elem;
    }
    if let Type::Tuple(tuple) = of { tuple.elems.len().max(1) } else { 1 }
}

impl<'ast> Visit<'ast> for Shape<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        // Tests may be as long as they like.
        if item.ident != "tests" {
            visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        // What a trait asks for is not the type's own choice.
        if item.trait_.is_some() {
            return;
        }
        if let Type::Path(path) = &*item.self_ty
            && let Some(last) = path.path.segments.last()
        {
            self.types.entry(last.ident.to_string()).or_default().insert(self.file.clone());
        }
        visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.count(&item.sig);
        visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.count(&item.sig);
        visit_impl_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_tuples_count_as_parameters() {
        let function = "fn f(a: &(u8, &str), b: [u8; 2], (c, d): (u8, u8), e: u8) {}";
        let signature = syn::parse_str::<ItemFn>(function).unwrap().sig;
        assert_eq!(signature.inputs.iter().map(parameters).sum::<usize>(), 6);
    }

    #[test]
    fn methods_are_counted_by_file_and_traits_are_not() {
        let parsed =
            syn::parse_file("impl A { fn f(&self) {} } impl A {} impl Drop for B { fn drop(&mut self) {} }");
        let (mut types, mut longer) = (BTreeMap::new(), Vec::new());
        Shape { file: "a.rs".to_owned(), types: &mut types, longer: &mut longer }
            .visit_file(&parsed.unwrap());
        assert_eq!(types.keys().collect::<Vec<_>>(), ["A"]);
        assert_eq!(types["A"].len(), 1);
    }
}
