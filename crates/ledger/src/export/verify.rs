//! Verifies an export line by line.

use indelible_idempotency::RequestHash;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounds::LINE_BYTES_MAX;
use crate::export::lines::{self, FORMAT, Header, Last, VERSION};
use crate::hashes::{ChainHash, StateHash};
use crate::numbers::Height;
use crate::proof::{self, Checkpoint};
use crate::refusal::Code;
use crate::vault::{ReplayFault, Vault};

/// A verifier compares no requests.
const NO_HASH: RequestHash = RequestHash::from_bytes([0; 32]);

/// Reads an export line by line. It holds a line and the head of the vault, however long the export is.
#[derive(Debug, Clone, Default)]
pub struct Verifier {
    lines: u64,
    progress: Progress,
}

#[derive(Debug, Clone, Default)]
enum Progress {
    #[default]
    Empty,
    Going(Box<Going>),
    Ended(Box<Going>),
}

#[derive(Debug, Clone)]
struct Going {
    start: Checkpoint,
    vault: Vault,
}

/// An export that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Where it begins.
    pub start: Checkpoint,
    /// How many transactions it has.
    pub transactions: u64,
    /// The height at its end.
    pub height: Height,
    /// The head of the chain at its end.
    pub head: ChainHash,
    /// The hash of the state at its end.
    pub state_hash: StateHash,
}

/// The first line that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// Which line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub fault: LineFault,
}

/// What is wrong with a line. Texts of the line are never repeated: they may be hostile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// No line break at its end: the file was cut off in the line.
    #[error("the line has no end; the file was cut off here")]
    Unfinished,
    /// More than [`LINE_BYTES_MAX`].
    #[error("the line has more than {LINE_BYTES_MAX} bytes, which no export has")]
    TooLong,
    /// Not JSON of the form that such a line has.
    #[error("the line cannot be read, at byte {at}")]
    Unreadable {
        /// About where, from 1.
        at: usize,
    },
    /// It is read, but an export would have written it in another way.
    #[error("the line is not as an export writes it, from byte {at}")]
    Rewritten {
        /// The first byte that is different, from 1.
        at: usize,
    },
    /// The first line is of another kind of file.
    #[error("the line is no header of an export; it must say the format `{FORMAT}`")]
    NoHeader,
    /// The export has a later format.
    #[error("the export has version {version}; this program reads version {VERSION}")]
    Version {
        /// Its version.
        version: u32,
    },
    /// What the header says does not have the hash that it says.
    #[error("the header was changed: its digest is of another one")]
    HeaderDigest,
    /// The lanes of the header do not have its state hash.
    #[error("the header was changed: its lanes have another state hash")]
    HeaderState,
    /// An export from the beginning begins with another head than its vault.
    #[error(
        "the header is not the beginning of its vault: a vault's first head follows from its scope and incarnation"
    )]
    Genesis,
    /// Lines are missing, doubled or in another order.
    #[error("the transaction has height {found}; after the line before it comes {expected}")]
    Height {
        /// The height that comes next.
        expected: Height,
        /// The height of the line.
        found: Height,
    },
    /// The time goes back.
    #[error("the transaction is earlier than the one before it")]
    Time,
    /// The operations could not have been applied to the entities that the line says.
    #[error("the operations would have been refused: {code}")]
    Refused {
        /// Why.
        code: Code,
    },
    /// The entities that the line says are not the ones that its operations change.
    #[error("`before` does not name the entities that the operations change, in ascending order")]
    Before,
    /// The state hash is another one.
    #[error("the state hash does not follow from the line and the ones before it")]
    StateHash,
    /// The head is another one.
    #[error("the head does not follow from the line and the ones before it")]
    Head,
    /// The end is of another export.
    #[error("the end does not fit the line before it")]
    End,
    /// There are lines after the end.
    #[error("the line stands after the end")]
    AfterEnd,
    /// The file ends without an end.
    #[error("the end is missing; the file was cut off before this line")]
    NoEnd,
}

impl Verifier {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next line, with the line break at its end.
    pub fn line(&mut self, line: &[u8]) -> Result<(), LineError> {
        self.lines += 1;
        self.next(line).map_err(|fault| LineError { line: self.lines, fault })
    }

