//! Watches a directory whenever no other process has it open.

use std::thread::sleep;
use std::time::Duration;

use sage_engine::{Engine, EngineError};
use sage_server::diagnostics::note;
use sage_server::views::runs::Run;

use super::{SERVER, TOKEN, Watch, remote};
use crate::client::RemoteClient;
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::print;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After how many failed attempts in a row to open the directory a message is printed.
const WORTH_A_WORD: u32 = 6;

/// Watches until the end.
pub(super) fn follow(watch: &mut Watch, directory: &DirectoryArgs) -> Result<(), Failure> {
    let (mut idle_reported, mut taken) = (false, 0);
    loop {
        match directory.open_if_free()? {
            Some(engine) => {
                taken = 0;
                let looked = look(watch, &engine);
                engine.close()?;
                if looked? == Found::Nothing {
                    return print("no run yet; next: sage submit FILE\n");
                }
                if watch.ended().is_none() && !idle_reported {
                    note("no process works on this directory now; sage work does");
                    idle_reported = true;
                }
            }
            // A server owns the directory, and its address and token are known.
            None if taken == 0 && std::env::var_os(TOKEN).is_some() => {
                if RemoteClient::new(SERVER, None)?.is_alive() {
                    return remote::follow(watch, &RemoteClient::new(SERVER, std::env::var(TOKEN).ok())?);
                }
                taken += 1;
            }
            None => {
                taken += 1;
                if taken == WORTH_A_WORD {
                    note(&format!(
                        "another process has the directory open; it is read as soon as that process closes it. If it is a \
                         server: {TOKEN}=TOKEN sage watch --server ADDRESS"
                    ));
                }
            }
        }
        if let Some(ended) = watch.ended() {
            return ended;
        }
        sleep(LOOK_EVERY);
    }
}

#[derive(PartialEq, Eq)]
enum Found {
    Runs,
    Nothing,
}

fn look(watch: &mut Watch, engine: &Engine) -> Result<Found, Failure> {
    if let Some(run) = watch.run {
        engine.run(run).ok_or(EngineError::NoRun(run))?;
    }
    let runs = engine.runs();
    if runs.is_empty() {
        return Ok(Found::Nothing);
    }
    for run in runs.iter().filter(|run| watch.wants(run.number)).map(|run| run.number).collect::<Vec<_>>() {
        watch.look(&Run::read(engine, run)?)?;
    }
    Ok(Found::Runs)
}
