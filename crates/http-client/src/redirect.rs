//! Redirections, of requests that change nothing. Pure.

use http::header::LOCATION;
use indelible_http::Response;

use crate::grants::AttemptGrants;
use crate::target::Target;

/// Where an answer redirects the request. `None`: it does not, or the redirection may not be
/// followed; then this answer is the outcome.
pub(crate) fn next(response: &Response, from: &Target, granted: &AttemptGrants) -> Option<Target> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = std::str::from_utf8(response.header(LOCATION.as_str())?).ok()?;
    let next = from.follow(location).ok()?;
    // Never out of TLS, whatever is granted.
    if from.origin.tls && !next.origin.tls {
        return None;
    }
    granted.host(&next.origin).ok()?;
    Some(next)
}
