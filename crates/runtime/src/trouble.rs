//! Trouble: a problem of the engine's own. It is logged where it is met, with a level and fields,
//! and told to the [`Observer`](crate::world::Observer), to which tests and the simulation listen.

use std::fmt;

pub use indelible_execution::output::Severity;

/// A problem of the engine's own: an unreadable row, a store that stopped. Its `Display` is a line
/// for people.
#[derive(Clone, Copy)]
pub struct Trouble<'a> {
    /// Who has to act.
    pub severity: Severity,
    /// What it is.
    pub message: fmt::Arguments<'a>,
    /// Its fields, by name.
    pub fields: &'a [(&'static str, &'a dyn fmt::Display)],
}

impl fmt::Display for Trouble<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Logs trouble, with the module of the caller as its target, and tells an observer. Given an
/// engine's `Shared`, it does so only while the store works: when the store has stopped, everything
/// fails, which is reported once, with `always`.
#[macro_export]
macro_rules! trouble {
    (always $observer:expr, warn, $($rest:tt)+) => {
        $crate::trouble!(@ $observer, warn, Warning, $($rest)+)
    };
    (always $observer:expr, error, $($rest:tt)+) => {
        $crate::trouble!(@ $observer, error, Error, $($rest)+)
    };
    (@ $observer:expr, $level:ident, $severity:ident,
        $($name:ident = $value:expr,)* $message:literal $(, $part:expr)*) => {{
        $(let $name = &$value;)*
        ::tracing::$level!($($name = %$name,)* $message $(, $part)*);
        $observer.trouble(&$crate::world::Trouble {
            severity: $crate::world::Severity::$severity,
            message: ::std::format_args!($message $(, $part)*),
            fields: &[$((::std::stringify!($name), $name as &dyn ::std::fmt::Display)),*],
        });
    }};
    ($shared:expr, $level:ident, $($rest:tt)+) => {
        if $shared.store.poison().is_none() {
            $crate::trouble!(always $shared.observer, $level, $($rest)+);
        }
    };
}
