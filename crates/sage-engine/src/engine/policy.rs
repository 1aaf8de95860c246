//! Streams and their policies: created by one officer, loosened only by two.
//!
//! The policy in force is the kernel's. A change of it is an event of the ledger that carries the names of
//! those who agreed, and the kernel refuses one that loosens without two. What waits for a second name is a
//! note. Nothing here must ever put a name under a policy that its bearer did not ask for.

use std::collections::BTreeMap;

use sage_kernel::{Context, ContextId, Filter, Gate, Policy, StreamId};

use super::{Engine, EngineError, Principal, Store, grant, note, now, secret};
use crate::catalog::{Catalog, Note, Stream};
use crate::pipeline::Pipeline;
use crate::stream::{Change, Role, StreamFile, Unit};

/// What became of a changed stream file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    /// It says what is in force already.
    Same,
    /// It is in force.
    InForce,
    /// It would loosen the policy: another officer has to agree.
    Waits,
}

impl Engine {
    /// Creates the stream that a file describes. The same file again has no effect.
    ///
    /// # Errors
    /// When the file cannot be meant, does not name the principal as its officer, or describes another stream
    /// than the one of its name.
    pub fn create_stream(&self, by: &Principal, text: &str) -> Result<(), EngineError> {
        let file = StreamFile::parse(text)?;
        in_role(&file, by, Role::PrivacyOfficer)?;
        self.with(|gate, catalog| {
            let exists = gate.ledger().stream_named(&file.name).is_some();
            match catalog.stream(&file.name) {
                Some(before) if exists && before.file == file => return Ok(()),
                Some(_) if exists => return Err(EngineError::StreamExists(file.name.clone())),
                _ => {}
            }
            file.policy.check_members(&BTreeMap::new())?;
            let secret = match file.unit {
                Unit::Event => None,
                Unit::User { .. } => Some(secret::make(self.path(), &file.name)?),
            };
            // First what it is, then that it is: a crash between the two leaves no stream, and no harm.
            note(gate, catalog, &defined(&file, secret, by))?;
            gate.create_stream(now(), &file.name, kernel_policy(&file)?)?;
            Ok(())
        })
    }

    /// Has a stream follow another file from now on, as far as that is allowed.
    ///
    /// # Errors
    /// When the file cannot be meant, changes what cannot change, or the principal is no officer of the stream.
    pub fn change_stream(&self, by: &Principal, text: &str) -> Result<PolicyOutcome, EngineError> {
        let file = StreamFile::parse(text)?;
        self.with(|gate, catalog| {
            let (id, stream) = found(gate, catalog, &file.name)?;
            in_role(&stream.file, by, Role::PrivacyOfficer)?;
            let changes = stream.file.changes(&file)?;
            if changes.is_empty() {
                return Ok(PolicyOutcome::Same);
            }
            file.policy.check_members(&stream.belonged)?;
            if changes.contains(&Change::Policy) {
                let in_force = gate.ledger().stream(id).map(|stream| stream.policy());
                let policy = in_force.map_or_else(|| kernel_policy(&file), |now| successor(now, &file))?;
                match in_force.and_then(|now| now.approvals_to_become(&policy)) {
                    None => return Err(EngineError::OtherPolicy(file.name.clone())),
                    Some(1) => gate.change_policy(now(), id, policy, vec![by.name().to_owned()])?,
                    Some(_) => {
                        let (stream, text, by) = (file.name.clone(), file.to_text(), by.name().to_owned());
                        note(gate, catalog, &Note::PolicyProposed { stream, text, by })?;
                        return Ok(PolicyOutcome::Waits);
                    }
                }
            }
            note(gate, catalog, &defined(&file, stream.secret.clone(), by))?;
            Ok(PolicyOutcome::InForce)
        })
    }

    /// Agrees to the policy that another officer has proposed for the stream.
    ///
    /// # Errors
    /// When none was proposed by another officer, or the principal is no officer of the stream.
    pub fn approve_policy(&self, by: &Principal, stream: &str) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(&known.file, by, Role::PrivacyOfficer)?;
            let proposal = known.proposal.as_ref().filter(|proposal| proposal.by != by.name());
            let proposal = proposal.ok_or_else(|| EngineError::NothingToApprove(stream.to_owned()))?;
            let file = StreamFile::parse(&proposal.text)?;
            file.policy.check_members(&known.belonged)?;
            let approvals = vec![proposal.by.clone(), by.name().to_owned()];
            let in_force = gate.ledger().stream(id).map(|stream| stream.policy());
            let policy = in_force.map_or_else(|| kernel_policy(&file), |now| successor(now, &file))?;
            gate.change_policy(now(), id, policy, approvals)?;
            note(gate, catalog, &defined(&file, known.secret.clone(), by))?;
            Ok(())
        })
    }
}

