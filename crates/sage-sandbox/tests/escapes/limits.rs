//! Attempts to exhaust the host's resources.

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sage_sandbox::{Containment, Ending, Exit, Limit, Limits};

use crate::Test;
use crate::harness::{Host, RunResult, python, small_limits};

pub(crate) const TESTS: &[Test] = &[
    ("limits: a command that hangs", hangs),
    ("limits: a command that ignores every signal", ignores_signals),
    ("limits: processor time", processor_time),
    ("limits: memory of one process", memory_of_one),
    ("limits: memory of many processes", memory_of_many),
    ("limits: memory that is shared", shared_memory),
    ("limits: processes", processes),
    ("limits: threads", threads),
    ("limits: open files", open_files),
    ("limits: a large file", large_file),
    ("limits: a large file, the signal not ignored", large_file_by_shell),
    ("limits: many files that are large together", large_together),
    ("limits: many files", many_files),
    ("limits: folders in folders", deep_folders),
    ("limits: a file of a terabyte with nothing in it", sparse_file),
    ("limits: the temporary folder", temporary_folder),
    ("limits: shared memory counts as temporary", shared_folder),
    ("limits: endless printing", endless_printing),
    ("limits: endless complaining", endless_complaining),
    ("limits: endless messages", endless_messages),
    ("limits: one endless message", endless_message),
    ("limits: a long message is dropped", long_message),
];

fn run_isolated(body: &str, limits: Limits) -> RunResult {
    Host::new().attack(Containment::Isolated, body, limits)
}

#[track_caller]
fn ends(run: &RunResult, ending: Ending) -> Result<(), Failed> {
    if run.report.ending == ending { Ok(()) } else { Err(format!("{}: {}", run.report.ending, run.printed()).into()) }
}

/// Checks that the program reports being blocked at the limit.
fn blocked_at(body: &str, limits: Limits, most: u64) -> Result<(), Failed> {
    let run = run_isolated(body, limits);
    let printed = run.printed();
    let number = printed.lines().find_map(|line| line.strip_prefix("BLOCKED ")?.split(' ').next()?.parse::<u64>().ok());
    match number {
        Some(number) if number <= most && number >= most / 2 => Ok(()),
        _ => Err(format!("{}, at most {most} expected: {printed}", run.report.ending).into()),
    }
}

fn timed(body: &str, seconds: f64) -> Result<(), Failed> {
    let started = Instant::now();
    let run = run_isolated(body, Limits { time: Duration::from_secs_f64(seconds), ..small_limits() });
    ends(&run, Ending::Limit(Limit::Time))?;
    let took = started.elapsed().as_secs_f64();
    // The second part is for a busy machine.
    if took < seconds || took > seconds + 60.0 { Err(format!("{took} s").into()) } else { Ok(()) }
}

fn hangs() -> Result<(), Failed> {
    timed("while True: time.sleep(100)", 1.0)
}

fn ignores_signals() -> Result<(), Failed> {
    timed(
        "for number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nos.fork()\nwhile True: pass",
        1.0,
    )
}

fn processor_time() -> Result<(), Failed> {
    let limits = Limits { processor_time: Duration::from_secs(1), ..small_limits() };
    ends(&run_isolated("while True: pass", limits), Ending::Limit(Limit::ProcessorTime))
}

fn memory_of_one() -> Result<(), Failed> {
    blocked_at(
        "kept = []\ntry:\n    while len(kept) < 4000: kept.append(bytearray(1 << 20))\nexcept MemoryError:\n    blocked(len(kept))",
        Limits { memory_bytes: 200 << 20, ..small_limits() },
        200,
    )
}

fn memory_of_many() -> Result<(), Failed> {
    let body = "for _ in range(8):\n    if os.fork() == 0:\n        kept = bytearray(os.urandom(1 << 20) * 100)\n        time.sleep(100)\ntime.sleep(100)";
    let run = run_isolated(body, Limits { memory_bytes: 300 << 20, ..small_limits() });
    ends(&run, Ending::Limit(Limit::Memory))?;
    // Shared memory is counted once.
    let body = "kept = bytearray(100 << 20)\nfor _ in range(8):\n    if os.fork() == 0:\n        time.sleep(1)\n        os._exit(0)\ntime.sleep(0.5)";
    ends(&run_isolated(body, Limits { memory_bytes: 300 << 20, ..small_limits() }), Ending::Exit(Exit::Success))
}

fn shared_memory() -> Result<(), Failed> {
    let body = "kept = []\nwhile len(kept) < 100:\n    kept.append(mmap.mmap(-1, 16 << 20))\n    kept[-1].write(b'x' * (16 << 20))\n    time.sleep(0.02)\ntime.sleep(100)";
    ends(&run_isolated(body, Limits { memory_bytes: 300 << 20, ..small_limits() }), Ending::Limit(Limit::Memory))
}

fn processes() -> Result<(), Failed> {
    blocked_at(
        "count = 1\ntry:\n    while count < 1000:\n        if os.fork() == 0: time.sleep(100)\n        count += 1\nexcept OSError:\n    blocked(count)",
        small_limits(),
        small_limits().processes,
    )
}

fn threads() -> Result<(), Failed> {
    blocked_at(
        "import threading\ncount = 1\ntry:\n    while count < 1000:\n        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n        count += 1\nexcept RuntimeError:\n    blocked(count)",
        small_limits(),
        small_limits().processes,
    )
}

