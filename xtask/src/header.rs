//! Generates the header for the C++ of the queue engine from the Rust functions and structures that it
//! declares, so that the two can't differ.

use std::path::Path;

use anyhow::{Context, Result};
use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, FunctionConfig, Language, Layout, Style};

use crate::root;

/// The header.
const HEADER: &str = "plugin/queue/queue_abi.h";

/// Its sources, in the order of their contents in the header.
const SOURCES: [&str; 14] = [
    "abi",
    "engine",
    "queues",
    "alter_copy",
    "status",
    "session",
    "origin",
    "publish",
    "wait",
    "lease",
    "transaction_calls",
    "commit_order",
    "cursor",
    "schedule",
];

/// Its first comment.
const BEGINNING: &str = "/*
  The C interface of the queue core: handles, slices, codes. cargo xtask header makes this file from
  plugin/queue/src: change it there.

  One thread at a time uses a handle, except for rq_interrupt, which any thread may call, and rq_queue, which all
  threads share.
*/";

/// Handles of types in the core.
const HANDLES: &str = "
typedef struct rq_queue rq_queue;
typedef struct rq_interrupter rq_interrupter;";

/// Types, and their names in C++.
const NAMES: [(&str, &str); 26] = [
    ("Interrupter", "rq_interrupter"),
    ("Queue", "rq_queue"),
    ("RqAlive", "rq_alive"),
    ("RqCheckpointDone", "rq_checkpoint_done_fn"),
    ("RqColumn", "rq_column"),
    ("RqCopy", "rq_copy"),
    ("RqCursor", "rq_cursor"),
    ("RqDefinition", "rq_definition"),
    ("RqDeliveryInfo", "rq_delivery_info"),
    ("RqEach", "rq_each_fn"),
    ("RqEachColumn", "rq_each_column_fn"),
    ("RqEachOwned", "rq_each_owned_fn"),
    ("RqEachPrepared", "rq_each_prepared_fn"),
    ("RqEachReader", "rq_each_reader_fn"),
    ("RqEachRow", "rq_each_row_fn"),
    ("RqError", "rq_error"),
    ("RqOwned", "rq_owned"),
    ("RqQuery", "rq_query_fn"),
    ("RqReader", "rq_reader"),
    ("RqScheduler", "rq_scheduler"),
    ("RqServer", "rq_server"),
    ("RqSession", "rq_session"),
    ("RqSlice", "rq_slice"),
    ("RqStatus", "rq_status"),
    ("RqTarget", "rq_target"),
    ("RqXid", "rq_xid"),
];

/// The header as it should be.
fn made(root: &Path) -> Result<String> {
    let rename = NAMES.map(|(ours, theirs)| (ours.to_owned(), theirs.to_owned()));
    let config = Config {
        header: Some(BEGINNING.to_owned()),
        include_guard: Some("QUEUE_ABI_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        after_includes: Some(HANDLES.to_owned()),
        language: Language::C,
        cpp_compat: true,
        style: Style::Type,
        // One line for each function: the C++ is checked against it and people read the sources.
        function: FunctionConfig { args: Layout::Horizontal, ..FunctionConfig::default() },
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::C,
        export: ExportConfig { rename: rename.into(), ..ExportConfig::default() },
        ..Config::default()
    };
    let sources = SOURCES.map(|name| root.join(format!("plugin/queue/src/{name}.rs")));
    let builder =
        sources.iter().fold(Builder::new().with_config(config), |builder, source| builder.with_src(source));
    let mut header = Vec::new();
    builder.generate().context(HEADER)?.write(&mut header);
    Ok(String::from_utf8(header)?)
}

/// Writes the header.
pub(crate) fn write() -> Result<()> {
    let root = root();
    Ok(std::fs::write(root.join(HEADER), made(&root)?)?)
}

/// What to do if the header does not match the functions and structures.
pub(crate) fn stale(root: &Path) -> Result<Option<String>> {
    let there = std::fs::read_to_string(root.join(HEADER))?;
    Ok((there != made(root)?)
        .then(|| format!("{HEADER} does not say what plugin/queue/src says: cargo xtask header")))
}
