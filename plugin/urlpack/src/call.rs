//! The functions themselves, over byte slices: no server types here.

use std::sync::Arc;

use urlpack::{STRING_MAX, number_of};

use crate::registry::{Registry, Shared};

/// Which function a statement calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Pack,
    Unpack,
    PrefixMin,
    PrefixMax,
    Info,
}

impl Function {
    /// Whether a second argument may name a model.
    pub(crate) fn takes_model(self) -> bool {
        matches!(self, Self::Pack | Self::PrefixMin | Self::PrefixMax)
    }

    /// How it is called.
    pub(crate) fn usage(self) -> &'static str {
        match self {
            Self::Pack => "url_pack(string [, model])",
            Self::Unpack => "url_unpack(packed)",
            Self::PrefixMin => "url_prefix_min(prefix [, model])",
            Self::PrefixMax => "url_prefix_max(prefix [, model])",
            Self::Info => "url_pack_info(packed)",
        }
    }

    /// Longest result for a first argument of at most `length` bytes.
    pub(crate) fn result_max(self, length: usize) -> usize {
        match self {
            // What no model expects grows; four times is more than was ever seen, and is checked.
            Self::Pack | Self::PrefixMin | Self::PrefixMax => (length.max(64) * 4).min((1 << 24) - 1),
            Self::Unpack => STRING_MAX,
            Self::Info => 1_000,
        }
    }
}

/// What one call site of a statement keeps from row to row.
#[derive(Debug)]
pub(crate) struct Call {
    function: Function,
    registry: Arc<Registry>,
    /// The model that the statement names as a constant, or the usual one.
    fixed: Option<Shared>,
    result_max: usize,
    out: Vec<u8>,
}

impl Call {
    /// Prepares for rows. `name` is the model if it is a constant; `varies` says that it is an argument per row.
    pub(crate) fn new(
        function: Function,
        name: Option<&[u8]>,
        varies: bool,
        result_max: usize,
    ) -> Result<Self, String> {
        let registry = Registry::current();
        let fixed = match name {
            Some(name) => Some(Arc::clone(registry.named(name)?)),
            None if function.takes_model() && !varies => Some(Arc::clone(registry.numbered(0)?.1)),
            None => None,
        };
        Ok(Self { function, registry, fixed, result_max, out: Vec::with_capacity(1_024) })
    }

    /// One row. `name` is the model of this row if it varies.
    pub(crate) fn row(&mut self, argument: &[u8], name: Option<&[u8]>) -> Result<&[u8], String> {
        self.out.clear();
        match self.function {
            Function::Unpack => self.unpack(argument)?,
            Function::Info => self.info(argument),
            Function::Pack | Function::PrefixMin | Function::PrefixMax => self.pack(argument, name)?,
        }
        if self.out.len() > self.result_max {
            return Err(format!(
                "the packed value has {} bytes, more than the column type allows",
                self.out.len()
            ));
        }
        Ok(&self.out)
    }

    fn pack(&mut self, argument: &[u8], name: Option<&[u8]>) -> Result<(), String> {
        let model = match (&self.fixed, name) {
            (Some(model), _) => model,
            (None, Some(name)) => self.registry.named(name)?,
            (None, None) => self.registry.numbered(0)?.1,
        };
        match self.function {
            Function::PrefixMin => model.prefix_min(argument, &mut self.out),
            Function::PrefixMax => model.prefix_max(argument, &mut self.out),
            _ if argument.len() > STRING_MAX => {
                return Err(format!("a string of {} bytes; at most {STRING_MAX} are packed", argument.len()));
            }
            _ => model.pack(argument, &mut self.out),
        }
        Ok(())
    }

    fn unpack(&mut self, packed: &[u8]) -> Result<(), String> {
        let number = number_of(packed).map_err(|error| error.to_string())?;
        let (_, model) = self.registry.numbered(number)?;
        model.unpack(packed, &mut self.out, STRING_MAX).map_err(|error| error.to_string())
    }

    fn info(&mut self, packed: &[u8]) {
        let text = self.describe(packed);
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A JSON object, also for what is no packed value.
    fn describe(&mut self, packed: &[u8]) -> String {
        let number = match number_of(packed) {
            Ok(number) => number,
            Err(error) => return refusal(&error.to_string()),
        };
        let (name, model) = match self.registry.numbered(number) {
            Ok((name, model)) => (name.to_owned(), Arc::clone(model)),
            Err(error) => return refusal(&error),
        };
        let outcome = self.unpack(packed);
        let unpacked = self.out.len();
        self.out.clear();
        if let Err(error) = outcome {
            return refusal(&error);
        }
        let info = model.info();
        format!(
            "{{\"model\": {}, \"number\": {number}, \"checksum\": \"{:016x}\", \"model_bytes\": {}, \"packed\": {}, \"unpacked\": {unpacked}}}",
            quoted(&name),
            info.checksum,
            info.size,
            packed.len()
        )
    }
}

fn refusal(why: &str) -> String {
    format!("{{\"error\": {}}}", quoted(why))
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .flat_map(|char| match char {
            '"' | '\\' => vec!['\\', char],
            char if char < ' ' => format!("\\u{:04x}", u32::from(char)).chars().collect(),
            char => vec![char],
        })
        .collect();
    format!("\"{escaped}\"")
}
