//! Doubts: effects and lost volatile calls of which it is, or was, unknown whether they happened
//! (D5). A doubt is open until it is settled, also when the execution that it arose in has gone on
//! or is deleted (C-78). It has a copy of the evidence that a person needs to find out.
//!
//! ```text
//! doubts           journal key ‖ child (4)                                  ->   JSON, sealed
//! doubts_by_time   settled (1) ‖ since (8) ‖ journal key ‖ child (4)        ->   nothing
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{Attempt, JournalKey, PromiseId, RootHash, Timestamp};
use indelible_store::{Batch, Position, Read, ReadError, Scan, Seen, Table, prefix_range};
use serde::{Deserialize, Serialize};

#[cfg(feature = "store")]
use super::beginning::IdPrefix;
use super::{DOUBTS, DOUBTS_BY_TIME, codec, keys};

const VERSION: u8 = 1;

/// What a doubt is about: a child of an attempt at an execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DoubtId {
    /// The execution, and which attempt at it.
    pub key: JournalKey,
    /// Its child.
    pub child: u32,
}

impl DoubtId {
    /// The promise of the effect or call.
    pub fn promise(&self) -> PromiseId {
        self.key.execution_id().child(self.child)
    }
}

/// A doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// The attempt whose outcome is unknown.
    pub attempt: Attempt,
    /// Since when it is unknown.
    pub since: Timestamp,
    /// Method and address, or the function that was called.
    pub label: String,
    /// Why it is unknown, for people.
    pub why: String,
    /// What has become of it.
    pub state: DoubtState,
    /// What a person needs to find out.
    pub evidence: Box<Evidence>,
}

impl Doubt {
    /// Whether the question is still open.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, DoubtState::Settled(_))
    }

    /// Whether the execution waits for an answer.
    pub fn is_awaited(&self) -> bool {
        matches!(self.state, DoubtState::Held | DoubtState::Asking(_))
    }
}

/// What has become of a doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoubtState {
    /// The execution waits for a person.
    Held,
    /// The effect's reconciler is being asked.
    Asking(ReconcilerProgress),
    /// The effect ended as Indeterminate, and the execution has gone on.
    Ended {
        /// When it ended.
        at: Timestamp,
    },
    /// It is known, or accepted as unknown.
    Settled(Settlement),
}

/// How far a reconciler was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconcilerProgress {
    /// How many answers it gave.
    pub answers: u32,
    /// The last answer was that the effect did not happen.
    pub not_done: bool,
    /// When the next question is asked: the due time of its timer.
    pub ask_at: Timestamp,
}

/// How a doubt was settled. It is made once (C-78).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// What is known now.
    pub finding: Finding,
    /// The status of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Who says so.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When, in microseconds.
    pub at_us: u64,
}

/// What is known of a doubt when it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It happened.
    Happened,
    /// It did not happen.
    DidNotHappen,
    /// A person had it run again; a new doubt about it takes this one's place.
    RunAgain,
    /// It stays unknown, and a person accepts that.
    AcceptedUnknown,
}

/// A copy of what a person needs to find out whether something happened. Bounded: long texts are
/// cut.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The namespace of the tree.
    pub namespace: String,
    /// The operation of the tree's root.
    pub operation: String,
    /// The idempotency key that the caller of the root gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The labels of the root, by name (see C-79).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The function whose call or request it is.
    pub function: String,
    /// What the function was called with.
    pub input: Excerpt,
    /// The request; none of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<SentRequest>,
    /// The input of a lost call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Excerpt>,
    /// The attempts that are known, the last one last.
    pub attempts: Vec<EvidenceAttempt>,
    /// What the reconciler said, the last answer last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<EvidenceAnswer>,
}

/// A request as it was sent; secrets stand there by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentRequest {
    /// The method.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// The `Idempotency-Key` that the other side got.
    pub idempotency_key: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Excerpt,
}

