//! Lists of executions: by namespace, label, status, function and time, newest first, page by page.
//! The cost of a page depends on what it shows, not on the history: each status has its own part of
//! an index, and a list of several statuses merges their parts. Some lists pass over rows, and look
//! at a bounded number of rows for a page: a list by namespace and function, which looks at all
//! executions of the namespace; a list by label and anything else, which looks at all executions
//! with the label; a list of the callers' namespaces; and a list of last attempts alone. Executions
//! with a prefix of an id are found without an index (`beginning`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use bytes::{Bytes, BytesMut};
use data_encoding::BASE64URL_NOPAD;
use indelible_journal::{FunctionName, Namespace, Timestamp};
use indelible_slots::RECONCILE_NAMESPACE;
use indelible_store::{Position, Read, ReadError, Scan, Seen, Snapshot, Table, prefix_range};

use super::beginning::{self, IdPrefix};
use super::codec::{self, Malformed};
use super::executions::{self, Execution, Standing};
use super::index::{self, IndexOrder, Partition, Scope};
use super::labels::Label;
use super::{BY_LABEL, BY_NAMESPACE, EXECUTIONS};

/// The most executions on a page.
pub const PAGE_MAX: usize = 1000;

/// The most rows that are looked at for a page, with those that are passed over: other functions of
/// a namespace, attempts that were followed by others. No index is without them, and a page must
/// not cost a whole history.
pub const LOOKED_AT_MAX: usize = PAGE_MAX;

/// How many executions stand so, roots and others, all attempts, counted up to `most`.
pub fn count(read: &impl Read, standing: Standing, most: usize) -> Result<Seen<usize>, ReadError> {
    let (mut count, mut position) = (0, Position::START);
    for scope in Scope::ALL {
        let (table, prefix) = Partition { scope, standing }.prefix(IndexOrder::Status);
        let page = read.scan(&Scan::prefix(table, prefix, most - count))?;
        count += page.value.rows.len();
        position = position.max(page.position);
        if count == most {
            break;
        }
    }
    Ok(Seen { value: count, position })
}

/// Namespaces that begin like this are the server's own: its keys, and the questions of reconcilers.
const OWN_PREFIXES: [&str; 2] = ["_", RECONCILE_NAMESPACE];

/// Whether a namespace is the server's own.
pub fn is_own(namespace: &str) -> bool {
    OWN_PREFIXES.iter().any(|prefix| namespace.starts_with(prefix))
}

/// The most namespaces that a list by label looks through if it names none: each takes two reads.
pub const NAMESPACES_MAX: usize = 256;

/// Whose executions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Whose {
    /// Those of all namespaces.
    #[default]
    All,
    /// Roots of all namespaces but the server's own, without their children.
    Callers,
    /// Roots of these namespaces, without their children.
    Namespaces(Vec<Namespace>),
}

impl Whose {
    fn includes(&self, namespace: Option<&Namespace>) -> bool {
        match self {
            Self::All => true,
            Self::Callers => namespace.is_some_and(|name| !is_own(name.as_str())),
            Self::Namespaces(names) => namespace.is_some_and(|name| names.contains(name)),
        }
    }
}

impl From<Namespace> for Whose {
    fn from(namespace: Namespace) -> Self {
        Self::Namespaces(vec![namespace])
    }
}

/// Which executions to list. The default is all roots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The standings to list; all if empty.
    pub standings: Vec<Standing>,
    /// Whose: without children for all but [`Whose::All`], whatever `with_children` says.
    pub whose: Whose,
    /// Roots with all of these labels, without their children, whatever `with_children` says.
    /// Together with anything else, a page may have fewer executions than were asked for, or none,
    /// and still have a next page: [`LOOKED_AT_MAX`].
    pub labels: Vec<Label>,
    /// Executions of this function. Together with a namespace, a page may be short or empty, too.
    pub function: Option<FunctionName>,
    /// Executions created at this time or later.
    pub created_from: Option<Timestamp>,
    /// Executions created before this time.
    pub created_before: Option<Timestamp>,
    /// Also executions that have a caller.
    pub with_children: bool,
    /// Each execution by its last attempt, and only if that has one of the standings: an execution
    /// whose later attempt completed has not failed. Without this every attempt is listed by
    /// itself. A page may be short or empty, as for a function of a namespace.
    pub latest_only: bool,
    /// Roots whose id has this prefix, each by its last attempt, without their children, whatever
    /// `with_children` says. At most [`beginning::TREES_MAX`] trees are looked at.
    pub id_prefix: Option<IdPrefix>,
}

