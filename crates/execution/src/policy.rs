//! Retry policies as guests ask for them: what is left out is filled in, and what makes no sense is
//! refused. One set of rules for every host that guests have (C-38, D5, V-24).

use indelible_http::{HEADERS_MAX, PARTS_MAX, Request};
use indelible_journal::{
    Backoff, Durability, FunctionName, Idempotency, Micros, OnUnknown, Reconciler, RetryBound,
    RetryClass, RetryPolicy, Statuses,
};

/// The longest time in a policy: a longer one is more likely a wrong unit than meant.
const TIME_MAX: Micros = Micros::from_secs(10 * 365 * 24 * 60 * 60);

/// The longest that one attempt at a request may take.
const TIMEOUT_MAX: Micros = Micros::from_secs(60 * 60);

/// The most statuses that a policy names: it is journaled with every request.
const STATUSES_MAX: usize = 64;

/// Methods that are `idem` unless a request says otherwise (D5).
const IDEM_METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"];

/// `retry-policy` of the contract. Times are in microseconds.
#[derive(Debug, Clone)]
pub struct Retries {
    /// How many retries there may be; none: no bound.
    pub retries_max: Option<u32>,
    /// The wait before the first retry.
    pub backoff_base: u64,
    /// The longest wait before a retry.
    pub backoff_cap: u64,
    /// For how long it is tried again.
    pub deadline: Option<u64>,
}

/// `http-policy` of the contract. Times are in microseconds.
#[derive(Debug, Clone)]
pub struct HttpPolicy {
    /// Whether sending it again is harmless; none: its method says.
    pub idem: Option<bool>,
    /// How often, and when, it is tried again.
    pub retries: Retries,
    /// How long one attempt may take.
    pub timeout: u64,
    /// Statuses that prove that it was not processed; none: the usual ones.
    pub not_processed: Option<Vec<u16>>,
    /// Statuses that say nothing about whether it was processed; none: the usual ones.
    pub no_answer: Option<Vec<u16>>,
    /// The name of the function to ask whether it happened, and its settle time.
    pub reconciler: Option<(String, u64)>,
    /// What is done if its outcome stays unknown.
    pub on_unknown: OnUnknown,
}

impl Retries {
    /// The policy of a function of this class. It is not checked.
    pub fn of_function(&self, class: RetryClass) -> RetryPolicy {
        RetryPolicy {
            class,
            bound: self.retries_max.map_or(RetryBound::Unbounded, RetryBound::Bounded),
            backoff: Backoff {
                base: Micros::new(self.backoff_base),
                cap: Micros::new(self.backoff_cap),
            },
            deadline: self.deadline.map(Micros::new),
            ..RetryPolicy::default()
        }
    }
}

/// The class that a guest gives to a function.
pub fn class(persist: bool, idem: bool) -> RetryClass {
    match (persist, idem) {
        (true, false) => RetryClass::PERSIST,
        (true, true) => RetryClass::PERSIST_IDEM,
        (false, false) => RetryClass::VOLATILE,
        (false, true) => RetryClass::VOLATILE_IDEM,
    }
}

/// The policy of a request. Err: why the request, or its policy, is invalid. It is journaled either
/// way, and the guest learns of the error when it awaits: otherwise a rule that comes later could
/// lead a replay elsewhere (D6).
pub fn of_request(request: &Request, policy: HttpPolicy) -> Result<RetryPolicy, String> {
    check_request(request)?;
    let idem = policy.idem.unwrap_or_else(|| IDEM_METHODS.contains(&request.method.as_str()));
    let timeout = Micros::new(policy.timeout);
    if timeout == Micros::ZERO || timeout > TIMEOUT_MAX {
        return Err(format!("its time-out is {timeout}; it must be above zero and at most 1 h"));
    }
    let statuses = |given: Option<Vec<u16>>| match given {
        Some(list) if list.len() > STATUSES_MAX => {
            Err(format!("it names {} statuses; at most {STATUSES_MAX} are allowed", list.len()))
        }
        Some(list) => Ok(Some(Statuses::from_iter(list))),
        None => Ok(None),
    };
    let usual: &[u16] = if idem { &[429, 503] } else { &[429] };
    let not_processed = statuses(policy.not_processed)?;
    let reconciler = match policy.reconciler {
        None => None,
        Some((function, settle)) => {
            let function = FunctionName::new(&function)
                .map_err(|error| format!("the reconciler's name is invalid: {error}"))?;
            Some(Reconciler { function, settle: Micros::new(settle) })
        }
    };
    let class = RetryClass {
        durability: Durability::Persist,
        idempotency: if idem { Idempotency::Idem } else { Idempotency::NonIdem },
    };
    let policy = RetryPolicy {
        attempt_timeout: Some(timeout),
        reconciler,
        on_unknown: policy.on_unknown,
        not_processed: not_processed.unwrap_or_else(|| usual.iter().copied().collect()),
        no_answer: statuses(policy.no_answer)?,
        ..policy.retries.of_function(class)
    };
    check(&policy)?;
    Ok(policy)
}

