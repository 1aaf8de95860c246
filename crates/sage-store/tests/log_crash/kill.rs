//! A loaded process is killed again and again: what it was told stays true, and nobody else had the log.

use std::io::Read;
use std::thread;
use std::time::Duration;

use crate::child::{Said, child, furnished, judge};
use crate::world::{Dice, soak};

#[test]
fn a_loaded_process_can_be_killed_at_any_time() {
    let rounds = if soak() { 1000 } else { 100 };
    let mut dice = Dice::thrown();
    let on_disk = || furnished(tempfile::tempdir().expect("a directory"));
    let mut place = on_disk();
    let mut said = Said::default();
    let mut granted = 0;
    for round in 0..rounds {
        let mut process = child(place.path(), &format!("storm {round}")).spawn().expect("this program again");
        let mut output = process.stdout.take().expect("piped");
        let listener = thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).map(|_| text)
        });
        thread::sleep(Duration::from_micros(8_000 + dice.below(60_000)));
        process.kill().expect("a child of ours");
        process.wait().expect("a child of ours");
        let before = said.granted.len();
        said.hear(&listener.join().expect("no panic").expect("text"));
        granted += said.granted.len() - before;
        judge(place.path(), &said, &format!("kill {round}"));
        // A new place now and then, so that the time to open does not grow for ever.
        if round % 25 == 24 {
            (place, said) = (on_disk(), Said::default());
        }
    }
    println!("{rounds} kills, {granted} charges acknowledged");
    assert!(granted > rounds, "the processes were killed before they did anything");
}
