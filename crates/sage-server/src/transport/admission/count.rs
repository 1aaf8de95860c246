//! Shares of a bounded resource.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much of a resource is in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

/// A share of a [`Count`]; released when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    count: Count,
    pub(super) amount: usize,
}

impl Count {
    /// Takes an amount, unless more than `most` would then be in use.
    pub(crate) fn take(&self, amount: usize, most: usize) -> Option<Share> {
        let next = |now: usize| now.checked_add(amount).filter(|sum| *sum <= most);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Share { count: self.clone(), amount })
    }

    /// A share of nothing, which can grow.
    pub(super) fn empty_share(&self) -> Share {
        Share { count: self.clone(), amount: 0 }
    }

    /// The amount in use.
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Takes more. Changes nothing and returns `None` if more than `most` would then be in use.
    pub(super) fn grow(&mut self, more: usize, most: usize) -> Option<()> {
        let mut extra = self.count.take(more, most)?;
        self.amount += std::mem::take(&mut extra.amount);
        Some(())
    }

    /// Returns all but `amount`.
    pub(super) fn shrink(&mut self, amount: usize) {
        let spare = self.amount.saturating_sub(amount);
        self.count.0.fetch_sub(spare, Ordering::Relaxed);
        self.amount -= spare;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.amount, Ordering::Relaxed);
    }
}