/// An attempt, as evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceAttempt {
    /// Its number.
    pub attempt: u32,
    /// When it was started, in microseconds.
    pub started_us: u64,
    /// How it ended.
    pub end: String,
}

/// An answer of the reconciler, as evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceAnswer {
    /// When it came, in microseconds.
    pub at_us: u64,
    /// What it said.
    pub answer: String,
}

/// The beginning of some bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    /// How many bytes there are in all.
    pub bytes: u64,
    /// The beginning, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The beginning in base64, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The SHA-256 of all of it, if more than the beginning is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    attempt: u32,
    since_us: u64,
    label: String,
    why: String,
    state: StoredState,
    evidence: Box<Evidence>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum StoredState {
    Held,
    Asking { answers: u32, not_done: bool, ask_at_us: u64 },
    Ended { at_us: u64 },
    Settled(Settlement),
}

fn write_body(doubt: &Doubt) -> Vec<u8> {
    let state = match &doubt.state {
        DoubtState::Held => StoredState::Held,
        DoubtState::Asking(ReconcilerProgress { answers, not_done, ask_at }) => {
            StoredState::Asking {
                answers: *answers,
                not_done: *not_done,
                ask_at_us: ask_at.as_micros(),
            }
        }
        DoubtState::Ended { at } => StoredState::Ended { at_us: at.as_micros() },
        DoubtState::Settled(settlement) => StoredState::Settled(settlement.clone()),
    };
    codec::write_json(&Stored {
        version: codec::JSON_VERSION,
        attempt: doubt.attempt.get(),
        since_us: doubt.since.as_micros(),
        label: doubt.label.clone(),
        why: doubt.why.clone(),
        state,
        evidence: doubt.evidence.clone(),
    })
}

fn read_body(body: &[u8]) -> Result<Doubt, String> {
    let stored: Stored = codec::read_json(body)?;
    let state = match stored.state {
        StoredState::Held => DoubtState::Held,
        StoredState::Asking { answers, not_done, ask_at_us } => {
            let ask_at = codec::read_micros(ask_at_us)?;
            DoubtState::Asking(ReconcilerProgress { answers, not_done, ask_at })
        }
        StoredState::Ended { at_us } => DoubtState::Ended { at: codec::read_micros(at_us)? },
        StoredState::Settled(settlement) => {
            codec::read_micros(settlement.at_us)?;
            DoubtState::Settled(settlement)
        }
    };
    Ok(Doubt {
        attempt: Attempt::new(stored.attempt).ok_or("an attempt is invalid")?,
        since: codec::read_micros(stored.since_us)?,
        label: stored.label,
        why: stored.why,
        state,
        evidence: stored.evidence,
    })
}

/// Adds to a batch: the row and its index entry are `after` where they were `before`.
pub fn replace(batch: &mut Batch, id: &DoubtId, before: Option<&Doubt>, after: &Doubt) {
    codec::put(batch, DOUBTS, encode(id), VERSION, &write_body(after));
    let entry = Place::of(id, after).encode();
    if let Some(before) = before.map(|before| Place::of(id, before).encode()) {
        if before == entry {
            return;
        }
        batch.delete(DOUBTS_BY_TIME, before);
    }
    batch.put(DOUBTS_BY_TIME, entry, Bytes::new());
}

/// The doubt about something; none if there never was one.
pub fn get(read: &impl Read, id: &DoubtId) -> Result<Seen<Option<Doubt>>, ReadError> {
    let key = encode(id);
    codec::get(read, DOUBTS, &key, |value| decode(&key, value).map(|(_, doubt)| doubt))
}

/// The doubts about a promise, one for each attempt at its execution that has one, at most `limit`.
/// The last is of the latest attempt.
pub fn of_promise(
    read: &impl Read,
    promise: &PromiseId,
    limit: usize,
) -> Result<Seen<Vec<(DoubtId, Doubt)>>, ReadError> {
    let Some(execution) = promise.parent() else {
        return Ok(Seen { value: Vec::new(), position: Position::START });
    };
    let scan = Scan::prefix(DOUBTS, keys::execution(&execution), limit);
    let mut seen = codec::scan(read, &scan, decode)?;
    seen.value.retain(|(id, _)| id.promise() == *promise);
    Ok(seen)
}

