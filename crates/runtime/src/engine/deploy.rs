//! Deploying components: checked, compiled once, stored under their digest, made active (D6).

use std::sync::Arc;

use indelible_execution::audit_entry;
use indelible_execution::keys::{self, RequestParts};
use indelible_journal::ComponentDigest;
use indelible_records::audit as audit_rows;
use indelible_records::audit::AuditSubject;
use indelible_records::idempotency_keys::{Answer, SERVER};
use sha2::{Digest as _, Sha256};
use tracing::info;

use super::calls::flow;
use super::control::{KeyLookup, other_kind};
use super::{Attribution, DeployRefused, Engine, EngineError, Receipt};
use crate::component::{ComponentName, Version};
use crate::guest::Manifest;
use crate::reader::Lane;

/// A component that was deployed. It is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deployment {
    /// Its version.
    pub digest: ComponentDigest,
    /// What it can do.
    pub manifest: Manifest,
    /// Whether this very version was deployed under this name before: nothing was added.
    pub known: bool,
}

/// A version that was made the active one. It is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activation {
    /// Its version.
    pub digest: ComponentDigest,
    /// What it can do.
    pub manifest: Manifest,
}

/// What happens to a change of the active version that breaks functions in use
/// ([`BreakingChange`](super::BreakingChange)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfBreaking {
    /// It is refused.
    Refuse,
    /// It is made, and the audit record says so.
    Proceed,
}

/// The name of the flow of deployments. No function has this name.
const FLOW: &str = "deploy";

impl Engine {
    /// Deploys a component under a name, and makes it the version that new calls take. The same
    /// bytes again are the same version. Compiling keeps this thread busy, for a second or so.
    ///
    /// Under a key, a repetition gets the same answer, and does not make an older version active
    /// again.
    ///
    /// What callers of functions in use would notice does not keep it: see [`Engine::deploy_with`].
    pub async fn deploy(
        &self,
        name: &str,
        bytes: &[u8],
        asked: Attribution,
    ) -> Result<Receipt<Deployment>, DeployRefused> {
        self.deploy_with(name, bytes, IfBreaking::Proceed, asked).await
    }

    /// The same, which may be refused if it breaks functions that are in use.
    pub async fn deploy_with(
        &self,
        name: &str,
        bytes: &[u8],
        if_breaking: IfBreaking,
        asked: Attribution,
    ) -> Result<Receipt<Deployment>, DeployRefused> {
        let Attribution { actor, reason, key } = asked;
        // Deployments share a flow, and have no more permits than one function.
        let _room = self.shared.room(flow(FLOW)).await?;
        let hash = |key| {
            let request = RequestParts::new("deploy").text(name).bytes(&Sha256::digest(bytes));
            (key, request.hash())
        };
        let under = match self.under(key.map(hash), SERVER).await? {
            KeyLookup::Nothing(under) => under,
            KeyLookup::Mismatch => return Err(DeployRefused::Mismatch),
            KeyLookup::Answer(Answer::Deployed { digest, known }, _) => {
                let manifest = self.manifest(&digest).await?;
                let gone =
                    || EngineError::Malformed(format!("the component {digest} no longer exists"));
                let manifest = manifest.ok_or_else(gone)?;
                let value = Deployment { digest, manifest, known };
                return Ok(Receipt { value, prior: true });
            }
            KeyLookup::Answer(_, key) => return Err(other_kind(&key).into()),
        };
        let name = ComponentName::new(name)?;
        let shared = &self.shared;
        let deployed = shared.guests.deploy_check(bytes)?;
        let permit = shared.components.change().await;
        let forced = self.breaks(&name, &deployed.manifest, if_breaking).await?;
        let action = if forced { "deploy: forced" } else { "deploy" };
        let (now, digest) = (shared.clock.now(), deployed.digest);
        let under = self.note(under).await?;
        let put = shared.components.put(&permit, &name, bytes, &deployed, now, |batch, known| {
            if let Some(actor) = &actor {
                let about = AuditSubject::Component(name.clone(), digest);
                let entry = audit_entry(&**shared, now, actor, about, action, &reason);
                audit_rows::put(batch, &entry);
            }
            if let Some((under, _)) = &under {
                let change = keys::done(
                    shared.context().expires_at(None),
                    under,
                    Answer::Deployed { digest, known },
                );
                batch.touch(change.id.slot());
                change.put(batch);
            }
        });
        let (known, position) = put.await.map_err(EngineError::from)?;
        drop((under, permit));
        shared.store.durable(position).await.map_err(EngineError::from)?;
        info!(component = %name, %digest, "component deployed");
        let value = Deployment { digest, manifest: deployed.manifest, known };
        Ok(Receipt { value, prior: false })
    }

