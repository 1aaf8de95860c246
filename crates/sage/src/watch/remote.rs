//! Following a server: its events say when to look, its description of a run what to tell.

use std::thread::sleep;
use std::time::Duration;

use super::Watch;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::{Asked, Client};

/// How long nothing is heard before it is looked whether somebody asked to stop.
const PATIENCE: Duration = Duration::from_millis(250);

/// Whether a server answers at this address.
pub(super) fn is_there(address: &str) -> bool {
    Client::new(address, None).and_then(|client| client.ask(&Asked::get("/livez"))).is_ok()
}

/// Looks whenever something has happened, until there is an end.
pub(super) fn follow(watch: &mut Watch, client: &Client) -> Result<(), Failure> {
    loop {
        // First the ear, then the eye: what happens in between is heard.
        let mut events = client.listen()?;
        if !look(watch, client)? {
            return print("no run yet; next: sage submit FILE\n");
        }
        loop {
            if let Some(ended) = watch.ended() {
                return ended;
            }
            match client.hear(&mut events, PATIENCE) {
                // Comments only show that somebody is there.
                Ok(Some(heard)) if !heard.split(|byte| *byte == b'\n').all(is_comment) => {
                    look(watch, client)?;
                }
                Ok(_) => {}
                // The server is asked anew, and that says so if it is gone.
                Err(_) => break,
            }
        }
        sleep(PATIENCE);
    }
}

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b":")
}

/// Tells what is new; whether there is any run.
fn look(watch: &mut Watch, client: &Client) -> Result<bool, Failure> {
    let numbers: Vec<u64> = match watch.run {
        Some(run) => vec![run],
        None => {
            let runs = client.ask(&Asked::get("/v1/runs").paged("runs"))?;
            runs.as_array().into_iter().flatten().filter_map(|run| run["run"].as_u64()).collect()
        }
    };
    for &number in &numbers {
        if watch.wants(number) {
            watch.look(client.ask(&Asked::get(format!("/v1/runs/{number}")))?)?;
        }
    }
    Ok(!numbers.is_empty())
}
