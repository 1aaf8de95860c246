//! Work in parts, side by side on the caller's threads. Whatever is computed must not depend on their number.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{Builder, ScopedJoinHandle};

/// Cuts `0..count` into at most so many parts of about the same size.
pub fn parts(count: usize, most: usize) -> Vec<Range<usize>> {
    let most = most.clamp(1, count.max(1));
    (0..most).map(|part| count * part / most..count * (part + 1) / most).collect()
}

/// Cuts a list into at most so many shares of about the same size altogether, each in order.
pub fn shares<T>(items: Vec<T>, most: usize, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let total: usize = items.iter().map(&size).sum();
    let (mut shares, mut before) = (vec![Vec::new()], 0);
    for item in items {
        // A share ends where the item in the middle of which it should end begins or ends.
        let end = (total * shares.len()).div_ceil(most.max(1));
        let within = shares.len() >= most || before + size(&item) / 2 < end;
        before += size(&item);
        match shares.last_mut() {
            Some(last) if within || last.is_empty() => last.push(item),
            _ => shares.push(vec![item]),
        }
    }
    shares
}

/// Does the work of every share, the last of them on this thread; results are in the order of the shares.
///
/// The other threads have this one's name: who keeps a thread's panics quiet, because they could quote what it works on,
/// knows it by that.
pub fn side_by_side<T: Send, U: Send>(mut shares: Vec<T>, work: impl Fn(T) -> U + Sync) -> Vec<U> {
    let last = shares.pop();
    let name = std::thread::current().name().map(str::to_owned);
    std::thread::scope(|scope| {
        let work = &work;
        let start = |share| {
            let builder = name.iter().fold(Builder::new(), |builder, name| builder.name(name.clone()));
            let started = builder.spawn_scoped(scope, move || work(share));
            started.unwrap_or_else(|error| resume_unwind(Box::new(error)))
        };
        let others: Vec<_> = shares.into_iter().map(start).collect();
        let last = last.map(work);
        let join = |thread: ScopedJoinHandle<'_, U>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        others.into_iter().map(join).chain(last).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_the_name_of_the_one_they_help() {
        let named = Builder::new().name("one of few".to_owned());
        let names = named.spawn(|| side_by_side(vec![(); 3], |()| std::thread::current().name().map(str::to_owned)));
        let names = names.expect("a thread").join().expect("no panic");
        assert_eq!(names, vec![Some("one of few".to_owned()); 3]);
    }

    #[test]
    fn shares_are_even_and_in_order() {
        for most in 1..6 {
            for sizes in
                [vec![], vec![5], vec![1; 7], vec![0; 4], vec![8, 8, 8, 1000, 900, 1100, 3], vec![1000, 1, 1, 1]]
            {
                let shares = shares(sizes.clone(), most, |&size| size);
                assert!(shares.len() <= most.max(1), "{sizes:?} {most}");
                assert_eq!(shares.concat(), sizes);
                let even = sizes.iter().sum::<usize>() / most + sizes.iter().max().unwrap_or(&0);
                assert!(shares.iter().all(|share| share.iter().sum::<usize>() <= even), "{shares:?} {most}");
            }
        }
    }
}