    /// Makes a version that was deployed under this name before the one that new calls take. Under
    /// a key, a repetition gets the same answer and changes nothing.
    pub async fn activate(
        &self,
        name: &str,
        digest: &ComponentDigest,
        if_breaking: IfBreaking,
        asked: Attribution,
    ) -> Result<Receipt<Activation>, DeployRefused> {
        let Attribution { actor, reason, key } = asked;
        let _room = self.shared.room(flow(FLOW)).await?;
        let hash = |key| {
            let request = RequestParts::new("activate").text(name).text(&digest.to_string());
            (key, request.hash())
        };
        let looked_up = self.under(key.map(hash), SERVER).await?;
        let name = ComponentName::new(name)?;
        let no_version = || DeployRefused::NoVersion { name: name.clone(), digest: *digest };
        let manifest = self.manifest(digest).await?.ok_or_else(no_version);
        let under = match looked_up {
            KeyLookup::Nothing(under) => under,
            KeyLookup::Mismatch => return Err(DeployRefused::Mismatch),
            KeyLookup::Answer(Answer::Done, _) => {
                let value = Activation { digest: *digest, manifest: manifest? };
                return Ok(Receipt { value, prior: true });
            }
            KeyLookup::Answer(_, key) => return Err(other_kind(&key).into()),
        };
        let shared = &self.shared;
        let permit = shared.components.change().await;
        let versions = shared.components.versions(name.as_str());
        if versions.is_empty() {
            self.durable_now().await?;
            return Err(DeployRefused::NoComponent(name.to_string()));
        }
        if !versions.contains(digest) {
            self.durable_now().await?;
            return Err(no_version());
        }
        let manifest = manifest?;
        let forced = self.breaks(&name, &manifest, if_breaking).await?;
        let action = if forced { "activate: forced" } else { "activate" };
        let now = shared.clock.now();
        let under = self.note(under).await?;
        let done = shared.components.activate(&permit, &name, digest, now, |batch, _| {
            if let Some(actor) = &actor {
                let about = AuditSubject::Component(name.clone(), *digest);
                let entry = audit_entry(&**shared, now, actor, about, action, &reason);
                audit_rows::put(batch, &entry);
            }
            if let Some((under, _)) = &under {
                let expires = shared.context().expires_at(None);
                let change = keys::done(expires, under, Answer::Done);
                batch.touch(change.id.slot());
                change.put(batch);
            }
        });
        let (_, position) = done.await.map_err(EngineError::from)?;
        drop((under, permit));
        shared.store.durable(position).await.map_err(EngineError::from)?;
        info!(component = %name, %digest, "component version activated");
        let value = Activation { digest: *digest, manifest };
        Ok(Receipt { value, prior: false })
    }

    /// Whether functions in use break if this manifest becomes the active one's. Err: they do, and
    /// may not.
    async fn breaks(
        &self,
        name: &ComponentName,
        manifest: &Manifest,
        if_breaking: IfBreaking,
    ) -> Result<bool, DeployRefused> {
        let changes = self.breaking_changes(name.as_str(), manifest).await?;
        match if_breaking {
            IfBreaking::Refuse if !changes.is_empty() => {
                Err(DeployRefused::Breaking { name: name.clone(), changes })
            }
            IfBreaking::Refuse | IfBreaking::Proceed => Ok(!changes.is_empty()),
        }
    }

    /// Reads the names again if another process has deployed (D13), and returns whether it had.
    pub async fn refresh_components(&self) -> Result<bool, EngineError> {
        let shared = Arc::clone(&self.shared);
        self.shared.read(Lane::Lookups, move |_| Ok(shared.components.refresh()?)).await
    }

    /// Every component: its name, its active version, all its versions, oldest first.
    pub async fn components(
        &self,
    ) -> Result<Vec<(ComponentName, ComponentDigest, Vec<Version>)>, EngineError> {
        let list = self.shared.components.list();
        self.durable_now().await?;
        Ok(list)
    }

    /// What a version offers; none if it was never deployed.
    pub async fn manifest(
        &self,
        digest: &ComponentDigest,
    ) -> Result<Option<Manifest>, EngineError> {
        let digest = *digest;
        let functions =
            self.shared.read(Lane::Lookups, move |reads| reads.manifest(&digest)).await?;
        Ok(functions.map(|manifest| (*manifest).clone()))
    }
}
