//! When a request is sent again, and after how long. Pure: the clock and the dice are elsewhere.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use indelible_api::{Code, Problem};

use crate::error::Cause;

/// The longest time for which callers repeat a request: the server's own default. A server
/// remembers operations for longer, so a repeated request never runs a second time (C-3).
pub const RETRY_HORIZON: Duration = Duration::from_secs(24 * 3600);

/// The longest `Retry-After` that is believed: a server that says more is asked again after this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How often and for how long a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// No attempt begins later than this after the first failure. At most [`RETRY_HORIZON`].
    pub total: Duration,
    /// The most attempts, the first included. At least 1.
    pub attempts_max: u32,
    /// The wait after the first failure; it doubles each time. Each wait is between half of that and
    /// all of it, so that clients of a server that comes back do not come all at once.
    pub delay_min: Duration,
    /// The longest wait, unless the server asks for more.
    pub delay_max: Duration,
}

/// A failed attempt after which the request is sent again.
#[derive(Debug)]
#[non_exhaustive]
pub struct Repeat<'a> {
    /// How many attempts there were.
    pub attempts: u32,
    /// When the next one begins, from now.
    pub delay: Duration,
    /// Why this attempt failed.
    pub cause: &'a Cause,
}

/// Called for every [`Repeat`].
pub(crate) type OnRepeat = Arc<dyn Fn(&Repeat<'_>) + Send + Sync>;

impl Default for Retries {
    /// Long enough for a server to restart: a minute.
    fn default() -> Self {
        Self {
            total: Duration::from_secs(60),
            attempts_max: 30,
            delay_min: Duration::from_millis(50),
            delay_max: Duration::from_secs(5),
        }
    }
}

impl Retries {
    /// Whether these make sense.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.total > RETRY_HORIZON {
            let most = RETRY_HORIZON.as_secs();
            return Err(format!("requests can be retried for at most {most} seconds"));
        }
        if self.attempts_max == 0 {
            return Err("a request needs at least one attempt".to_owned());
        }
        Ok(())
    }

    /// The wait after this many failures in a row. `dice` is from 0 to 1.
    pub(crate) fn delay(&self, failures: u32, asked: Option<Duration>, dice: f64) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let whole = self.delay_min.saturating_mul(doubled).min(self.delay_max);
        let own = whole.mul_f64(0.5 + 0.5 * dice.clamp(0.0, 1.0));
        own.max(asked.unwrap_or(Duration::ZERO).min(RETRY_AFTER_MAX))
    }
}

/// Whether an answer is final. A function that returned, failed, was cancelled or is Indeterminate
/// is over (V-31): the request is not repeated, whatever the document says. Nor is it while the
/// server is on hold, or closed after a restore (impl C-48): a person ends that, and no caller should
/// wait for a person unasked.
pub(crate) fn is_final(status: StatusCode, problem: Option<&Problem>) -> bool {
    match status {
        _ if problem.is_some_and(|problem| waits_for_a_person(problem.code)) => true,
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => false,
        StatusCode::FAILED_DEPENDENCY => true,
        // `InFlight` is retryable, but a caller that chose `conflict` wants to know at once (C-2).
        _ => problem.is_none_or(|problem| !problem.retryable || problem.code == Code::InFlight),
    }
}

/// Whether the same request succeeds only once a person has decided: to lift the hold of a server.
fn waits_for_a_person(code: Code) -> bool {
    matches!(code, Code::OnHold | Code::Restored)
}

/// Whether a request with this answer may have had an effect.
pub(crate) fn may_have_arrived(status: StatusCode, problem: Option<&Problem>) -> bool {
    let refuses =
        |problem: &Problem| problem.code == Code::Busy || waits_for_a_person(problem.code);
    status.is_server_error() && !problem.is_some_and(refuses)
}

