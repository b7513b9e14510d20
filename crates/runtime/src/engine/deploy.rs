//! Deploying components: checked, compiled once, stored under their digest, made active (D6).

use indelible_journal::ComponentDigest;

use super::{DeployRefused, Engine, EngineError};
use crate::component::{ComponentName, Version};
use crate::guest::Manifest;

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

impl Engine {
    /// Deploys a component under a name, and makes it the version that new calls take. The same
    /// bytes again are the same version. Compiling keeps this thread busy, for a second or so.
    pub async fn deploy(&self, name: &str, bytes: &[u8]) -> Result<Deployment, DeployRefused> {
        let name = ComponentName::new(name)?;
        let deployed = self.shared.guests.deploy_check(bytes)?;
        let now = self.shared.clock.now();
        let (known, position) = self
            .shared
            .components
            .put(&name, bytes, &deployed, now)
            .await
            .map_err(EngineError::from)?;
        self.shared.store.durable(position).await.map_err(EngineError::from)?;
        Ok(Deployment { digest: deployed.digest, manifest: deployed.manifest, known })
    }

    /// Every component: its name, its active version, all its versions, oldest first.
    pub async fn components(
        &self,
    ) -> Result<Vec<(ComponentName, ComponentDigest, Vec<Version>)>, EngineError> {
        let list = self.shared.components.list();
        self.durable_now().await?;
        Ok(list)
    }

    /// What a version can do; none if it was never deployed.
    pub async fn manifest(
        &self,
        digest: &ComponentDigest,
    ) -> Result<Option<Manifest>, EngineError> {
        let functions = self.shared.components.functions(digest)?;
        self.durable_now().await?;
        Ok(functions.map(|manifest| (*manifest).clone()))
    }
}
