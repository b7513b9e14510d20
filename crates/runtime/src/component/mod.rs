//! Components: what is deployed, which version is active, and what each can do (D6).
//!
//! A version is a digest. It stays for ever; a name points to the one that new calls take.

pub(crate) mod inputs;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indelible_execution::context::split;
use indelible_journal::{ComponentDigest, FunctionName, RetryPolicy, Timestamp};
pub use indelible_records::component_versions::Version;
use indelible_records::component_versions::{self, ComponentVersions};
use indelible_records::truths::Truth;
pub use indelible_records::{COMPONENT_NAME_BYTES_MAX, ComponentName, ComponentNameError};
use indelible_records::{components, manifests};
use indelible_slots::Slot;
use indelible_store::{Batch, Position, ReadError, Store, SubmitError};

use self::inputs::InputSchemas;
use crate::guest::{Deployed, Guests, LoadError, Manifest, Program};

/// How many names are read at a time.
const NAMES_PAGE: usize = 256;

pub(crate) struct Components {
    store: Store,
    guests: Arc<Guests>,
    known: Mutex<ComponentCatalog>,
    deploying: tokio::sync::Mutex<()>,
    /// The schemas of inputs, compiled.
    pub(crate) inputs: InputSchemas,
}

#[derive(Default)]
struct ComponentCatalog {
    /// The version of `names`.
    version: u64,
    names: HashMap<ComponentName, ComponentVersions>,
    manifests: HashMap<ComponentDigest, Arc<Manifest>>,
    /// The names of a version: filled by `names_of`, and cleared when any name changes.
    names_of: HashMap<ComponentDigest, Arc<[String]>>,
}

/// Held while what is active changes: the name's record is read, changed and written.
pub(crate) struct ChangePermit<'a> {
    _held: tokio::sync::MutexGuard<'a, ()>,
}

/// Why nothing could be found out about a component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store did not take a change.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// What is stored about it makes no sense to this version.
    #[error("the stored data of {0} cannot be read: {1}")]
    Malformed(ComponentDigest, String),
}

/// Why the bytes of a version cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error("it is not in the store")]
    Absent,
    #[error(transparent)]
    Read(ReadError),
}

impl Components {
    /// Reads the deployed names from the store. The manifest of a version is read when it is first
    /// wanted.
    pub(crate) fn open(store: Store, guests: Arc<Guests>) -> Result<Self, ComponentError> {
        let (known, deploying, inputs) = Default::default();
        let components = Self { store, guests, known, deploying, inputs };
        components.load()?;
        Ok(components)
    }

    /// Reads the names again if another process has changed them (D13), and returns whether it had.
    pub(crate) fn refresh(&self) -> Result<bool, ReadError> {
        let version = self.known().version;
        let changed = Truth::Components.version(&self.store)? > version;
        if changed {
            self.load()?;
        }
        Ok(changed)
    }

