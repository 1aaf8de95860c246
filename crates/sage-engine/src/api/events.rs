//! Events of the log and roles of principals, for front ends that show events as they happen.
//!
//! An event is shown by its kind and the public names it concerns. Bodies stay in the log: costs are shown by the views
//! of runs and blocks, to principals who may see them.

use std::sync::Arc;

use sage_kernel::{Event, GrantId, Head, Log, Record, StreamId};

use crate::adapt::Verdict;
use crate::api::{Engine, EngineError, Principal};
use crate::catalog::{Catalog, Conclusion, Note, Run, Step, conclusion, text_digest};
use crate::log::{RESTORE_NOTE, ROLLBACK_NOTE};
use crate::stream::Role;

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventView {
    /// Its number in the log.
    pub number: u64,
    /// The time in milliseconds since 1970.
    pub time: u64,
    /// The kind of event.
    pub kind: &'static str,
    /// The stream it concerns.
    pub stream: Option<String>,
    /// The run it concerns.
    pub run: Option<u64>,
    /// The release it changes. Such an event is public.
    pub release: Option<String>,
    /// The principal who caused it, if the event records that.
    pub by: Vec<String>,
    /// The stream file that it proposes or enacts.
    pub file: Option<String>,
    /// The digest of that file, by which officers approve it.
    pub digest: Option<String>,
    /// The member whose roles it suspends or reinstates.
    pub member: Option<String>,
}

/// Every kind of event that is shown.
pub const EVENT_KINDS: &[&str] = &[
    "alias-moved",
    "attempt-charged",
    "attempt-chosen",
    "attempt-judged",
    "attempt-lost",
    "attempt-refused",
    "attempt-withdrawn",
    "blocks-added",
    "blocks-deleted",
    "blocks-retired",
    "blocks-sealed",
    "burnt",
    "charge-cancelled",
    "charged",
    "left",
    "member-reinstated",
    "member-suspended",
    "note",
    "policy-changed",
    "policy-proposed",
    "quarantine-erased",
    "query-answered",
    "recurrence-stopped",
    "release-withdrawn",
    "released",
    "retest-failed",
    "retest-passed",
    "restore-acknowledged",
    "rollback-acknowledged",
    "rows-ingested",
    "run-ended",
    "run-submitted",
    "snapshot",
    "started",
    "stream-created",
    "stream-defined",
    "units-counted",
];

impl Engine {
    /// At most `most` events of the log, starting with number `from`.
    ///
    /// # Errors
    /// When the log fails.
    pub fn events(&self, from: u64, most: usize) -> Result<Vec<EventView>, EngineError> {
        self.with(|gate, catalog| {
            let log = gate.log().log();
            let failed = |error| EngineError::Gate(sage_kernel::GateError::Log(error));
            let name = |id: StreamId| gate.ledger().stream(id).map(|stream| stream.name().to_owned());
            let of_grant = |grant: GrantId| {
                let charge = log.read(grant.0, 1).ok()?.into_iter().next()?;
                match Event::from_bytes(&charge.body) {
                    Ok(Event::Charged(charge)) => name(charge.request.stream),
                    _ => None,
                }
            };
            let records = log.read(from, most).map_err(failed)?;
            let views = records.iter().map(|record| view(record, catalog, &name, &of_grant));
            let listed =
                |view: &EventView| debug_assert!(EVENT_KINDS.contains(&view.kind), "{} is not listed", view.kind);
            Ok(views.inspect(listed).collect())
        })
    }

    /// The number of events in the log.
    ///
    /// # Errors
    /// When the log has failed.
    pub fn log_length(&self) -> Result<u64, EngineError> {
        self.with(|gate, _| Ok(gate.head().length))
    }

    /// The head of the log after `length` events; the present head if the log is not longer.
    ///
    /// # Errors
    /// When the log fails.
    pub fn head_at(&self, length: u64) -> Result<Head, EngineError> {
        self.with(|gate, _| {
            let head = gate.head();
            let Some(last) = length.checked_sub(1) else { return Ok(Head::EMPTY) };
            if length >= head.length {
                return Ok(head);
            }
            let failed = |error| EngineError::Gate(sage_kernel::GateError::Log(error));
            let record = gate.log().log().read(last, 1).map_err(failed)?.into_iter().next();
            Ok(record.map_or(head, |record| record.head()))
        })
    }

    /// The roles of a principal on a stream; empty if there is no such stream or they are suspended.
    pub fn roles(&self, who: &Principal, stream: &str) -> Vec<Role> {
        let catalog = self.catalog();
        let Some(known) = catalog.stream(stream) else { return Vec::new() };
        Role::ALL.into_iter().map(|(_, role)| role).filter(|role| known.has_role(who.name(), *role)).collect()
    }

    /// The names of all streams.
    pub fn stream_names(&self) -> Vec<String> {
        self.catalog().streams().map(|(name, _)| name.to_owned()).collect()
    }
}

