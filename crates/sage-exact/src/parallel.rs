//! Work in parts, side by side on the caller's threads. Whatever is computed must not depend on their number.

use std::ops::Range;

/// Cuts `0..count` into at most so many parts of about the same size.
pub fn parts(count: usize, most: usize) -> Vec<Range<usize>> {
    let most = most.clamp(1, count.max(1));
    (0..most).map(|part| count * part / most..count * (part + 1) / most).collect()
}

/// Does the work of every share, the last of them on this thread; results are in the order of the shares.
pub fn side_by_side<T: Send, U: Send>(mut shares: Vec<T>, work: impl Fn(T) -> U + Sync) -> Vec<U> {
    let last = shares.pop();
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || work(share))).collect();
        let last = last.map(work);
        let join = |thread: std::thread::ScopedJoinHandle<'_, U>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        others.into_iter().map(join).chain(last).collect()
    })
}
