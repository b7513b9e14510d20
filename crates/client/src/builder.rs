//! How a client is made: where the server is, who asks, and every bound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::{Host, Url};

use crate::client::{Client, Inner};
use crate::connect::{Roots, connections};
use crate::error::BuildError;
use crate::retry::{OnRepeat, Repeat, Retries};

/// The longest name of a namespace.
const NAMESPACE_BYTES_MAX: usize = 64;

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// A connection, without TLS.
    pub connect: Duration,
    /// An answer, from the first byte that is sent to the last that is received. Where the server is
    /// asked to wait, that time comes on top.
    pub answer: Duration,
    /// The answer to a deployment, which compiles.
    pub deploy: Duration,
    /// How long a call waits for its outcome, unless it says otherwise.
    pub call: Duration,
    /// How long a stream of events may be silent before it is asked for again: a connection can end
    /// without a word.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            deploy: Duration::from_secs(300),
            call: Duration::from_secs(300),
            silence: Duration::from_secs(60),
        }
    }
}

/// The largest answer, unless [`Builder::answer_bytes_max`] says otherwise: well above what the
/// server lets a function return. It bounds what a false server can make a client hold.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Makes a [`Client`].
#[derive(Clone)]
#[must_use]
pub struct Builder {
    address: String,
    token: Option<String>,
    token_in_the_open: bool,
    namespace: Option<String>,
    timeouts: Timeouts,
    retries: Retries,
    on_repeat: Option<OnRepeat>,
    roots: Roots,
    http2_only: bool,
    answer_bytes_max: usize,
}

/// Without the token.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            token: None,
            token_in_the_open: false,
            namespace: None,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            on_repeat: None,
            roots: Roots::default(),
            http2_only: false,
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// The API key, or another bearer token. It is shown nowhere.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sends the token also over plain http to another machine, where any host on the way can read
    /// it. For networks that encrypt by themselves.
    pub fn allow_token_over_plain_http(mut self) -> Self {
        self.token_in_the_open = true;
        self
    }

    /// The namespace of all requests. Without it, the credential's only namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// How long things may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// How often and for how long requests are sent again.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Calls this each time before a request is sent again, so that a program can say what it waits
    /// for. It should not take long.
    pub fn on_repeat(mut self, told: impl Fn(&Repeat<'_>) + Send + Sync + 'static) -> Self {
        self.on_repeat = Some(Arc::new(told));
        self
    }

    /// Trusts these roots, and not the system's.
    pub fn roots(mut self, roots: Vec<CertificateDer<'static>>) -> Self {
        self.roots = Roots::Only(roots);
        self
    }

    /// Trusts the roots in a PEM text, and not the system's.
    pub fn roots_pem(self, pem: &[u8]) -> Result<Self, BuildError> {
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        Ok(self.roots(roots.map_err(|error| BuildError::Roots(error.to_string()))?))
    }

    /// Speaks HTTP/2 from the first byte, also without TLS. Otherwise HTTP/1.1, and with TLS what
    /// the server chooses.
    pub fn http2_only(mut self) -> Self {
        self.http2_only = true;
        self
    }

    /// The largest answer, and the largest event, that is taken.
    pub fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// The client. It connects when it is first used.
    pub fn build(self) -> Result<Client, BuildError> {
        let base = address(&self.address)?;
        let authorization = match &self.token {
            None => None,
            Some(_) if !self.token_in_the_open && in_the_open(&base) => {
                return Err(BuildError::TokenInTheOpen);
            }
            Some(token) => Some(bearer(token)?),
        };
        if self.namespace.as_deref().is_some_and(|namespace| !is_namespace(namespace)) {
            return Err(BuildError::Namespace);
        }
        self.retries.check().map_err(BuildError::Option)?;
        let tls = base.scheme() == "https";
        let pool = connections(&self.roots, tls, self.timeouts.connect, self.http2_only)?;
        let inner = Inner {
            base,
            authorization,
            pool,
            timeouts: self.timeouts,
            retries: self.retries,
            on_repeat: self.on_repeat,
            answer_bytes_max: self.answer_bytes_max,
        };
        Ok(Client { inner: Arc::new(inner), namespace: self.namespace.map(Into::into) })
    }
}

fn address(text: &str) -> Result<Url, BuildError> {
    let refused = |why: &str| Err(BuildError::Address(why.to_owned()));
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => return refused(&error.to_string()),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused("it must begin with http:// or https://");
    }
    // The user and password would be shown in errors and logs.
    if !url.username().is_empty() || url.password().is_some() {
        return refused("it contains a user name; pass the credential as a token instead");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refused("it must not have a query or a fragment");
    }
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty();
    }
    Ok(url)
}

/// Whether a host on the way could read what is sent: plain http to another machine.
fn in_the_open(base: &Url) -> bool {
    let here = match base.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    base.scheme() == "http" && !here
}

fn bearer(token: &str) -> Result<HeaderValue, BuildError> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(BuildError::Token);
    }
    let text = format!("Bearer {token}");
    let mut value = HeaderValue::try_from(text).map_err(|_| BuildError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

pub(crate) fn is_namespace(text: &str) -> bool {
    let known =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    !text.is_empty() && text.len() <= NAMESPACE_BYTES_MAX && text.bytes().all(known)
}
