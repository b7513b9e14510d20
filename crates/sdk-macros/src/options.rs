//! What stands in the parentheses of `#[function(…)]`.

use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprLit, Lit, LitStr, Meta, Result, Token};

use crate::duration;

/// Retries unless something else is said.
const RETRIES: u32 = 3;
/// The wait before the first retry, unless something else is said: a second.
const BACKOFF_BASE: u64 = 1_000_000;
/// The longest wait before a retry, unless something else is said: a minute.
const BACKOFF_CAP: u64 = 60_000_000;

/// The options of a function.
pub(crate) struct Options {
    pub(crate) idem: bool,
    pub(crate) volatile: bool,
    /// None: no bound.
    pub(crate) retries_max: Option<u32>,
    pub(crate) backoff: (u64, u64),
    pub(crate) deadline: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) input_schema: Option<Expr>,
    pub(crate) output_schema: Option<Expr>,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self {
            idem: false,
            volatile: false,
            retries_max: Some(RETRIES),
            backoff: (BACKOFF_BASE, BACKOFF_CAP),
            deadline: None,
            name: None,
            input_schema: None,
            output_schema: None,
        };
        let mut seen = Vec::new();
        for meta in Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens)? {
            let option = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
            if seen.contains(&option) {
                return Err(Error::new(meta.span(), format!("`{option}` is given twice")));
            }
            options.set(&option, meta)?;
            seen.push(option);
        }
        Ok(options)
    }

    fn set(&mut self, option: &str, meta: Meta) -> Result<()> {
        match (option, meta) {
            ("idem", Meta::Path(_)) => self.idem = true,
            ("volatile", Meta::Path(_)) => self.volatile = true,
            ("retries", Meta::NameValue(pair)) => self.retries_max = retries(&pair.value)?,
            ("backoff", Meta::NameValue(pair)) => {
                self.backoff = spanned(&pair.value, duration::range)?;
            }
            ("deadline", Meta::NameValue(pair)) => {
                self.deadline = Some(spanned(&pair.value, duration::micros)?);
            }
            ("name", Meta::NameValue(pair)) => self.name = Some(spanned(&pair.value, name)?),
            ("input_schema", Meta::NameValue(pair)) => self.input_schema = Some(pair.value),
            ("output_schema", Meta::NameValue(pair)) => self.output_schema = Some(pair.value),
            ("idem" | "volatile", meta) => {
                let message = format!("`{option}` takes no value");
                return Err(Error::new(meta.span(), message));
            }
            ("retries" | "backoff" | "deadline" | "name", meta) => {
                let example = match option {
                    "retries" => "retries = 5",
                    "backoff" => "backoff = \"1s..60s\"",
                    "deadline" => "deadline = \"10m\"",
                    _ => "name = \"charge-card\"",
                };
                let message = format!("`{option}` needs a value, as in `{example}`");
                return Err(Error::new(meta.span(), message));
            }
            (_, meta) => {
                return Err(Error::new(
                    meta.span(),
                    "unknown option: use idem, volatile, retries, backoff, deadline, name, \
                     input_schema or output_schema",
                ));
            }
        }
        Ok(())
    }
}

fn retries(value: &Expr) -> Result<Option<u32>> {
    match value {
        Expr::Path(path) if path.path.is_ident("unbounded") => Ok(None),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().map(Some),
        other => Err(Error::new(other.span(), "write a number, or `unbounded`")),
    }
}

/// The name of a function for callers.
fn name(text: &str) -> std::result::Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.is_empty() || !text.chars().all(allowed) {
        return Err(format!("`{text}` is not a valid name: use letters, digits, `_`, `-` and `.`"));
    }
    Ok(text.to_owned())
}

/// Reads a text; what is wrong with it is shown where it stands.
fn spanned<T>(
    value: &Expr,
    read: impl FnOnce(&str) -> std::result::Result<T, String>,
) -> Result<T> {
    let text: &LitStr = match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text,
        other => return Err(Error::new(other.span(), "write a string in quotes")),
    };
    read(&text.value()).map_err(|why| Error::new(text.span(), why))
}