fn open_files() -> Result<(), Failed> {
    blocked_at(
        "kept = []\ntry:\n    while len(kept) < 5000: kept.append(os.open('/dev/null', os.O_RDONLY))\nexcept OSError:\n    blocked(len(kept))",
        Limits { open_files: 100, ..small_limits() },
        100,
    )
}

/// Mebibytes that fit, of eight.
const FILL: &str = "count = 0\ntry:\n    while count < 100:\n        file.write(b'x' * (1 << 20)); file.flush()\n        count += 1\nexcept OSError:\n    blocked(count)";

fn large_file() -> Result<(), Failed> {
    blocked_at(&format!("file = open(output + '/large', 'wb')\n{FILL}"), small_limits(), 8)
}

fn large_file_by_shell() -> Result<(), Failed> {
    let command = ["sh", "-c", "exec dd if=/dev/zero of=\"$SAGE_OUTPUT/large\" bs=65536"];
    // The temporary folder is smaller here, so that the file size limit is reached before the folder is full.
    let limits = Limits { output_bytes: 1 << 20, scratch_bytes: 1 << 20, ..small_limits() };
    let run = crate::harness::run(Containment::Isolated, &command, None, limits).map_err(|error| error.to_string())?;
    let size = run.report.output.files().map_err(|error| error.to_string())?.files[0].bytes;
    match run.report.ending {
        Ending::Limit(Limit::FileBytes) | Ending::Exit(Exit::Failed(1)) if size <= 1 << 20 => Ok(()),
        other => Err(format!("{other}, {size} bytes").into()),
    }
}

fn large_together() -> Result<(), Failed> {
    blocked_at(
        "count = 0\ntry:\n    while count < 100:\n        open(f'{output}/{count}', 'wb').write(b'x' * (1 << 20))\n        count += 1\nexcept OSError:\n    blocked(count)",
        small_limits(),
        8,
    )
}

fn many_files() -> Result<(), Failed> {
    blocked_at(
        "count = 0\ntry:\n    while count < 100000:\n        os.close(os.open(f'{output}/{count}', os.O_CREAT))\n        count += 1\nexcept OSError:\n    blocked(count)",
        small_limits(),
        small_limits().output_files,
    )
}

fn deep_folders() -> Result<(), Failed> {
    let body = "os.chdir(output)\ncount = 0\ntry:\n    while count < 100000:\n        os.mkdir('d'); os.chdir('d')\n        count += 1\nexcept OSError:\n    blocked(count)";
    blocked_at(body, small_limits(), small_limits().output_files)?;
    let listing = run_isolated(body, small_limits()).report.output.files().map_err(|error| error.to_string())?;
    if listing.files.is_empty() && listing.skipped == 1 { Ok(()) } else { Err(format!("{listing:?}").into()) }
}

fn sparse_file() -> Result<(), Failed> {
    for folder in ["output", "'/tmp'", "'/dev/shm'"] {
        let body = format!("file = open({folder} + '/sparse', 'wb')\nfile.truncate(1 << 40)\nescaped()");
        let printed = run_isolated(&body, small_limits()).printed();
        if printed.contains("ESCAPED") || !printed.contains("BLOCKED") {
            return Err(printed.into());
        }
    }
    Ok(())
}

fn temporary_folder() -> Result<(), Failed> {
    blocked_at(&format!("file = open('/tmp/large', 'wb')\n{FILL}"), small_limits(), 8)
}

fn shared_folder() -> Result<(), Failed> {
    blocked_at(
        &format!("open('/tmp/half', 'wb').write(b'x' * (4 << 20))\nfile = open('/dev/shm/large', 'wb')\n{FILL}"),
        small_limits(),
        4,
    )
}

fn endless_printing() -> Result<(), Failed> {
    let run = run_isolated("while True: os.write(1, b'x' * 9999)", small_limits());
    ends(&run, Ending::Limit(Limit::Printed))?;
    if run.report.standard_output.bytes().len() <= small_limits().tail_bytes {
        Ok(())
    } else {
        Err("kept too much".into())
    }
}

fn endless_complaining() -> Result<(), Failed> {
    ends(&run_isolated("while True: os.write(2, b'x\\n' * 999)", small_limits()), Ending::Limit(Limit::Printed))
}

fn endless_messages() -> Result<(), Failed> {
    let body = "file = open(os.environ['SAGE_MESSAGES'], 'w')\nwhile True: file.write('{\"kind\": \"progress\"}\\n')";
    let run = run_isolated(body, small_limits());
    ends(&run, Ending::Limit(Limit::Messages))?;
    if run.lines.len() as u64 == run.report.messages { Ok(()) } else { Err("lost some".into()) }
}

fn endless_message() -> Result<(), Failed> {
    let body = "file = open(os.environ['SAGE_MESSAGES'], 'w')\nwhile True: file.write('x' * 999)";
    let run = run_isolated(body, small_limits());
    ends(&run, Ending::Limit(Limit::Messages))?;
    if run.lines.is_empty() && run.report.messages_dropped == 1 {
        Ok(())
    } else {
        Err(format!("{:?}", run.report).into())
    }
}

fn long_message() -> Result<(), Failed> {
    let program = "import os\nfile = open(os.environ['SAGE_MESSAGES'], 'w')\nfile.write('x' * 100000 + '\\n1\\n')\n";
    let run = python(Containment::Isolated, program, small_limits());
    ends(&run, Ending::Exit(Exit::Success))?;
    assert!(run.report.output.open(Path::new("nothing")).is_err());
    if run.lines.len() == 1 && run.report.messages_dropped == 1 {
        Ok(())
    } else {
        Err(format!("{:?}", run.lines).into())
    }
}
