//! Group commit's promises: everyone gets the answer to what they asked, whoever panics, and budgets hold.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use crate::world::{furnish, group_commit, request, sound};
use sage_kernel::{Answer, Gate, GateError, GrantState, Head, Log, LogError, MemoryLog, Record};
use sage_store::log::{GroupCommit, Heads};

/// Runs so many threads with so many charges each, and returns the numbers of the grants.
fn storm<L: Log + Send>(group_commit: &GroupCommit<L>, threads: usize, charges: usize) -> Vec<u64> {
    let granted = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in 0..threads {
            let granted = &granted;
            scope.spawn(move || {
                for charge in 0..charges {
                    let wanted = request(&format!("{client}/{charge}"));
                    let key = wanted.key;
                    match group_commit.charge(wanted).expect("a healthy log") {
                        Answer::Granted(grant) => {
                            let found = group_commit.with(|gate| gate.ledger().grant_for(key)).expect("a healthy gate");
                            assert_eq!(found, Some(grant.id()), "an answer went to somebody else");
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
fn as_many_are_granted_as_fit_and_each_answer_finds_its_client() {
    for (threads, charges, fitting) in [(1, 20, 10), (8, 50, 333), (64, 10, 1_000), (64, 20, 700)] {
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
        furnish(&mut gate, fitting);
        let group_commit = GroupCommit::new(sound(gate, Heads::none()), || 3);
        let granted = storm(&group_commit, threads, charges);
        assert_eq!(granted.len(), (fitting as usize).min(threads * charges), "{threads} threads");
        assert!(granted.is_sorted_by(|one, two| one < two), "a grant was handed out twice");
    }
}

#[test]
fn what_was_granted_is_on_the_disk() {
    let place = tempfile::tempdir().expect("a directory");
    let group_commit = group_commit(place.path(), Heads::none());
    let granted = storm(&group_commit, 8, 10);
    group_commit.close().expect("nothing to export");
    let gate = crate::world::gate(place.path());
    assert_eq!(gate.ledger().waiting().map(|grant| grant.0).collect::<Vec<_>>(), granted);
}

/// A log in memory that counts its appends and panics or fails in one of them.
struct Rigged {
    log: MemoryLog,
    appends: usize,
    sizes: Vec<usize>,
    at: usize,
    deed: fn() -> Result<Head, LogError>,
}

impl Log for Rigged {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        self.log.read(from, limit)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        self.appends += 1;
        self.sizes.push(records.len());
        if self.appends == self.at {
            return (self.deed)();
        }
        // Long enough for the others to come and wait.
        thread::sleep(std::time::Duration::from_millis(2));
        self.log.append(expected, records)
    }
}

fn rigged(at: usize, deed: fn() -> Result<Head, LogError>) -> GroupCommit<Rigged> {
    let log = Rigged { log: MemoryLog::default(), appends: 0, sizes: Vec::new(), at, deed };
    let mut gate = Gate::open(log).expect("an empty log");
    furnish(&mut gate, crate::world::FITTING);
    GroupCommit::new(sound(gate, Heads::none()), || 3)
}

/// The answers to sixteen clients with five charges each; a client whose thread panicked has none for that.
fn answers(group_commit: &GroupCommit<Rigged>) -> Vec<Option<Result<Answer, GateError>>> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|client| {
                scope.spawn(move || {
                    let charge = |charge| {
                        let charge = || group_commit.charge(request(&format!("{client}/{charge}")));
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
fn those_who_wait_during_a_flush_share_the_next() {
    let group_commit = rigged(usize::MAX, || Err(LogError::Conflict));
    assert!(answers(&group_commit).iter().all(|answer| matches!(answer, Some(Ok(Answer::Granted(_))))));
    let (appends, largest) =
        group_commit.with(|gate| (gate.log().appends, gate.log().sizes.iter().copied().max())).expect("a healthy gate");
    assert!(appends < 60, "{appends} appends for 80 charges");
    assert!(largest.is_some_and(|largest| (2..=16).contains(&largest)));
}

#[test]
fn a_panic_in_the_store_takes_nobody_else_along() {
    let group_commit = rigged(5, || panic!("the store has a bug"));
    let answers = answers(&group_commit);
    let panicked = answers.iter().filter(|answer| answer.is_none()).count();
    assert_eq!(panicked, 1, "one client led the batch that panicked");
    let granted = answers.iter().filter(|answer| matches!(answer, Some(Ok(ChargeOutcome::Granted(_))))).count();
    let closed = answers.iter().filter(|answer| matches!(answer, Some(Err(GateError::Closed)))).count();
    assert_eq!(granted + closed + panicked, 80);
    assert!(closed < 16, "only those of the batch that panicked go without");
    assert_eq!(group_commit.with(|gate| gate.ledger().waiting().count()).expect("folded anew"), granted);
}

#[test]
fn a_panic_with_the_gate_in_hand_leaves_the_state_of_the_log() {
    let group_commit = rigged(usize::MAX, || Err(LogError::Conflict));
    let _grant = group_commit.charge(request("before")).expect("a healthy log");
    let before = group_commit.with(|gate| (gate.head(), gate.ledger().clone())).expect("a healthy gate");
    let panicked = catch_unwind(AssertUnwindSafe(|| group_commit.with(|_| panic!("the client has a bug"))));
    assert!(panicked.is_err());
    assert!(group_commit.with(|gate| (gate.head(), gate.ledger().clone()) == before).expect("folded anew"));
    assert!(matches!(group_commit.charge(request("after")), Ok(Answer::Granted(_))));
}

#[test]
fn after_a_failed_append_nothing_is_granted() {
    for deed in
        [|| Err(LogError::Failed("injected".to_owned())), || Err::<Head, _>(LogError::Unknown("injected".to_owned()))]
    {
        let group_commit = rigged(5, deed);
        let answers = answers(&group_commit);
        let granted = answers.iter().flatten().filter(|answer| matches!(answer, Ok(Answer::Granted(_)))).count();
        assert_eq!(group_commit.with(|gate| gate.log().appends).expect("still there"), 5, "nothing was written after");
        // Two of the four appends before made the stream and its blocks.
        assert_eq!(group_commit.with(|gate| gate.log().log.records.len()).expect("still there"), granted + 2);
        assert!(matches!(group_commit.charge(request("late")), Err(GateError::Closed)));
    }
}

#[test]
fn a_grant_is_started_and_released_beside_the_charges() {
    let place = tempfile::tempdir().expect("a directory");
    let group_commit = group_commit(place.path(), Heads::none());
    let Ok(Answer::Granted(grant)) = group_commit.charge(request("one")) else { panic!("it fits") };
    let id = grant.id();
    let started = group_commit.with(|gate| gate.start(4, grant).map(|permit| permit.grant())).expect("a healthy gate");
    assert_eq!(started, Ok(id));
    group_commit.close().expect("nothing to export");
    let mut sound = sound(crate::world::gate(place.path()), Heads::none());
    assert_eq!(sound.burn_running(5), Ok(vec![id]));
    assert_eq!(sound.ledger().grant_state(id), Some(GrantState::Burnt));
    assert_eq!(sound.burn_running(6), Ok(Vec::new()));
}
