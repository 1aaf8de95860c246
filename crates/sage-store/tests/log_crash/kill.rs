//! A process under load is killed again and again. Every result that it got stays in the log.

use std::io::{BufRead, BufReader};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::child::{Transcript, check_recovery, child, prepare};
use crate::world::{Random, soak};

#[test]
fn a_loaded_process_can_be_killed_at_any_time() {
    let rounds = if soak() { 1000 } else { 100 };
    let mut random = Random::seeded();
    let on_disk = || prepare(tempfile::tempdir().expect("a directory"));
    let mut folder = on_disk();
    let mut transcript = Transcript::default();
    let mut granted = 0;
    for round in 0..rounds {
        let mut process = child(folder.path(), &format!("storm {round}")).spawn().expect("this program again");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, granted_first) = channel();
        let listener = thread::spawn(move || {
            let (mut text, mut from) = (String::new(), 0);
            while output.read_line(&mut text)? > 0 {
                if text[from..].starts_with("@granted") {
                    // Nobody listens after the first one.
                    let _ = sender.send(());
                }
                from = text.len();
            }
            Ok::<String, std::io::Error>(text)
        });
        // Every other process is killed at any time, also while it opens the log; the others under load.
        if round % 2 == 0 {
            granted_first.recv_timeout(Duration::from_secs(300)).expect("a charge is granted");
        }
        thread::sleep(Duration::from_micros(8_000 + random.below(60_000)));
        process.kill().expect("a child of ours");
        process.wait().expect("a child of ours");
        let before = transcript.granted.len();
        transcript.read(&listener.join().expect("no panic").expect("text"));
        granted += transcript.granted.len() - before;
        check_recovery(folder.path(), &transcript, &format!("kill {round}"));
        // A new folder now and then, so that the time to open the log stays short.
        if round % 25 == 24 {
            (folder, transcript) = (on_disk(), Transcript::default());
        }
    }
    println!("{rounds} kills, {granted} charges acknowledged");
    assert!(granted >= rounds / 2, "the processes were killed before they did anything");
}
