//! Group commit: every client gets the result of its own request, also if another one panics, and budgets hold.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use crate::world::{create_stream, open_group_commit, request, sound};
use sage_kernel::{ChargeOutcome, Gate, GateError, GrantState, Head, Log, LogError, MemoryLog, Record};
use sage_store::log::{GroupCommit, Heads};

/// Charges from several threads at once, and returns the ids of the grants.
fn charge_concurrently<L: Log + Send>(shared: &GroupCommit<L>, threads: usize, charges: usize) -> Vec<u64> {
    let granted = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in 0..threads {
            let granted = &granted;
            scope.spawn(move || {
                for charge in 0..charges {
                    let own = request(&format!("{client}/{charge}"));
                    let key = own.key;
                    match shared.charge(own).expect("a healthy log") {
                        ChargeOutcome::Granted(grant) => {
                            let found = shared.with(|gate| gate.ledger().grant_for(key)).expect("a healthy gate");
                            assert_eq!(found, Some(grant.id()), "a result went to another client");
                            granted.lock().expect("no panic").push(grant.id().0);
                        }
                        ChargeOutcome::Refused(_) => {}
                        ChargeOutcome::Repeated(..) => panic!("no key was used twice"),
                    }
                }
            });
        }
    });
    let mut granted = granted.into_inner().expect("no panic");
    granted.sort_unstable();
    granted
}

#[test]
fn exactly_the_fitting_charges_are_granted_and_each_client_gets_its_result() {
    for (threads, charges, fitting) in [(1, 20, 10), (8, 50, 333), (64, 10, 1_000), (64, 20, 700)] {
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
        create_stream(&mut gate, fitting);
        let shared = GroupCommit::new(sound(gate, Heads::none()), || 3);
        let granted = charge_concurrently(&shared, threads, charges);
        assert_eq!(granted.len(), (fitting as usize).min(threads * charges), "{threads} threads");
        assert!(granted.is_sorted_by(|one, two| one < two), "a grant was returned twice");
    }
}

#[test]
fn grants_are_on_the_disk() {
    let folder = tempfile::tempdir().expect("a directory");
    let shared = open_group_commit(folder.path(), Heads::none());
    let granted = charge_concurrently(&shared, 8, 10);
    shared.close().expect("nothing to export");
    let gate = crate::world::gate(folder.path());
    assert_eq!(gate.ledger().waiting().map(|grant| grant.0).collect::<Vec<_>>(), granted);
}

/// A log in memory that counts its appends and panics or fails in one of them.
struct FaultyLog {
    log: MemoryLog,
    appends: usize,
    sizes: Vec<usize>,
    at: usize,
    fault: fn() -> Result<Head, LogError>,
}

impl Log for FaultyLog {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        self.log.read(from, limit)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        self.appends += 1;
        self.sizes.push(records.len());
        if self.appends == self.at {
            return (self.fault)();
        }
        // Long enough for other requests to queue up.
        thread::sleep(std::time::Duration::from_millis(20));
        self.log.append(expected, records)
    }
}

fn open_faulty(at: usize, fault: fn() -> Result<Head, LogError>) -> GroupCommit<FaultyLog> {
    let log = FaultyLog { log: MemoryLog::default(), appends: 0, sizes: Vec::new(), at, fault };
    let mut gate = Gate::open(log).expect("an empty log");
    create_stream(&mut gate, crate::world::FITTING);
    GroupCommit::new(sound(gate, Heads::none()), || 3)
}

/// The results of sixteen clients with five charges each. `None` stands for a charge that panicked.
fn charge_from_clients(shared: &GroupCommit<FaultyLog>) -> Vec<Option<Result<ChargeOutcome, GateError>>> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|client| {
                scope.spawn(move || {
                    let charge = |charge| {
                        let charge = || shared.charge(request(&format!("{client}/{charge}")));
                        catch_unwind(AssertUnwindSafe(charge)).ok()
                    };
                    (0..5).map(charge).collect::<Vec<_>>()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("caught")).collect()
    })
}

#[test]
fn requests_that_wait_during_a_flush_share_the_next() {
    let shared = open_faulty(usize::MAX, || Err(LogError::Conflict));
    assert!(charge_from_clients(&shared).iter().all(|result| matches!(result, Some(Ok(ChargeOutcome::Granted(_))))));
    let (appends, largest) =
        shared.with(|gate| (gate.log().appends, gate.log().sizes.iter().copied().max())).expect("a healthy gate");
    assert!(appends < 60, "{appends} appends for 80 charges");
    assert!(largest.is_some_and(|largest| (2..=16).contains(&largest)));
}

#[test]
fn a_panic_in_the_log_affects_only_its_batch() {
    let shared = open_faulty(5, || panic!("the log has a bug"));
    let results = charge_from_clients(&shared);
    let panicked = results.iter().filter(|result| result.is_none()).count();
    assert_eq!(panicked, 1, "one client led the batch that panicked");
    let granted = results.iter().filter(|result| matches!(result, Some(Ok(ChargeOutcome::Granted(_))))).count();
    let closed = results.iter().filter(|result| matches!(result, Some(Err(GateError::Closed)))).count();
    assert_eq!(granted + closed + panicked, 80);
    assert!(closed < 16, "only the batch that panicked fails");
    assert_eq!(shared.with(|gate| gate.ledger().waiting().count()).expect("folded again"), granted);
}

#[test]
fn after_a_panic_the_gate_has_the_state_of_the_log() {
    let shared = open_faulty(usize::MAX, || Err(LogError::Conflict));
    let _grant = shared.charge(request("before")).expect("a healthy log");
    let before = shared.with(|gate| (gate.head(), gate.ledger().clone())).expect("a healthy gate");
    let panicked = catch_unwind(AssertUnwindSafe(|| shared.with(|_| panic!("the client has a bug"))));
    assert!(panicked.is_err());
    assert!(shared.with(|gate| (gate.head(), gate.ledger().clone()) == before).expect("folded again"));
    assert!(matches!(shared.charge(request("after")), Ok(ChargeOutcome::Granted(_))));
}

#[test]
fn after_a_failed_append_nothing_is_granted() {
    for fault in
        [|| Err(LogError::Failed("injected".to_owned())), || Err::<Head, _>(LogError::Unknown("injected".to_owned()))]
    {
        let shared = open_faulty(5, fault);
        let results = charge_from_clients(&shared);
        let granted = results.iter().flatten().filter(|result| matches!(result, Ok(ChargeOutcome::Granted(_)))).count();
        assert_eq!(shared.with(|gate| gate.log().appends).expect("still there"), 5, "nothing was written after");
        // Two of the four earlier appends created the stream and its blocks.
        assert_eq!(shared.with(|gate| gate.log().log.records.len()).expect("still there"), granted + 2);
        assert!(matches!(shared.charge(request("late")), Err(GateError::Closed)));
    }
}

#[test]
fn a_started_grant_is_burnt_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a directory");
    let shared = open_group_commit(folder.path(), Heads::none());
    let Ok(ChargeOutcome::Granted(grant)) = shared.charge(request("one")) else { panic!("it fits") };
    let id = grant.id();
    let started = shared.with(|gate| gate.start(4, grant).map(|permit| permit.grant())).expect("a healthy gate");
    assert_eq!(started, Ok(id));
    shared.close().expect("nothing to export");
    let mut sound = sound(crate::world::gate(folder.path()), Heads::none());
    assert_eq!(sound.burn_running(5), Ok(vec![id]));
    assert_eq!(sound.ledger().grant_state(id), Some(GrantState::Burnt));
    assert_eq!(sound.burn_running(6), Ok(Vec::new()));
}
