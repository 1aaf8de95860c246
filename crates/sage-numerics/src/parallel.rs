//! Parallel execution on scoped threads. Results must never depend on the number of threads.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{Builder, ScopedJoinHandle};

/// Splits `0..count` into at most `most` ranges of about the same length.
pub fn split_range(count: usize, most: usize) -> Vec<Range<usize>> {
    let most = most.clamp(1, count.max(1));
    (0..most).map(|part| count * part / most..count * (part + 1) / most).collect()
}

/// Splits a list into at most `most` chunks of about the same total size, in order.
pub fn balanced_chunks<T>(items: Vec<T>, most: usize, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let total: usize = items.iter().map(&size).sum();
    let (mut chunks, mut before) = (vec![Vec::new()], 0);
    for item in items {
        // The ideal end of a chunk may lie inside an item; the item goes to the side that holds more than half of it.
        let end = (total * chunks.len()).div_ceil(most.max(1));
        let within = chunks.len() >= most || before + size(&item) / 2 < end;
        before += size(&item);
        match chunks.last_mut() {
            Some(last) if within || last.is_empty() => last.push(item),
            _ => chunks.push(vec![item]),
        }
    }
    chunks
}

/// Calls `work` for every chunk, each on its own thread and the last on the calling thread. Results are in the order of
/// the chunks.
///
/// The new threads inherit the caller's name: the panic hook recognises threads whose panic messages could quote rows by
/// their name, and suppresses the message.
pub fn map_parallel<T: Send, U: Send>(mut chunks: Vec<T>, work: impl Fn(T) -> U + Sync) -> Vec<U> {
    let last = chunks.pop();
    let name = std::thread::current().name().map(str::to_owned);
    std::thread::scope(|scope| {
        let work = &work;
        let start = |chunk| {
            let builder = name.iter().fold(Builder::new(), |builder, name| builder.name(name.clone()));
            let started = builder.spawn_scoped(scope, move || work(chunk));
            started.unwrap_or_else(|error| resume_unwind(Box::new(error)))
        };
        let others: Vec<_> = chunks.into_iter().map(start).collect();
        let last = last.map(work);
        let join = |thread: ScopedJoinHandle<'_, U>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        others.into_iter().map(join).chain(last).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_inherit_the_name_of_the_caller() {
        let named = Builder::new().name("one of few".to_owned());
        let names = named.spawn(|| map_parallel(vec![(); 3], |()| std::thread::current().name().map(str::to_owned)));
        let names = names.expect("a thread").join().expect("no panic");
        assert_eq!(names, vec![Some("one of few".to_owned()); 3]);
    }

    #[test]
    fn chunks_are_balanced_and_in_order() {
        for most in 1..6 {
            for sizes in
                [vec![], vec![5], vec![1; 7], vec![0; 4], vec![8, 8, 8, 1000, 900, 1100, 3], vec![1000, 1, 1, 1]]
            {
                let chunks = balanced_chunks(sizes.clone(), most, |&size| size);
                assert!(chunks.len() <= most.max(1), "{sizes:?} {most}");
                assert_eq!(chunks.concat(), sizes);
                let even = sizes.iter().sum::<usize>() / most + sizes.iter().max().unwrap_or(&0);
                assert!(chunks.iter().all(|chunk| chunk.iter().sum::<usize>() <= even), "{chunks:?} {most}");
            }
        }
    }
}
