//! What a panic says while rows are taken in or read goes nowhere: it could quote one.

use std::panic::{set_hook, take_hook};
use std::sync::Once;
use std::thread::Builder;

/// The name of the threads that hold rows.
pub const READER: &str = "sage-reader";

/// From here on nothing is printed about a panic of a thread of that name; others are as loud as before.
pub fn silence_readers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(READER) {
                before(panic);
            }
        }));
    });
}

/// Does something on a thread of its own that may hold rows; nothing if it panics, which is not told further.
pub fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    silence_readers();
    std::thread::scope(|scope| {
        let thread = Builder::new().name(READER.to_owned()).spawn_scoped(scope, work);
        thread.ok().and_then(|thread| thread.join().ok())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_reader_panics_in_silence() {
        static HEARD: AtomicUsize = AtomicUsize::new(0);
        set_hook(Box::new(|panic| {
            let said = panic.payload().downcast_ref::<&str>();
            HEARD.fetch_add(usize::from(said == Some(&"a row")), Ordering::Relaxed);
        }));
        silence_readers();
        for (name, heard) in [(READER, 0), ("another", 1)] {
            let thread = Builder::new().name(name.to_owned()).spawn(|| panic!("a row")).expect("a thread");
            assert!(thread.join().is_err());
            assert_eq!(HEARD.load(Ordering::Relaxed), heard, "{name}");
        }
    }
}
