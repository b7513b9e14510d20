//! Events as one line for people, in the style of the specification's examples.
//!
//! For reading only: payloads are shortened, ids lose their root's hash. [`crate::json`] has the
//! form that can be read back. Every text here may be hostile (a payload, a message, a name), so
//! nothing that could rewrite a terminal is passed on.

use std::fmt::{self, Write as _};

use crate::event::{Event, InvokeKind, Started};
use crate::ids::{Attempt, PromiseId};
use crate::names::SignalName;
use crate::payload::Outcome;
use crate::wait::{AwaitKind, WaitSet};

/// How many characters of a payload, message or name are shown: enough to recognise it, few
/// enough that a line stays a line.
const TEXT_CHARS_MAX: usize = 60;
/// How many members of a wait set are shown.
const MEMBERS_MAX: usize = 4;
/// How many random bytes are shown.
const RANDOM_BYTES_MAX: usize = 16;

impl Event {
    /// One line for people, such as `InvokeStarted("root.1", attempt=1)`. `root` stands for the
    /// hash that the whole tree shares.
    pub fn describe(&self) -> impl fmt::Display + '_ {
        Described(self)
    }
}

struct Described<'a>(&'a Event);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        match self.0 {
            Event::ExecutionStarted(started) => write!(f, "{name}({})", Start(started)),
            Event::ExecutionCompleted { result } => write!(f, "{name}(Ok({}))", Clip(result)),
            Event::ExecutionFailed { error } => write!(f, "{name}({})", Clip(error)),
            Event::CancelRequested { reason } | Event::ExecutionCancelled { reason } => {
                write!(f, "{name}(\"{}\")", Clip(reason))
            }
            Event::InvokeScheduled { promise_id, kind, function_name, input, retry_policy: _ } => {
                let kind = match kind {
                    InvokeKind::Function => "",
                    InvokeKind::Http => ", Http",
                };
                write!(
                    f,
                    "{name}({}, {}, {}{kind})",
                    Id(promise_id),
                    Clip(function_name),
                    Clip(input)
                )
            }
            Event::InvokeStarted { promise_id, attempt } => {
                write!(f, "{name}({}, attempt={attempt})", Id(promise_id))
            }
            Event::InvokeCompleted { promise_id, result, attempt } => {
                write!(f, "{name}({}, {}, attempt={attempt})", Id(promise_id), End(result))
            }
            Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at } => write!(
                f,
                "{name}({}, attempt={failed_attempt}, {cause:?}: {}, retry_at={retry_at})",
                Id(promise_id),
                Clip(error)
            ),
            Event::RandomGenerated { promise_id, value } => {
                write!(f, "{name}({}, {})", Id(promise_id), Random(value))
            }
            Event::TimeRecorded { promise_id, time } => {
                write!(f, "{name}({}, {time})", Id(promise_id))
            }
            Event::TimerScheduled { promise_id, duration, fire_at } => {
                write!(f, "{name}({}, {duration}, fire_at={fire_at})", Id(promise_id))
            }
            Event::TimerFired { promise_id } => write!(f, "{name}({})", Id(promise_id)),
            Event::SignalDelivered { signal_name, payload, delivery_id } => write!(
                f,
                "{name}({}, {}, delivery_id={delivery_id})",
                Signal(signal_name),
                Clip(payload)
            ),
            Event::SignalReceived { promise_id, signal_name, payload, delivery_id } => write!(
                f,
                "{name}({}, {}, {}, delivery_id={delivery_id})",
                Id(promise_id),
                Signal(signal_name),
                Clip(payload)
            ),
            Event::ExecutionAwaiting { waiting_on, kind } => {
                write!(f, "{name}({}, {})", Members(waiting_on), Kind(kind))
            }
            Event::ExecutionResumed => f.write_str(name),
            Event::JoinSetCreated { join_set_id } => {
                write!(f, "{name}({})", Id(join_set_id.place()))
            }
            Event::JoinSetSubmitted { join_set_id, promise_id } => {
                write!(f, "{name}({}, {})", Id(join_set_id.place()), Id(promise_id))
            }
            Event::JoinSetAwaited { join_set_id, promise_id, result } => {
                let (set, promise) = (Id(join_set_id.place()), Id(promise_id));
                write!(f, "{name}({set}, {promise}, {})", End(result))
            }
        }
    }
}

