//! What a disk may hold after the power was lost at operation `k` of a recorded run.
//!
//! The model:
//!
//! - **Content.** What was written to a file before a sync of it began is certain once that sync
//!   has ended. Of what was written since, every page of 4 KiB (or sector of 512 bytes) stands by
//!   itself: it holds any of the contents it went through, from the last certain one to the newest.
//!   A sync that was under way has not happened; one that failed never happens.
//! - **Length.** Any of the lengths since the last certain one. Pages inside the length that did not
//!   arrive hold what they held, or zeros.
//! - **Names.** Creating, renaming, linking and unlinking are certain once a sync of their folder
//!   that began later has ended. A rename is atomic. Of the rest, [`Names::Harsh`]: any may be
//!   missing, as POSIX allows; what is in a folder that is missing is missing with it.
//!   [`Names::Ordered`]: all up to some point have arrived and none after it, as file systems with
//!   a metadata journal do; what is certain takes everything before it along. A sync of a file says
//!   nothing about its name, though on ext4 and xfs it does.
//!
//! What it cannot show: a page or a sector torn inside; bytes that rot or are misdirected after they
//! were synced; a disk that lies about a sync; content lost after a failed sync that a later one
//! seems to cover; order between data and names (ext4's `data=ordered` is kinder than this); a
//! file system that needs repair.
//!
//! Everything follows from the record, `k` and the seed.
#![allow(clippy::unwrap_used, reason = "the record is written by the shim of the same source")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]

use super::record::{Action, Name, Object, Op, ROOT, Record};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE: usize = 4096;

/// What becomes of names that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Any of them may be missing.
    Harsh,
    /// A prefix of them arrived.
    Ordered,
    /// The power was not lost, only the program ended: names and content are all there.
    Killed,
}

/// How hard the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) names: Names,
    /// How much of a file arrives or does not: 4096 or 512 bytes.
    pub(crate) unit: usize,
}

impl Mode {
    pub(crate) const HARSH: Self = Self { names: Names::Harsh, unit: PAGE };
    pub(crate) const KILLED: Self = Self { names: Names::Killed, unit: PAGE };
    pub(crate) const ORDERED: Self = Self { names: Names::Ordered, unit: PAGE };

    /// The same with sectors instead of pages.
    pub(crate) const fn sectors(self) -> Self {
        Self { unit: 512, ..self }
    }
}

type Page = [u8; PAGE];
pub(super) type Folders = HashMap<Object, Arc<BTreeMap<Vec<u8>, Object>>>;

/// What is certain about a file, and what happened to it since. Pages are shared between the
/// states of a run: a checkpoint costs little.
#[derive(Clone, Default)]
struct Content {
    len: u64,
    pages: BTreeMap<u64, Arc<Page>>,
    since: Vec<usize>,
}

impl Content {
    fn write(&mut self, offset: u64, mut data: &[u8]) {
        let mut at = offset;
        while !data.is_empty() {
            let (page, inside) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let n = data.len().min(PAGE - inside);
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[inside..inside + n].copy_from_slice(&data[..n]);
            data = &data[n..];
            at += n as u64;
        }
    }

    /// Takes away what lies at `len` and after.
    fn cut(&mut self, len: u64) {
        let (page, inside) = (len / PAGE as u64, (len % PAGE as u64) as usize);
        drop(self.pages.split_off(&(page + u64::from(inside > 0))));
        if let Some(last) = self.pages.get_mut(&page) {
            Arc::make_mut(last)[inside..].fill(0);
        }
    }

    fn apply(&mut self, op: &Op, bytes: &[u8]) {
        match &op.action {
            Action::Write { offset, data } => {
                self.write(*offset, &bytes[data.clone()]);
                self.len = self.len.max(offset + data.len() as u64);
            }
            Action::Truncate { len } => {
                self.cut(*len);
                self.len = *len;
            }
            _ => unreachable!("only these change a file"),
        }
    }

    /// The part of a change that falls into the `unit` bytes from `start` on.
    fn apply_within(&mut self, op: &Op, bytes: &[u8], start: u64, unit: u64) {
        let end = start + unit;
        match &op.action {
            Action::Write { offset, data } => {
                let from = start.max(*offset);
                let to = end.min(offset + data.len() as u64);
                let skip = (from - offset) as usize;
                let part = &bytes[data.clone()][skip..skip + (to - from) as usize];
                self.write(from, part);
            }
            Action::Truncate { len } => {
                let from = start.max(*len);
                self.write(from, &[0; PAGE][..(end - from) as usize]);
            }
            _ => unreachable!("only these change a file"),
        }
    }
}

/// What is certain after some operations, and what is not.
#[derive(Clone)]
pub(crate) struct State {
    /// How many operations there were.
    k: usize,
    files: HashMap<Object, Arc<Content>>,
    folders: Folders,
    /// Operations on names, in order, and whether each is certain. Those at the front that are
    /// certain have gone into `folders`.
    names: Vec<(usize, bool)>,
}

