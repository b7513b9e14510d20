//! The record of a run, as the shim wrote it: what happened to the files, in one order.
#![allow(clippy::unwrap_used, reason = "the record is written by the shim of the same source")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]

use super::power::State;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file or a folder. Not an inode number: the file system uses those again.
pub(crate) type Object = usize;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) folder: Object,
    pub(crate) name: Vec<u8>,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Action {
    Create { at: Option<Name>, folder: bool },
    Write { offset: u64, data: Range<usize> },
    Truncate { len: u64 },
    Rename { from: Name, to: Name },
    Link { at: Name },
    Unlink { at: Name },
    SyncBegin,
    SyncEnd { begin: usize },
    SyncFail,
    Ack { data: Range<usize> },
    Start,
}

/// One operation, with the object it is about and what that was called then.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) object: Object,
    pub(crate) path: Arc<str>,
    pub(crate) action: Action,
}

/// A sync: under way from `begin` on, done after `end`.
#[derive(Clone, Debug)]
pub(crate) struct Sync {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    pub(crate) path: Arc<str>,
}

/// A recorded run.
pub(crate) struct Record {
    pub(super) bytes: Vec<u8>,
    pub(super) ops: Vec<Op>,
    pub(super) checkpoints: Vec<State>,
    pub(super) syncs: Vec<Sync>,
    pub(super) start: usize,
}

/// The root is the first object.
pub(crate) const ROOT: Object = 0;

impl Record {
    /// Reads the record of a run that has ended, by itself or by force.
    pub(crate) fn load(file: &Path) -> Self {
        let bytes = fs::read(file).expect("the program under test was recorded");
        let mut reader = Reader::default();
        let mut at = 0;
        // A program that was killed may leave half a record at the end.
        while let Some((raw, next)) = Raw::read(&bytes, at) {
            reader.take(raw, &bytes);
            at = next;
        }
        let Reader { ops, syncs, .. } = reader;
        let start = ops.iter().position(|op| matches!(op.action, Action::Start));
        let start = start.expect("the shim has recorded what was there") + 1;
        Self::from_parts(bytes, ops, syncs, start)
    }

    pub(super) fn from_parts(bytes: Vec<u8>, ops: Vec<Op>, syncs: Vec<Sync>, start: usize) -> Self {
        let mut record = Self { bytes, ops, checkpoints: Vec::new(), syncs, start };
        record.checkpoints = State::checkpoints(&record);
        record
    }

    /// How many operations there are: cuts go from [`Self::start`] to this.
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// The first cut: what was under the root is there, and the program has done nothing yet.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// What the program has promised before operation `k`, one item for each write.
    pub(crate) fn acks_before(&self, k: usize) -> Vec<Vec<u8>> {
        let acks = self.ops[..k].iter().filter_map(|op| match &op.action {
            Action::Ack { data } => Some(self.bytes[data.clone()].to_vec()),
            _ => None,
        });
        acks.collect()
    }

    /// The syncs that succeeded. A cut at `begin` or before is before it, one after `begin` and up
    /// to `end` is during it, one after `end` is after it.
    pub(crate) fn syncs(&self) -> &[Sync] {
        &self.syncs
    }

    /// Operation `i` in words: `create 1.jnl`, `rename .tmp1 -> keyspaces/1/current`.
    pub(crate) fn words(&self, i: usize) -> String {
        self.ops[i].to_string()
    }

    /// The operations before `k`, the last `n` of them, for a report.
    pub(crate) fn tail(&self, k: usize, n: usize) -> String {
        let from = k.saturating_sub(n);
        let lines = (from..k).map(|i| format!("{i:>8} {}\n", self.ops[i]));
        lines.collect()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "." } else { &self.path };
        match &self.action {
            Action::Create { folder, .. } => {
                write!(f, "{} {path}", if *folder { "mkdir" } else { "create" })
            }
            Action::Write { offset, data } => write!(f, "write {path} at {offset} +{}", data.len()),
            Action::Truncate { len } => write!(f, "truncate {path} to {len}"),
            Action::Rename { from, .. } => {
                write!(f, "rename {} -> {path}", String::from_utf8_lossy(&from.name))
            }
            Action::Link { .. } => write!(f, "link {path}"),
            Action::Unlink { .. } => write!(f, "unlink {path}"),
            Action::SyncBegin => write!(f, "sync {path} ..."),
            Action::SyncEnd { begin } => write!(f, "sync {path} done (since {begin})"),
            Action::SyncFail => write!(f, "sync {path} failed"),
            Action::Ack { .. } => write!(f, "ack"),
            Action::Start => write!(f, "start"),
        }
    }
}