    /// The file has ended.
    pub fn finish(self) -> Result<Verified, LineError> {
        match self.progress {
            Progress::Ended(going) => {
                let Going { start, vault } = *going;
                Ok(Verified {
                    transactions: vault.height().get() - start.height.get(),
                    height: vault.height(),
                    head: vault.head(),
                    state_hash: vault.state_hash(),
                    start,
                })
            }
            _ => Err(LineError { line: self.lines + 1, fault: LineFault::NoEnd }),
        }
    }

    fn next(&mut self, line: &[u8]) -> Result<(), LineFault> {
        if line.len() > LINE_BYTES_MAX {
            return Err(LineFault::TooLong);
        }
        if line.last() != Some(&b'\n') {
            return Err(LineFault::Unfinished);
        }
        match &mut self.progress {
            Progress::Empty => {
                let start = begin(line)?;
                self.progress = Progress::Going(Box::new(start));
            }
            Progress::Going(going) if line.starts_with(Last::START) => {
                let Last { end } = read(line)?;
                let vault = &going.vault;
                if (end.height, end.head.0) != (vault.height().get(), vault.head()) {
                    return Err(LineFault::End);
                }
                let ended = std::mem::take(&mut self.progress);
                if let Progress::Going(going) = ended {
                    self.progress = Progress::Ended(going);
                }
            }
            Progress::Going(going) => {
                let record: lines::Record = read(line)?;
                // What cannot be read into the domain was written by no export.
                let record =
                    record.read(NO_HASH).ok_or(LineFault::Unreadable { at: line.len() })?;
                going.vault.replay(&record).map_err(fault)?;
            }
            Progress::Ended(_) => return Err(LineFault::AfterEnd),
        }
        Ok(())
    }
}

fn begin(line: &[u8]) -> Result<Going, LineFault> {
    // Another format's line cannot be read as this one's; it is told apart for the reader's sake.
    if !line.starts_with(format!("{{\"format\":\"{FORMAT}\",").as_bytes()) {
        return Err(LineFault::NoHeader);
    }
    if let Some(version) = version_of(line).filter(|version| *version != VERSION) {
        return Err(LineFault::Version { version });
    }
    let header: Header = read(line)?;
    let start = header.checkpoint();
    if start.digest() != header.digest.0 {
        return Err(LineFault::HeaderDigest);
    }
    let state = header.state().filter(|state| state.digest() == start.state_hash);
    let state = state.ok_or(LineFault::HeaderState)?;
    let is_genesis = start.head == proof::genesis(&start.scope, start.incarnation);
    if start.height == Height::ZERO && !is_genesis {
        return Err(LineFault::Genesis);
    }
    let time = indelible_journal::Timestamp::EPOCH;
    let vault = Vault::stored(start.incarnation, start.height, time, start.head, state);
    Ok(Going { start, vault })
}

/// The version of a header that may have fields of its own.
fn version_of(line: &[u8]) -> Option<u32> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    serde_json::from_slice(line).ok().map(|Versioned { version }| version)
}

/// Reads a line, and refuses one that an export would have written in another way: a blank, an escape
/// or another order of fields would be read as the same, and is not what was written.
fn read<T: Serialize + DeserializeOwned>(line: &[u8]) -> Result<T, LineFault> {
    let read: T =
        serde_json::from_slice(line).map_err(|why| LineFault::Unreadable { at: why.column() })?;
    let written = lines::line(&read);
    if written.as_bytes() == line {
        return Ok(read);
    }
    let is_other = |(one, other): (&u8, &u8)| one != other;
    let same = written.as_bytes().iter().zip(line).position(is_other);
    Err(LineFault::Rewritten { at: same.unwrap_or(written.len().min(line.len())) + 1 })
}

fn fault(fault: ReplayFault) -> LineFault {
    match fault {
        ReplayFault::Height { expected, found } => LineFault::Height { expected, found },
        ReplayFault::Time => LineFault::Time,
        ReplayFault::Refused(code) => LineFault::Refused { code },
        ReplayFault::Before => LineFault::Before,
        ReplayFault::StateHash => LineFault::StateHash,
        ReplayFault::Head => LineFault::Head,
    }
}
