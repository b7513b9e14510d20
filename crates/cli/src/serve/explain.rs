//! `indelible explain`: the page of an error.

use std::io::Write;

use clap::Args;
use indelible_api::Code;

use crate::failure::{Failure, Verdict, quiet};

/// Print what an error means, and what to do
#[derive(Args)]
pub(crate) struct Explain {
    /// The code of the error, as `mismatch`; all codes if none is given
    code: Option<String>,
}

impl Explain {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Verdict, Failure> {
        let text = match &self.code {
            Some(code) => {
                let code = code.parse::<Code>().map_err(|error| {
                    Failure::new(format!("{code:?}: {error}"))
                        .hint("indelible explain lists all of them")
                })?;
                code.page().to_owned()
            }
            None => {
                let line = |code: Code| format!("{code:30} {}  {}\n", code.status(), code.title());
                Code::ALL.into_iter().map(line).collect()
            }
        };
        quiet(out.write_all(text.as_bytes())).map_err(|error| Failure::output(&error))?;
        Ok(Verdict::Well)
    }
}