impl State {
    /// States along the run, so that a cut needs only the operations since the last one.
    pub(super) fn checkpoints(record: &Record) -> Vec<Self> {
        const STATES: usize = 64;
        let mut state =
            Self { k: 0, files: HashMap::new(), folders: HashMap::new(), names: Vec::new() };
        let mut states = vec![state.clone()];
        for i in 1..STATES {
            state.advance(record, record.ops.len() * i / STATES);
            states.push(state.clone());
        }
        states
    }

    /// The entries of every folder after these operations.
    pub(super) fn names_of(ops: &[Op]) -> Folders {
        let mut folders = Folders::new();
        for op in ops {
            match &op.action {
                Action::Create { at, folder } => {
                    if *folder {
                        folders.insert(op.object, Arc::default());
                    }
                    if at.is_some() {
                        change_names(&mut folders, op);
                    }
                }
                Action::Rename { .. } | Action::Link { .. } | Action::Unlink { .. } => {
                    change_names(&mut folders, op);
                }
                _ => {}
            }
        }
        folders
    }

    fn at(record: &Record, k: usize) -> Self {
        assert!(k <= record.len(), "a run of {} operations has no cut {k}", record.len());
        let last = record.checkpoints.partition_point(|state| state.k <= k) - 1;
        let mut state = record.checkpoints[last].clone();
        state.advance(record, k);
        state
    }

    fn advance(&mut self, record: &Record, k: usize) {
        for (i, op) in record.ops[..k].iter().enumerate().skip(self.k) {
            match &op.action {
                Action::Create { at, folder } => {
                    if *folder {
                        self.folders.insert(op.object, Arc::default());
                    } else {
                        self.files.insert(op.object, Arc::default());
                    }
                    if at.is_some() {
                        self.names.push((i, false));
                    }
                }
                Action::Rename { .. } | Action::Link { .. } | Action::Unlink { .. } => {
                    self.names.push((i, false));
                }
                Action::Write { .. } | Action::Truncate { .. } => {
                    Arc::make_mut(self.files.get_mut(&op.object).unwrap()).since.push(i);
                }
                Action::SyncEnd { begin } => self.sync(record, op.object, *begin),
                Action::SyncBegin | Action::SyncFail | Action::Ack { .. } | Action::Start => {}
            }
        }
        self.k = k;
    }

    /// Everything about `object` before operation `begin` is certain from now on.
    fn sync(&mut self, record: &Record, object: Object, begin: usize) {
        if let Some(file) = self.files.get_mut(&object) {
            let file = Arc::make_mut(file);
            let since = std::mem::take(&mut file.since);
            let (certain, rest) = since.split_at(since.partition_point(|&i| i < begin));
            for &i in certain {
                file.apply(&record.ops[i], &record.bytes);
            }
            file.since = rest.to_vec();
            return;
        }
        for (i, certain) in &mut self.names {
            *certain |= *i < begin && touches(&record.ops[*i], object);
        }
        let front = self.names.iter().take_while(|(_, certain)| *certain).count();
        for (i, _) in self.names.drain(..front) {
            change_names(&mut self.folders, &record.ops[i]);
        }
    }

    /// The folders with the names that arrived.
    fn arrived(&self, record: &Record, names: Names, random: &mut Random) -> Folders {
        let mut folders = self.folders.clone();
        let certain = self.names.iter().rposition(|(_, certain)| *certain).map_or(0, |i| i + 1);
        let prefix = certain + random.up_to(self.names.len() - certain);
        let odds = random.odds();
        for (at, (i, certain)) in self.names.iter().enumerate() {
            let arrived = match names {
                Names::Ordered => at < prefix,
                Names::Harsh => *certain || random.chance(odds),
                Names::Killed => true,
            };
            if arrived {
                change_names(&mut folders, &record.ops[*i]);
            }
        }
        folders
    }
}

/// Whether an operation changes the entries of a folder.
fn touches(op: &Op, folder: Object) -> bool {
    match &op.action {
        Action::Create { at: Some(at), .. } | Action::Link { at } | Action::Unlink { at } => {
            at.folder == folder
        }
        Action::Rename { from, to } => from.folder == folder || to.folder == folder,
        _ => false,
    }
}

/// Carries out an operation on names, whatever others were.
fn change_names(folders: &mut Folders, op: &Op) {
    let mut put = |at: &Name, object: Option<Object>| {
        let entries = Arc::make_mut(folders.get_mut(&at.folder).unwrap());
        match object {
            Some(object) => entries.insert(at.name.clone(), object),
            None => entries.remove(&at.name),
        };
    };
    match &op.action {
        Action::Create { at: Some(at), .. } | Action::Link { at } => put(at, Some(op.object)),
        Action::Unlink { at } => put(at, None),
        Action::Rename { from, to } => {
            put(from, None);
            put(to, Some(op.object));
        }
        _ => unreachable!("only these change names"),
    }
}