/// `"root.0.1"`.
struct Id<'a>(&'a PromiseId);

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"root")?;
        self.0.path().iter().try_for_each(|segment| write!(f, ".{segment}"))?;
        f.write_char('"')
    }
}

/// The fields of `ExecutionStarted`, without those that are nearly always the same.
struct Start<'a>(&'a Started);

impl fmt::Display for Start<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Started { function_name, input, component_digest, .. } = self.0;
        write!(f, "{}, {}, component={component_digest:#}", Clip(function_name), Clip(input))?;
        match &self.0.parent_id {
            // Only a root has a key (see C-31), and the execution that started a root is in another
            // tree.
            Some(parent) if self.0.idempotency_key.is_some() => write!(f, ", parent={parent:#}")?,
            Some(parent) => write!(f, ", parent={}", Id(parent.as_promise()))?,
            None => {}
        }
        if self.0.attempts.as_slice().iter().any(|attempt| *attempt != Attempt::FIRST) {
            write!(f, ", attempts={}", self.0.attempts)?;
        }
        Ok(())
    }
}

/// `Ok(…)` or `Err(Kind: …)`: what is inside is shortened, not the parentheses.
struct End<'a>(&'a Outcome);

impl fmt::Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Outcome::Ok(payload) => write!(f, "Ok({})", Clip(payload)),
            Outcome::Err(failure) => write!(f, "Err({})", Clip(failure)),
        }
    }
}

struct Random<'a>(&'a [u8]);

impl fmt::Display for Random<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().take(RANDOM_BYTES_MAX).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        match self.0.len() {
            0..=RANDOM_BYTES_MAX => Ok(()),
            count => write!(f, "… ({count} bytes)"),
        }
    }
}

struct Signal<'a>(&'a SignalName);

impl fmt::Display for Signal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Clip(self.0))
    }
}

struct Members<'a>(&'a WaitSet);

impl fmt::Display for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(join_set) = self.0.join_set() {
            return write!(f, "rest of {}", Id(join_set.place()));
        }
        f.write_char('[')?;
        for (index, promise) in self.0.promises().take(MEMBERS_MAX).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", Id(&promise))?;
        }
        match self.0.promises().len().checked_sub(MEMBERS_MAX) {
            None | Some(0) => f.write_char(']'),
            Some(more) => write!(f, ",… {more} more]"),
        }
    }
}

struct Kind<'a>(&'a AwaitKind);

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())?;
        match self.0 {
            AwaitKind::Single | AwaitKind::Any | AwaitKind::All => Ok(()),
            AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } => {
                write!(f, "({})", Signal(name))
            }
        }
    }
}

/// The first [`TEXT_CHARS_MAX`] characters of something, and `…` if there are more.
struct Clip<T>(T);

impl<T: fmt::Display> fmt::Display for Clip<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clipper = Clipper { out: f, left: TEXT_CHARS_MAX, cut: false };
        match write!(clipper, "{}", self.0) {
            // Stopping early by an error spares the rest of a payload of many megabytes.
            Err(fmt::Error) if clipper.cut => f.write_char('…'),
            result => result,
        }
    }
}

struct Clipper<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    left: usize,
    cut: bool,
}

impl fmt::Write for Clipper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                self.cut = true;
                return Err(fmt::Error);
            }
            self.left -= 1;
            if rewrites_the_line(c) {
                write!(self.out, "{}", c.escape_unicode())?;
            } else {
                self.out.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Control characters, and the marks that break a line or turn the direction of its text.
pub(crate) fn rewrites_the_line(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests;
