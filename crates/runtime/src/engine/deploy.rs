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

/// The name of the flow of deployments. No function has this name.
const FLOW: &str = "deploy";

impl Engine {
    /// Deploys a component under a name, and makes it the version that new calls take. The same
    /// bytes again are the same version. Compiling keeps this thread busy, for a second or so.
    ///
    /// Under a key, a repetition gets the same answer, and does not make an older version active
    /// again.
    pub async fn deploy(
        &self,
        name: &str,
        bytes: &[u8],
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
        let (now, digest) = (shared.clock.now(), deployed.digest);
        let under = self.note(under).await?;
        let put = shared.components.put(&name, bytes, &deployed, now, |batch, known| {
            if let Some(actor) = &actor {
                let about = AuditSubject::Component(name.clone(), digest);
                let entry = audit_entry(&**shared, now, actor, about, "deploy", &reason);
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
        drop(under);
        shared.store.durable(position).await.map_err(EngineError::from)?;
        info!(component = %name, %digest, "component deployed");
        let value = Deployment { digest, manifest: deployed.manifest, known };
        Ok(Receipt { value, prior: false })
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