/// Where a page ended. It stays valid while executions change: an execution from an earlier page
/// does not come again, and one that does not change is not passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub(super) Bytes);

/// A text that is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not from a list of executions; leave it out to begin anew")]
pub struct CursorError;

const CURSOR_VERSION: u8 = 1;

/// What is wrong with a row that is missing.
const NOT_THERE: &str = "an index points to it, but it does not exist";

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![CURSOR_VERSION];
        bytes.extend_from_slice(&self.0);
        f.write_str(&BASE64URL_NOPAD.encode(&bytes))
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        // No place is longer, so a longer text from a client is not decoded.
        if text.len() > 1024 {
            return Err(CursorError);
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| CursorError)?;
        let (version, place) = bytes.split_first().ok_or(CursorError)?;
        if *version != CURSOR_VERSION || index::read_place(place).is_err() {
            return Err(CursorError);
        }
        Ok(Self(Bytes::copy_from_slice(place)))
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The executions, the newest first.
    pub executions: Vec<Execution>,
    /// Where to go on; none at the end. A page that is not full may still have a next one.
    pub next: Option<Cursor>,
    /// More trees have the filter's prefix than are looked at, or the filter has a label, and more
    /// than [`NAMESPACES_MAX`] namespaces have executions: none is listed.
    pub crowded: bool,
}