/// The trees whose id has this prefix and that have doubts, each by its first doubt: at most
/// `limit`. The trees themselves may be deleted.
#[cfg(feature = "store")]
pub fn trees(
    read: &impl Read,
    prefix: &IdPrefix,
    limit: usize,
) -> Result<Seen<Vec<(DoubtId, Doubt)>>, ReadError> {
    let mut scan = Scan { range: prefix.range(), ..Scan::all(DOUBTS, 1) };
    let mut found = Seen { value: Vec::new(), position: Position::START };
    while found.value.len() < limit {
        let mut seen = codec::scan(read, &scan, decode)?;
        found.position = found.position.max(seen.position);
        let Some((id, doubt)) = seen.value.pop() else { break };
        let root = Bytes::copy_from_slice(id.key.execution_id().root().as_bytes());
        found.value.push((id, doubt));
        let Bound::Excluded(next) = prefix_range(root).1 else { break };
        scan.range.0 = Bound::Included(next);
    }
    Ok(found)
}

/// A place in the order of doubts: open ones before settled ones, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Whether it is settled.
    pub settled: bool,
    /// Since when it was unknown.
    pub since: Timestamp,
    /// What it is about.
    pub id: DoubtId,
}

impl Place {
    /// The place of a doubt.
    pub fn of(id: &DoubtId, doubt: &Doubt) -> Self {
        Self { settled: !doubt.is_open(), since: doubt.since, id: id.clone() }
    }

    fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(80);
        out.put_u8(u8::from(self.settled));
        out.put_u64(self.since.as_micros());
        keys::put_journal_key(&mut out, &self.id.key);
        out.put_u32(self.id.child);
        out.freeze()
    }
}

/// Which doubts are wanted. What is empty or none does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Those of these namespaces.
    pub namespaces: Vec<String>,
    /// Those that arose in this function.
    pub function: Option<String>,
    /// Those about requests to this host.
    pub host: Option<String>,
    /// Those with one of these states.
    pub states: Vec<StateName>,
    /// Those that arose at this time or later.
    pub since: Option<Timestamp>,
    /// Those that arose before this time.
    pub before: Option<Timestamp>,
    /// Those of this tree.
    pub tree: Option<RootHash>,
}

/// The state of a doubt, without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateName {
    /// [`DoubtState::Held`].
    Held,
    /// [`DoubtState::Asking`].
    Asking,
    /// [`DoubtState::Ended`].
    Ended,
    /// [`DoubtState::Settled`].
    Settled,
}

impl DoubtState {
    /// Its name.
    pub fn name(&self) -> StateName {
        match self {
            Self::Held => StateName::Held,
            Self::Asking(_) => StateName::Asking,
            Self::Ended { .. } => StateName::Ended,
            Self::Settled(_) => StateName::Settled,
        }
    }
}

impl Filter {
    fn accepts(&self, doubt: &Doubt) -> bool {
        let evidence = &doubt.evidence;
        let host = || evidence.request.as_ref().and_then(|request| host_of(&request.url));
        (self.namespaces.is_empty() || self.namespaces.contains(&evidence.namespace))
            && self.function.as_ref().is_none_or(|name| *name == evidence.function)
            && self.host.as_deref().is_none_or(|name| host() == Some(name))
            && (self.states.is_empty() || self.states.contains(&doubt.state.name()))
            && self.since.is_none_or(|since| doubt.since >= since)
            && self.before.is_none_or(|before| doubt.since < before)
    }
}

/// The host in an address.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    match host.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => host.split(':').next(),
    }
}

/// A page of doubts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The doubts of the page.
    pub doubts: Vec<(DoubtId, Doubt)>,
    /// Go on after this one; none at the end.
    pub next: Option<Place>,
}

