//! Labels of a call: an execution is found by them.

use clap::Args;
use indelible_client::Invocation;

/// A name and a value. The server says which characters they may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// For clap: parses NAME=VALUE.
pub(crate) fn label(text: &str) -> Result<Label, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(Label { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err("give a name and a value, as in order=123".to_owned()),
    }
}

/// The labels that a call gets.
#[derive(Args, Clone)]
pub(crate) struct Labels {
    /// A label, by which `indelible ps --label` finds it; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<Label>,
}

impl Labels {
    /// The call with these labels.
    pub(super) fn add<Out, How>(&self, call: Invocation<Out, How>) -> Invocation<Out, How> {
        self.labels.iter().fold(call, |call, Label { name, value }| call.label(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_name_and_a_value() {
        let parsed = |text| label(text).map(|label| (label.name, label.value));
        assert_eq!(parsed("order=1=2"), Ok(("order".to_owned(), "1=2".to_owned())));
        assert_eq!(parsed("urgent="), Ok(("urgent".to_owned(), String::new())));
        assert!(parsed("order").is_err() && parsed("=1").is_err());
    }
}