    fn load(&self) -> Result<(), ReadError> {
        let snapshot = self.store.snapshot()?;
        let version = Truth::Components.version(&snapshot)?;
        let mut names = HashMap::new();
        let mut last = None;
        loop {
            let page = component_versions::next(&snapshot, last.as_ref(), NAMES_PAGE)?.value;
            let Some((name, _)) = page.last() else { break };
            last = Some(name.clone());
            names.extend(page);
        }
        let mut known = self.known();
        if version >= known.version {
            (known.version, known.names) = (version, names);
            known.names_of.clear();
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, ComponentCatalog> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes are made one at a time, from the look at what is active to the commit.
    pub(crate) async fn change(&self) -> ChangePermit<'_> {
        ChangePermit { _held: self.deploying.lock().await }
    }

    /// Stores a version under a name and makes it the active one. Returns whether the name had this
    /// version before, and the position of the commit. `more` adds to the same commit, and is given
    /// the same flag.
    pub(crate) async fn put(
        &self,
        permit: &ChangePermit<'_>,
        name: &ComponentName,
        bytes: &[u8],
        deployed: &Deployed,
        now: Timestamp,
        more: impl Fn(&mut Batch, bool),
    ) -> Result<(bool, Position), ComponentError> {
        let digest = deployed.digest;
        let position = self.activate(permit, name, &digest, now, |batch, known| {
            components::put(batch, bytes);
            manifests::put(batch, &digest, &deployed.manifest.to_json());
            more(batch, known);
        });
        let done = position.await?;
        self.known().manifests.insert(digest, Arc::new(deployed.manifest.clone()));
        Ok(done)
    }

    /// Makes a version the active one of a name, under which it need not be known.
    pub(crate) async fn activate(
        &self,
        _: &ChangePermit<'_>,
        name: &ComponentName,
        digest: &ComponentDigest,
        now: Timestamp,
        more: impl Fn(&mut Batch, bool),
    ) -> Result<(bool, Position), ComponentError> {
        let digest = *digest;
        loop {
            let (version, record) = {
                let known = self.known();
                (known.version, known.names.get(name).cloned())
            };
            let mut record = record
                .unwrap_or_else(|| ComponentVersions { active: digest, versions: Vec::new() });
            let known = record.versions.iter().any(|version| version.digest == digest);
            if !known {
                record.versions.push(Version { digest, deployed_at: now });
            }
            record.active = digest;
            let mut batch = Batch::in_slots(Slot::SERVER);
            let version = Truth::Components.raise(&mut batch, version);
            component_versions::put(&mut batch, name, &record);
            more(&mut batch, known);
            let position = match self.store.submit(batch).await {
                // Another process has changed the names: they are read and decided on again.
                Err(error) if Truth::Components.is_behind(&error) && self.refresh()? => continue,
                submitted => submitted?,
            };
            let mut all = self.known();
            all.version = version;
            all.names.insert(name.clone(), record);
            all.names_of.clear();
            return Ok((known, position));
        }
    }

    pub(crate) fn active(&self, name: &str) -> Option<ComponentDigest> {
        let name = ComponentName::new(name).ok()?;
        self.known().names.get(&name).map(|record| record.active)
    }

    /// Every version of a component, the active one first.
    pub(crate) fn versions(&self, name: &str) -> Vec<ComponentDigest> {
        let Ok(name) = ComponentName::new(name) else { return Vec::new() };
        let known = self.known();
        let Some(record) = known.names.get(&name) else { return Vec::new() };
        let others = record.versions.iter().map(|version| version.digest);
        let others = others.filter(|digest| *digest != record.active);
        std::iter::once(record.active).chain(others).collect()
    }

    /// The names that a version was deployed under, in their order.
    pub(crate) fn names_of(&self, digest: &ComponentDigest) -> Arc<[String]> {
        let mut known = self.known();
        if let Some(names) = known.names_of.get(digest) {
            return Arc::clone(names);
        }
        let has = |record: &ComponentVersions| {
            record.versions.iter().any(|known| known.digest == *digest)
        };
        let named = known.names.iter().filter(|(_, record)| has(record));
        let mut names: Vec<_> = named.map(|(name, _)| name.to_string()).collect();
        names.sort();
        let names: Arc<[String]> = names.into();
        known.names_of.insert(*digest, Arc::clone(&names));
        names
    }

    /// Every component, by name.
    pub(crate) fn list(&self) -> Vec<(ComponentName, ComponentDigest, Vec<Version>)> {
        let known = self.known();
        let mut all: Vec<_> = known
            .names
            .iter()
            .map(|(name, record)| (name.clone(), record.active, record.versions.clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// What a version can do.
    pub(crate) fn functions(
        &self,
        digest: &ComponentDigest,
    ) -> Result<Option<Arc<Manifest>>, ComponentError> {
        if let Some(functions) = self.known().manifests.get(digest) {
            return Ok(Some(Arc::clone(functions)));
        }
        let Some(stored) = manifests::get(&self.store, digest)?.value else { return Ok(None) };
        let manifest = Manifest::from_stored(stored)
            .map_err(|error| ComponentError::Malformed(*digest, error.to_string()))?;
        let functions = Arc::new(manifest);
        self.known().manifests.insert(*digest, Arc::clone(&functions));
        Ok(Some(functions))
    }

    /// The retry policy of a call of this name by a guest of version `own`; the policy names the
    /// callee's version if that is not `own`. Err: why there is no such function, for the guest.
    pub(crate) fn callee(
        &self,
        own: &ComponentDigest,
        function: &FunctionName,
    ) -> Result<Arc<RetryPolicy>, String> {
        let (component, name) = split(function.as_str());
        let digest = match component {
            None => *own,
            Some(component) => self
                .active(component)
                .ok_or_else(|| format!("no component {component:?} is deployed"))?,
        };
        let functions = self.functions(&digest).map_err(|error| error.to_string())?;
        let spec = functions.as_ref().and_then(|functions| functions.function(name));
        let spec = spec.ok_or_else(|| match component {
            None => format!("the component has no function {name:?}"),
            Some(component) => format!("the component {component:?} has no function {name:?}"),
        })?;
        Ok(match component {
            None => Arc::clone(&spec.retry_policy),
            Some(_) => {
                Arc::new(RetryPolicy { callee: Some(digest), ..(*spec.retry_policy).clone() })
            }
        })
    }

    /// A version, ready to run.
    pub(crate) fn program(
        &self,
        digest: &ComponentDigest,
    ) -> Result<Arc<Program>, LoadError<Unavailable>> {
        self.guests.load(*digest, || {
            components::get(&self.store, digest)
                .map_err(Unavailable::Read)?
                .value
                .ok_or(Unavailable::Absent)
        })
    }
}
