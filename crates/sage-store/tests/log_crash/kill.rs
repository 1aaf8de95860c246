//! A process under load is killed again and again. Every result that it got stays in the log.

use std::io::Read;
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
        let mut output = process.stdout.take().expect("piped");
        let listener = thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).map(|_| text)
        });
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
    assert!(granted > rounds, "the processes were killed before they did anything");
}
