//! Looking at a directory that nobody has, or somebody has for a moment.

use std::thread::sleep;
use std::time::Duration;

use sage_engine::{Engine, EngineError};

use super::{SERVER, TOKEN, Watch, remote};
use crate::explain;
use crate::failure::Failure;
use crate::output::{print, tell};
use crate::place::PlaceArgs;
use crate::remote::Client;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often in a row a directory may be taken before that is worth a word.
const WORTH_A_WORD: u32 = 6;

/// Looks until there is an end.
pub(super) fn follow(watch: &mut Watch, place: &PlaceArgs) -> Result<(), Failure> {
    let (mut idle_told, mut taken) = (false, 0);
    loop {
        match place.open_if_free()? {
            Some(engine) => {
                taken = 0;
                let looked = look(watch, &engine);
                engine.close()?;
                if looked? == Found::Nothing {
                    return print("no run yet; next: sage submit FILE\n");
                }
                if watch.ended().is_none() && !idle_told {
                    tell("nobody works on this directory now; sage work does");
                    idle_told = true;
                }
            }
            // A server keeps it, and it is known how to ask one.
            None if taken == 0 && std::env::var_os(TOKEN).is_some() => {
                if remote::is_there(SERVER) {
                    return remote::follow(watch, &Client::new(SERVER, std::env::var(TOKEN).ok())?);
                }
                taken += 1;
            }
            None => {
                taken += 1;
                if taken == WORTH_A_WORD {
                    tell(&format!(
                        "another process has the directory; it is looked at as soon as that gives it back. If it is a \
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
        watch.look(explain::object(engine, run)?)?;
    }
    Ok(Found::Runs)
}
