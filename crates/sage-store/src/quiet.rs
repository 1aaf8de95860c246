//! Threads whose panics print nothing. They hold rows, and a panic message could quote one.

use std::panic::{set_hook, take_hook};
use std::sync::Once;
use std::thread::Builder;

/// The name of every thread that holds rows.
pub const READER: &str = "sage-reader";

/// Installs a panic hook that ignores panics of threads named [`READER`] and forwards all others to the previous hook.
/// Later calls do nothing.
pub fn silence_readers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(READER) {
                previous(panic);
            }
        }));
    });
}

/// Runs work that holds rows on a reader thread. Returns `None` if it panics, and prints nothing about the panic.
pub fn run_on_reader<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
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
    fn panics_of_reader_threads_are_not_reported() {
        static REPORTED: AtomicUsize = AtomicUsize::new(0);
        set_hook(Box::new(|panic| {
            let message = panic.payload().downcast_ref::<&str>();
            REPORTED.fetch_add(usize::from(message == Some(&"a row")), Ordering::Relaxed);
        }));
        silence_readers();
        for (name, reported) in [(READER, 0), ("another", 1)] {
            let thread = Builder::new().name(name.to_owned()).spawn(|| panic!("a row")).expect("a thread");
            assert!(thread.join().is_err());
            assert_eq!(REPORTED.load(Ordering::Relaxed), reported, "{name}");
        }
    }
}
