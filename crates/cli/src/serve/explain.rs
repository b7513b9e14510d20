//! `indelible explain`: the page of an error.

use std::io::Write;

use clap::Args;
use indelible_api::Code;
use serde::Serialize;

use crate::failure::Failure;
use crate::print;

/// Print what an error means, and what to do
#[derive(Args)]
pub(crate) struct Explain {
    /// The code of the error, as `mismatch`; all codes if none is given
    code: Option<String>,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    code: String,
    status: u16,
    title: &'static str,
    retryable: bool,
    /// The page, if a code was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'static str>,
}

impl Entry {
    fn new(code: Code) -> Self {
        let (status, title, retryable) = (code.status(), code.title(), code.is_retryable());
        Self { code: code.to_string(), status, title, retryable, page: None }
    }
}

impl Explain {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        match &self.code {
            Some(code) => {
                let code = code.parse::<Code>().map_err(|error| {
                    Failure::new(format!("{code:?}: {error}"))
                        .hint("`indelible explain` lists all of them")
                })?;
                match self.json {
                    true => {
                        print::object(Entry { page: Some(code.page()), ..Entry::new(code) }, out)
                    }
                    false => print::text(code.page(), out),
                }
            }
            None if self.json => {
                Code::ALL.into_iter().try_for_each(|code| print::object(Entry::new(code), out))
            }
            None => {
                let line = |code: Code| format!("{code:30} {}  {}\n", code.status(), code.title());
                print::text(&Code::ALL.into_iter().map(line).collect::<String>(), out)
            }
        }
    }
}
