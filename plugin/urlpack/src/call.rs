//! The functions themselves, on byte slices, without types of the server.

use std::sync::Arc;

use urlpack::{Family, Key, Model, STRING_MAX, number_of};

use crate::registry::{Models, Shared};

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Pack,
    Unpack,
    PrefixMin,
    PrefixMax,
    Info,
}

/// Which function a statement calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub(crate) family: Family,
    pub(crate) action: Action,
}

impl Function {
    /// Whether a second argument may name a model.
    pub(crate) fn takes_model(self) -> bool {
        matches!(self.action, Action::Pack | Action::PrefixMin | Action::PrefixMax)
    }

    /// Whether a second argument may give the length of the result.
    pub(crate) fn takes_length(self) -> bool {
        self.action == Action::Unpack
    }

    /// How many arguments it takes.
    pub(crate) fn arguments(self) -> std::ops::RangeInclusive<usize> {
        match self.action {
            Action::Info => 0..=1,
            _ => 1..=2,
        }
    }

    /// How to call it.
    pub(crate) fn usage(self) -> String {
        let call = match self.action {
            Action::Pack => "pack(string [, model])",
            Action::Unpack => "unpack(packed [, length])",
            Action::PrefixMin => "prefix_min(prefix [, model])",
            Action::PrefixMax => "prefix_max(prefix [, model])",
            Action::Info => "pack_info([packed])",
        };
        format!("{}_{call}", self.family.prefix())
    }

    /// Longest result for a first argument of at most `length` bytes.
    pub(crate) fn result_max(self, length: usize) -> usize {
        match self.action {
            // A string that the model does not expect grows. Four times is more than was ever seen, and it is
            // checked.
            Action::Pack | Action::PrefixMin | Action::PrefixMax => (length.max(64) * 4).min((1 << 24) - 1),
            // A run that the model expects can shrink almost without limit. For other strings 64 times is
            // more than was ever seen.
            Action::Unpack => (length.max(64) * 64).min(STRING_MAX),
            Action::Info => 16_000,
        }
    }
}

/// What a function call in a statement keeps from row to row.
#[derive(Debug)]
pub(crate) struct Call {
    function: Function,
    models: Arc<Models>,
    /// The model that the statement names as a constant, or the default one.
    fixed: Option<Shared>,
    result_max: usize,
    out: Vec<u8>,
}

impl Call {
    /// Prepares for rows. `name` is the model if it is constant; `varies` says that each row names its model.
    pub(crate) fn new(
        function: Function,
        name: Option<&[u8]>,
        varies: bool,
        result_max: usize,
    ) -> Result<Self, String> {
        let family = function.family;
        let name = name.map(String::from_utf8_lossy);
        let models =
            Models::current(|models| name.as_ref().is_none_or(|name| models.named(family, name).is_ok()));
        let fixed = match name {
            Some(name) => Some(Arc::clone(models.named(family, &name)?.1)),
            None if function.takes_model() && !varies => Some(Arc::clone(models.keyed(Key::Zero(family))?.1)),
            None => None,
        };
        Ok(Self { function, models, fixed, result_max, out: Vec::with_capacity(1_024) })
    }

    /// Computes one row. `argument` may be missing only if the function takes none. `name` is this row's
    /// model if it varies.
    pub(crate) fn row(&mut self, argument: Option<&[u8]>, name: Option<&[u8]>) -> Result<&[u8], String> {
        self.out.clear();
        match (self.function.action, argument) {
            (Action::Unpack, argument) => self.unpack(argument.unwrap_or_default(), self.result_max)?,
            (Action::Info, Some(packed)) => {
                let text = self.describe(packed);
                self.answer(&text);
            }
            (Action::Info, None) => {
                let text = self.list();
                self.answer(&text);
            }
            (_, argument) => self.pack(argument.unwrap_or_default(), name)?,
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
        let family = self.function.family;
        let model = match (&self.fixed, name) {
            (Some(model), _) => model,
            (None, Some(name)) => self.models.named(family, &String::from_utf8_lossy(name))?.1,
            (None, None) => self.models.keyed(Key::Zero(family))?.1,
        };
        match self.function.action {
            Action::PrefixMin => model.prefix_min(argument, &mut self.out),
            Action::PrefixMax => model.prefix_max(argument, &mut self.out),
            _ if argument.len() > STRING_MAX => {
                return Err(format!("a string of {} bytes; at most {STRING_MAX} are packed", argument.len()));
            }
            _ => model.pack(argument, &mut self.out),
        }
        Ok(())
    }

    /// A string longer than the declared result is refused, because a temporary table would cut it off.
    fn unpack(&mut self, packed: &[u8], max_len: usize) -> Result<(), String> {
        let number = number_of(packed).map_err(|error| error.to_string())?;
        let (_, model) = self.models.keyed(Key::new(self.function.family, number))?;
        model.unpack(packed, &mut self.out, max_len).map_err(|error| match error {
            urlpack::Error::TooLong { max_len } => format!(
                "the string has more than the {max_len} bytes that this result is declared with; write \
                 {}_unpack(..., LENGTH), up to {STRING_MAX}",
                self.function.family.prefix()
            ),
            error => error.to_string(),
        })
    }

    fn answer(&mut self, text: &str) {
        self.out.clear();
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A JSON object, even when `packed` is not a packed value.
    fn describe(&mut self, packed: &[u8]) -> String {
        let number = match number_of(packed) {
            Ok(number) => number,
            Err(error) => return refusal(&error.to_string()),
        };
        if let Err(error) = self.unpack(packed, STRING_MAX) {
            return refusal(&error);
        }
        match self.models.keyed(Key::new(self.function.family, number)) {
            Ok((name, model)) => {
                let lengths = format!(", \"packed\": {}, \"unpacked\": {}", packed.len(), self.out.len());
                described(name, model, &lengths)
            }
            Err(error) => refusal(&error),
        }
    }

    /// All models, as a JSON array of objects.
    fn list(&self) -> String {
        let objects: Vec<String> = self
            .models
            .all(self.function.family)
            .map(|(key, known)| match known {
                Ok((name, model)) => described(name, model, ""),
                Err(why) => format!("{{\"number\": {}, \"error\": {}}}", key.number(), quoted(&why)),
            })
            .collect();
        format!("[{}]", objects.join(", "))
    }
}

fn described(name: &str, model: &Model, more: &str) -> String {
    let info = model.info();
    format!(
        "{{\"model\": {}, \"number\": {}, \"check_bytes\": {}, \"checksum\": \"{:016x}\", \"model_bytes\": {}{more}}}",
        quoted(name),
        info.number,
        info.check_bytes,
        info.checksum,
        info.size
    )
}

fn refusal(why: &str) -> String {
    format!("{{\"error\": {}}}", quoted(why))
}

/// `text` as a JSON string.
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