/// A page of executions after a cursor: at most `limit`, and at most [`PAGE_MAX`].
pub fn list(
    snapshot: &Snapshot,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Seen<Listing>, ReadError> {
    let piece = list_piece(snapshot, filter, after, limit, LOOKED_AT_MAX)?;
    Ok(piece.map(|(listing, _)| listing))
}

/// The same, looking at no more than `looked_at_max` rows; also returns how many rows it has looked
/// at. So a page can be made of pieces, each going on where the one before ended. A list by the
/// prefix of an id is one piece.
pub fn list_piece(
    snapshot: &Snapshot,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: usize,
    looked_at_max: usize,
) -> Result<Seen<(Listing, usize)>, ReadError> {
    if let Some(prefix) = &filter.id_prefix {
        let listing = beginning::list(snapshot, filter, prefix, after, limit)?;
        return Ok(listing.map(|listing| (listing, looked_at_max)));
    }
    let limit = limit.clamp(1, PAGE_MAX);
    let position = snapshot.position();
    let mut parts = match parts(snapshot, filter, after)? {
        Some(parts) if !parts.is_empty() => parts,
        found => {
            let listing = Listing { crowded: found.is_none(), ..Listing::default() };
            return Ok(Seen { value: (listing, 0), position });
        }
    };
    // Few parts are large: a little of each is read first, and more of those that are used up.
    let wanted_rows = limit.min(looked_at_max);
    let chunk = wanted_rows.div_ceil(parts.len()).max(8).min(wanted_rows + 1);
    parts.iter_mut().for_each(|part| part.scan.rows_max = chunk);
    let mut heads = BinaryHeap::new();
    for (number, part) in parts.iter_mut().enumerate() {
        if let Some((place, function)) = part.next(snapshot)? {
            heads.push(Reverse((place, number, function)));
        }
    }
    let mut listing = Listing::default();
    let mut last = None;
    let wanted = filter.function.as_ref();
    let may_pass = |part: &Part, function: &[u8]| {
        !part.has_functions || wanted.is_none_or(|wanted| wanted.as_str().as_bytes() == function)
    };
    let mut looked_at = 0;
    while let Some(Reverse((place, number, function))) = heads.pop() {
        if listing.executions.len() == limit || looked_at == looked_at_max {
            listing.next = last.map(Cursor);
            break;
        }
        looked_at += 1;
        if may_pass(&parts[number], &function) {
            let execution = match filter.latest_only {
                true => latest_at(snapshot, &place),
                false => execution_at(snapshot, &place).map(Some),
            };
            let execution = snapshot.damage().noted(execution)?;
            listing.executions.extend(execution.filter(|execution| filter.passes(execution)));
        }
        last = Some(place);
        if let Some((place, function)) = parts[number].next(snapshot)? {
            heads.push(Reverse((place, number, function)));
        }
    }
    Ok(Seen { value: (listing, looked_at), position })
}

impl Filter {
    /// Whether an execution passes, its place in the tree and its id apart.
    pub(super) fn passes(&self, execution: &Execution) -> bool {
        let Self { standings, whose, labels, function, created_from, created_before, .. } = self;
        (standings.is_empty() || standings.contains(&execution.standing))
            && whose.includes(execution.namespace.as_ref())
            && labels.iter().all(|label| execution.labels.has(label))
            && function.as_ref().is_none_or(|function| *function == execution.function)
            && created_from.is_none_or(|from| execution.created_at >= from)
            && created_before.is_none_or(|before| execution.created_at < before)
    }
}

/// The parts of indexes that a list merges. None: more namespaces than it looks through.
fn parts(
    snapshot: &Snapshot,
    filter: &Filter,
    after: Option<&Cursor>,
) -> Result<Option<Vec<Part>>, ReadError> {
    if let Some(label) = filter.labels.first() {
        let namespaces = match &filter.whose {
            Whose::Namespaces(names) => Some(names.clone()),
            Whose::All | Whose::Callers => callers(snapshot)?,
        };
        let part = |namespace: &Namespace| {
            Part::new((BY_LABEL, index::labelled(namespace, label)), filter, after)
        };
        return Ok(namespaces.map(|names| names.iter().map(part).collect()));
    }
    let orders: Vec<_> = match (&filter.whose, &filter.function) {
        (Whose::Namespaces(names), _) => names.iter().map(IndexOrder::Namespace).collect(),
        (_, Some(function)) => vec![IndexOrder::Function(function)],
        (_, None) => vec![IndexOrder::Status],
    };
    let with_children = filter.with_children && filter.whose == Whose::All;
    let mut parts = Vec::new();
    for scope in Scope::ALL.into_iter().filter(|scope| *scope == Scope::Root || with_children) {
        for standing in Standing::ALL {
            if filter.standings.is_empty() || filter.standings.contains(&standing) {
                let prefix = |by: &IndexOrder<'_>| Partition { scope, standing }.prefix(*by);
                parts.extend(orders.iter().map(|by| Part::new(prefix(by), filter, after)));
            }
        }
    }
    Ok(Some(parts))
}

/// The namespaces of callers that have executions; none if they are too many. Each takes one read,
/// however many executions it has.
fn callers(snapshot: &Snapshot) -> Result<Option<Vec<Namespace>>, ReadError> {
    let mut names = Vec::new();
    let mut scan = Scan::all(BY_NAMESPACE, 1);
    while let Some((key, _)) = snapshot.scan(&scan)?.value.rows.into_iter().next() {
        let name = key.split(|byte| *byte == 0).next().unwrap_or_default();
        let namespace = str::from_utf8(name).ok().and_then(|name| Namespace::new(name).ok());
        let malformed = || codec::damaged(&BY_NAMESPACE, &key, "its namespace is invalid");
        let namespace = snapshot.damage().noted(namespace.ok_or_else(malformed))?;
        // The next namespace is behind all keys that begin with this one and a zero.
        scan.range.0 = Bound::Included(Bytes::from([name, &[1]].concat()));
        if is_own(namespace.as_str()) {
            continue;
        }
        if names.len() == NAMESPACES_MAX {
            return Ok(None);
        }
        names.push(namespace);
    }
    Ok(Some(names))
}

/// The journal key of a place, which follows a time of 8 bytes. A shorter place has none.
fn key_of(place: &Bytes) -> Bytes {
    place.slice(place.len().min(8)..)
}

fn execution_at(snapshot: &Snapshot, place: &Bytes) -> Result<Execution, ReadError> {
    let key = key_of(place);
    match snapshot.get(EXECUTIONS, &key)?.value {
        Some(value) => executions::decode(&key, &value),
        None => Err(codec::damaged(&EXECUTIONS, &key, NOT_THERE)),
    }
}

/// The same, or none if there is a later attempt. It reads one row in both cases: the attempts at
/// an execution are adjacent, and the last one is this one or the reason to pass over it.
fn latest_at(snapshot: &Snapshot, place: &Bytes) -> Result<Option<Execution>, ReadError> {
    let damaged = |what| codec::damaged(&EXECUTIONS, &key_of(place), what);
    let (_, key) = index::read_place(place).map_err(|Malformed(what)| damaged(what))?;
    match executions::latest(snapshot, key.execution_id())?.value {
        Some(latest) if latest.key == key => Ok(Some(latest)),
        Some(latest) if latest.key > key => Ok(None),
        _ => Err(damaged(NOT_THERE)),
    }
}

/// A part of an index, read a chunk at a time.
struct Part {
    scan: Scan,
    prefix: usize,
    /// Whether the values of its entries are functions.
    has_functions: bool,
    /// Places, with the value of the index entry of each; the next one last.
    places: Vec<(Bytes, Bytes)>,
    more: bool,
}

impl Part {
    /// The part of this table whose keys have this prefix.
    fn new((table, prefix): (Table, Bytes), filter: &Filter, after: Option<&Cursor>) -> Self {
        let at = |place: &[u8]| {
            let mut key = BytesMut::from(&prefix[..]);
            key.extend_from_slice(place);
            key.freeze()
        };
        // Newest first: earlier times have larger keys. No execution is before the first time.
        let before = |time: Timestamp| {
            index::newest_first(time).checked_add(1).map(|place| at(&place.to_be_bytes()))
        };
        let (_, behind) = prefix_range(prefix.clone());
        let mut start = Bound::Included(prefix.clone());
        if let Some(time) = filter.created_before {
            start = before(time).map_or(Bound::Excluded(at(&[u8::MAX; 9])), Bound::Included);
        }
        let end = match filter.created_from.map(before) {
            Some(Some(key)) => Bound::Excluded(key),
            Some(None) | None => behind,
        };
        if let Some(cursor) = after.map(|Cursor(place)| at(place)) {
            // A cursor from a list of other times may be before this one's beginning.
            let (Bound::Included(first) | Bound::Excluded(first)) = &start else { unreachable!() };
            if cursor >= *first {
                start = Bound::Excluded(cursor);
            }
        }
        let scan = Scan { range: (start, end), ..Scan::all(table, 1) };
        let has_functions = table == BY_NAMESPACE;
        Self { scan, prefix: prefix.len(), has_functions, places: Vec::new(), more: true }
    }

    fn next(&mut self, snapshot: &Snapshot) -> Result<Option<(Bytes, Bytes)>, ReadError> {
        if self.places.is_empty() && self.more {
            let page = snapshot.scan(&self.scan)?.value;
            self.more = page.more;
            self.scan.rows_max = (self.scan.rows_max * 2).min(PAGE_MAX);
            if let Some((key, _)) = page.rows.last() {
                self.scan.range.0 = Bound::Excluded(key.clone());
            }
            let places =
                page.rows.into_iter().map(|(key, value)| (key.slice(self.prefix..), value));
            self.places = places.rev().collect();
        }
        Ok(self.places.pop())
    }
}
