//! Watches a server: its events trigger a read of the runs.

use std::thread::sleep;
use std::time::Duration;

use sage_server::views::requests::RunsRequest;

use super::Watch;
use crate::client::{Client, RemoteClient};
use crate::failure::Failure;
use crate::output::print;

/// How often a requested stop is checked.
const PATIENCE: Duration = Duration::from_millis(250);

/// Reads the runs after every event, until the end.
pub(super) fn follow(watch: &mut Watch, client: &RemoteClient) -> Result<(), Failure> {
    loop {
        // Subscribed before the first read, so that no event is missed in between.
        let mut events = client.listen()?;
        if !look(watch, client)? {
            return print("no run yet; next: sage submit FILE\n");
        }
        loop {
            if let Some(ended) = watch.ended() {
                return ended;
            }
            match client.hear(&mut events, PATIENCE) {
                // Comments are heartbeats.
                Ok(Some(heard)) if !heard.split(|byte| *byte == b'\n').all(is_comment) => {
                    look(watch, client)?;
                }
                Ok(_) => {}
                // A new subscription fails if the server is gone.
                Err(_) => break,
            }
        }
        sleep(PATIENCE);
    }
}

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b":")
}

/// Prints what is new. Returns whether there is any run.
fn look(watch: &mut Watch, client: &RemoteClient) -> Result<bool, Failure> {
    let numbers: Vec<u64> = match watch.run {
        Some(run) => vec![run],
        None => client.runs(&RunsRequest::default())?.iter().map(|run| run.run).collect(),
    };
    for &number in &numbers {
        if watch.wants(number) {
            watch.look(&client.run(number)?)?;
        }
    }
    Ok(!numbers.is_empty())
}
