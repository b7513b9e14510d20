//! What a change of the active version breaks: functions that are in use, and that the new version
//! lacks or has with another contract.
//!
//! - A function is *in use* while an execution of it is not over: a root or a child, of any version
//!   of the component, whatever called it.
//! - A function is *removed* if the new version has none of its name.
//! - Its *input* changes incompatibly unless the new schema accepts all that the old one accepts, and
//!   its *output* unless the old schema accepts all that the new one accepts, as far as that follows
//!   from the schemas ([`accepts_all`]). A function that had no schema, or has none now, is not
//!   compared.
//!
//! Executions keep the version that they began with: what breaks is callers.

use std::fmt;

use indelible_journal::{ComponentDigest, FunctionName};
use indelible_records::executions::Standing;
use indelible_records::listing::{Filter, PAGE_MAX};
use indelible_schema::accepts_all;

use super::{Engine, EngineError, Reads};
use crate::guest::Manifest;
use crate::reader::Lane;

/// How many unfinished executions are looked at to count those of one function.
const LOOKED_AT_MAX: usize = 1_000;

/// How many unfinished executions are looked at to count those of each version.
const COUNTED_MAX: usize = 10_000;

/// The standings of executions that are not over.
const UNFINISHED: [Standing; 4] =
    [Standing::Running, Standing::Blocked, Standing::Cancelling, Standing::Stuck];

/// How many executions there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// So many were found.
    pub found: u64,
    /// Not all were looked at: there may be more.
    pub more: bool,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.found, if self.more { "+" } else { "" })
    }
}

/// A change of a function that is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakingChange {
    /// The function.
    pub function: FunctionName,
    /// What happens to it.
    pub change: ContractChange,
    /// How many executions of it are not over.
    pub unfinished: Count,
}

/// What happens to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContractChange {
    /// It is gone.
    Removed,
    /// It may refuse inputs that it accepted.
    Input,
    /// It may return what it did not return.
    Output,
}

impl fmt::Display for BreakingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            ContractChange::Removed => "is removed",
            ContractChange::Input => "may refuse inputs that it accepted",
            ContractChange::Output => "may return what it did not return",
        };
        write!(f, "{} {change} ({} unfinished)", self.function, self.unfinished)
    }
}

/// The functions of `old` whose contract `new` does not keep.
fn changes(old: &Manifest, new: &Manifest) -> Vec<(FunctionName, ContractChange)> {
    let change = |old: &crate::guest::FunctionSpec| {
        let Some(new) = new.function(old.name.as_str()) else {
            return Some(ContractChange::Removed);
        };
        let keeps = |wide: Option<&str>, narrow: Option<&str>| match (wide, narrow) {
            (Some(wide), Some(narrow)) => accepts_all(wide, narrow),
            _ => true,
        };
        if !keeps(new.input_schema.as_deref(), old.input_schema.as_deref()) {
            return Some(ContractChange::Input);
        }
        (!keeps(old.output_schema.as_deref(), new.output_schema.as_deref()))
            .then_some(ContractChange::Output)
    };
    let functions = old.functions().iter();
    functions.filter_map(|old| Some((old.name.clone(), change(old)?))).collect()
}

impl Engine {
    /// What breaks if this manifest becomes that of the component's active version.
    pub(super) async fn breaking_changes(
        &self,
        component: &str,
        new: &Manifest,
    ) -> Result<Vec<BreakingChange>, EngineError> {
        let versions = self.shared.components.versions(component);
        let Some(active) = versions.first().copied() else { return Ok(Vec::new()) };
        let new = new.clone();
        let compare = move |reads: &Reads<'_>| {
            let old = reads.manifest(&active)?;
            Ok(old.map_or_else(Vec::new, |old| changes(&old, &new)))
        };
        let mut breaking = Vec::new();
        for (function, change) in self.shared.read(Lane::Lists, compare).await? {
            let unfinished = self.unfinished_of(&function, &versions).await?;
            if unfinished != Count::default() {
                breaking.push(BreakingChange { function, change, unfinished });
            }
        }
        Ok(breaking)
    }

    /// How many executions of a function of these versions are not over.
    async fn unfinished_of(
        &self,
        function: &FunctionName,
        versions: &[ComponentDigest],
    ) -> Result<Count, EngineError> {
        let filter = Filter { function: Some(function.clone()), ..unfinished() };
        let counted = |digest: &ComponentDigest| versions.contains(digest);
        let mut count = Count::default();
        count.more = self
            .each_version(&filter, LOOKED_AT_MAX, |digest| {
                count.found += u64::from(counted(digest));
            })
            .await?;
        Ok(count)
    }

    /// How many executions of each of these versions are not over, in their order.
    pub async fn unfinished_by_version(
        &self,
        versions: &[ComponentDigest],
    ) -> Result<Vec<Count>, EngineError> {
        let mut counts = vec![Count::default(); versions.len()];
        let more = self
            .each_version(&unfinished(), COUNTED_MAX, |digest| {
                for (version, count) in versions.iter().zip(&mut counts) {
                    count.found += u64::from(version == digest);
                }
            })
            .await?;
        counts.iter_mut().for_each(|count| count.more = more);
        Ok(counts)
    }

    /// Tells the version of each execution that a filter lets through, up to a bound. Returns
    /// whether there are more.
    async fn each_version(
        &self,
        filter: &Filter,
        max: usize,
        mut told: impl FnMut(&ComponentDigest),
    ) -> Result<bool, EngineError> {
        let mut reading = self.enter_lane(Lane::Lists).await?;
        let (mut after, mut left) = (None, max);
        loop {
            let page = reading.list(filter, after.as_ref(), left.min(PAGE_MAX)).await?;
            page.executions.iter().for_each(|row| told(&row.component));
            left = left.saturating_sub(page.executions.len().max(1));
            after = page.next;
            if after.is_none() || left == 0 {
                return Ok(after.is_some());
            }
        }
    }
}

/// Roots and children that are not over.
fn unfinished() -> Filter {
    Filter { standings: UNFINISHED.to_vec(), with_children: true, ..Filter::default() }
}
