//! Suspension of members by officers, and the end of runs whose submitter may no longer spend.
//!
//! A suspension removes all roles of a member on one stream until an officer reinstates them; the stream file is
//! unchanged. Runs of members without the right to spend end at once, and the worker loop checks the same right again
//! before every attempt and every recurrence. Nothing here can give a member more than the stream file does.

use std::collections::BTreeMap;

use sage_kernel::Gate;

use crate::adapt::{End, Phase};
use crate::api::policy::{found, in_role};
use crate::api::{Engine, EngineError, Principal, Store, note};
use crate::catalog::{Catalog, Note, Step, may_spend};
use crate::stream::{Role, StreamFile};

impl Engine {
    /// Suspends a member of a stream: their runs end, their recurring pipelines stop, and all their requests on the
    /// stream are refused until they are reinstated.
    ///
    /// # Errors
    /// When the principal is not an officer of the stream or names themselves, or the member has no role or is already
    /// suspended.
    pub fn suspend(&self, by: &Principal, stream: &str, member: &str, reason: &str) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, stream)?;
            in_role(known, by, Role::PrivacyOfficer)?;
            let refused = |why| EngineError::Suspension { member: member.to_owned(), why };
            if member == by.name() {
                return Err(refused("is the officer who asks; another officer can suspend them"));
            }
            if known.suspended.contains_key(member) {
                return Err(refused("is suspended already"));
            }
            let has_role = known.file.access.values().flatten().any(|name| name == member);
            if !has_role {
                return Err(refused("has no role on this stream"));
            }
            let (stream, name) = (stream.to_owned(), member.to_owned());
            let (by_name, reason) = (by.name().to_owned(), reason.to_owned());
            note(gate, catalog, &Note::MemberSuspended { stream, member: name, by: by_name, reason: reason.clone() })?;
            let mut suspended = known.suspended.clone();
            suspended.insert(member.to_owned(), reason);
            end_runs(gate, catalog, by, &known.file, &suspended)
        })
    }

    /// Reinstates the roles of a suspended member. Runs that ended stay ended.
    ///
    /// # Errors
    /// When the principal is not an officer of the stream, or the member is not suspended.
    pub fn reinstate(&self, by: &Principal, stream: &str, member: &str) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, stream)?;
            in_role(known, by, Role::PrivacyOfficer)?;
            if !known.suspended.contains_key(member) {
                return Err(EngineError::Suspension { member: member.to_owned(), why: "is not suspended" });
            }
            let (stream, member, by) = (stream.to_owned(), member.to_owned(), by.name().to_owned());
            Ok(note(gate, catalog, &Note::MemberReinstated { stream, member, by })?)
        })
    }
}

/// Ends the runs and recurring pipelines of a stream whose submitters may not spend under this file and these
/// suspensions. An attempt in progress finishes without effect.
pub(crate) fn end_runs(
    gate: &mut Gate<Store>, catalog: &Catalog, by: &Principal, file: &StreamFile, suspended: &BTreeMap<String, String>,
) -> Result<(), EngineError> {
    for (run, own) in catalog.history().runs() {
        let over = matches!(own.state.phase(), Phase::Over(_));
        if own.pipeline.stream == file.name && !over && !may_spend(file, suspended, own) {
            let step = Step::Ended { end: End::NotMember, by: Some(by.name().to_owned()) };
            note(gate, catalog, &Note::RunStepped { run, step })?;
        }
    }
    let history = catalog.history();
    let newest: BTreeMap<&str, u64> =
        history.runs().map(|(number, own)| (own.pipeline.name.as_str(), number)).collect();
    for (name, run) in newest {
        let Some(own) = history.run(run).filter(|own| own.pipeline.stream == file.name) else { continue };
        if history.recurs(run) && history.owner(name) == Some(file.name.as_str()) && !may_spend(file, suspended, own) {
            let (stream, pipeline, by) = (file.name.clone(), name.to_owned(), by.name().to_owned());
            note(gate, catalog, &Note::RecurrenceStopped { stream, pipeline, by })?;
        }
    }
    Ok(())
}