/// Whether an answer says what became of the operation: it was given after the key or the id was
/// looked up. Any other refusal says nothing of earlier attempts (V-4).
pub(crate) fn speaks_of_operation(code: Code) -> bool {
    matches!(
        code,
        Code::FunctionFailed
            | Code::Cancelled
            | Code::Indeterminate
            | Code::Conflict
            | Code::Mismatch
            | Code::InFlight
            | Code::Expired
            | Code::WrongState
            | Code::NoSuchComponent
            | Code::NoSuchFunction
            | Code::InvalidComponent
            | Code::SequenceGap
            | Code::SequenceExhausted
            | Code::SequenceMismatch
            | Code::StaleAttempt
            | Code::KeyExists
            | Code::KeyNotFound
            | Code::VersionMismatch
            | Code::ValueMismatch
            | Code::BelowMin
            | Code::AboveMax
            | Code::UnitMismatch
            | Code::AmountOverflow
            | Code::ResultTooLarge
    )
}

/// Reads `Retry-After`: seconds, or a date, which `until` turns into a time from now.
pub(crate) fn retry_after(
    text: &str,
    until: impl Fn(std::time::SystemTime) -> Duration,
) -> Option<Duration> {
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok().map(until),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRIES: Retries = Retries {
        total: Duration::from_secs(60),
        attempts_max: 5,
        delay_min: Duration::from_millis(100),
        delay_max: Duration::from_secs(2),
    };

    /// Waits double, are spread over a half, and end at a bound.
    #[test]
    fn waits_grow_to_a_bound() {
        let millis = |failures, dice| RETRIES.delay(failures, None, dice).as_millis();
        assert_eq!([millis(1, 0.0), millis(1, 1.0)], [50, 100]);
        assert_eq!([millis(3, 0.0), millis(3, 1.0)], [200, 400]);
        assert_eq!([millis(40, 0.0), millis(u32::MAX, 1.0)], [1000, 2000]);
    }

    /// A server that asks for more time gets it, within a bound.
    #[test]
    fn retry_after_is_respected_and_capped() {
        let asked = |seconds| RETRIES.delay(1, Some(Duration::from_secs(seconds)), 1.0);
        assert_eq!(asked(0), Duration::from_millis(100));
        assert_eq!(asked(7), Duration::from_secs(7));
        assert_eq!(asked(86_400), RETRY_AFTER_MAX);
    }

    /// Seconds and dates, and nothing else.
    #[test]
    fn retry_after_is_read() {
        let read = |text| retry_after(text, |_| Duration::from_secs(9));
        assert_eq!(read("3"), Some(Duration::from_secs(3)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(9)));
        assert_eq!(read("soon"), None);
        assert_eq!(read("-1"), None);
    }

    /// V-31: a sealed operation is never asked for again, even if a document says so; V-73: nor is
    /// any other answer of a function.
    #[test]
    fn the_last_word() {
        for code in Code::ALL {
            let mut problem = Problem::new(code, "");
            let status = StatusCode::from_u16(problem.status).unwrap();
            let again = !is_final(status, Some(&problem));
            let waits_in_vain = matches!(code, Code::InFlight | Code::OnHold | Code::Restored);
            assert_eq!(again, problem.retryable && !waits_in_vain, "{code}");
            if status == StatusCode::FAILED_DEPENDENCY {
                problem.retryable = true;
                assert!(is_final(status, Some(&problem)), "{code}");
            }
        }
        assert!(!is_final(StatusCode::BAD_GATEWAY, None));
        assert!(is_final(StatusCode::NOT_FOUND, None));
        assert!(is_final(StatusCode::OK, None));
    }

    /// C-3: no client repeats for longer than servers remember.
    #[test]
    fn too_long_is_refused() {
        assert!(Retries::default().check().is_ok());
        let long = Retries { total: RETRY_HORIZON + Duration::from_secs(1), ..RETRIES };
        assert!(long.check().is_err());
        assert!(Retries { attempts_max: 0, ..RETRIES }.check().is_err());
    }
}