fn view(
    record: &Record, catalog: &Catalog, name: &dyn Fn(StreamId) -> Option<String>,
    of_grant: &dyn Fn(GrantId) -> Option<String>,
) -> EventView {
    let event = Event::from_bytes(&record.body);
    let (kind, stream) = match &event {
        Ok(Event::StreamCreated { name, .. }) => ("stream-created", Some(name.clone())),
        Ok(Event::BlocksAdded { stream, .. }) => ("blocks-added", name(*stream)),
        Ok(Event::Charged(charge)) => ("charged", name(charge.request.stream)),
        Ok(Event::Started { grant }) => ("started", of_grant(*grant)),
        Ok(Event::Cancelled { grant }) => ("charge-cancelled", of_grant(*grant)),
        Ok(Event::Released { grant, .. }) => ("left", of_grant(*grant)),
        Ok(Event::Burnt { grant }) => ("burnt", of_grant(*grant)),
        Ok(Event::Retired { stream, .. }) => ("blocks-retired", name(*stream)),
        Ok(Event::PolicyChanged { stream, .. }) => ("policy-changed", name(*stream)),
        Ok(Event::Snapshot { .. }) => ("snapshot", None),
        Ok(Event::Note { kind, body }) if kind == Note::KIND => match Note::from_bytes(body) {
            Some(note) => return noted(record, catalog, &note),
            None => ("note", None),
        },
        Ok(Event::Note { kind, .. }) if kind == ROLLBACK_NOTE => ("rollback-acknowledged", None),
        Ok(Event::Note { kind, .. }) if kind == RESTORE_NOTE => ("restore-acknowledged", None),
        _ => ("note", None),
    };
    let by = match event {
        Ok(Event::PolicyChanged { approvals, .. }) => approvals,
        _ => Vec::new(),
    };
    let (run, release, file, digest, member) = (None, None, None, None, None);
    EventView { number: record.number, time: record.time, kind, stream, run, release, by, file, digest, member }
}

fn noted(record: &Record, catalog: &Catalog, note: &Note) -> EventView {
    let run_of = |number: &u64| catalog.history().run(*number);
    let of_run = |number: &u64| run_of(number).map(|run| run.pipeline.stream.clone());
    let of_release = |name: &str, version: u32| {
        let run = catalog.history().release(name, version).map(|release| release.run);
        run.and_then(|run| of_run(&run))
    };
    let (kind, stream, run, release) = match note {
        Note::StreamDefined { stream, .. } => ("stream-defined", Some(stream.clone()), None, None),
        Note::PolicyProposed { stream, .. } => ("policy-proposed", Some(stream.clone()), None, None),
        Note::RowsIngested { stream, .. } => ("rows-ingested", Some(stream.clone()), None, None),
        Note::BlocksSealed { stream, .. } => ("blocks-sealed", Some(stream.clone()), None, None),
        Note::UnitsCounted { stream, .. } => ("units-counted", Some(stream.clone()), None, None),
        Note::QueryAnswered { stream, .. } => ("query-answered", Some(stream.clone()), None, None),
        Note::QuarantineErased { stream, .. } => ("quarantine-erased", Some(stream.clone()), None, None),
        Note::RecurrenceStopped { stream, .. } => ("recurrence-stopped", Some(stream.clone()), None, None),
        Note::MemberSuspended { stream, .. } => ("member-suspended", Some(stream.clone()), None, None),
        Note::MemberReinstated { stream, .. } => ("member-reinstated", Some(stream.clone()), None, None),
        Note::BlocksDeleted { stream, .. } => ("blocks-deleted", Some(stream.clone()), None, None),
        Note::RunSubmitted { stream, .. } => ("run-submitted", Some(stream.clone()), None, None),
        Note::RunStepped { run, step } => {
            let released = matches!(step, Step::Judged { report } if report.release.is_some());
            let name = run_of(run).filter(|_| released).map(|run| run.pipeline.name.clone());
            (stepped(step, run_of(run)), of_run(run), Some(*run), name)
        }
        Note::AliasMoved { release, version, .. } => {
            ("alias-moved", of_release(release, *version), None, Some(release.clone()))
        }
        Note::ReleaseWithdrawn { release, version, .. } => {
            ("release-withdrawn", of_release(release, *version), None, Some(release.clone()))
        }
    };
    let by = match note {
        Note::RunStepped { step: Step::Ended { by: Some(by), .. }, .. } => Some(by.clone()),
        // Steps of a run are attributed to the principal who submitted it.
        Note::RunStepped { run, .. } => run_of(run).map(|run| run.by.clone()),
        _ => note.by().map(str::to_owned),
    };
    let file = match note {
        Note::PolicyProposed { text, .. } | Note::StreamDefined { text, .. } => Some(text.clone()),
        _ => None,
    };
    let digest = file.as_deref().map(text_digest);
    let member = match note {
        Note::MemberSuspended { member, .. } | Note::MemberReinstated { member, .. } => Some(member.clone()),
        _ => None,
    };
    let by = by.into_iter().collect();
    EventView { number: record.number, time: record.time, kind, stream, run, release, by, file, digest, member }
}

/// The kind of a step. The step that ends a test of a released model says whether the model passed.
fn stepped(step: &Step, run: Option<&Arc<Run>>) -> &'static str {
    let ends = match step {
        Step::Judged { report } => report.verdict != Verdict::Retry,
        Step::Ended { .. } => true,
        _ => false,
    };
    match run.filter(|_| ends).and_then(|run| conclusion(run)) {
        Some(Conclusion::Passed) => return "retest-passed",
        Some(Conclusion::Failed) => return "retest-failed",
        None => {}
    }
    match step {
        Step::Chosen { .. } => "attempt-chosen",
        Step::Refused => "attempt-refused",
        Step::Charged => "attempt-charged",
        Step::Withdrawn => "attempt-withdrawn",
        Step::Lost { .. } => "attempt-lost",
        Step::Judged { report } if report.release.is_some() => "released",
        Step::Judged { .. } => "attempt-judged",
        Step::Ended { .. } => "run-ended",
    }
}
