//! Runs the tests against each mutant: only those that reach it, the cheapest first, until one fails.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Journal;
use super::build::Program;
use super::schema::{Id, Mutant};
use crate::workspace::{self, Failure};

/// The variable that switches a mutant on.
const SWITCH: &str = "SAGE_MUTANT";

/// The identity that stands for none, with the mutants that are reached recorded.
const RECORD: Id = Id::MAX;

/// The variable with the file to which a recording program writes the mutants it reached.
const REACHED: &str = "SAGE_MUTANTS_REACHED";

/// Memory of a test program, in kilobytes: a mutant may ask for all there is.
const MEMORY: &str = "6000000";

/// A mutant that takes this many times as long as the tests without it, in processor time, has no end.
const PATIENCE: (Duration, u32) = (Duration::from_secs(4), 8);

/// A mutant that waits forever takes no processor time: it may wait this many times its patience. A busy machine does
/// not take as long for tests that end.
const WAIT: u32 = 20;

/// The signals that end a program at its limit of processor time.
const OVER_TIME: [i32; 2] = [9, 24];

/// Tests of one program that take less than this together are run by one process.
const SHORT: Duration = Duration::from_millis(400);

/// A test that takes longer than this is not run for mutants.
const SLOW: Duration = Duration::from_secs(60);

/// The tests of the first pass over a mutant take this long together.
const QUICK: Duration = Duration::from_secs(12);

/// What the tests said of a mutant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Caught,
    Timeout,
    Missed,
    /// No test reaches it.
    Unreached,
}

/// One test, how long it takes without a mutant, and which mutants it reaches.
pub(super) struct Test {
    program: usize,
    name: String,
    time: Duration,
    reached: Vec<u8>,
}

/// The names of the tests of each program.
fn names(programs: &[Program]) -> Result<Vec<(usize, String)>, Failure> {
    let mut tests = Vec::new();
    for (at, program) in programs.iter().enumerate() {
        let listing = workspace::output(Command::new(&program.path).args(["--list", "--format", "terse"]))?;
        tests.extend(listing.lines().filter_map(|line| Some((at, line.strip_suffix(": test")?.to_owned()))));
    }
    Ok(tests)
}

/// Runs every test alone, without a mutant: how long it takes and which mutants it reaches. A test that fails is an
/// error. The shortest test comes first. What an earlier run found out about the same program is kept.
pub(super) fn record(programs: &[Program], folder: &Path) -> Result<Vec<Test>, Failure> {
    let names = names(programs)?;
    let run = |(program, name): &(usize, String)| -> Result<Option<Test>, Failure> {
        let file = programs[*program].path.file_name().unwrap_or_default();
        let marks = folder.join(format!("{}-{}", file.to_string_lossy(), name.replace("::", "-")));
        let changed = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
        if changed(&marks) < changed(&programs[*program].path) {
            run_once(&programs[*program], name, &marks)?;
        }
        let mut reached = std::fs::read(&marks).map_err(|error| format!("{name}: {error}"))?;
        let Some(start) = reached.len().checked_sub(8) else { return Ok(None) };
        let micros = reached.split_off(start).try_into().map_or(0, u64::from_le_bytes);
        Ok(Some(Test { program: *program, name: name.clone(), time: Duration::from_micros(micros), reached }))
    };
    let tests = in_parallel(names.iter().collect(), run);
    let tests = tests.into_iter().collect::<Result<Vec<Option<Test>>, Failure>>()?;
    let mut tests: Vec<Test> = tests.into_iter().flatten().collect();
    tests.sort_by_key(|test| test.time);
    let whole: Duration = tests.iter().map(|test| test.time).sum();
    println!("mutants: {} tests take {:.0} s together", tests.len(), whole.as_secs_f64());
    for test in tests.iter().rev().take(12) {
        println!("mutants: {:6.2} s {}", test.time.as_secs_f64(), test.name);
    }
    Ok(tests)
}

