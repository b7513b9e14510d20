//! The log of an execution: lines for people. They are not journaled, and are not written again
//! when the function runs over what is recorded.

use crate::host;

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Every detail.
    Trace,
    /// For debugging.
    Debug,
    /// What happens.
    Info,
    /// Something is odd.
    Warn,
    /// Something is wrong.
    Error,
}

/// Writes a line to the log of this execution; the macros, [`info!`](crate::info) for one, are
/// shorter.
pub fn log(level: Level, message: &str, fields: &[(String, String)]) {
    let level = match level {
        Level::Trace => host::Level::Trace,
        Level::Debug => host::Level::Debug,
        Level::Info => host::Level::Info,
        Level::Warn => host::Level::Warn,
        Level::Error => host::Level::Error,
    };
    host::log(level, message, fields);
}

/// A line of any level: `log!(Level::Info, "charged {amount}"; order = id)`.
#[macro_export]
macro_rules! log {
    ($level:expr, $format:literal $(, $value:expr)* ; $($key:ident = $field:expr),+ $(,)?) => {
        $crate::log($level, &::std::format!($format $(, $value)*), &[
            $((
                ::std::string::String::from(::core::stringify!($key)),
                ::std::string::ToString::to_string(&$field),
            )),+
        ])
    };
    ($level:expr, $($message:tt)+) => {
        $crate::log($level, &::std::format!($($message)+), &[])
    };
}

/// A line with every detail: `trace!("step {n}"; order = id)`.
#[macro_export]
macro_rules! trace {
    ($($line:tt)+) => { $crate::log!($crate::Level::Trace, $($line)+) };
}

/// A line for debugging: `debug!("state {state:?}"; order = id)`.
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::log!($crate::Level::Debug, $($line)+) };
}

/// A line about what happens. Values that a program may look for come after a semicolon:
///
/// ```no_run
/// # use indelible_sdk::prelude::*;
/// # let (order, cents) = (7, 500);
/// info!("charged {cents} cents"; order = order, cents = cents);
/// ```
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::log!($crate::Level::Info, $($line)+) };
}

/// A line about something odd: `warn!("slow"; order = id)`.
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::log!($crate::Level::Warn, $($line)+) };
}

/// A line about something wrong: `error!("lost {count}"; order = id)`.
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::log!($crate::Level::Error, $($line)+) };
}
