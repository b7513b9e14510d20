//! Two runs as one: a program was killed, and the next one found what it had written, whether that
//! had reached the disk or not. What the first did not sync and the second did not either, a loss
//! of power takes from both.
#![allow(clippy::unwrap_used, reason = "the record is written by the shim of the same source")]

use std::collections::HashMap;

use super::power::State;
use super::record::{Action, Name, Object, Op, ROOT, Record, Sync};

impl Record {
    /// The operations of `self` before `k`, where it was killed, and then those of `next`, which
    /// began with what was there then. Cuts go from `k` on.
    pub(crate) fn killed_then(self, k: usize, next: Self) -> Self {
        let Self { mut bytes, mut ops, mut syncs, .. } = self;
        ops.truncate(k);
        syncs.retain(|sync| sync.end < k);
        let mut known = HashMap::from([(ROOT, ROOT)]);
        let (here, there) = (State::names_of(&ops), State::names_of(&next.ops[..next.start()]));
        let mut folders = vec![(ROOT, ROOT)];
        while let Some((mine, other)) = folders.pop() {
            for (name, object) in there[&other].iter() {
                let mine = here[&mine][name];
                known.insert(*object, mine);
                if there.contains_key(object) {
                    folders.push((mine, *object));
                }
            }
        }
        let objects = ops.iter().map(|op| op.object + 1).max().unwrap_or(0);
        let object = |object: Object| *known.get(&object).unwrap_or(&(objects + object));
        let name = |at: Name| Name { folder: object(at.folder), name: at.name };
        let (shift, moved) = (bytes.len(), |i: usize| i - next.start + k);
        let data = |data: std::ops::Range<usize>| data.start + shift..data.end + shift;
        for Op { object: of, path, action } in next.ops.into_iter().skip(next.start) {
            let action = match action {
                Action::Create { at, folder } => Action::Create { at: at.map(name), folder },
                Action::Write { offset, data: of } => Action::Write { offset, data: data(of) },
                Action::Rename { from, to } => Action::Rename { from: name(from), to: name(to) },
                Action::Link { at } => Action::Link { at: name(at) },
                Action::Unlink { at } => Action::Unlink { at: name(at) },
                Action::SyncEnd { begin } => Action::SyncEnd { begin: moved(begin) },
                Action::Ack { data: of } => Action::Ack { data: data(of) },
                same @ (Action::Truncate { .. }
                | Action::SyncBegin
                | Action::SyncFail
                | Action::Start) => same,
            };
            ops.push(Op { object: object(of), path, action });
        }
        syncs.extend(
            next.syncs.into_iter().filter(|sync| sync.begin >= next.start).map(|sync| Sync {
                begin: moved(sync.begin),
                end: moved(sync.end),
                ..sync
            }),
        );
        bytes.extend(next.bytes);
        Self::from_parts(bytes, ops, syncs, k)
    }
}