fn defined(file: &StreamFile, secret: Option<String>, by: &Principal) -> Note {
    Note::StreamDefined { stream: file.name.clone(), text: file.to_text(), secret, by: by.name().to_owned() }
}

fn kernel_policy(file: &StreamFile) -> Result<Policy, EngineError> {
    // A file that was read has a policy; were it not so, there would be no stream.
    file.kernel_policy().ok_or_else(|| EngineError::NoStream(file.name.clone()))
}

/// The policy of a file as it can follow the one in force: filters keep what earlier charges were counted by, such as
/// the weights of Rényi orders, and only their ceilings move.
fn successor(in_force: &Policy, file: &StreamFile) -> Result<Policy, EngineError> {
    let wanted = kernel_policy(file)?;
    let moved = |before: &Filter, wanted: &Filter| match before.rule() == wanted.rule() {
        true => before.under(wanted.ceiling()).unwrap_or_else(|| wanted.clone()),
        false => wanted.clone(),
    };
    let alike = in_force.contexts().len() == wanted.contexts().len();
    let pairs = in_force.contexts().iter().zip(wanted.contexts()).filter(|_| alike);
    let contexts: Vec<Context> = pairs
        .map(|(before, wanted)| Context { name: wanted.name.clone(), filter: moved(&before.filter, &wanted.filter) })
        .collect();
    let joint = match (in_force.joint(), wanted.joint()) {
        (Some(before), Some(wanted)) => Some(moved(before, wanted)),
        (_, joint) => joint.cloned(),
    };
    if contexts.is_empty() {
        return Ok(wanted);
    }
    Policy::with_contexts(contexts, joint, wanted.doors()).map_err(EngineError::Blocks)
}

/// A stream that the ledger and the catalog know.
pub(super) fn found<'catalog>(
    gate: &Gate<Store>, catalog: &'catalog Catalog, name: &str,
) -> Result<(StreamId, &'catalog Stream), EngineError> {
    let missing = || EngineError::NoStream(name.to_owned());
    let id = gate.ledger().stream_named(name).ok_or_else(missing)?;
    Ok((id, catalog.stream(name).ok_or_else(missing)?))
}

/// The context of a stream's policy that pays for a pipeline, and the filter that counts what it costs.
pub(super) fn paying<'gate>(
    gate: &'gate Gate<Store>, stream: StreamId, pipeline: &Pipeline,
) -> Result<(ContextId, &'gate Filter), EngineError> {
    let (place, own) = account(gate, stream, &pipeline.stream, pipeline.context.as_deref())?;
    Ok((place, &own.filter))
}

/// The context of a stream's policy that has this name, the first where none is named.
pub(super) fn account<'gate>(
    gate: &'gate Gate<Store>, stream: StreamId, name: &str, context: Option<&str>,
) -> Result<(ContextId, &'gate Context), EngineError> {
    let missing = || EngineError::NoStream(name.to_owned());
    let policy = gate.ledger().stream(stream).map(|stream| stream.policy()).ok_or_else(missing)?;
    let place = grant::context(policy, context)?;
    Ok((place, policy.contexts().get(place.0 as usize).ok_or_else(missing)?))
}

/// The context that pays for what an ML engineer of the stream asks, by its name.
pub(super) fn paid_by(file: &StreamFile, by: &Principal, named: Option<&str>) -> Result<Option<String>, EngineError> {
    in_role(file, by, Role::MlEngineer)?;
    Ok(file.policy.paid_by(by.name(), named)?)
}

/// Refuses whoever does not have the role.
pub(super) fn in_role(file: &StreamFile, by: &Principal, role: Role) -> Result<(), EngineError> {
    if file.access.get(&role).is_some_and(|names| names.iter().any(|name| name == by.name())) {
        return Ok(());
    }
    Err(EngineError::NotInRole { principal: by.name().to_owned(), role, stream: file.name.clone() })
}
