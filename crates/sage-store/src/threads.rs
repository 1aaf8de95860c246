//! The number of threads that ingest, reading, training and generating data use.
//!
//! The setting is one number for the process. In order of precedence it is the value given to [`set_threads`], the
//! environment variable `SAGE_THREADS`, which is read once, or the number of processors that the operating system
//! makes available to the process.
//!
//! Results do not depend on it. Sums over rows are exact in integers, blocks are sorted again after they were read
//! in parallel, and the floating-point work of a training step is divided by rows and by weights, never within a sum.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that sets the number of threads.
pub const VARIABLE: &str = "SAGE_THREADS";

/// The value given to [`set_threads`]; zero if there is none.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// The number of threads to use, at least one.
pub fn threads() -> usize {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => default_threads(),
        chosen => chosen,
    }
}

/// Sets the number of threads for the whole process. Work that has already started keeps its number.
pub fn set_threads(count: NonZeroUsize) {
    CHOSEN.store(count.get(), Ordering::Relaxed);
}

/// The value of `SAGE_THREADS`, or the number of available processors if it is unset or not a positive integer.
fn default_threads() -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let set = std::env::var(VARIABLE).ok().and_then(|text| parse(&text));
        set.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    })
}

fn parse(text: &str) -> Option<NonZeroUsize> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_integers_are_accepted() {
        assert_eq!(parse(" 3 "), NonZeroUsize::new(3));
        for text in ["", "0", "-1", "1.5", "two"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_chosen_number_precedes_the_default() {
        assert!(threads() >= 1);
        set_threads(NonZeroUsize::new(5).expect("positive"));
        assert_eq!(threads(), 5);
    }
}