fn check_request(request: &Request) -> Result<(), String> {
    let token = |c: char| c.is_ascii_uppercase() || c == '-';
    if request.method.is_empty() || request.method.len() > 32 || !request.method.chars().all(token)
    {
        return Err("the method must be in capital letters".to_owned());
    }
    if ["CONNECT", "TRACE"].contains(&request.method.as_str()) {
        return Err(format!("{} is not a request to a server", request.method));
    }
    if request.headers.len() > HEADERS_MAX {
        let count = request.headers.len();
        return Err(format!("it has {count} headers; at most {HEADERS_MAX} are allowed"));
    }
    let lists = request.headers.iter().map(|header| &header.value).chain([&request.body]);
    match lists.map(Vec::len).max() {
        Some(count) if count > PARTS_MAX => {
            Err(format!("a value has {count} parts; at most {PARTS_MAX} are allowed"))
        }
        _ => Ok(()),
    }
}

/// Checks a policy, of a function or a request.
pub fn check(policy: &RetryPolicy) -> Result<(), String> {
    let Backoff { base, cap } = policy.backoff;
    if cap < base {
        return Err(format!("its backoff grows from {base} to {cap}: the cap is below the base"));
    }
    if base == Micros::ZERO && policy.bound == RetryBound::Unbounded {
        return Err("its retries have neither a limit nor a delay".into());
    }
    if policy.deadline == Some(Micros::ZERO) {
        return Err("its deadline must be above zero".into());
    }
    let settle = policy.reconciler.as_ref().map(|reconciler| reconciler.settle);
    match [Some(cap), policy.deadline, settle].into_iter().flatten().find(|time| *time > TIME_MAX) {
        Some(time) => {
            Err(format!("{time} in its retry policy is too long; times are in microseconds"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> HttpPolicy {
        let retries = Retries {
            retries_max: Some(3),
            backoff_base: 1_000,
            backoff_cap: 1_000_000,
            deadline: None,
        };
        HttpPolicy {
            idem: None,
            retries,
            timeout: 30_000_000,
            not_processed: None,
            no_answer: None,
            reconciler: None,
            on_unknown: OnUnknown::Indeterminate,
        }
    }

    fn given(method: &str, policy: HttpPolicy) -> Result<RetryPolicy, String> {
        let (method, url) = (method.to_owned(), "http://a.b".to_owned());
        of_request(&Request { method, url, headers: vec![], body: vec![] }, policy)
    }

    /// V-24, C-38: the class that a method has unless the request says otherwise.
    #[test]
    fn classes_follow_the_method() {
        let class = |method: &str, idem| {
            given(method, HttpPolicy { idem, ..policy() }).unwrap().class.idempotency
        };
        for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
            assert_eq!(class(method, None), Idempotency::Idem, "{method}");
            assert_eq!(class(method, Some(false)), Idempotency::NonIdem, "{method}");
        }
        for method in ["POST", "PATCH", "MERGE"] {
            assert_eq!(class(method, None), Idempotency::NonIdem, "{method}");
            assert_eq!(class(method, Some(true)), Idempotency::Idem, "{method}");
        }
    }

    #[test]
    fn statuses_have_defaults() {
        assert_eq!(given("POST", policy()).unwrap().not_processed.as_slice(), [429]);
        assert_eq!(given("GET", policy()).unwrap().not_processed.as_slice(), [429, 503]);
        let none = HttpPolicy { not_processed: Some(vec![]), ..policy() };
        assert!(given("POST", none).unwrap().not_processed.as_slice().is_empty());
    }

    #[test]
    fn nonsense_is_told() {
        let why = |method: &str, policy| given(method, policy).unwrap_err();
        assert!(why("post", policy()).contains("capital letters"));
        assert!(why("", policy()).contains("capital letters"));
        assert!(why("G\r\nET", policy()).contains("capital letters"));
        assert!(why("CONNECT", policy()).contains("not a request"));
        assert!(why("GET", HttpPolicy { timeout: 0, ..policy() }).contains("time-out"));
        assert!(why("GET", HttpPolicy { timeout: u64::MAX, ..policy() }).contains("time-out"));
        let many = HttpPolicy { no_answer: Some((0..100).collect()), ..policy() };
        assert!(why("GET", many).contains("100 statuses"));
        let reconciler = Some(("\n".into(), 0));
        assert!(why("POST", HttpPolicy { reconciler, ..policy() }).contains("reconciler"));
        let mut backwards = policy();
        backwards.retries.backoff_cap = 1;
        assert!(why("GET", backwards).contains("below the base"));
    }
}