/// Runs a test without a mutant and writes the marks of those it reaches, then its time; nothing if it is too slow to be
/// run for each mutant.
fn run_once(program: &Program, name: &str, marks: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    let child = command(program, &[name], RECORD, SLOW).env(REACHED, marks).spawn();
    let mut child = child.map_err(|error| format!("{name}: {error}"))?;
    let content = match ended(&mut child, start + SLOW * WAIT) {
        Verdict::Caught => return Err(format!("the test {name} fails without a mutant")),
        Verdict::Timeout => {
            println!("mutants: {name} takes too long and is left out");
            Vec::new()
        }
        _ => {
            let time = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            let reached = std::fs::read(marks).map_err(|error| format!("{name}: {error}"))?;
            [reached, time.to_le_bytes().to_vec()].concat()
        }
    };
    std::fs::write(marks, content).map_err(|error| format!("{}: {error}", marks.display()))
}

/// The verdict on each mutant: first from tests that are short together, then, for those that survive these and are not
/// explained, from the rest.
pub(super) fn judge(
    programs: &[Program], tests: &[Test], mutants: &[Mutant], journal: &Journal, is_explained: impl Fn(&Mutant) -> bool,
) -> Vec<(Mutant, Verdict)> {
    let trial = Trial { programs, tests, killers: Mutex::default(), journal };
    let quick = trial.pass(mutants.to_vec(), Pass::Quick);
    let is_open = |(mutant, verdict): &(Mutant, Verdict)| *verdict == Verdict::Missed && !is_explained(mutant);
    let (left, mut verdicts): (Vec<_>, Vec<_>) = quick.into_iter().partition(is_open);
    println!("mutants: {} survive the quick tests and are not explained", left.len());
    verdicts.extend(trial.pass(left.into_iter().map(|(mutant, _)| mutant).collect(), Pass::Rest));
    verdicts
}

/// Which of the tests that reach a mutant are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// The shortest, as many as take `QUICK` together.
    Quick,
    /// All others.
    Rest,
}

struct Trial<'a> {
    journal: &'a Journal,
    programs: &'a [Program],
    tests: &'a [Test],
    /// For each file the tests that killed its last mutants: they are tried first.
    killers: Mutex<BTreeMap<String, Vec<usize>>>,
}

impl Trial<'_> {
    fn pass(&self, mutants: Vec<Mutant>, pass: Pass) -> Vec<(Mutant, Verdict)> {
        let done = Mutex::new((0, 0, Instant::now()));
        let all = mutants.len();
        in_parallel(mutants, |mutant| {
            let verdict = self.verdict(&mutant, pass);
            self.journal.add(&mutant, verdict);
            if let Ok(mut done) = done.lock() {
                done.0 += 1;
                if matches!(verdict, Verdict::Missed | Verdict::Unreached) {
                    done.1 += 1;
                    println!("mutants: survives: {}:{}: {}", mutant.file, mutant.line, mutant.name);
                }
                if done.0 % 100 == 0 {
                    let seconds = done.2.elapsed().as_secs();
                    println!("mutants: {} of {} in {seconds} s, {} survive", done.0, all, done.1);
                }
            }
            (mutant, verdict)
        })
    }

    fn verdict(&self, mutant: &Mutant, pass: Pass) -> Verdict {
        let Self { programs, tests, killers, .. } = self;
        let reaches = |test: &Test| usize::try_from(mutant.id).is_ok_and(|id| test.reached.get(id) == Some(&1));
        let mut left: Vec<usize> = (0..tests.len()).filter(|&at| reaches(&tests[at])).collect();
        if left.is_empty() {
            return Verdict::Unreached;
        }
        let mut total = Duration::ZERO;
        left.retain(|&at| {
            total += tests[at].time;
            (total <= QUICK) == (pass == Pass::Quick)
        });
        let known = killers.lock().ok().and_then(|killers| killers.get(&mutant.file).cloned()).unwrap_or_default();
        let is_likely = |at: &usize| known.contains(at) && (pass == Pass::Rest || tests[*at].time < SHORT);
        left.sort_by_key(|at| !is_likely(at));
        let likely = left.iter().filter(|at| is_likely(at)).count();
        for batch in batches(tests, &left, likely) {
            let (verdict, failed) = run(programs, tests, &batch, mutant.id);
            if verdict == Verdict::Missed {
                continue;
            }
            if let (Ok(mut killers), Some(one)) = (killers.lock(), failed) {
                let known = killers.entry(mutant.file.clone()).or_default();
                known.retain(|at| *at != one);
                known.insert(0, one);
                known.truncate(4);
            }
            return verdict;
        }
        Verdict::Missed
    }
}