impl Record {
    /// Writes to the new folder `into` what the disk may hold when the power is lost with the
    /// operations before `k` done and no other.
    pub(crate) fn materialize(&self, k: usize, seed: u64, mode: Mode, into: &Path) {
        let state = State::at(self, k);
        let seed = Random(seed ^ Random(k as u64).next()).next();
        let folders = state.arrived(self, mode.names, &mut Random(seed));
        let mut out = Out { record: self, mode, seed, written: HashMap::new() };
        out.folder(&state, &folders, ROOT, into);
    }
}

/// Where a disk is written to, and by which draw.
struct Out<'r> {
    record: &'r Record,
    mode: Mode,
    seed: u64,
    written: HashMap<Object, PathBuf>,
}

impl Out<'_> {
    fn folder(&mut self, state: &State, folders: &Folders, folder: Object, path: &Path) {
        fs::create_dir(path).unwrap();
        for (name, object) in folders[&folder].iter() {
            let path = path.join(OsStr::from_bytes(name));
            if folders.contains_key(object) {
                self.folder(state, folders, *object, &path);
            } else if let Some(first) = self.written.get(object) {
                fs::hard_link(first, &path).unwrap();
            } else {
                let content = &state.files[object];
                if content.since.is_empty() {
                    write_file(content, &path);
                } else {
                    // Each file by a draw of its own, whatever becomes of others.
                    let random = Random(self.seed ^ Random(*object as u64).next());
                    write_file(&self.draw(content, random), &path);
                }
                self.written.insert(*object, path);
            }
        }
    }

    /// One of the contents that a file with changes in flight may have.
    fn draw(&self, file: &Content, mut random: Random) -> Content {
        let size = self.mode.unit as u64;
        let mut lens = vec![file.len];
        let mut touched: BTreeMap<u64, Vec<&Op>> = BTreeMap::new();
        for op in file.since.iter().map(|&i| &self.record.ops[i]) {
            let len = *lens.last().unwrap();
            match &op.action {
                Action::Write { offset, data } => {
                    let end = offset + data.len() as u64;
                    for unit in offset / size..end.div_ceil(size) {
                        touched.entry(unit).or_default().push(op);
                    }
                    lens.push(len.max(end));
                }
                Action::Truncate { len: new } => {
                    for unit in new / size..len.div_ceil(size) {
                        let page = unit * size / PAGE as u64;
                        if file.pages.contains_key(&page) || touched.contains_key(&unit) {
                            touched.entry(unit).or_default().push(op);
                        }
                    }
                    lens.push(*new);
                }
                _ => unreachable!("only these change a file"),
            }
        }
        let mut odds = || if self.mode.names == Names::Killed { 256 } else { random.odds() };
        let (content, len) = (odds(), odds());
        let mut drawn = Content { since: Vec::new(), ..file.clone() };
        for (unit, ops) in touched {
            let kept = random.version(content, ops.len());
            for op in &ops[..kept] {
                drawn.apply_within(op, &self.record.bytes, unit * size, size);
            }
        }
        drawn.len = lens[random.version(len, lens.len() - 1)];
        drawn
    }
}

/// Holes stay holes: a journal is 64 MiB of them.
fn write_file(content: &Content, path: &Path) {
    const RUN: usize = 1 << 20;
    let file = fs::File::create_new(path).unwrap();
    file.set_len(content.len).unwrap();
    let mut run: (u64, Vec<u8>) = (0, Vec::new());
    let flush = |(at, bytes): &mut (u64, Vec<u8>)| {
        let within = content.len.saturating_sub(*at).min(bytes.len() as u64) as usize;
        file.write_all_at(&bytes[..within], *at).unwrap();
        bytes.clear();
    };
    for (page, bytes) in content.pages.iter().filter(|(_, bytes)| ***bytes != [0; PAGE]) {
        let at = page * PAGE as u64;
        if at != run.0 + run.1.len() as u64 || run.1.len() >= RUN {
            flush(&mut run);
            run.0 = at;
        }
        run.1.extend_from_slice(&bytes[..]);
    }
    flush(&mut run);
}

/// A stream of numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn up_to(&mut self, n: usize) -> usize {
        (self.next() % (n as u64 + 1)) as usize
    }

    /// How likely things arrive, of 256. Drawn once for each file, and for all names: with one
    /// chance for all, nearly every draw would be half of everything, and the disks where all of
    /// one file and nothing of another arrived would never be seen.
    fn odds(&mut self) -> u64 {
        [0, 32, 128, 224, 256][self.up_to(4)]
    }

    fn chance(&mut self, odds: u64) -> bool {
        self.next() % 256 < odds
    }

    /// Which of the versions `0..=newest` arrived.
    fn version(&mut self, odds: u64, newest: usize) -> usize {
        if newest == 0 || self.chance(odds) { newest } else { self.up_to(newest - 1) }
    }
}