/// One record as it lies in the file: `struct header` of the shim, two names, data.
struct Raw {
    kind: u32,
    inode: u64,
    folder: u64,
    folder2: u64,
    offset: u64,
    name: Range<usize>,
    name2: Range<usize>,
    data: Range<usize>,
}

impl Raw {
    const HEADER: usize = 48;

    /// The record at `at` and where the next one is; nothing when it is not whole.
    fn read(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        let header = bytes.get(at..at + Self::HEADER)?;
        let small = |i: usize| u32::from_le_bytes(header[4 * i..4 * i + 4].try_into().unwrap());
        let large = |i: usize| u64::from_le_bytes(header[8 * i..8 * i + 8].try_into().unwrap());
        let mut end = at + Self::HEADER;
        let mut part = |len: u32| {
            let start = end;
            end += len as usize;
            start..end
        };
        let (name, name2, data) = (part(small(1)), part(small(2)), part(small(3)));
        let raw = Self {
            kind: small(0),
            inode: large(2),
            folder: large(3),
            folder2: large(4),
            offset: large(5),
            name,
            name2,
            data,
        };
        (end <= bytes.len()).then_some((raw, end))
    }
}

/// Turns inode numbers into objects and follows what they are called.
#[derive(Default)]
struct Reader {
    ops: Vec<Op>,
    syncs: Vec<Sync>,
    objects: HashMap<u64, Object>,
    paths: Vec<Arc<str>>,
    begun: HashMap<u64, usize>,
}

impl Reader {
    fn object(&self, inode: u64) -> Object {
        *self.objects.get(&inode).expect("a file is created before anything else happens to it")
    }

    fn new_object(&mut self, inode: u64, at: Option<&Name>) -> Object {
        let path = at.map_or_else(|| "".into(), |at| self.path(at));
        self.paths.push(path);
        self.objects.insert(inode, self.paths.len() - 1);
        self.paths.len() - 1
    }

    fn path(&self, at: &Name) -> Arc<str> {
        let parent = &self.paths[at.folder];
        let name = String::from_utf8_lossy(&at.name);
        if parent.is_empty() { name.into() } else { format!("{parent}/{name}").into() }
    }

    fn take(&mut self, raw: Raw, bytes: &[u8]) {
        let named = |folder: u64, name: Range<usize>| Name {
            folder: self.object(folder),
            name: bytes[name].to_vec(),
        };
        let (object, action) = match raw.kind {
            1 | 2 => {
                let at = (!raw.name.is_empty()).then(|| named(raw.folder, raw.name));
                let folder = raw.kind == 2;
                (self.new_object(raw.inode, at.as_ref()), Action::Create { at, folder })
            }
            3 => (self.object(raw.inode), Action::Write { offset: raw.offset, data: raw.data }),
            4 => (self.object(raw.inode), Action::Truncate { len: raw.offset }),
            5 => {
                let (from, to) = (named(raw.folder, raw.name), named(raw.folder2, raw.name2));
                let object = self.object(raw.inode);
                self.paths[object] = self.path(&to);
                (object, Action::Rename { from, to })
            }
            6 => (self.object(raw.inode), Action::Link { at: named(raw.folder, raw.name) }),
            7 => (self.object(raw.inode), Action::Unlink { at: named(raw.folder, raw.name) }),
            8 => {
                self.begun.insert(raw.offset, self.ops.len());
                (self.object(raw.inode), Action::SyncBegin)
            }
            9 => {
                let object = self.object(raw.inode);
                let begin = self.begun[&raw.offset];
                let path = self.paths[object].clone();
                self.syncs.push(Sync { begin, end: self.ops.len(), path });
                (object, Action::SyncEnd { begin })
            }
            10 => (self.object(raw.inode), Action::SyncFail),
            11 => (ROOT, Action::Ack { data: raw.data }),
            12 => {
                assert!(self.paths.is_empty(), "one run for each record");
                let object = self.new_object(raw.inode, None);
                (object, Action::Create { at: None, folder: true })
            }
            13 => (ROOT, Action::Start),
            kind => panic!("the shim records no operation {kind}"),
        };
        let path = self.paths[object].clone();
        self.ops.push(Op { object, path, action });
    }
}