/// Open doubts, and settled ones behind them if they are wanted, the oldest first: at most `limit`
/// after `after`, of at most `looked_at_max` rows.
pub fn page(
    read: &impl Read,
    filter: &Filter,
    with_settled: bool,
    after: Option<&Place>,
    limit: usize,
    looked_at_max: usize,
) -> Result<Seen<Page>, ReadError> {
    if let Some(root) = filter.tree {
        return page_of_tree(read, &root, filter, with_settled, after, limit, looked_at_max);
    }
    let end = if with_settled { 2 } else { 1 };
    let range = (Bound::Unbounded, Bound::Excluded(Bytes::copy_from_slice(&[end])));
    let mut scan = Scan { range, ..Scan::all(DOUBTS_BY_TIME, looked_at_max) };
    let from = after.cloned().map(|place| Bound::Excluded(place.encode()));
    // The index is in the order of time: what is older than wanted is passed over at once.
    let since = filter.since.filter(|_| after.is_none_or(|place| !place.settled));
    let since = since
        .map(|since| Bound::Included([&[0][..], &since.as_micros().to_be_bytes()].concat().into()));
    scan.range.0 = from.or(since).unwrap_or(Bound::Unbounded);
    let places = codec::scan(read, &scan, |key, _| decode_place(key))?;
    let (mut position, mut page) = (places.position, Page::default());
    let full = places.value.len() == looked_at_max;
    let mut last = None;
    for place in places.value {
        let seen = get(read, &place.id)?;
        position = position.max(seen.position);
        // The row may have changed since the index was read: then it has another place.
        let doubt = seen.value.filter(|doubt| Place::of(&place.id, doubt) == place);
        if let Some(doubt) = doubt.filter(|doubt| filter.accepts(doubt)) {
            if page.doubts.len() == limit {
                page.next = last;
                return Ok(Seen { value: page, position });
            }
            page.doubts.push((place.id.clone(), doubt));
        }
        last = Some(place);
    }
    page.next = last.filter(|_| full);
    Ok(Seen { value: page, position })
}

/// The doubts of one tree, parents before their children.
fn page_of_tree(
    read: &impl Read,
    root: &RootHash,
    filter: &Filter,
    with_settled: bool,
    after: Option<&Place>,
    limit: usize,
    looked_at_max: usize,
) -> Result<Seen<Page>, ReadError> {
    let mut scan = Scan::prefix(DOUBTS, Bytes::copy_from_slice(root.as_bytes()), looked_at_max);
    if let Some(after) = after {
        scan = scan.after(encode(&after.id));
    }
    let Seen { value: rows, position } = codec::scan(read, &scan, decode)?;
    let full = rows.len() == looked_at_max;
    let (mut page, mut last) = (Page::default(), None);
    for (id, doubt) in rows {
        let place = Place::of(&id, &doubt);
        if (with_settled || doubt.is_open()) && filter.accepts(&doubt) {
            if page.doubts.len() == limit {
                page.next = last;
                return Ok(Seen { value: page, position });
            }
            page.doubts.push((id, doubt));
        }
        last = Some(place);
    }
    page.next = last.filter(|_| full);
    Ok(Seen { value: page, position })
}

/// How many doubts are open, counted up to `most`, and since when the oldest is.
pub fn count_open(
    read: &impl Read,
    most: usize,
) -> Result<Seen<(usize, Option<Timestamp>)>, ReadError> {
    let scan = Scan::prefix(DOUBTS_BY_TIME, Bytes::from_static(&[0]), most);
    let Seen { value, position } = codec::scan(read, &scan, |key, _| decode_place(key))?;
    let oldest = value.first().map(|place| place.since);
    Ok(Seen { value: (value.len(), oldest), position })
}

fn encode(id: &DoubtId) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    keys::put_journal_key(&mut out, &id.key);
    out.put_u32(id.child);
    out.freeze()
}