/// The tests in the order in which they run: likely ones alone, then short ones of one program together, then the rest.
fn batches(tests: &[Test], order: &[usize], likely: usize) -> Vec<Vec<usize>> {
    let (first, rest) = order.split_at(likely);
    let mut batches: Vec<Vec<usize>> = first.iter().map(|&at| vec![at]).collect();
    let mut open: BTreeMap<usize, (usize, Duration)> = BTreeMap::new();
    for &at in rest {
        let test = &tests[at];
        match open.get_mut(&test.program) {
            Some((batch, time)) if *time + test.time < SHORT => {
                batches[*batch].push(at);
                *time += test.time;
            }
            _ => {
                open.insert(test.program, (batches.len(), test.time));
                batches.push(vec![at]);
            }
        }
    }
    batches
}

/// The verdict of some tests of one program, and one that failed.
fn run(programs: &[Program], tests: &[Test], batch: &[usize], id: Id) -> (Verdict, Option<usize>) {
    let Some(program) = batch.first().map(|&at| tests[at].program) else { return (Verdict::Missed, None) };
    let names: Vec<&String> = batch.iter().map(|&at| &tests[at].name).collect();
    let time: Duration = batch.iter().map(|&at| tests[at].time).sum();
    let patience = PATIENCE.0 + time * PATIENCE.1;
    let mut command = command(&programs[program], &names, id, patience);
    let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else { return (Verdict::Missed, None) };
    let output = child.stdout.take();
    let failed = std::thread::spawn(move || {
        let lines = std::io::BufReader::new(output?).lines().map_while(Result::ok);
        // To the end, so that the program never waits for a reader.
        let failed = lines.filter_map(|line| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned()));
        failed.last()
    });
    let verdict = ended(&mut child, Instant::now() + patience * WAIT);
    let failed = failed.join().ok().flatten();
    (verdict, batch.iter().copied().find(|&at| failed.as_ref() == Some(&tests[at].name)))
}

fn ended(child: &mut Child, end: Instant) -> Verdict {
    let mut pause = Duration::from_millis(2);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Verdict::Missed,
            Ok(Some(status)) if status.signal().is_some_and(|signal| OVER_TIME.contains(&signal)) => {
                return Verdict::Timeout;
            }
            Ok(Some(_)) => return Verdict::Caught,
            Ok(None) if Instant::now() < end => std::thread::sleep(pause),
            _ => {
                // It may have ended meanwhile; either way it took too long.
                let _ = child.kill();
                let _ = child.wait();
                return Verdict::Timeout;
            }
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The program with the given tests and one mutant, and with limited memory and processor time.
fn command(program: &Program, tests: &[impl AsRef<str>], id: Id, patience: Duration) -> Command {
    let mut command = Command::new("sh");
    let seconds = patience.as_secs() + 1;
    command.args(["-c", &format!("ulimit -v {MEMORY}; ulimit -t {seconds}; ulimit -c 0; exec \"$0\" \"$@\"")]);
    command.arg(&program.path).args(["--exact", "--test-threads=1"]).args(tests.iter().map(AsRef::as_ref));
    command.current_dir(&program.folder).env(SWITCH, id.to_string());
    command.env("RUST_BACKTRACE", "0").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The results of the work on each item, in order, from as many threads as there are processors.
fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some((at, item)) = next else { break };
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.push((at, result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
