//! Writes and settings: what is checked before a scope's machine is asked.

use indelible_execution::Actor as Person;
use indelible_execution::context::split;
use indelible_journal::{Durability, FunctionName, Payload, Timestamp};
use indelible_ledger::{Actor, ClientId, Incarnation, Operation, Request, Scope};
use indelible_records::ledger::room_key;

use super::machine::{Ask, DoorChecks, Reply, StartFunction, VaultMachine, WriteAsk};
use super::{
    LedgerAnswer, LedgerError, LedgerWrite, VaultSettings, VaultState, WriteName, Writes, reads,
};
use crate::engine::{Attribution, Engine, PersonDecision};
use crate::{EngineError, StartRefused};

impl Engine {
    /// Applies transactions, unless they were applied before. When this returns, they are durable,
    /// and so is what they were answered: refusals too (C-42, C-50).
    pub async fn write_ledger(&self, write: LedgerWrite) -> Result<LedgerAnswer, LedgerError> {
        let LedgerWrite { scope, incarnation, actor, writes } = write;
        let requests = match &writes {
            Writes::Run(run) => run.requests(),
            Writes::Named(_, request) => std::slice::from_ref(request),
        };
        let functions = self.functions_of(requests).await?;
        let id = match &writes {
            Writes::Named(WriteName::Operation(id), _) => Some(id),
            Writes::Named(WriteName::Key(_), _) | Writes::Run(_) => None,
        };
        let unknown_name = self.shared().check_unknown_name(id);
        let checks = DoorChecks { functions, unknown_name };
        let ask = WriteAsk { pinned: incarnation, actor, writes, checks };
        match self.ask_vault(&scope, Ask::Write(Box::new(ask))).await? {
            Reply::Written(answer) => Ok(answer),
            _ => Err(misanswered()),
        }
    }

    /// Makes a vault, or gives one that is there these settings. True: it was made.
    pub async fn put_vault(
        &self,
        scope: &Scope,
        settings: VaultSettings,
        actor: Option<Person>,
    ) -> Result<(VaultState, bool), LedgerError> {
        let least = self.shared().limits.retention.window();
        if settings.log_retention.is_some_and(|kept| kept < least) {
            return Err(LedgerError::Retention { least });
        }
        let actor = actor.unwrap_or_else(|| Person::new("system:engine"));
        match self.ask_vault(scope, Ask::Put(settings, actor)).await? {
            Reply::Put(live, is_new) => {
                let restores = reads::restores(&self.shared().store)?;
                Ok((reads::state_of(scope, &live, restores), is_new))
            }
            _ => Err(misanswered()),
        }
    }

    /// Deletes a vault and everything in it. Its name is free again at the returned time (C-47).
    pub async fn delete_vault(
        &self,
        scope: &Scope,
        pinned: Option<Incarnation>,
        asked: Attribution,
    ) -> Result<Timestamp, LedgerError> {
        let Attribution { actor, reason, .. } = asked;
        let actor = actor.unwrap_or_else(|| Person::new("system:engine"));
        match self.ask_vault(scope, Ask::Delete(pinned, actor, reason)).await? {
            Reply::Deleted(free_at) => Ok(free_at),
            _ => Err(misanswered()),
        }
    }

    /// Lets a client id belong to another caller (C-46).
    pub async fn hand_over_client(
        &self,
        scope: &Scope,
        client: &ClientId,
        owner: Actor,
        decided: PersonDecision,
    ) -> Result<(), LedgerError> {
        let PersonDecision { actor, reason, .. } = decided;
        let ask = Ask::HandOver(client.clone(), owner, actor, reason);
        self.ask_vault(scope, ask).await.map(drop)
    }

    async fn ask_vault(&self, scope: &Scope, ask: Ask) -> Result<Reply, LedgerError> {
        self.ask_room::<VaultMachine>(room_key(scope), ask).await?
    }

    /// The functions that requests start, each with the version that it would start. What is refused
    /// here refuses a new transaction alone: one that was applied before is answered as it was.
    async fn functions_of(&self, requests: &[Request]) -> Result<Vec<StartFunction>, LedgerError> {
        let mut functions = Vec::<StartFunction>::new();
        for operation in requests.iter().flat_map(Request::operations) {
            let Operation::Start { function, input } = operation else { continue };
            if functions.iter().any(|known| (&known.function, &known.input) == (function, input)) {
                continue;
            }
            let version = self.function_of(function, input).await;
            let (function, input) = (function.clone(), input.clone());
            functions.push(StartFunction { function, input, version });
        }
        Ok(functions)
    }

    async fn function_of(
        &self,
        called: &FunctionName,
        input: &Payload,
    ) -> Result<indelible_journal::ComponentDigest, StartRefused> {
        let shared = self.shared();
        let (component, function) = split(called.as_str());
        let component = component.unwrap_or_default();
        let no_component = || StartRefused::NoComponent(component.to_owned());
        let digest = shared.components.active(component).ok_or_else(no_component)?;
        let functions = shared.components.functions(&digest).map_err(EngineError::from)?;
        let functions = functions.ok_or_else(no_component)?;
        let spec = functions.function(function).ok_or_else(|| StartRefused::NoFunction {
            component: component.to_owned(),
            function: function.to_owned(),
            has: crate::engine::names(&functions),
        })?;
        if spec.retry_policy.class.durability == Durability::Volatile {
            // Nothing of it would be in the commit (C-39).
            return Err(StartRefused::Volatile(called.to_string()));
        }
        let problems = shared.check_input(&digest, &spec.name, input).await?;
        if problems.is_empty() {
            return Ok(digest);
        }
        let (component, function) = (component.to_owned(), function.to_owned());
        Err(StartRefused::InvalidInput { component, function, problems })
    }
}

/// A reply of another kind than the question: a defect of the engine's.
fn misanswered() -> LedgerError {
    LedgerError::Malformed("a defect of Indelible: unexpected reply of a vault".to_owned())
}