pub(crate) fn decode(key: &Bytes, value: &Bytes) -> Result<(DoubtId, Doubt), ReadError> {
    let body = codec::unseal(&DOUBTS, key, VERSION, value)?;
    let id = codec::parse(&DOUBTS, key, key, |reader| {
        Ok(DoubtId { key: keys::read_journal_key(reader)?, child: reader.u32()? })
    })?;
    let doubt = read_body(&body).map_err(|what| codec::damaged(&DOUBTS, key, what))?;
    Ok((id, doubt))
}

pub(crate) fn decode_place(key: &Bytes) -> Result<Place, ReadError> {
    codec::parse(&DOUBTS_BY_TIME, key, key, |reader| {
        let settled = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(codec::Malformed("it is neither open nor settled")),
        };
        let since = reader.timestamp()?;
        let id = DoubtId { key: keys::read_journal_key(reader)?, child: reader.u32()? };
        Ok(Place { settled, since, id })
    })
}

/// The index entry that a row has, for checks.
pub(crate) fn entry(id: &DoubtId, doubt: &Doubt) -> (Table, Bytes) {
    (DOUBTS_BY_TIME, Place::of(id, doubt).encode())
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.encode()))
    }
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key =
            data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(|error| error.to_string())?;
        decode_place(&key.into()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros).expect("it is a time")
    }

    fn doubt(state: DoubtState) -> Doubt {
        let evidence = Evidence {
            namespace: "shop".to_owned(),
            operation: "o-1".to_owned(),
            function: "order".to_owned(),
            input: Excerpt { bytes: 2, text: Some("[]".to_owned()), ..Excerpt::default() },
            ..Evidence::default()
        };
        Doubt {
            attempt: Attempt::FIRST,
            since: at(7),
            label: "POST http://a.b/c".to_owned(),
            why: "no answer".to_owned(),
            state,
            evidence: Box::new(evidence),
        }
    }

    /// C-78: the text of version 1, in each state; what is not of it is refused.
    #[test]
    fn bodies_of_version_1_read() {
        let asking = ReconcilerProgress { answers: 1, not_done: true, ask_at: at(60) };
        let settled = Settlement {
            finding: Finding::Happened,
            status: Some(201),
            actor: "user:ada".to_owned(),
            reason: "it is in their book".to_owned(),
            at_us: 90,
        };
        let settled_text = r#"{"settled":{"finding":"happened","status":201,"actor":"user:ada","reason":"it is in their book","at_us":90}}"#;
        for (state, text) in [
            (DoubtState::Held, r#""held""#),
            (
                DoubtState::Asking(asking),
                r#"{"asking":{"answers":1,"not_done":true,"ask_at_us":60}}"#,
            ),
            (DoubtState::Ended { at: at(80) }, r#"{"ended":{"at_us":80}}"#),
            (DoubtState::Settled(settled), settled_text),
        ] {
            let text = format!(
                r#"{{"version":1,"attempt":1,"since_us":7,"label":"POST http://a.b/c","why":"no answer","state":{text},"evidence":{{"namespace":"shop","operation":"o-1","function":"order","input":{{"bytes":2,"text":"[]"}},"attempts":[]}}}}"#
            );
            let doubt = doubt(state);
            assert_eq!(str::from_utf8(&write_body(&doubt)), Ok(&*text));
            assert_eq!(read_body(text.as_bytes()), Ok(doubt));
            for (from, to) in
                [("n\":1", "n\":2"), ("attempt\":1", "attempt\":0"), ("\"o-1\"", "\"o-1\",\"x\":1")]
            {
                assert!(read_body(text.replacen(from, to, 1).as_bytes()).is_err(), "{to}");
            }
        }
    }

    #[test]
    fn hosts_of_addresses() {
        for (url, host) in [
            ("https://api.example.com/x?y#z", Some("api.example.com")),
            ("http://user:pass@a.b:8080", Some("a.b")),
            ("http://[::1]:80/", Some("::1")),
            ("http://a.b?q", Some("a.b")),
            ("mailto:a", None),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }
}
